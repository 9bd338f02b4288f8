// Code shared by the cases: inputs, and the line that a case prints.
import fs from 'node:fs';
import path from 'node:path';

export const work = process.argv[2];
export const input = (name) => path.join(work, 'inputs', name);

// Converts a mono WAV file of 16-bit integers to floats at 16 kHz.
export function sound(file) {
  const bytes = fs.readFileSync(file);
  const rate = bytes.readUInt32LE(24), at = bytes.indexOf('data') + 8, count = (bytes.length - at) >> 1;
  const out = new Float32Array(Math.floor((count * 16000) / rate));
  for (let i = 0; i < out.length; i++) {
    const x = (i * rate) / 16000, k = Math.min(Math.floor(x), count - 2), part = x - k;
    out[i] = (bytes.readInt16LE(at + 2 * k) * (1 - part) + bytes.readInt16LE(at + 2 * k + 2) * part) / 32768;
  }
  return out;
}

// Silence, speech, silence, speech, silence: mono floats at 16 kHz.
export function sentences() {
  const speech = sound(input('speech.wav')), pause = new Float32Array(24000);
  const audio = new Float32Array(2 * (pause.length + speech.length) + pause.length);
  audio.set(speech, pause.length);
  audio.set(speech, 2 * pause.length + speech.length);
  return audio;
}

export const texts = ['The cat sleeps on the sofa.', 'A kitten naps on the couch.', 'Interest rates rose by half a point in March.',
  'A model of a graph is loaded, optimised, assigned to providers and run. '.repeat(12)];

// The result of a case that computes the vectors of texts. Activations are quantized while the model runs: a difference
// in the last bit of a float may round to another integer, so that vectors differ by the noise of the quantization.
export function embeddings(vectors) {
  const near = vectors[0].reduce((sum, x, i) => sum + x * vectors[1][i], 0);
  return { values: vectors, bound: 0.03, said: `${vectors.length} vectors of ${vectors[0].length}, the first two at ${near.toFixed(3)}` };
}

// The result of a case that finds speech: [start, end] of each part, in ms.
export function spans(parts) {
  const said = `${parts.length} parts with speech, ${parts[0][0]} to ${parts[parts.length - 1][1]} ms`;
  return { values: parts, bound: 0, said };
}

// A copy of the model MiniLM ('unpack: minilm ...') in a folder of the case, with the files that its package lacks.
export function minilm(folder) {
  const from = path.join(work, 'minilm', 'package', 'model');
  fs.cpSync(from, folder, { recursive: true });
  fs.writeFileSync(path.join(folder, 'special_tokens_map.json'), JSON.stringify({
    cls_token: '[CLS]', mask_token: '[MASK]', pad_token: '[PAD]', sep_token: '[SEP]', unk_token: '[UNK]' }));
  return folder;
}

// Runs a case several times in this process, after a warm-up, and prints its result and the minimum times.
export async function measure(times, run) {
  const result = await run();
  let cpu = Infinity, wall = Infinity;
  for (let i = 0; i < times; i++) {
    const before = process.cpuUsage(), start = performance.now();
    await run();
    const used = process.cpuUsage(before);
    cpu = Math.min(cpu, (used.user + used.system) / 1e6);
    wall = Math.min(wall, (performance.now() - start) / 1e3);
  }
  console.log(JSON.stringify({ result, cpu, wall }));
  process.exit(0); // some packages keep worker threads
}
