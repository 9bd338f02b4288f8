// The backend of onnxruntime-common: sessions of the package inlay-web.
import { Tensor, env } from 'onnxruntime-common'
import * as inlay from 'inlay-web'

export const version = inlay.version

// The options of a session with those of env.wasm. wasmBinary, and wasmPaths that name files, are of onnxruntime-web's module.
function optionsOf(options) {
  const { numThreads, wasmPaths } = env.wasm
  const all = { ...options, executionProviders: ['wasm'] }
  if (all.intraOpNumThreads === undefined && numThreads > 0) all.intraOpNumThreads = numThreads
  if (options.externalData)
    all.externalData = options.externalData.map(file => (typeof file === 'string' ? { path: file, data: file } : file))
  if (typeof wasmPaths === 'string') all.wasmFolder = wasmPaths
  return all
}

function metadata(info) {
  if (!info.isTensor) return { name: info.name, isTensor: false }
  return { name: info.name, isTensor: true, type: info.type, shape: info.shape }
}

class Handler {
  #session

  constructor(session) {
    this.#session = session
    this.inputNames = session.inputNames
    this.outputNames = session.outputNames
    this.inputMetadata = session.inputMetadata.map(metadata)
    this.outputMetadata = session.outputMetadata.map(metadata)
  }

  // fetches: tensors by output name; those that are not null receive the output.
  async run(feeds, fetches, options) {
    const results = await this.#session.run(feeds, fetches, options)
    return Object.fromEntries(Object.entries(results).map(([name, value]) =>
      [name, value instanceof Tensor ? value : new Tensor(value.type, value.data, value.dims)]))
  }

  startProfiling() {}
  endProfiling() {}
  async dispose() { this.#session.dispose() }
}

export const backend = {
  async init() {
    env.wasm.proxy ??= false
    env.wasm.numThreads ??= await inlay.defaultThreads()
  },
  // options are a proxy, whose executionProviders onnxruntime-common has checked.
  async createInferenceSessionHandler(model, options = {}) {
    const given = Object.fromEntries(Object.keys(options).map(name => [name, options[name]]))
    return new Handler(await inlay.InferenceSession.create(model, optionsOf(given)))
  },
}

export const absent = {
  async init(name) { throw new Error(`${name} is not available: inlay-web computes on the CPU.`) },
  async createInferenceSessionHandler() { throw new Error('inlay-web computes on the CPU.') },
}
