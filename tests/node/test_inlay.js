// The npm package with ONNX's cases: sessions, zero-copy tensors, errors, concurrent runs.
'use strict';
const assert = require('assert');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { InferenceSession, Tensor, version } = require('../../sdk/bindings/node');
const { runCases } = require('./cases.js');
const { identity } = require('./onnxruntime/models.cjs');

const native = require(path.resolve(process.env.INLAY_NODE_ADDON)); // the object whose functions the package calls

const data = process.env.ONNX_TEST_DATA;
const model = (name) => path.join(data, 'node', name, 'model.onnx');

function floats(dims, f) {
  const count = dims.reduce((a, b) => a * b, 1);
  return new Tensor('float32', Float32Array.from({ length: count }, (_, i) => f(i)), dims);
}

const tests = {
  async tensors() {
    const held = new Float32Array([1, 2, 3, 4]);
    assert.strictEqual(new Tensor(held, [2, 2]).data, held);
    assert.strictEqual(new Tensor('float32', [1, 2]).dims[0], 2);
    assert.strictEqual(new Tensor('int64', [1, 2n], [2]).data[1], 2n);
    assert.deepStrictEqual(Array.from(new Tensor([true, false]).data), [1, 0]);
    assert.strictEqual(new Tensor(['a', 'b'], [1, 2]).type, 'string');
    assert.deepStrictEqual(new Tensor('float32', held, [4]).reshape([2, 2]).dims, [2, 2]);
    assert.throws(() => new Tensor('float32', held, [3]), /does not match data length/);
    assert.throws(() => new Tensor('float33', held), /unsupported tensor type/);
    assert.throws(() => new Tensor('int32', held), /must be of type Int32Array/);
    assert.throws(() => new Tensor(held, [-1, 4]), /non-negative/);
    assert.match(version, /^\d+\.\d+\.\d+$/);
  },

  async sessions() {
    const bytes = fs.readFileSync(model('test_add'));
    const buffer = new Uint8Array(bytes.length + 8);
    buffer.set(bytes, 8);
    for (const made of [InferenceSession.create(model('test_add')), InferenceSession.create(new Uint8Array(bytes)),
      InferenceSession.create(buffer.buffer, 8, bytes.length, { intraOpNumThreads: 1, graphOptimizationLevel: 'basic' }),
      InferenceSession.create(model('test_add'), { inlay: { providers: 'reference', precision: 'strict' } })]) {
      const session = await made;
      assert.deepStrictEqual(session.inputNames, ['x', 'y']);
      assert.deepStrictEqual(session.inputMetadata[0], { name: 'x', isTensor: true, type: 'float32', shape: [3, 4, 5] });
      const x = floats([3, 4, 5], (i) => i), y = floats([3, 4, 5], () => 0.5);
      const { sum } = await session.run({ x, y });
      assert.deepStrictEqual(sum.dims, [3, 4, 5]);
      sum.data.forEach((v, i) => assert.strictEqual(v, i + 0.5));
      const into = floats([3, 4, 5], () => 0);
      const given = await session.run({ x, y }, { sum: into });
      assert.strictEqual(given.sum, into);
      assert.strictEqual(into.data[59], 59.5);
      assert.deepStrictEqual(Object.keys(await session.run({ x, y }, ['sum'])), ['sum']);
      await session.release();
      await assert.rejects(session.run({ x, y }), /released/);
    }
  },

  // ONNX's node cases with tensors of basic types: results equal the expected ones.
  async cases() {
    const ran = await runCases(data, InferenceSession, Tensor);
    assert(ran > 850, `${ran} cases ran`);
    console.log(`${ran} cases ran`);
  },

  async errors() {
    const session = await InferenceSession.create(model('test_add'));
    const x = floats([3, 4, 5], () => 1), short = floats([3], () => 1);
    await assert.rejects(InferenceSession.create('/nowhere/model.onnx'), (e) => e.code === 'not found' && /nowhere/.test(e.message));
    await assert.rejects(InferenceSession.create(new Uint8Array([1, 2, 3])), (e) => e.code === 'invalid model');
    await assert.rejects(InferenceSession.create(7), /a model must be a path/);
    await assert.rejects(InferenceSession.create(model('test_add'), { inlay: { presicion: 'f32' } }), /precision/);
    await assert.rejects(InferenceSession.create(model('test_add'), { graphOptimizationLevel: 'most' }), /one of disabled/);
    await assert.rejects(session.run({ x }), /input 'y' is missing/);
    await assert.rejects(session.run({ x, y: x, z: x }), /no input 'z'/);
    await assert.rejects(session.run({ x, y: short }), (e) => e.code === 'wrong shape' && /'y'/.test(e.message));
    await assert.rejects(session.run({ x, y: new Tensor('float64', Array(60).fill(1e39), [3, 4, 5]) }), /float64/);
    await assert.rejects(session.run({ x, y: 5 }), /not a tensor/);
    await assert.rejects(session.run({ x, y: { type: 'string', data: [], dims: [2 ** 32, 2 ** 32] } }), /more strings than memory/);
    await assert.rejects(session.run({ x, y: x }, ['nope']), /no output 'nope'/);
    await assert.rejects(session.run(null), /feeds/);
    const stop = new AbortController();
    stop.abort();
    await assert.rejects(session.run({ x, y: x }, { signal: stop.signal }), (e) => e.code === 'cancelled');
    assert.strictEqual((await session.run({ x, y: x })).sum.data[0], 2);
    const scalars = await InferenceSession.create(model('test_range_float_type_positive_delta'));
    const one = (v) => new Tensor('float32', [v], [1]); // a scalar as programs write it
    const { output } = await scalars.run({ start: one(1), limit: one(5), delta: one(2) });
    assert.deepStrictEqual(Array.from(output.data), [1, 3]);
  },

  // Tensors of another type are converted: to floats they are rounded, to integers they must be exact.
  async conversions() {
    const relu = await InferenceSession.create(model('test_relu')), gather = await InferenceSession.create(model('test_gather_0'));
    const sixty = (array, value) => array.from({ length: 60 }, () => value);
    for (const [type, array, value, good] of [['float64', Float64Array, 0.5, true], ['float64', Float64Array, 0.1, true],
      ['int32', Int32Array, 7, true], ['int32', Int32Array, 2 ** 24 + 1, true], ['int64', BigInt64Array, 7n, true],
      ['int64', BigInt64Array, 2n ** 53n + 1n, true], ['uint8', Uint8Array, 255, true],
      ['float64', Float64Array, 1e39, false]]) {
      const x = new Tensor(type, sixty(array, value), [3, 4, 5]);
      if (!good) await assert.rejects(relu.run({ x }), /is too large; convert it: new Tensor\('float32'/);
      else assert.deepStrictEqual((await relu.run({ x })).y.data, sixty(Float32Array, Math.max(Number(value), 0)));
    }
    const data = floats([5, 4, 3, 2], (i) => i);
    for (const [type, array, values, good] of [['int32', Int32Array, [0, 1, 3], true], ['float32', Float32Array, [0, 1, 3], true],
      ['float32', Float32Array, [0, 1.5, 3], false], ['uint64', BigUint64Array, [0n, 1n, 3n], true],
      ['uint64', BigUint64Array, [0n, 1n, 2n ** 63n], false]]) {
      const run = gather.run({ data, indices: new Tensor(type, array.from(values), [3]) });
      if (good) assert.deepStrictEqual((await run).y.dims, [3, 4, 3, 2]);
      else await assert.rejects(run, /is int64, in which element/);
    }
  },

  // A run gets the array of a tensor of the input's type, not a copy, and reads the array's memory.
  async sameMemory() {
    const { run } = native, passed = [];
    native.run = (session, feeds, ...more) => {
      passed.push(...feeds.map(([, , data]) => data));
      return run(session, feeds, ...more);
    };
    try {
      for (const [type, number, array, last] of [['float32', 1, Float32Array, 0.1], ['uint8', 2, Uint8Array, 255],
        ['int8', 3, Int8Array, -1], ['uint16', 4, Uint16Array, 65535], ['int16', 5, Int16Array, -1],
        ['int32', 6, Int32Array, -1], ['int64', 7, BigInt64Array, -1n << 63n], ['bool', 9, Uint8Array, 1],
        ['float16', 10, Uint16Array, 0x3c00], ['float64', 11, Float64Array, 1e300], ['uint32', 12, Uint32Array, 2 ** 32 - 1],
        ['uint64', 13, BigUint64Array, (1n << 64n) - 1n], ['bfloat16', 16, Uint16Array, 0x3f80]]) {
        const session = await InferenceSession.create(identity(number)), shared = array.BYTES_PER_ELEMENT * 5;
        for (const data of [new array(5), new array(new SharedArrayBuffer(shared)), new array(9).subarray(2, 7)]) {
          data[4] = last;
          assert.deepStrictEqual((await session.run({ x: new Tensor(type, data, [1, 5]) })).y.data, array.from(data), type);
          assert.strictEqual(passed.pop(), data, `${type}: converted`);
        }
      }
      // Other bytes of bool are true, in a copy.
      const data = new Uint8Array([0, 1, 2, 128, 255]), session = await InferenceSession.create(identity(9));
      assert.deepStrictEqual((await session.run({ x: new Tensor('bool', data, [1, 5]) })).y.data, new Uint8Array([0, 1, 1, 1, 1]));
      assert.deepStrictEqual([...data], [0, 1, 2, 128, 255]);
    } finally {
      native.run = run;
    }
  },

  async options() {
    await InferenceSession.create(model('test_relu'), { executionProviders: ['cpu', { name: 'cpu' }], logSeverityLevel: 2,
      enableProfiling: false });
    for (const [options, part] of [[{ executionProviders: ['cuda'] }, /'cuda' is not one of cpu/],
      [{ executionProviders: ['cuda', 'cpu'] }, /'cuda'/], [{ executionProviders: [{ name: 'nonsense' }] }, /'nonsense'/],
      [{ intraOpNumThread: 1 }, /unknown session option 'intraOpNumThread'; there are: executionProviders/],
      ...[[7], [null], [{}], 'cpu', 7].map((executionProviders) => [{ executionProviders }, /must be a list of names, such as \['cpu'\]/]),
      [{ enableProfiling: true }, /'profileFilePrefix' must be a string/]])
      await assert.rejects(InferenceSession.create(model('test_relu'), options), { message: part, code: 'invalid argument' });
    const session = await InferenceSession.create(model('test_relu'));
    await assert.rejects(session.run({}), { message: /input 'x' is missing/, code: 'invalid argument' });
  },

  // The provider returns the number of threads that it may use.
  async threads() {
    const session = await InferenceSession.create(model('test_relu'), { intraOpNumThreads: 2,
      inlay: { plugin_dirs: process.env.COUNTING_DIR, providers: 'counting' } });
    const x = floats([3, 4, 5], () => 1), all = (await session.run({ x })).y.data[59];
    assert(all === 1 || all === 2);  // the process may have fewer CPUs than the machine
    for (const [options, threads] of [[{}, all], [{ maxThreads: 0 }, all], [{ maxThreads: 1 }, 1], [{ maxThreads: 9 }, all]])
      assert.strictEqual((await session.run({ x }, options)).y.data[59], threads);
    for (const wrong of [-1, 1.5, 'two'])
      await assert.rejects(session.run({ x }, { maxThreads: wrong }), /'maxThreads' must be a number of threads/);
  },

  // The fake device with option echo: every result is 100 * delay_us + 10 * priority + power.
  async devices() {
    const create = (options) => InferenceSession.create(model('test_relu'), { inlay: { plugin_dirs: process.env.FAKE_DIR,
      providers: 'fake,reference', policy: 'priority', 'fake.echo': true, ...options } });
    const session = await create({}), hinted = await create({ priority: 'high', power: 'performance' });
    const x = floats([3, 4, 5], () => 0);
    const result = async (of, options) => (await of.run({ x }, options)).y.data[59];
    assert.strictEqual(await result(session, {}), 0);
    assert.strictEqual(await result(session, { priority: 'high', power: 'efficiency' }), 21);
    assert.strictEqual(await result(hinted, {}), 22);
    assert.strictEqual(await result(hinted, { priority: 'low' }), 12);
    await assert.rejects(session.run({ x }, { priority: 'most' }), /'priority' must be one of normal, low, high/);
    await session.setOption('fake', 'delay_us', 3);
    assert.strictEqual(await result(session, {}), 300);
    await session.setOption('fake', 'delay_us');
    assert.strictEqual(await result(session, {}), 0);
    assert.strictEqual(await session.trim('fake', 4096), 2048);
    assert.strictEqual(await session.trim('fake'), 0);
    assert.strictEqual(await session.trim(), 0);
    await session.suspend('fake');
    await assert.rejects(session.run({ x }), /provider fake is suspended/);
    await session.resume('fake');
    assert.strictEqual(await result(session, {}), 0);
    await assert.rejects(session.suspend('reference'), /cannot be controlled/);
    await assert.rejects(session.trim('fake', -1), /bytes a number from 0/);
  },

  // Results own their memory, which is released when they are collected.
  async concurrency() {
    const session = await InferenceSession.create(model('test_add'));
    const y = floats([3, 4, 5], () => 1);
    const sizes = [];
    for (let round = 0; round < 6; round++) {
      const all = await Promise.all(Array.from({ length: 1000 }, (_, k) => session.run({ x: floats([3, 4, 5], () => k), y })));
      all.forEach(({ sum }, k) => assert(sum.data.every((v) => v === k + 1), `run ${k}`));
      global.gc();
      await new Promise((done) => setImmediate(done));
      sizes.push(process.memoryUsage().rss);
    }
    assert(sizes[5] - sizes[2] < 16e6, `memory grows: ${sizes}`);
  },

  // Sessions that are created and dropped, released or not, leak nothing.
  async forgotten() {
    const sizes = [];
    for (let round = 0; round < 4; round++) {
      for (let k = 0; k < 25; k++) {
        const session = await InferenceSession.create(model('test_add'), { intraOpNumThreads: 1 });
        if (k % 2) await session.release();
      }
      global.gc();
      await new Promise((done) => setTimeout(done, 10));
      sizes.push(process.memoryUsage().rss);
    }
    assert(sizes[3] - sizes[1] < 32e6, `memory grows: ${sizes}`);
  },

  // Plugins that crash when they are loaded or queried: the promise is rejected with inlay's message, and this process survives.
  async crashes() {
    const folder = process.env.EVIL_DIR;
    if (!folder) return;
    for (const [name, words] of [['segv_constructor', /crashed \(SIGSEGV\) in its constructors/],
      ['abort_constructor', /crashed \(SIGABRT\)/], ['open', /crashed \(SIGSEGV\) in inlay_plugin_open/]]) {
      const plugins = fs.mkdtempSync(path.join(os.tmpdir(), 'inlay-node-'));
      fs.copyFileSync(path.join(folder, `${name}.so`), path.join(plugins, `${name}.so`));
      const made = InferenceSession.create(model('test_add'), { inlay: { plugin_dirs: plugins, providers: name } });
      await assert.rejects(made, (e) => words.test(e.message) && !/\n/.test(e.message) && typeof e.code === 'string');
      fs.rmSync(plugins, { recursive: true });
    }
    const session = await InferenceSession.create(model('test_add'));
    const x = floats([3, 4, 5], () => 1);
    assert.strictEqual((await session.run({ x, y: x })).sum.data[0], 2);
  },
};

(async () => {
  for (const [name, test] of Object.entries(tests)) {
    await test();
    console.log('ok', name);
  }
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
