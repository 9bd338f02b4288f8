// Bundles main.js with one bundler: node bundle.mjs MODULES BUNDLER OUT. A warning of the bundler is an error, too, except
// those about sizes.
import { createRequire } from 'node:module'
import path from 'node:path'

const [modules, bundler, out] = process.argv.slice(2), folder = import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname)
const load = createRequire(path.join(path.resolve(modules), 'index.js')), entry = path.join(folder, 'main.js')
const problems = []

const bundlers = {
  async esbuild() {
    const { warnings } = await load('esbuild').build({ entryPoints: [entry], outdir: out, bundle: true, format: 'esm', logLevel: 'silent' })
    problems.push(...warnings.map(warning => warning.text))
  },
  async rollup() {
    const { rollup } = load('rollup'), { nodeResolve } = load('@rollup/plugin-node-resolve')
    const { importMetaAssets } = load('@web/rollup-plugin-import-meta-assets')
    const bundle = await rollup({ input: entry, plugins: [nodeResolve({ browser: true }), importMetaAssets()],
      onwarn: ({ code, message }) => { if (code !== 'CIRCULAR_DEPENDENCY') problems.push(message) } }) // of onnxruntime-common
    await bundle.write({ dir: out, format: 'es' })
  },
  async webpack() {
    const stats = await new Promise((resolve, reject) => load('webpack')({ mode: 'production', entry, performance: false,
      output: { path: out, filename: 'main.js', publicPath: 'auto' } }, (error, done) => (error ? reject(error) : resolve(done))))
    const { errors, warnings } = stats.toJson()
    problems.push(...[...errors, ...warnings].map(problem => problem.message))
  },
  async vite() {
    const { build, createLogger } = await import(load.resolve('vite')), logger = createLogger('warn')
    const keep = text => { if (!/chunks are larger/.test(text)) problems.push(text) }
    Object.assign(logger, { warn: keep, warnOnce: keep, error: keep })
    await build({ root: folder, base: './', customLogger: logger, worker: { format: 'es' },
      build: { outDir: out, target: 'es2022', emptyOutDir: true } })
  },
}
await bundlers[bundler]()
if (problems.length > 0) throw new Error(`${bundler}: ${problems.join('\n')}`)
