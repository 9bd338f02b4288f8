// The wrapper of WebAssembly bundles in Node: sources of a model, inputs and outputs, and the message of each mistake.
//   wrapper.mjs FOLDER    with net.wasm, branches.wasm, and apart.wasm with separate weights
import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'

const folder = process.argv[2], url = name => pathToFileURL(`${folder}/${name}`)
const { load } = await import(url('net.mjs'))
const x = Float32Array.from({ length: 2 * 3 * 16 * 16 }, (_, i) => Math.sin(i))

test('a module imports nothing', async () => {
  for (const name of ['net', 'branches', 'apart'])
    assert.deepEqual(WebAssembly.Module.imports(new WebAssembly.Module(readFileSync(url(`${name}.wasm`)))), [])
})

test('a model from every kind of source gives the same results', async () => {
  const bytes = readFileSync(url('net.wasm'))
  const sources = [undefined, url('net.wasm'), `${folder}/net.wasm`, url('net.wasm').href, bytes, new Uint8Array(bytes).buffer,
    new Response(bytes), await WebAssembly.compile(bytes), `data:application/wasm;base64,${bytes.toString('base64')}`]
  const expected = (await load()).run({ x }).y
  assert.equal(expected.length, 32)
  assert(expected.every(Number.isFinite) && new Set(expected).size > 1)
  for (const source of sources) assert.deepEqual((await load(source)).run({ x }).y, expected)
  await assert.rejects(load(7), /cannot load a model from a Number/)
  await assert.rejects(load(`${folder}/nothing.wasm`), /ENOENT/)
  await assert.rejects(load(new Response('', { status: 404 })), /HTTP status 404/)
})

test('separate weights', async () => {
  const expected = (await load()).run({ x }).y, whole = statSync(url('net.wasm')).size
  assert.deepEqual((await (await import(url('apart.mjs'))).load()).run({ x }).y, expected)
  const options = { weights: readFileSync(url('apart.weights')) }
  assert(statSync(url('apart.wasm')).size < whole - options.weights.length / 2)
  assert.deepEqual((await load(url('apart.wasm'), options)).run({ x }).y, expected)
  await assert.rejects(load(url('apart.wasm'), { weights: new Uint8Array(7) }), /the weights have 7 bytes; the model needs \d+/)
})

test('inputs and outputs have names, types and sizes', async () => {
  const model = await load()
  assert.deepEqual(model.inputs, [{ name: 'x', type: 'float', array: 'Float32Array', dims: [2, 3, 16, 16], size: 1536 }])
  assert.deepEqual(model.outputs, [{ name: 'y', type: 'float', array: 'Float32Array', dims: [2, 16], size: 32 }])
  const fails = (inputs, outputs, text) => assert.throws(() => model.run(inputs, outputs), { name: 'TypeError', message: text })
  fails({}, {}, "input 'x' is missing: a Float32Array of 1536 elements (float [2, 3, 16, 16])")
  fails({ x: new Float32Array(3) }, {},
    "input 'x' must be a Float32Array of 1536 elements (float [2, 3, 16, 16]), not a Float32Array of 3")
  fails({ x: new Float64Array(1536) }, {},
    "input 'x' must be a Float32Array of 1536 elements (float [2, 3, 16, 16]), not a Float64Array of 1536")
  fails({ x, z: x }, {}, "the model has no input 'z'; it has 'x'")
  fails({ x }, { z: x }, "the model has no output 'z'; it has 'y'")
  fails({ x }, { y: x }, "output 'y' must be a Float32Array of 32 elements (float [2, 16]), not a Float32Array of 1536")
  const y = new Float32Array(32), results = model.run({ x }, { y })
  assert.equal(results.y, y)
  assert.notEqual(model.run({ x }).y, y)
  assert.deepEqual(model.run({ x }).y, y)
})

test('a run that stops the engine is reported, and later runs too', async () => {
  const model = await load()
  const bytes = Buffer.from(readFileSync(url('net.wasm')))
  assert(model.run({ x }).y)
  const module = await WebAssembly.compile(bytes)
  const instantiate = WebAssembly.instantiate
  WebAssembly.instantiate = async (...all) => {
    const instance = await instantiate(...all)
    return { exports: { ...instance.exports, run: () => { throw new WebAssembly.RuntimeError('unreachable') } } }
  }
  const broken = await load(module)
  WebAssembly.instantiate = instantiate
  assert.throws(() => broken.run({ x }), /the model stopped: unreachable/)
  assert.throws(() => broken.run({ x }), /the model stopped in an earlier run: unreachable/)
})

test('64-bit integers are BigInts, and both branches of an If run', async () => {
  const model = await (await import(url('branches.mjs'))).load()
  const given = Float32Array.from({ length: 16 }, (_, i) => i / 16)
  assert.equal(model.inputs.find(({ name }) => name === 's').array, 'BigInt64Array')
  const positive = model.run({ x: given, s: BigInt64Array.of(1n) }).y, negative = model.run({ x: given, s: BigInt64Array.of(-1n) }).y
  positive.forEach((value, i) => assert(Math.abs(value - (Math.tanh(given[i]) + given[i])) < 1e-6))
  negative.forEach((value, i) => assert(Math.abs(value - 2 * given[i]) < 1e-6))
  assert.throws(() => model.run({ x: given, s: Int32Array.of(1) }), /'s' must be a BigInt64Array of 1 elements \(int64 \[\]\)/)
})
