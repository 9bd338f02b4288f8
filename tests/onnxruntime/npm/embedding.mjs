// Sentence embeddings: quantized MiniLM with its tokenizer.
import path from 'node:path';
import { env, pipeline } from '@huggingface/transformers';
import { measure, work } from './shared.mjs';

env.allowRemoteModels = false;
env.localModelPath = path.join(work, 'minilm');
const embed = await pipeline('feature-extraction', 'package/model', { dtype: 'q8' });
const texts = ['The cat sleeps on the sofa.', 'A kitten naps on the couch.', 'Interest rates rose by half a point in March.',
  'A model of a graph is loaded, optimised, assigned to providers and run. '.repeat(12)];
await measure(10, async () => {
  const vectors = [];
  for (const text of texts) vectors.push(Array.from((await embed(text, { pooling: 'mean', normalize: true })).data));
  const near = vectors[0].reduce((sum, x, i) => sum + x * vectors[1][i], 0);
  return { values: vectors, bound: 0.01, said: `${vectors.length} vectors of ${vectors[0].length}, the first two at ${near.toFixed(3)}` };
});
