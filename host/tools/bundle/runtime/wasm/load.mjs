// Runs a model that `inlay bundle --target wasm32` made, in browsers and in Node:
//   import { load } from './model.mjs'
//   const model = await load()
//   const { scores } = model.run({ image: new Float32Array(3 * 224 * 224) })
const kindOf = value => value?.constructor?.name ?? String(value)

// The bytes of a URL, a path (Node), a Response, a buffer or a view.
async function read(source) {
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return source
  if (typeof source === 'string' || source instanceof URL) {
    const url = String(source)
    if (globalThis.process?.versions?.node && !/^(https?|data|blob):/.test(url)) {
      const { readFile } = await import('node:fs/promises')
      return readFile(url.startsWith('file:') ? new URL(url) : url)
    }
    source = await fetch(url)
  }
  if (typeof source?.arrayBuffer !== 'function') throw new TypeError(`cannot load a model from a ${kindOf(source)}`)
  if (source.ok === false) throw new Error(`${source.url}: HTTP status ${source.status}`)
  return source.arrayBuffer()
}

const needs = tensor =>
  `a ${tensor.array} of ${tensor.size} elements (${tensor.type} [${tensor.dims.join(', ')}])`

class Model {
  #exports
  #stopped = null

  constructor(exports, description) {
    this.#exports = exports
    let index = 0
    for (const list of [description.inputs, description.outputs])
      for (const tensor of list) {
        tensor.size = tensor.dims.reduce((product, size) => product * size, 1)
        Object.defineProperty(tensor, 'index', { value: index++ })
        Object.freeze(tensor)
      }
    // Each has name, type (of ONNX), array (the class of its typed arrays), dims, and size, the number of its elements.
    this.inputs = Object.freeze(description.inputs)
    this.outputs = Object.freeze(description.outputs)
  }

  // The elements in the memory of the model.
  #view(tensor) {
    return new globalThis[tensor.array](this.#exports.memory.buffer, this.#exports.tensor(tensor.index), tensor.size)
  }

  #check(what, tensor, array) {
    if (!(array instanceof globalThis[tensor.array]) || array.length !== tensor.size)
      throw new TypeError(`${what} '${tensor.name}' must be ${needs(tensor)}, not a ${kindOf(array)} of ${array?.length}`)
  }

  #names(what, list, given) {
    for (const name of Object.keys(given))
      if (!list.some(tensor => tensor.name === name))
        throw new TypeError(`the model has no ${what} '${name}'; it has ${list.map(tensor => `'${tensor.name}'`).join(', ')}`)
  }

  // inputs: {NAME: typed array}. Returns {NAME: typed array}: those of `outputs`, which are filled, or new ones.
  run(inputs, outputs = {}) {
    if (this.#stopped !== null) throw new Error(`the model stopped in an earlier run: ${this.#stopped}`)
    this.#names('input', this.inputs, inputs)
    this.#names('output', this.outputs, outputs)
    for (const tensor of this.inputs) {
      if (inputs[tensor.name] === undefined) throw new TypeError(`input '${tensor.name}' is missing: ${needs(tensor)}`)
      this.#check('input', tensor, inputs[tensor.name])
    }
    for (const tensor of this.outputs)
      if (outputs[tensor.name] !== undefined) this.#check('output', tensor, outputs[tensor.name])
    for (const tensor of this.inputs) this.#view(tensor).set(inputs[tensor.name])
    let status
    try {
      status = this.#exports.run()
    } catch (error) {
      this.#stopped = error.message
      throw new Error(`the model stopped: ${error.message}`, { cause: error })
    }
    if (status !== 0) throw new Error(text(this.#exports, this.#exports.error()) || `status ${status}`)
    const results = {}
    for (const tensor of this.outputs) {
      const view = this.#view(tensor), array = outputs[tensor.name]
      if (array !== undefined) array.set(view)
      results[tensor.name] = array ?? view.slice()
    }
    return results
  }
}

function text(exports, address) {
  const bytes = new Uint8Array(exports.memory.buffer, address)
  return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)))
}

// source: a URL, a path (Node), a Response, the bytes, or a WebAssembly.Module; by default the .wasm file with the name of
// this file. options.weights: the same for a separate file of weights; by default the .weights file with that name.
export async function load(source = new URL(import.meta.url.replace(/\.m?js([?#].*)?$/, '.wasm')), options = {}) {
  const module = source instanceof WebAssembly.Module ? source : await WebAssembly.compile(await read(source))
  const { exports } = await WebAssembly.instantiate(module)
  exports._initialize()
  const description = JSON.parse(text(exports, exports.describe()))
  if (description.weights > 0) {
    const own = new URL(import.meta.url.replace(/\.m?js([?#].*)?$/, '.weights'))
    const data = await read(options.weights ?? own), bytes = new Uint8Array(data.buffer ?? data, data.byteOffset ?? 0, data.byteLength)
    if (bytes.length !== description.weights)
      throw new RangeError(`the weights have ${bytes.length} bytes; the model needs ${description.weights}`)
    new Uint8Array(exports.memory.buffer, exports.weights(), bytes.length).set(bytes)
  }
  const status = exports.start()
  if (status !== 0) throw new Error(text(exports, exports.error()) || `the model did not start: status ${status}`)
  return new Model(exports, description)
}
