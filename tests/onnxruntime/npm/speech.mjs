// Speech recognition: Moonshine tiny, encoder and decoder with states, greedy search.
// npm: {"dependencies": {"@huggingface/transformers": "4.3.1", "llama-tokenizer-js": "1.2.2"}}
// unpack: moonshine @moonshine-ai/moonshine-js@0.1.29
import fs from 'node:fs';
import path from 'node:path';
import { env, MoonshineForConditionalGeneration, Tensor } from '@huggingface/transformers';
import tokenizer from 'llama-tokenizer-js';
import { input, measure, sound, work } from './shared.mjs';

// Creates the folder that the package expects: the files of the other package, and the configuration of the model.
const folder = path.join(work, 'moonshine', 'tiny');
const from = path.join(work, 'moonshine', 'package', 'dist', 'model', 'tiny', 'quantized');
fs.mkdirSync(path.join(folder, 'onnx'), { recursive: true });
for (const name of ['encoder_model', 'decoder_model_merged'])
  fs.copyFileSync(path.join(from, `${name}.onnx`), path.join(folder, 'onnx', `${name}_quantized.onnx`));
fs.writeFileSync(path.join(folder, 'config.json'), JSON.stringify({
  architectures: ['MoonshineForConditionalGeneration'], model_type: 'moonshine', is_encoder_decoder: true, hidden_size: 288,
  encoder_num_hidden_layers: 6, decoder_num_hidden_layers: 6, encoder_num_attention_heads: 8, decoder_num_attention_heads: 8,
  encoder_num_key_value_heads: 8, decoder_num_key_value_heads: 8, vocab_size: 32768, bos_token_id: 1, eos_token_id: 2,
  decoder_start_token_id: 1, pad_token_id: 2, max_position_embeddings: 194 }));

env.allowRemoteModels = false;
env.localModelPath = path.join(work, 'moonshine');
const model = await MoonshineForConditionalGeneration.from_pretrained('tiny', { dtype: 'q8' });
const audio = sound(input('speech.wav'));
await measure(3, async () => {
  const made = await model.generate({ input_values: new Tensor('float32', audio, [1, audio.length]),
    max_new_tokens: Math.ceil((audio.length / 16000) * 6.5) });
  const tokens = Array.from(made.data, Number);
  return { values: tokens, bound: 0, said: `${tokens.length} tokens, '${tokenizer.decode(tokens.filter((t) => t > 2))}'` };
});
