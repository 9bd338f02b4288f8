// inlay for Node, with the interface of onnxruntime-common: InferenceSession and Tensor.
'use strict';
const path = require('path');

// The native part: the file given by INLAY_NODE_ADDON, or inlay.node next to this file.
const native = require(process.env.INLAY_NODE_ADDON || path.join(__dirname, 'inlay.node'));

// Element types: the name in JavaScript, the number in ONNX, the typed array.
const TYPES = [
  ['float32', 1, Float32Array], ['uint8', 2, Uint8Array], ['int8', 3, Int8Array], ['uint16', 4, Uint16Array],
  ['int16', 5, Int16Array], ['int32', 6, Int32Array], ['int64', 7, BigInt64Array], ['string', 8, Array],
  ['bool', 9, Uint8Array], ['float16', 10, Uint16Array], ['float64', 11, Float64Array], ['uint32', 12, Uint32Array],
  ['uint64', 13, BigUint64Array], ['bfloat16', 16, Uint16Array], ['uint4', 21, Uint8Array], ['int4', 22, Uint8Array],
];
const BY_NAME = new Map(TYPES.map(([name, number, array]) => [name, { name, number, array }]));
const BY_NUMBER = new Map(TYPES.map(([name, number, array]) => [number, { name, number, array }]));
// The element type of a typed array, for tensors created without a type.
const BY_ARRAY = new Map(TYPES.filter(([name]) => !['bool', 'float16', 'bfloat16', 'uint4', 'int4', 'string'].includes(name))
  .map(([name, , array]) => [array, name]));
// INLAY_PRIORITY_*, INLAY_POWER_*, INLAY_CONTROL_*.
const PRIORITIES = { normal: 0, low: 1, high: 2 };
const POWERS = { default: 0, efficiency: 1, performance: 2 };
const CONTROL = { setOption: 1, trim: 2, suspend: 3, resume: 4 };
const PACKED = new Set(['uint4', 'int4']);

function elementsOf(dims) {
  if (!Array.isArray(dims) && !ArrayBuffer.isView(dims)) throw new TypeError('dims must be an array of numbers');
  return Array.from(dims).reduce((count, size, i) => {
    if (!Number.isSafeInteger(size)) throw new TypeError(`dims[${i}] must be an integer, got: ${size}`);
    if (size < 0) throw new RangeError(`dims[${i}] must be a non-negative integer, got: ${size}`);
    return count * size;
  }, 1);
}

function dataOf(type, data) {
  const known = BY_NAME.get(type);
  if (!known) throw new TypeError(`unsupported tensor type: ${type}`);
  if (type === 'string') {
    if (!Array.isArray(data)) throw new TypeError("a string tensor's data must be an array of strings");
    return data;
  }
  if (data instanceof known.array) return data;
  if (ArrayBuffer.isView(data)) { // a view of the same memory with another type, such as Float16Array
    if (data.BYTES_PER_ELEMENT === known.array.BYTES_PER_ELEMENT && type !== 'float32' && type !== 'int32')
      return new known.array(data.buffer, data.byteOffset, data.length);
    throw new TypeError(`a ${type} tensor's data must be of type ${known.array.name}, not ${data.constructor.name}`);
  }
  if (!Array.isArray(data)) throw new TypeError(`a ${type} tensor's data must be an array or ${known.array.name}`);
  if (type === 'int64' || type === 'uint64') return known.array.from(data, BigInt);
  if (type === 'bool') return known.array.from(data, (x) => (x ? 1 : 0));
  return known.array.from(data);
}

function typeOf(data) {
  if (Array.isArray(data)) {
    if (data.length === 0) throw new TypeError('tensor type cannot be inferred from an empty array');
    if (typeof data[0] === 'string') return 'string';
    if (typeof data[0] === 'boolean') return 'bool';
    throw new TypeError(`invalid element type of data array: ${typeof data[0]}`);
  }
  const name = data && BY_ARRAY.get(data.constructor);
  if (!name) throw new TypeError('unsupported type for tensor data: ' + (data && data.constructor && data.constructor.name));
  return name;
}

