// Sessions, element types and the errors that programs for onnxruntime-node check.
'use strict';
const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { execFileSync } = require('node:child_process');
const { InferenceSession, Tensor } = require('onnxruntime-node');
const { backend } = require('onnxruntime-node/backend.js');
const { external, identity, overridable } = require('./models.cjs');

const TYPES = [['float32', 1, Float32Array], ['uint8', 2, Uint8Array], ['int8', 3, Int8Array], ['uint16', 4, Uint16Array],
  ['int16', 5, Int16Array], ['int32', 6, Int32Array], ['int64', 7, BigInt64Array], ['bool', 9, Uint8Array],
  ['float64', 11, Float64Array], ['uint32', 12, Uint32Array], ['uint64', 13, BigUint64Array]];
const rejects = (promise, name, message) => assert.rejects(promise, { name, message });

// External data in memory: in place of a file, wherever the model comes from; wrong descriptions are refused.
async function externalData(folder, x) {
  const data = new Float32Array([0, 0, 1, 2, 3, 4, 5]), file = path.join(folder, 'model.onnx');
  fs.writeFileSync(file, external('weights.bin'));
  const views = [data, data.buffer, new Uint8Array(data.buffer), Buffer.from(data.buffer)];
  for (const model of [external('weights.bin'), external('./weights.bin'), file])
    for (const view of views) {
      const session = await InferenceSession.create(model, { externalData: [{ path: 'weights.bin', data: view }] });
      data.fill(7, 2); // the session has a copy
      assert.deepStrictEqual([...(await session.run({ x })).y.data], [2, 4, 6, 8, 10]);
      data.set([1, 2, 3, 4, 5], 2);
      await session.release();
    }
  fs.writeFileSync(path.join(folder, 'weights.bin'), Buffer.alloc(28));
  const session = await InferenceSession.create(file);
  assert.deepStrictEqual((await session.run({ x })).y.data, x.data);
  const model = external('weights.bin'), create = (externalData) => InferenceSession.create(model, { externalData });
  await rejects(InferenceSession.create(model), 'Error', /weights.bin/);
  await rejects(create([{ path: 'other', data }]), 'Error', /weights.bin/);
  await rejects(create([{ path: 'weights.bin', data: data.subarray(1) }]), 'Error', /'w'/);
  await rejects(create('weights.bin'), 'TypeError', /externalData/);
  await rejects(create([{ path: 'weights.bin', data: 'file' }]), 'TypeError', /externalData\[0\].data/);
  await rejects(create([{ data }]), 'TypeError', /externalData\[0\]/);
}

// The profile is written by endProfiling(), release(), or the end of the program.
async function profiles(folder, x) {
  const model = identity(1), options = (name) => ({ enableProfiling: true, profileFilePrefix: path.join(folder, name) });
  const written = (name) => {
    const files = fs.readdirSync(folder).filter((file) => file.startsWith(name));
    assert.strictEqual(files.length, 1, `profiles of ${name}: ${files}`);
    assert.match(files[0], /_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d\.json$/);
    return JSON.parse(fs.readFileSync(path.join(folder, files[0])));
  };
  const session = await InferenceSession.create(model, options('ended'));
  await Promise.all([1, 2, 3, 4].map(() => session.run({ x })));
  session.endProfiling();
  assert.strictEqual(written('ended').filter((event) => event.name === 'model_run').length, 4);
  session.endProfiling();
  assert.deepStrictEqual((await session.run({ x })).y.data, x.data);
  await session.release();
  await (await InferenceSession.create(model, options('empty'))).release();
  assert.deepStrictEqual(written('empty'), []);
  execFileSync(process.execPath, ['-e', `
    const { InferenceSession, Tensor } = require('onnxruntime-node'), { identity } = require('./models.cjs');
    const prefix = ${JSON.stringify(path.join(folder, 'left'))};
    (async () => {
      const session = await InferenceSession.create(identity(1), { enableProfiling: true, profileFilePrefix: prefix });
      await session.run({ x: new Tensor('float32', [1, 2, 3, 4, 5], [1, 5]) });
    })();`], { cwd: __dirname });
  assert.ok(written('left').length > 0);
  await rejects(InferenceSession.create(model, { enableProfiling: 1 }), 'TypeError', /enableProfiling/);
  await rejects(InferenceSession.create(model, { enableProfiling: true }), 'TypeError', /profileFilePrefix/);
}

