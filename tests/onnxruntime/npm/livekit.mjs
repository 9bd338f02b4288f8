// Voice activity detection of a stream by @livekit/agents-plugin-silero: its events with their probabilities.
// npm: {"dependencies": {"@livekit/agents-plugin-silero": "1.9.0", "@livekit/agents": "1.9.0", "@livekit/rtc-node": "0.13.34", "zod": "4.1.12"}}
import { initializeLogger } from '@livekit/agents';
import { VAD } from '@livekit/agents-plugin-silero';
import { AudioFrame } from '@livekit/rtc-node';
import { measure, sentences } from './shared.mjs';

initializeLogger({ pretty: false, level: 'error' });
const audio = Int16Array.from(sentences(), (x) => x * 32767), vad = await VAD.load();
const frames = Math.floor(audio.length / 512);
await measure(1, async () => {
  const stream = vad.stream(), events = [];
  for (let i = 0; i < frames; i++) stream.pushFrame(new AudioFrame(audio.slice(i * 512, (i + 1) * 512), 16000, 1, 512));
  for await (const event of stream) { // its input cannot be ended
    events.push([event.type, event.samplesIndex, 1e-9 + event.probability]);
    if (event.samplesIndex === frames * 512) break;
  }
  const started = events.filter(([type]) => type === 0).length;
  return { values: events, bound: 1e-3, said: `${events.length} events, ${started} starts of speech` };
});
