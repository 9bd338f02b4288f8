// Voice activity detection by sherpa-onnx-node, whose addon in C++ calls ONNX Runtime's library itself.
// npm: {"dependencies": {"sherpa-onnx-node": "1.13.8"}}
// unpack: silero @ericedouard/vad-node-realtime@0.2.0
import path from 'node:path';
import sherpa from 'sherpa-onnx-node';
import { measure, sentences, spans, work } from './shared.mjs';

const audio = sentences(), window = 512;
await measure(1, async () => {
  const parts = [];
  for (const name of ['silero_vad_legacy.onnx', 'silero_vad_v5.onnx']) {
    const vad = new sherpa.Vad({ sileroVad: { model: path.join(work, 'silero', 'package', name), windowSize: window },
      sampleRate: 16000, numThreads: 1 }, 60);
    for (let at = 0; at + window <= audio.length; at += window) vad.acceptWaveform(audio.subarray(at, at + window));
    vad.flush();
    for (; !vad.isEmpty(); vad.pop()) parts.push([vad.front().start / 16, (vad.front().start + vad.front().samples.length) / 16]);
  }
  return spans(parts);
});
