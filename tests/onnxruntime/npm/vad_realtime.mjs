// Voice activity detection of a stream by @ericedouard/vad-node-realtime: the probability of each frame, and the parts.
// npm: {"dependencies": {"@ericedouard/vad-node-realtime": "0.2.0"}}
import vad from '@ericedouard/vad-node-realtime';
import { measure, sentences } from './shared.mjs';

const audio = sentences();
await measure(1, async () => {
  const probabilities = [], parts = [];
  const detector = await vad.RealTimeVAD.new({ onFrameProcessed: ({ isSpeech }) => probabilities.push(1e-9 + isSpeech),
    onSpeechEnd: (part) => parts.push(part.length) });
  detector.start();
  for (let at = 0; at < audio.length; at += 4000) await detector.processAudio(audio.subarray(at, at + 4000));
  await detector.flush();
  detector.destroy();
  return { values: [parts, probabilities], bound: 1e-3, said: `${probabilities.length} frames, ${parts.length} parts with speech` };
});
