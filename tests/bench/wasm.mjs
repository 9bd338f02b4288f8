// Compares WebAssembly bundles with npm's onnxruntime-web in Node, with one thread each, interleaved, model by model.
//   node wasm.mjs INLAY NPM MODEL.onnx[,NAME=N]...    NPM: where `npm install onnxruntime-web` was run
// ROUNDS=N: rounds of SECONDS (1) for each (5). A ratio above 1: inlay is faster. KEEP=DIR: keeps the bundles there.
// Columns: the CPU time of the fastest runs of each in ms, the ratio, the largest difference relative to the largest
// result, and the bytes of the module without weights.
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
const ort = createRequire(join(resolve(npm), 'x.js'))('onnxruntime-web')
const folder = process.env.KEEP ?? mkdtempSync(join(tmpdir(), 'wasm-'))
const types = { float: 'float32', double: 'float64' }

ort.env.wasm.numThreads = 1
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

// The least CPU time of a run in ms, of batches of 20 ms: other load on the machine matters less than for elapsed time.
async function fastest(run) {
  const end = performance.now() + seconds * 1000
  let best = Infinity
  do {
    const begin = process.cpuUsage(), batch = performance.now() + 20
    let count = 0
    for (; count === 0 || performance.now() < batch; count++) await run()
    const { user, system } = process.cpuUsage(begin)
    best = Math.min(best, (user + system) / 1000 / count)
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

async function compare(path, dims) {
  const name = basename(dirname(path)), module = join(folder, `${name}.wasm`)
  const made = spawnSync(inlay, ['bundle', path, '-o', module, '--target', 'wasm32', '--size', '10', '--quiet', '--json',
    '--no-config', ...dims.flatMap(dim => ['--dim', dim])], { encoding: 'utf8' })
  if (made.status !== 0) throw new Error(made.stderr.trim())
  const weights = JSON.parse(made.stdout).weight_bytes
  const { load } = await import(pathToFileURL(join(folder, `${name}.mjs`)))
  const model = await load(module), inputs = makeInputs(model)
  const session = await ort.InferenceSession.create(path, { executionProviders: ['wasm'], graphOptimizationLevel: 'all' })
  const feeds = Object.fromEntries(model.inputs.map(({ name: input, type, dims: shape }) =>
    [input, new ort.Tensor(types[type] ?? type, inputs[input], shape)]))
  const expected = await session.run(feeds), got = model.run(inputs)
  const worst = Math.max(...model.outputs.map(({ name: output }) => difference(expected[output].data, got[output])))
  const best = { ort: Infinity, inlay: Infinity }

  for (let round = 0; round < rounds; round++) { // interleaved, so that other load affects both
    best.ort = Math.min(best.ort, await fastest(() => session.run(feeds)))
    best.inlay = Math.min(best.inlay, await fastest(() => model.run(inputs)))
  }
  await session.release()
  return { ...best, worst, code: statSync(module).size - weights }
}

const ratios = []
console.log(`${'model'.padEnd(24)} ${'ort-web ms'.padStart(11)} ${'inlay ms'.padStart(9)} ${'ratio'.padStart(6)} ${'differs'.padStart(8)} ${'code'.padStart(8)}`)
for (const given of models) {
  const [path, ...dims] = given.split(','), name = basename(dirname(path)).padEnd(24)
  try {
    const { ort: theirs, inlay: ours, worst, code } = await compare(path, dims)
    ratios.push(theirs / ours)
    console.log(`${name} ${theirs.toFixed(2).padStart(11)} ${ours.toFixed(2).padStart(9)} ${(theirs / ours).toFixed(2).padStart(6)} ${worst.toExponential(1).padStart(8)} ${String(code).padStart(8)}`)
  } catch (error) {
    console.log(`${name} ${error.message.split('\n')[0]}`)
    process.exitCode = 1
  }
}
if (ratios.length > 0)
  console.log(`${'geometric mean'.padEnd(46)} ${Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length).toFixed(2).padStart(6)}`)
if (process.env.KEEP === undefined) rmSync(folder, { recursive: true })
