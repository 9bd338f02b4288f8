// inlay for browsers and Node in WebAssembly, with the interface of onnxruntime-common: InferenceSession and Tensor.
import { BY_NUMBER, Tensor, invalid, metadata, overridableOf, requestOf, requiredOf, resultsOf, settingsOf } from './common.js'
import { hostOf } from './files.js'
import { relaxedUrl } from './relaxed.js'
import { NoThreads, Team, inNode, mayWait, memoryOf, nodeModule, setShared, threadsFor } from './threads.js'
import { wasiOf } from './wasi.js'

const MODEL = 'a model must be a path, a URL, a Response, an ArrayBuffer or a typed array'
const STRING = 8, TEXT_BYTES = 16 // the number of the type; the size of an element, {address, bytes}

const isBuffer = source => source instanceof ArrayBuffer ||
  (typeof SharedArrayBuffer !== 'undefined' && source instanceof SharedArrayBuffer)
const isRemote = url => /^(https?|data|blob):/.test(url)

// A path or file: URL for the functions of node:fs; null: no file of Node.
const fileOf = source => {
  if (!inNode || !(typeof source === 'string' || source instanceof URL) || isRemote(String(source))) return null
  const url = String(source)
  return url.startsWith('file:') ? new URL(url) : url
}

// The bytes of a URL, a path (Node), a Response, a buffer or a view.
async function bytesOf(source, mistake) {
  if (isBuffer(source)) return new Uint8Array(source)
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength)
  if (fileOf(source) !== null) return (await nodeModule('fs/promises')).readFile(fileOf(source))
  if (typeof source === 'string' || source instanceof URL) source = await fetch(String(source))
  if (typeof source?.arrayBuffer !== 'function') throw invalid(TypeError, mistake)
  if (source.ok === false) throw new Error(`${source.url}: HTTP status ${source.status}`)
  return new Uint8Array(await source.arrayBuffer())
}

// The size of a model, and a function that copies it. A file is read into the memory of the session, without another copy.
async function modelOf(source) {
  const path = fileOf(source)
  if (path === null) {
    const bytes = await bytesOf(source, MODEL)
    return { size: bytes.length, copyTo: async to => to.set(bytes) }
  }
  const { open, stat } = await nodeModule('fs/promises'), { size } = await stat(path)
  const copyTo = async to => {
    const file = await open(path)
    try {
      for (let at = 0, count = 1; at < to.length && count > 0; at += count)
        count = (await file.read(to, at, to.length - at, at)).bytesRead
    } finally {
      await file.close()
    }
  }
  return { size, copyTo }
}

// Bundlers recognize the form of this expression, and copy the file.
const plainUrl = () => new URL('./inlay.wasm', import.meta.url)

// The compiled modules by URL, and for several threads: it is compiled once for all sessions.
const modules = new Map()
async function compile(source, shared) {
  if (!shared && typeof source === 'string' && isRemote(source) && WebAssembly.compileStreaming) {
    try {
      return await WebAssembly.compileStreaming(fetch(source))
    } catch { // a server that does not know the type application/wasm
    }
  }
  let bytes = await bytesOf(source, 'wasm must be a URL, a path, bytes or a WebAssembly.Module')
  if (shared) {
    bytes = bytes.slice()
    setShared(bytes, true)
  }
  return WebAssembly.compile(bytes)
}
async function compiled(source, shared) {
  const url = String(source), key = `${shared} ${url}`
  if (!modules.has(key)) modules.set(key, compile(url, shared))
  try {
    return await modules.get(key)
  } catch (error) {
    modules.delete(key)
    throw error
  }
}
// The places of the module, the best first; `folder`: for pages whose bundler does not copy the files beside this one.
function placesOf(folder) {
  const inFolder = name => () => (/\/$/.test(folder) ? folder : `${folder}/`) + name
  const all = [[relaxedUrl, plainUrl], folder === undefined ? [] : [inFolder('inlay-relaxed.wasm'), inFolder('inlay.wasm')]]
  return all.flatMap(pair => (relaxedUrl === null ? pair.slice(1) : pair))
}
let skipped = 0 // the places without a module before the one where the last session found it
async function moduleOf({ wasm, wasmFolder }, shared) {
  if (wasm instanceof WebAssembly.Module) return wasm
  if (typeof wasm === 'string' || wasm instanceof URL) return compiled(wasm, shared)
  if (wasm !== undefined) return compile(wasm, shared)
  const places = placesOf(wasmFolder)
  let failed
  for (let i = Math.min(skipped, places.length - 1); i < places.length; i++) {
    try {
      const module = await compiled(places[i](), shared)
      skipped = i
      return module
    } catch (error) {
      failed = error
    }
  }
  throw new Error(`inlay.wasm cannot be loaded: ${failed.message}; put it beside the script, or name its folder in wasmFolder`,
    { cause: failed })
}

