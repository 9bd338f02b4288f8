// Faces: detection, landmarks, features, age, gender, expression, pose, eyes and liveness by faceplugin, whose code for
// browsers (onnxruntime-web, OpenCV in WebAssembly) is bundled for Node.
// npm: {"dependencies": {"onnxruntime-node": "1.30.0", "ndarray": "1.0.19", "ndarray-ops": "1.2.2", "sharp": "0.33.5", "esbuild": "0.25.12"}}
// unpack: faceplugin faceplugin@1.0.3
// unpack: pictures @vladmandic/face-api@1.7.15
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import esbuild from 'esbuild';
import sharp from 'sharp';
import { measure, work } from './shared.mjs';

const require = createRequire(import.meta.url);
const home = process.cwd(), faceplugin = path.join(work, 'faceplugin', 'package');
await esbuild.build({ stdin: { contents: 'export * from "./index.js"', resolveDir: faceplugin }, bundle: true,
  format: 'cjs', platform: 'node', outfile: 'faceplugin.cjs', alias: { 'onnxruntime-web': 'onnxruntime-node' },
  external: ['onnxruntime-node'], nodePaths: [path.join(home, 'node_modules')] });

const { InferenceSession } = require('onnxruntime-node'), { create } = InferenceSession;
InferenceSession.create = (model) => create.call(InferenceSession, model, { executionProviders: ['cpu'] }); // not wasm

// What the package expects of a browser: a window, a script element, pictures by the id of a canvas.
const picture = sharp(path.join(work, 'pictures', 'package', 'demo', 'sample1.jpg'));
const { data, info } = await picture.ensureAlpha().raw().toBuffer({ resolveWithObject: true });
globalThis.window = globalThis;
const face = require(path.join(home, 'faceplugin.cjs'));
await new Promise((ready) => {
  const show = (script) => {
    const { _main, ...settings } = window.Module;
    window.Module = { ...settings, wasmBinary: fs.readFileSync(path.join(faceplugin, 'js', 'opencv_js.wasm')),
      _main: () => {
        window.cv.imread = () => window.cv.matFromImageData({ width: info.width, height: info.height, data });
        _main();
        ready();
      } };
    window.cv = require(path.join(faceplugin, 'js', path.basename(script.src)));
  };
  globalThis.document = { createElement: () => ({}), body: { appendChild: (script) => setTimeout(show, 0, script) } };
  face.load_opencv();
});
const { log } = console;

process.chdir(path.join(faceplugin, 'lib')); // from where the package opens its models
const sessions = {};
for (const model of ['Detection', 'Landmark', 'Feature', 'Age', 'Gender', 'Expression', 'Pose', 'Eye', 'Liveness'])
  sessions[model] = await face[`load${model}Model`]();
process.chdir(home);

await measure(1, async () => {
  console.log = () => {}; // the package prints its results
  const { bbox, conf, size } = await face.detectFace(sessions.Detection, 'picture');
  const landmarks = await face.predictLandmark(sessions.Landmark, 'picture', bbox);
  const features = await face.extractFeature(sessions.Feature, 'picture', landmarks);
  const vectors = features.map((outputs) => Array.from(Object.values(outputs)[0].data));
  const points = landmarks.map((list) => Array.from(list));
  const values = [size, Array.from(bbox.data), Array.from(conf.data), points, vectors];
  for (const task of ['Age', 'Gender', 'Expression', 'Pose', 'Liveness'])
    values.push((await face[`predict${task}`](sessions[task], 'picture', bbox)).map((row) => row.map(Number)));
  values.push(await face.predictEye(sessions.Eye, 'picture', landmarks));
  console.log = log;
  return { values, bound: 1e-3, said: `${size} faces with ${vectors[0].length} features each` };
});