async function optimizedModels(folder, x) {
  const file = path.join(folder, 'optimized.onnx');
  fs.writeFileSync(path.join(folder, 'sum.onnx'), overridable());
  for (const model of [overridable(), path.join(folder, 'sum.onnx')]) {
    fs.rmSync(file, { force: true });
    await InferenceSession.create(model, { optimizedModelFilePath: file });
    const session = await InferenceSession.create(file);
    assert.deepStrictEqual([...(await session.run({ x })).y.data], [2, 3, 4, 5, 6]);
  }
  const data = new Float32Array([0, 0, 1, 1, 1, 1, 1]);
  await InferenceSession.create(external('w'), { externalData: [{ path: 'w', data }], optimizedModelFilePath: file });
  assert.deepStrictEqual([...(await (await InferenceSession.create(file)).run({ x })).y.data], [2, 3, 4, 5, 6]);
  const create = (optimizedModelFilePath) => InferenceSession.create(overridable(), { optimizedModelFilePath });
  await rejects(create(path.join(folder, 'model.ort')), 'Error', /inlay writes ONNX/);
  await rejects(create(path.join(folder, 'absent', 'model.onnx')), 'Error', /absent/);
  await rejects(create(7), 'TypeError', /optimizedModelFilePath/);
}

async function main() {
  for (const [type, number, array] of TYPES) {
    const session = await InferenceSession.create(identity(number));
    assert.deepStrictEqual(session.inputMetadata, [{ name: 'x', isTensor: true, type, shape: [1, 5] }]);
    const data = array.from([1, 0, 1, 1, 0], (x) => (array.BYTES_PER_ELEMENT === 8 && type !== 'float64' ? BigInt(x) : x));
    const { y } = await session.run({ x: new Tensor(type, data, [1, 5]) });
    assert.ok(y instanceof Tensor);
    assert.deepStrictEqual([y.type, y.dims, y.data], [type, [1, 5], data]);
    await session.release();
  }
  const texts = await InferenceSession.create(identity(8));
  assert.deepStrictEqual((await texts.run({ x: new Tensor(['a', '', 'b', 'c', 'd'], [1, 5]) })).y.data, ['a', '', 'b', 'c', 'd']);

  const model = identity(1), x = new Tensor('float32', [1, 2, 3, 4, 5], [1, 5]);
  await rejects(InferenceSession.create('/absent.onnx'), 'Error', /Load model from \/absent.onnx failed/);
  await rejects(InferenceSession.create(new Uint8Array(0)), 'Error', /Model data pointer is null/);
  await rejects(InferenceSession.create(model, { executionProviders: ['cuda'] }), 'Error', /cuda.*backend not found/);
  await rejects(InferenceSession.create(model, { intraOpNumThreads: 'two' }), 'TypeError', /intraOpNumThreads/);
  await rejects(InferenceSession.create(model, { interOpNumThreads: -1 }), 'RangeError', /interOpNumThreads/);
  await rejects(InferenceSession.create(model, { executionMode: 'quick' }), 'TypeError', /executionMode/);
  await rejects(InferenceSession.create(model, { enableMemPattern: 1 }), 'TypeError', /enableMemPattern/);
  const session = await InferenceSession.create(model, { graphOptimizationLevel: 'basic', intraOpNumThreads: 1 });
  await rejects(session.run({}), 'Error', /input 'x' is missing/);
  await rejects(session.run({ x }, { logSeverityLevel: 8 }), 'RangeError', /logSeverityLevel/);
  const given = new Tensor('float32', new Float32Array(5), [1, 5]);
  assert.strictEqual((await session.run({ x }, { y: given })).y, given);
  assert.deepStrictEqual([...given.data], [1, 2, 3, 4, 5]);
  assert.deepStrictEqual((await session.run({ x, sr: x })).y.data, x.data); // a feed that is no input is ignored
  const added = await InferenceSession.create(overridable());
  assert.deepStrictEqual(added.inputNames, ['x']);
  assert.deepStrictEqual([...(await added.run({ x })).y.data], [2, 3, 4, 5, 6]);
  assert.deepStrictEqual([...(await added.run({ x, w: x })).y.data], [2, 4, 6, 8, 10]);
  // As onnxruntime-common before 1.17 calls it: providers that are not registered are in the list.
  const handler = await backend.createSessionHandler(model, { executionProviders: ['cpu', { name: 'wasm' }] });
  assert.deepStrictEqual([...(await handler.run({ x }, { y: null }, {})).y.data], [1, 2, 3, 4, 5]);
  // Results can be transferred to other threads.
  const { y } = await session.run({ x });
  const moved = structuredClone(y.data, { transfer: [y.data.buffer] });
  assert.deepStrictEqual([[...moved], y.data.length], [[1, 2, 3, 4, 5], 0]);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'inlay-node-'));
  try {
    await externalData(folder, x);
    await profiles(folder, x);
    await optimizedModels(folder, x);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
  const stop = new AbortController();
  stop.abort();
  await assert.rejects(session.run({ x }, { signal: stop.signal }));
}
main().catch((problem) => { console.error(problem); process.exit(1); });
