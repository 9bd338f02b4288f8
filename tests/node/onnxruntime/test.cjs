// Sessions, element types and the errors that programs for onnxruntime-node check.
'use strict';
const assert = require('node:assert');
const { InferenceSession, Tensor } = require('onnxruntime-node');
const { identity, overridable } = require('./models.cjs');

const TYPES = [['float32', 1, Float32Array], ['uint8', 2, Uint8Array], ['int8', 3, Int8Array], ['uint16', 4, Uint16Array],
  ['int16', 5, Int16Array], ['int32', 6, Int32Array], ['int64', 7, BigInt64Array], ['bool', 9, Uint8Array],
  ['float64', 11, Float64Array], ['uint32', 12, Uint32Array], ['uint64', 13, BigUint64Array]];
const rejects = (promise, name, message) => assert.rejects(promise, { name, message });

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
  await rejects(InferenceSession.create(model, { enableProfiling: true }), 'Error', /enableProfiling.*not supported/);
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
  const stop = new AbortController();
  stop.abort();
  await assert.rejects(session.run({ x }, { signal: stop.signal }));
}
main().catch((problem) => { console.error(problem); process.exit(1); });