class Tensor {
  // Arguments: (type, data, dims?) or (data, dims?)
  constructor(first, second, third) {
    const typed = typeof first === 'string';
    this.type = typed ? first : typeOf(first);
    this.data = dataOf(this.type, typed ? second : first);
    const dims = typed ? third : second;
    this.dims = dims === undefined ? [this.data.length] : Array.from(dims);
    this.size = elementsOf(this.dims);
    this.location = 'cpu';
    const held = PACKED.has(this.type) ? Math.ceil(this.size / 2) : this.size;
    if (held !== this.data.length)
      throw new Error(`Tensor's size(${this.size}) does not match data length(${this.data.length}).`);
  }
  async getData() { return this.data; }
  reshape(dims) { return new Tensor(this.type, this.data, dims); }
  dispose() {}
}

// Options of onnxruntime-common that have a counterpart, then those of inlay: { inlay: { precision: 'strict' } }.
const LEVELS = { disabled: '0', basic: '1', extended: '2', layout: '3', all: '99' };
function settingsOf(options = {}) {
  const out = [];
  if (options.intraOpNumThreads > 0) out.push(['intra_threads', String(options.intraOpNumThreads)]);
  if (options.graphOptimizationLevel !== undefined) {
    if (!(options.graphOptimizationLevel in LEVELS))
      throw new TypeError(`graphOptimizationLevel must be one of ${Object.keys(LEVELS).join(', ')}`);
    out.push(['level', LEVELS[options.graphOptimizationLevel]]);
  }
  for (const [name, size] of Object.entries(options.freeDimensionOverrides || {})) out.push(['dim', `${name}?=${size}`]);
  for (const [name, value] of Object.entries(options.inlay || {}))
    for (const one of Array.isArray(value) ? value : [value]) out.push([name, typeof one === 'boolean' ? (one ? '1' : '0') : String(one)]);
  return out;
}

function metadata(info) {
  const type = BY_NUMBER.get(info.kind);
  return { name: info.name, isTensor: type !== undefined, type: type && type.name, shape: info.shape };
}

class InferenceSession {
  #native;
  #inputs;
  #outputs;

  constructor(handle) {
    const description = native.describe(handle);
    this.#native = handle;
    this.#inputs = description.inputs;
    this.#outputs = description.outputs;
    this.inputNames = description.inputs.map((input) => input.name);
    this.outputNames = description.outputs.map((output) => output.name);
    this.inputMetadata = description.inputs.map(metadata);
    this.outputMetadata = description.outputs.map(metadata);
  }

  // Arguments: (path | ArrayBuffer | Uint8Array, options?) or (ArrayBuffer, offset, length?, options?)
  static async create(model, ...rest) {
    let options = rest[rest.length - 1];
    if (typeof options !== 'object' || options === null) options = {};
    if (model instanceof ArrayBuffer || (typeof SharedArrayBuffer !== 'undefined' && model instanceof SharedArrayBuffer)) {
      const [offset, length] = rest;
      model = typeof offset === 'number'
        ? new Uint8Array(model, offset, typeof length === 'number' ? length : undefined) : new Uint8Array(model);
    }
    return new InferenceSession(await native.createSession(model, settingsOf(options)));
  }

