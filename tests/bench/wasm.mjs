// Compares WebAssembly bundles, or the npm package inlay-web, with npm's onnxruntime-web in Node, interleaved, model by model.
//   node wasm.mjs INLAY NPM MODEL.onnx[,NAME=N]...    INLAY: the command, which makes bundles, or the folder of inlay-web;
//                                                     NPM: where `npm install onnxruntime-web` was run
// ROUNDS=N: rounds of SECONDS (1) for each (5). A ratio above 1: inlay is faster. KEEP=DIR: keeps the bundles there.
// THREADS=N: threads of each (1). Columns: the time of the fastest runs of each in ms, CPU time with one thread and elapsed
// time with several, the ratio, the largest difference relative to the largest
// result, and the bytes of the module without weights; for inlay-web instead the CPU time of creating a session of each.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const [inlay, npm, ...models] = process.argv.slice(2)
if (models.length === 0) {
  console.error('usage: node wasm.mjs INLAY NPM MODEL.onnx[,NAME=N]...')
  process.exit(2)
}
const rounds = Number(process.env.ROUNDS ?? 5), seconds = Number(process.env.SECONDS ?? 1)
const threads = Number(process.env.THREADS ?? 1)
const ort = createRequire(join(resolve(npm), 'x.js'))('onnxruntime-web')
const folder = process.env.KEEP ?? mkdtempSync(join(tmpdir(), 'wasm-'))
const isPackage = statSync(inlay).isDirectory()
const types = { float: 'float32', double: 'float64' }
const arrays = { float32: 'Float32Array', float64: 'Float64Array', int64: 'BigInt64Array', int32: 'Int32Array',
  uint8: 'Uint8Array', int8: 'Int8Array', bool: 'Uint8Array' }

ort.env.wasm.numThreads = threads
mkdirSync(folder, { recursive: true })

// Floats between -1 and 1, integers 0 and 1.
function makeInputs(model) {
  const inputs = {}
  for (const { name, array, size } of model.inputs) {
    const data = new globalThis[array](size)
    for (let i = 0; i < size; i++) {
      const x = /^Float/.test(array) ? ((i * 2654435761) % 2001) / 1000 - 1 : i % 2
      data[i] = /^Big/.test(array) ? BigInt(x) : x
    }
    inputs[name] = data
  }
  return inputs
}

// The least time of a run in ms, of batches of 20 ms: other load on the machine matters less for CPU time.
async function fastest(run) {
  const end = performance.now() + seconds * 1000
  let best = Infinity
  do {
    const begin = process.cpuUsage(), started = performance.now(), batch = started + 20
    let count = 0
    for (; count === 0 || performance.now() < batch; count++) await run()
    const elapsed = performance.now() - started, { user, system } = process.cpuUsage(begin)
    best = Math.min(best, (threads > 1 ? elapsed : (user + system) / 1000) / count)
  } while (performance.now() < end)
  return best
}

function difference(expected, got) {
  let largest = 0, worst = 0
  for (let i = 0; i < expected.length; i++) {
    largest = Math.max(largest, Math.abs(Number(expected[i])))
    worst = Math.max(worst, Math.abs(Number(expected[i]) - Number(got[i])))
  }
  return worst / (largest || 1)
}

async function cpuTime(run) {
  const begin = process.cpuUsage(), result = await run(), { user, system } = process.cpuUsage(begin)
  return [result, (user + system) / 1000]
}

// A model as a bundle: inputs {name, type, array, dims, size}, run(inputs) of typed arrays by name, outputs, the last column.
async function bundle(path, dims) {
  const name = basename(dirname(path)), module = join(folder, `${name}.wasm`)
  const made = spawnSync(inlay, ['bundle', path, '-o', module, '--target', 'wasm32', '--size', '10', '--quiet', '--json',
    '--no-config', ...dims.flatMap(dim => ['--dim', dim])], { encoding: 'utf8' })
  if (made.status !== 0) throw new Error(made.stderr.trim())
  const weights = JSON.parse(made.stdout).weight_bytes
  const { load } = await import(pathToFileURL(join(folder, `${name}.mjs`)))
  const model = await load(module)
  return { inputs: model.inputs, run: inputs => model.run(inputs), last: () => statSync(module).size - weights }
}

// The same for a session of inlay-web; sizes that `dims` does not state are 1.
async function session(path, dims) {
  const { InferenceSession, Tensor } = await import(pathToFileURL(join(resolve(inlay), 'index.js')))
  const sizes = Object.fromEntries(dims.map(dim => dim.split('=')))
  const create = () => InferenceSession.create(path, { freeDimensionOverrides: sizes, intraOpNumThreads: threads })
  await create() // compiles the module
  const [created, ms] = await cpuTime(create)
  const inputs = created.inputMetadata.map(({ name, type, shape }) => {
    const fixed = shape.map(size => Number(sizes[size] ?? (typeof size === 'number' ? size : 1)))
    return { name, type, array: arrays[type], dims: fixed, size: fixed.reduce((product, size) => product * size, 1) }
  })
  const run = async data => {
    const results = await created.run(Object.fromEntries(inputs.map(({ name, type, dims: shape }) =>
      [name, new Tensor(type, data[name], shape)])))
    return Object.fromEntries(Object.entries(results).map(([name, { data: elements }]) => [name, elements]))
  }
  return { inputs, run, last: theirs => `${theirs.toFixed(0)}/${ms.toFixed(0)}` }
}

async function compare(path, dims) {
  const model = await (isPackage ? session : bundle)(path, dims), inputs = makeInputs(model)
  const create = () => ort.InferenceSession.create(path, { executionProviders: ['wasm'], graphOptimizationLevel: 'all' })
  await (await create()).release()
  const [theirs, ms] = await cpuTime(create)
  const feeds = Object.fromEntries(model.inputs.map(({ name: input, type, dims: shape }) =>
    [input, new ort.Tensor(types[type] ?? type, inputs[input], shape)]))
  const expected = await theirs.run(feeds), got = await model.run(inputs)
  const worst = Math.max(...Object.keys(got).map(output => difference(expected[output].data, got[output])))
  const best = { ort: Infinity, inlay: Infinity }

  for (let round = 0; round < rounds; round++) { // interleaved, so that other load affects both
    best.ort = Math.min(best.ort, await fastest(() => theirs.run(feeds)))
    best.inlay = Math.min(best.inlay, await fastest(() => model.run(inputs)))
  }
  await theirs.release()
  return { ...best, worst, last: model.last(ms) }
}

const ratios = []
console.log(`${'model'.padEnd(24)} ${'ort-web ms'.padStart(11)} ${'inlay ms'.padStart(9)} ${'ratio'.padStart(6)} ${'differs'.padStart(8)} ${(isPackage ? 'create' : 'code').padStart(9)}`)
for (const given of models) {
  const [path, ...dims] = given.split(','), name = basename(dirname(path)).padEnd(24)
  try {
    const { ort: theirs, inlay: ours, worst, last } = await compare(path, dims)
    ratios.push(theirs / ours)
    console.log(`${name} ${theirs.toFixed(2).padStart(11)} ${ours.toFixed(2).padStart(9)} ${(theirs / ours).toFixed(2).padStart(6)} ${worst.toExponential(1).padStart(8)} ${String(last).padStart(9)}`)
  } catch (error) {
    console.log(`${name} ${error.message.split('\n')[0]}`)
    process.exitCode = 1
  }
}
if (ratios.length > 0)
  console.log(`${'geometric mean'.padEnd(46)} ${Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length).toFixed(2).padStart(6)}`)
if (process.env.KEEP === undefined) rmSync(folder, { recursive: true })