// An instance of the module: one session with a separate memory.
class Instance {
  #exports
  #memory
  #dims // address of the sizes of a tensor
  #stopped = null

  constructor(module, memory, files) {
    const imports = { env: { memory }, wasi_snapshot_preview1: wasiOf(hostOf(files), () => memory) }
    this.#memory = memory
    this.#exports = new WebAssembly.Instance(module, imports).exports
    this.#exports._initialize()
    this.#dims = this.#allocate(64 * 8)
  }

  // Calls a function of the module. If it stops, the memory is in an unknown state, and no other call is possible.
  #call(name, ...values) {
    if (this.#stopped !== null)
      throw Object.assign(new Error(`the session stopped in an earlier call: ${this.#stopped}`), { code: 'internal error' })
    try {
      return this.#exports[name](...values) >>> 0
    } catch (error) {
      this.#stopped = error.message
      throw Object.assign(new Error(`the session stopped: ${error.message}`, { cause: error }), { code: 'internal error' })
    }
  }
  #check(status) {
    if (status === 0) return
    throw Object.assign(new Error(this.#text(this.#call('error'))), { code: this.#text(this.#call('status_text', status)) })
  }
  #bytes(at, count) { return new Uint8Array(this.#memory.buffer, at, count) }
  #text(at, count) {
    const all = new Uint8Array(this.#memory.buffer)
    return new TextDecoder().decode(all.slice(at, count === undefined ? all.indexOf(0, at) : at + count))
  }
  #allocate(count) {
    const at = this.#call('allocate', count)
    if (at === 0) throw Object.assign(new RangeError(`no memory for ${count} bytes`), { code: 'out of memory' })
    return at
  }
  // Calls use(address of the text).
  #withText(text, use) {
    const encoded = new TextEncoder().encode(`${text}\0`), at = this.#allocate(encoded.length)
    this.#bytes(at, encoded.length).set(encoded)
    try {
      return use(at)
    } finally {
      this.#call('release', at)
    }
  }

  // Starts the workers of `team`, whose number with this thread is `threads`.
  async startThreads(module, team, threads) {
    const tops = Array.from({ length: threads - 1 }, () => this.#call('thread_memory'))
    if (tops.includes(0)) throw Object.assign(new RangeError(`no memory for ${threads} threads`), { code: 'out of memory' })
    await team.start(module, this.#memory, tops)
    this.#call('threads', threads, mayWait(this.#memory) ? 1 : 0)
  }
  set(name, value) {
    this.#check(this.#withText(name, key => this.#withText(value, text => this.#call('set', key, text))))
  }
  async create({ size, copyTo }) {
    const at = this.#allocate(size)
    await copyTo(this.#bytes(at, size))
    this.#check(this.#call('create', at, size))
  }
  describe() {
    const at = this.#call('describe')
    if (at === 0) throw Object.assign(new RangeError('no memory for a session'), { code: 'out of memory' })
    try {
      return JSON.parse(this.#text(at))
    } finally {
      this.#call('release', at)
    }
  }

  feed([index, type, data, dims]) {
    if (dims.length > 64) throw invalid(RangeError, `a tensor of rank ${dims.length}; the limit is 64`)
    new BigInt64Array(this.#memory.buffer, this.#dims, dims.length).set(dims.map(BigInt))
    if (type === STRING) {
      this.#feedTexts(index, data, dims)
      return
    }
    this.#check(this.#call('input', index, type, dims.length, this.#dims, data.byteLength))
    this.#bytes(this.#call('input_data', index), data.byteLength).set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength))
  }
  #feedTexts(index, texts, dims) {
    const encoder = new TextEncoder(), list = texts.map(text => encoder.encode(text))
    let at = TEXT_BYTES * list.length
    const memory = this.#allocate(list.reduce((sum, text) => sum + text.length, at))
    try {
      list.forEach((text, i) => {
        const element = new DataView(this.#memory.buffer, memory + TEXT_BYTES * i)
        element.setUint32(0, memory + at, true)
        element.setBigUint64(8, BigInt(text.length), true)
        this.#bytes(memory + at, text.length).set(text)
        at += text.length
      })
      this.#check(this.#call('input_strings', index, dims.length, this.#dims, memory, list.length))
    } finally {
      this.#call('release', memory)
    }
  }
  unfeed(index) { this.#check(this.#call('input_none', index)) }
  run() { this.#check(this.#call('run')) }

  // [number of the type, data, dims]
  result(index) {
    const at = this.#call('output', index), memory = this.#memory.buffer
    const [number, rank, dimsAt, dataAt, count, size] = new Uint32Array(memory, at, 6)
    const dims = Array.from(new BigInt64Array(memory, dimsAt, rank), Number)
    if (number === STRING) {
      const texts = Array.from({ length: count }, (_, i) => {
        const element = new DataView(memory, dataAt + TEXT_BYTES * i)
        return this.#text(element.getUint32(0, true), Number(element.getBigUint64(8, true)))
      })
      return [number, texts, dims]
    }
    const { buffer } = new Uint8Array(memory, dataAt, size).slice(), kind = BY_NUMBER.get(number)
    return [number, kind ? new kind.array(buffer) : buffer, dims]
  }
}

export class InferenceSession {
  #instance
  #team
  #inputs
  #fed = new Set() // the inputs that the last run bound

  constructor(instance, team) {
    const description = instance.describe()
    this.#instance = instance
    this.#team = team
    team.endWith(this)
    this.#inputs = description.inputs
    const required = requiredOf(description.inputs)
    this.inputNames = required.map(input => input.name)
    this.overridableInitializerNames = overridableOf(description.inputs)
    this.outputNames = description.outputs.map(output => output.name)
    this.inputMetadata = required.map(metadata)
    this.outputMetadata = description.outputs.map(metadata)
    this.metadata = description.metadata
  }

  // Arguments: (source, options?) or (ArrayBuffer, offset, length?, options?)
  static async create(source, ...rest) {
    let options = rest.at(-1)
    if (typeof options !== 'object' || options === null) options = {}
    const settings = settingsOf(options, ['externalData', 'wasm', 'wasmFolder'], ['wasm', 'cpu']), files = new Map()
    if (isBuffer(source) && typeof rest[0] === 'number')
      source = new Uint8Array(source, rest[0], typeof rest[1] === 'number' ? rest[1] : undefined)
    const requested = settings.filter(([name]) => name === 'intra_threads').at(-1)?.[1]
    const threads = options.wasm instanceof WebAssembly.Module ? 1 : await threadsFor(Number(requested ?? 0))
    const model = modelOf(source) // is read while the module is compiled
    model.catch(() => {}) // open() reports it
    for (const { path, data } of options.externalData ?? [])
      files.set(String(path).replace(/^(\.?\/)+/, ''), await bytesOf(data, `externalData: ${path} must be ${MODEL.slice(16)}`))
    if (files.size > 0) settings.unshift(['external_dir', '/'])
    const open = async count => {
      const team = await Team.of(count - 1)
      try {
        const module = await moduleOf(options, count > 1), instance = new Instance(module, memoryOf(count > 1), files)
        for (const [name, value] of settings) instance.set(name, value)
        if (count > 1) await instance.startThreads(module, team, count)
        instance.set('intra_threads', count)
        await instance.create(await model)
        return new InferenceSession(instance, team)
      } catch (error) {
        team.stop()
        throw error
      }
    }
    try {
      return await open(threads)
    } catch (error) {
      if (!(error instanceof NoThreads)) throw error
      console.warn(`inlay: ${error.message}; the session has one thread`)
      return open(1)
    }
  }

  // fetches: names, or an object whose values may be tensors that receive the outputs; by default all outputs.
  async run(feeds, fetches, options) {
    if (this.#instance === null) throw invalid(Error, 'the session has been disposed of')
    const request = requestOf(this.#inputs, this.outputNames, feeds, fetches, options)
    const fed = new Set(request.list.map(([index]) => index))
    request.options?.signal?.throwIfAborted()
    for (const index of this.#fed) if (!fed.has(index)) this.#instance.unfeed(index)
    this.#fed = fed
    for (const input of request.list) this.#instance.feed(input)
    this.#instance.run()
    return resultsOf(request, request.wanted.map(index => this.#instance.result(index)))
  }

  // Releases the memory; without it, the garbage collector does when the session is not reachable.
  dispose() {
    this.#instance = null
    this.#team.stop()
  }
  async release() { this.dispose() }
  startProfiling() {}
  endProfiling() {}
}

export const version = '0.1.0'
// The threads of a session whose options do not state them.
export const defaultThreads = () => threadsFor(0)
export { InferenceSession as InlaySession, Tensor }
