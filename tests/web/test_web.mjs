// The npm package inlay-web in Node: ONNX's cases, sources of models, results, errors, memory.
//   test_web.mjs PACKAGE DATA MODELS      PACKAGE: its folder; DATA: ONNX's cases; MODELS: of tests/bundle/make_models.c
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire, syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import workerThreads from 'node:worker_threads'

let workers = 0 // that have not ended
workerThreads.Worker = class extends workerThreads.Worker {
  constructor(...given) {
    super(...given)
    workers++
    this.once('exit', () => { workers-- })
  }
}
syncBuiltinESMExports()

const [, , folder, data, models] = process.argv
const { InferenceSession, InlaySession, Tensor } = await import(pathToFileURL(join(folder, 'index.js')))
const { runCases } = createRequire(import.meta.url)('../node/cases.js')
const model = name => join(data, 'node', name, 'model.onnx')
const floats = (dims, f) => new Tensor('float32',
  Float32Array.from({ length: dims.reduce((a, b) => a * b, 1) }, (_, i) => f(i)), dims)
const x = floats([3, 4, 5], i => i), y = floats([3, 4, 5], () => 0.5)

test('ONNX\'s cases: the results are the expected ones, and only operators of preview domains are refused', async () => {
  const refused = []
  const ran = await runCases(data, InferenceSession, Tensor, (name, error) => { refused.push(`${name}: ${error.message}`) })
  assert(ran > 850, `${ran} cases ran`)
  for (const line of refused) assert.match(line, /ai\.onnx\.preview\.training|regular expression/)
})

test('a model from every kind of source', async () => {
  const bytes = readFileSync(model('test_add')), buffer = new Uint8Array(bytes.length + 8)
  buffer.set(bytes, 8)
  for (const source of [model('test_add'), pathToFileURL(model('test_add')), pathToFileURL(model('test_add')).href, bytes,
    new Uint8Array(bytes).buffer, new Response(bytes), `data:application/octet-stream;base64,${bytes.toString('base64')}`])
    assert.equal((await (await InlaySession.create(source)).run({ x, y })).sum.data[59], 59.5)
  const session = await InferenceSession.create(buffer.buffer, 8, bytes.length, { inlay: { precision: 'strict' } })
  assert.deepEqual((await session.run({ x, y })).sum.dims, [3, 4, 5])
  await assert.rejects(InferenceSession.create(bytes, { inlay: { reproducible: 'cpu' } }), /no kernels for cpu; modules/)
  await assert.rejects(InferenceSession.create(7), /a model must be a path, a URL/)
  await assert.rejects(InferenceSession.create('/nowhere/model.onnx'), /ENOENT.*nowhere/)
  await assert.rejects(InferenceSession.create(new Response('', { status: 404 })), /HTTP status 404/)
})

test('names, types, metadata, and the tensors that receive results', async () => {
  const session = await InferenceSession.create(model('test_add'), { intraOpNumThreads: 1, graphOptimizationLevel: 'all' })
  assert.deepEqual([session.inputNames, session.outputNames], [['x', 'y'], ['sum']])
  assert.deepEqual(session.inputMetadata[0], { name: 'x', isTensor: true, type: 'float32', shape: [3, 4, 5] })
  assert.deepEqual(session.metadata, {})
  const into = floats([3, 4, 5], () => 0)
  assert.equal((await session.run({ x, y }, { sum: into })).sum, into)
  assert.equal(into.data[59], 59.5)
  assert.deepEqual(Object.keys(await session.run({ x, y }, ['sum'])), ['sum'])
  const first = (await session.run({ x, y })).sum
  await session.run({ x: y, y })
  assert.equal(first.data[59], 59.5, 'results are copies')
  const net = await InferenceSession.create(join(models, 'net.onnx'))
  for (const N of [1, 3, 2])
    assert.deepEqual((await net.run({ x: floats([N, 3, 16, 16], Math.sin) })).y.dims, [N, 16])
})

test('strings', async () => {
  const session = await InferenceSession.create(model('test_strnormalizer_nostopwords_nochangecase'))
  const text = data => ({ x: new Tensor('string', data, [data.length]) })
  assert.deepEqual((await session.run(text(['größe', '']))).y.data, ['größe', ''])
  assert.deepEqual((await session.run(text(['語', 'b']))).y.data, ['語', 'b'])
  await assert.rejects(session.run({ x: { type: 'string', data: ['a'], dims: [2 ** 32, 2 ** 32] } }), /1 strings/)
})

