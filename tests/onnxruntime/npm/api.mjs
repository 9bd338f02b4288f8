// The calls of onnxruntime-node's examples: tensors, sessions from paths and bytes, options, metadata, runs.
// npm: {"dependencies": {"onnxruntime-node": "1.30.0"}}
import fs from 'node:fs';
import path from 'node:path';
import ort from 'onnxruntime-node';
import { measure } from './shared.mjs';

const model = path.join(process.env.ONNX_TEST_DATA || '/usr/share/libonnx-testdata/data', 'node/test_matmul_2d/model.onnx');
const a = new ort.Tensor('float32', Float32Array.from({ length: 12 }, (_, i) => i + 1), [3, 4]);
const b = new ort.Tensor('float32', Float32Array.from({ length: 12 }, (_, i) => (i + 1) * 10), [4, 3]);

await measure(5, async () => {
  const bytes = fs.readFileSync(model), values = [];
  const padded = new Uint8Array(bytes.length + 16);
  padded.set(bytes, 16);
  for (const session of [
    await ort.InferenceSession.create(model),
    await ort.InferenceSession.create(new Uint8Array(bytes)),
    await ort.InferenceSession.create(padded.buffer, 16, bytes.length),
    await ort.InferenceSession.create(model, { executionProviders: ['cpu'], intraOpNumThreads: 1, interOpNumThreads: 1,
      graphOptimizationLevel: 'all', enableCpuMemArena: true, enableMemPattern: true, executionMode: 'sequential',
      logId: 'mine', logSeverityLevel: 3 }),
  ]) {
    values.push(session.inputNames.join(), session.outputNames.join(), JSON.stringify(session.inputMetadata));
    const { c } = await session.run({ a, b });
    values.push(c.type, c.dims.join(), Array.from(c.data));
    values.push(Object.keys(await session.run({ a, b }, ['c'])).join());
    values.push(Array.from((await session.run({ a, b }, { c: null }, { logSeverityLevel: 3, tag: 'run' })).c.data));
    values.push(await session.run({ a }).then(() => 'ran', (e) => String(/missing/.test(e.message))));
    values.push(await session.run({ a, b: a }).then(() => 'ran', () => 'failed'));
    await session.release();
  }
  values.push(await ort.InferenceSession.create('/nowhere.onnx').then(() => 'made', () => 'failed'));
  values.push(await ort.InferenceSession.create(new Uint8Array([1, 2, 3])).then(() => 'made', () => 'failed'));
  return { values, bound: 0, said: `${values.length} answers` };
});