  #feed(name, tensor) {
    const index = this.inputNames.indexOf(name);
    if (index < 0) throw new Error(`the model has no input '${name}'; there are: ${this.inputNames.join(', ')}`);
    const type = tensor && BY_NAME.get(tensor.type);
    if (!type) throw new TypeError(`input '${name}' is not a tensor`);
    // onnxruntime-node accepts the shape [1] for a scalar input.
    const dims = this.#inputs[index].scalar && tensor.size === 1 ? [] : Array.from(tensor.dims);
    return [index, type.number, dataOf(tensor.type, tensor.data), dims];
  }

  // fetches: names, or an object whose values may be tensors that receive the outputs; by default all outputs.
  async run(feeds, fetches, options) {
    if (typeof feeds !== 'object' || feeds === null) throw new TypeError("'feeds' must be an object of tensors by input name");
    let names = this.outputNames, given = {};
    if (Array.isArray(fetches)) {
      names = fetches;
    } else if (fetches && typeof fetches === 'object') {
      const keys = Object.keys(fetches);
      if (keys.length > 0 && keys.every((k) => this.outputNames.includes(k))) {
        names = keys;
        given = fetches;
      } else if (options === undefined) {
        options = fetches;
      }
    }
    const wanted = names.map((name) => {
      const index = this.outputNames.indexOf(name);
      if (index < 0) throw new Error(`the model has no output '${name}'; there are: ${this.outputNames.join(', ')}`);
      return index;
    });
    for (const input of this.#inputs)
      if (!(input.name in feeds) && !input.optional) throw new Error(`input '${input.name}' is missing in 'feeds'.`);
    const list = Object.entries(feeds).filter(([, tensor]) => tensor !== undefined && tensor !== null)
      .map(([name, tensor]) => this.#feed(name, tensor));
    const threads = options && options.maxThreads !== undefined ? options.maxThreads : 0;
    if (!Number.isInteger(threads) || threads < 0 || threads > 0xffffffff) throw new TypeError("'maxThreads' must be a number of threads");
    const how = [threads, choice(PRIORITIES, 'priority', options), choice(POWERS, 'power', options)];
    const cancel = options && options.signal ? watch(options.signal) : undefined;
    let results;
    try {
      results = await native.run(this.#native, list, wanted, cancel && cancel.word, how);
    } finally {
      if (cancel) cancel.stop();
    }
    const out = {};
    results.forEach(([number, data, dims], i) => {
      const type = BY_NUMBER.get(number);
      if (!type) throw new Error(`output '${names[i]}' has an element type without a name in JavaScript: ${number}`);
      const to = given[names[i]];
      if (to) {
        if (to.type !== type.name || to.data.length !== data.length || String(to.dims) !== String(dims))
          throw new Error(`output '${names[i]}' is ${type.name}[${dims}]; the tensor given for it is ${to.type}[${to.dims}]`);
        if (Array.isArray(to.data)) data.forEach((text, k) => { to.data[k] = text; });
        else to.data.set(data);
        out[names[i]] = to;
      } else {
        out[names[i]] = new Tensor(type.name, data, dims);
      }
    });
    return out;
  }

  async #control(action, provider, option, value, bytes) {
    return native.control(this.#native, action, provider, option, value === undefined ? undefined : String(value), bytes);
  }
  async setOption(provider, option, value) { await this.#control(CONTROL.setOption, provider, option, value, 0); }
  async trim(provider, unusedBytes = 0) { return this.#control(CONTROL.trim, provider, undefined, undefined, unusedBytes); }
  async suspend(provider) { await this.#control(CONTROL.suspend, provider, undefined, undefined, 0); }
  async resume(provider) { await this.#control(CONTROL.resume, provider, undefined, undefined, 0); }

  async release() { native.release(this.#native); }
  startProfiling() {}
  endProfiling() {}
}

// Returns the number of the word in an option of a run.
function choice(words, name, options) {
  const word = options ? options[name] : undefined;
  if (word === undefined) return 0;
  if (!Object.hasOwn(words, word)) throw new TypeError(`'${name}' must be one of ${Object.keys(words).join(', ')}`);
  return words[word];
}

// Returns a word that the AbortSignal sets and the run polls, and a function that ends the subscription to the signal.
function watch(signal) {
  const word = new Uint32Array(1);
  const stop = () => { word[0] = 1; };
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop);
  return { word, stop: () => signal.removeEventListener('abort', stop) };
}

module.exports = {
  InferenceSession,
  Tensor,
  env: { versions: { node: native.version() }, wasm: {}, webgl: {}, webgpu: {} },
  listSupportedBackends: () => [{ name: 'cpu', bundled: true }],
  version: native.version(),
};