test('external data', async () => {
  const path = join(models, 'apart.onnx'), weights = readFileSync(join(models, 'apart.data'))
  const session = await InferenceSession.create(path, { externalData: [{ path: './apart.data', data: weights }] })
  const results = await session.run({ x: floats([1, 64], i => (i * 37 % 64 - 32) / 32) })
  const whole = await InferenceSession.create(join(models, 'mlp.onnx'))
  assert.deepEqual(results, await whole.run({ x: floats([1, 64], i => (i * 37 % 64 - 32) / 32) }))
  await assert.rejects(InferenceSession.create(path), /apart\.data/)
  await assert.rejects(InferenceSession.create(path, { externalData: [{ path: 'other.data', data: weights }] }),
    error => error.code === 'not found' && /apart\.data/.test(error.message))
})

test('threads: workers compute parts of the loops, and the results are the same bits', async () => {
  const instances = [], { Instance } = WebAssembly
  WebAssembly.Instance = class extends Instance {
    constructor(...given) {
      super(...given)
      instances.push(this.exports)
    }
  }
  try {
    for (const name of ['net', 'winograd', 'attention', 'recurrent', 'bytes']) {
      const create = threads => InferenceSession.create(join(models, `${name}.onnx`), { intraOpNumThreads: threads })
      const one = await create(1), several = await create(3), { joins } = instances.at(-1)
      const feeds = Object.fromEntries(one.inputMetadata.map(({ name: input, shape }) =>
        [input, floats(shape.map(size => typeof size === 'number' ? size : 40), Math.sin)]))
      const want = await one.run(feeds)
      assert.equal(instances.at(-2).joins(), 0, 'one thread has no workers')
      for (let i = 0; i < 3 || (name === 'net' && joins() === 0); i++) assert.deepEqual(await several.run(feeds), want, name)
      one.dispose()
      several.dispose()
    }
  } finally {
    WebAssembly.Instance = Instance
  }
})

test('the workers of a session end with it', async () => {
  const create = () => InferenceSession.create(model('test_add'), { inlay: { intra_threads: 3 } })
  const allEnd = async () => {
    while (workers > 0) {
      global.gc()
      await new Promise(done => setImmediate(done))
    }
  }
  await allEnd()
  const kept = await create()
  assert.equal(workers, 2)
  kept.dispose()
  await allEnd()
  await create() // not reachable
  assert.equal(workers, 2)
  await allEnd()
  await assert.rejects(InferenceSession.create(new Uint8Array([1]), { intraOpNumThreads: 3 }))
  await allEnd()
})

test('mistakes', async () => {
  const session = await InferenceSession.create(model('test_add')), code = name => error => error.code === name
  await assert.rejects(InferenceSession.create(new Uint8Array([1, 2, 3])), code('invalid model'))
  await assert.rejects(InferenceSession.create(new Uint8Array(0)), code('invalid model'))
  await assert.rejects(InferenceSession.create(model('test_add'), { inlay: { presicion: 'f32' } }), /did you mean.*precision/)
  await assert.rejects(InferenceSession.create(model('test_add'), { inlay: { providers: 'onednn' } }), /onednn/)
  await assert.rejects(InferenceSession.create(model('test_add'), { inlay: { plugin_dirs: '/plugins' } }), code('unsupported'))
  await assert.rejects(InferenceSession.create(model('test_add'), { inlay: { isolate: 'cpu' } }), code('unsupported'))
  await assert.rejects(InferenceSession.create(model('test_adam')), code('unsupported'))
  await assert.rejects(session.run({ x }), /input 'y' is missing/)
  await assert.rejects(session.run({ x, y, z: x }), /no input 'z'/)
  await assert.rejects(session.run({ x, y: floats([3], () => 1) }), code('wrong shape'))
  await assert.rejects(session.run({ x, y: new Tensor('float64', Array(60).fill(1e300), [3, 4, 5]) }), /float64|double/)
  await assert.rejects(session.run({ x, y }, ['nope']), /no output 'nope'/)
  await assert.rejects(session.run({ x, y: { type: 'float32', data: new Float32Array(0), dims: [3, 4, 5] } }), /input 'y': 0 bytes for a tensor of 240/)
  await assert.rejects(session.run({ x, y }, { signal: AbortSignal.abort() }), error => error.name === 'AbortError')
  assert.equal((await session.run({ x, y })).sum.data[59], 59.5, 'the session is still usable')
  session.dispose()
  await assert.rejects(session.run({ x, y }), /disposed of/)
})

test('sessions and runs leak nothing', async () => {
  const sizes = [], session = await InferenceSession.create(model('test_add'))
  for (let round = 0; round < 4; round++) {
    for (let i = 0; i < 25; i++) {
      const dropped = await InferenceSession.create(model('test_add'), { intraOpNumThreads: 1 })
      if (i % 2) dropped.dispose()
    }
    for (let i = 0; i < 2000; i++) await session.run({ x, y: floats([3, 4, 5], () => i) })
    for (let i = 0; i < 10; i++) {
      global.gc()
      await new Promise(done => setImmediate(done))
    }
    sizes.push(process.memoryUsage().rss)
  }
  assert(sizes[3] - sizes[1] < 64e6, `memory grows: ${sizes}`)
})
