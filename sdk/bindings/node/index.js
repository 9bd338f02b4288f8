// inlay for Node, with the interface of onnxruntime-common: InferenceSession and Tensor.
'use strict';
const fs = require('fs');
const path = require('path');

// The native part: the file given by INLAY_NODE_ADDON, or inlay.node next to this file.
const native = require(path.resolve(process.env.INLAY_NODE_ADDON || path.join(__dirname, 'inlay.node')));
const { Tensor, invalid, metadata, overridableOf, requestOf, requiredOf, resultsOf, settingsOf } = require('./common.js');

// INLAY_PRIORITY_*, INLAY_POWER_*, INLAY_CONTROL_*.
const PRIORITIES = { normal: 0, low: 1, high: 2 };
const POWERS = { default: 0, efficiency: 1, performance: 2 };
const CONTROL = { setOption: 1, trim: 2, suspend: 3, resume: 4 };

const isBuffer = (value) => value instanceof ArrayBuffer ||
  (typeof SharedArrayBuffer !== 'undefined' && value instanceof SharedArrayBuffer);

// Options of onnxruntime-common that inlay-web has not, or in another form.
const MORE = ['externalData', 'enableProfiling', 'profileFilePrefix', 'optimizedModelFilePath'];

// { files, profiled, optimized } for the native part. externalData: objects of a path, as in the model, and the contents.
function extrasOf({ externalData = [], enableProfiling = false, profileFilePrefix, optimizedModelFilePath }) {
  if (!Array.isArray(externalData)) throw invalid(TypeError, "'externalData' must be an array");
  const files = externalData.map((file, i) => {
    if (typeof file !== 'object' || file === null || typeof file.path !== 'string')
      throw invalid(TypeError, `'externalData[${i}]' must be an object { path, data } whose path is a string`);
    const { data } = file;
    if (ArrayBuffer.isView(data)) return [file.path, new Uint8Array(data.buffer, data.byteOffset, data.byteLength)];
    if (isBuffer(data)) return [file.path, new Uint8Array(data)];
    throw invalid(TypeError, `'externalData[${i}].data' must be an ArrayBuffer or a typed array: the contents of ${file.path}`);
  });
  if (typeof enableProfiling !== 'boolean') throw invalid(TypeError, "'enableProfiling' must be a boolean");
  if (enableProfiling && typeof profileFilePrefix !== 'string')
    throw invalid(TypeError, "'profileFilePrefix' must be a string if 'enableProfiling' is true");
  if (optimizedModelFilePath !== undefined && typeof optimizedModelFilePath !== 'string')
    throw invalid(TypeError, "'optimizedModelFilePath' must be a string");
  if (/\.ort$/.test(optimizedModelFilePath))
    throw invalid(Error, `'optimizedModelFilePath': inlay writes ONNX; use another ending than .ort: ${optimizedModelFilePath}`);
  return { files, profiled: enableProfiling, optimized: optimizedModelFilePath || undefined };
}

// The profile of a session is also written if the program ends before it has ended the profile.
const profiled = new Set();
process.on('exit', () => { for (const session of profiled) session.endProfiling(); });

class InferenceSession {
  #native;
  #inputs;
  #outputs;
  #prefix; // of the name of the profile

  constructor(handle, prefix) {
    const description = native.describe(handle);
    this.#native = handle;
    this.#prefix = prefix;
    if (prefix !== undefined) profiled.add(this);
    this.#inputs = description.inputs;
    this.#outputs = description.outputs;
    const required = requiredOf(description.inputs);
    this.inputNames = required.map((input) => input.name);
    this.overridableInitializerNames = overridableOf(description.inputs);
    this.outputNames = description.outputs.map((output) => output.name);
    this.inputMetadata = required.map(metadata);
    this.outputMetadata = description.outputs.map(metadata);
  }

  // Arguments: (path | ArrayBuffer | Uint8Array, options?) or (ArrayBuffer, offset, length?, options?)
  static async create(model, ...rest) {
    let options = rest[rest.length - 1];
    if (typeof options !== 'object' || options === null) options = {};
    if (isBuffer(model)) {
      const [offset, length] = rest;
      model = typeof offset === 'number'
        ? new Uint8Array(model, offset, typeof length === 'number' ? length : undefined) : new Uint8Array(model);
    }
    const settings = settingsOf(options, MORE), extras = extrasOf(options);
    return new InferenceSession(await native.createSession(model, settings, extras),
      extras.profiled ? options.profileFilePrefix : undefined);
  }

  // fetches: names, or an object whose values may be tensors that receive the outputs; by default all outputs.
  async run(feeds, fetches, runOptions) {
    const request = requestOf(this.#inputs, this.outputNames, feeds, fetches, runOptions), { options } = request;
    const threads = options && options.maxThreads !== undefined ? options.maxThreads : 0;
    if (!Number.isInteger(threads) || threads < 0 || threads > 0xffffffff)
      throw invalid(TypeError, "'maxThreads' must be a number of threads");
    const how = [threads, choice(PRIORITIES, 'priority', options), choice(POWERS, 'power', options)];
    const cancel = options && options.signal ? watch(options.signal) : undefined;
    try {
      return resultsOf(request, await native.run(this.#native, request.list, request.wanted, cancel && cancel.word, how));
    } finally {
      if (cancel) cancel.stop();
    }
  }

  async #control(action, provider, option, value, bytes) {
    return native.control(this.#native, action, provider, option, value === undefined ? undefined : String(value), bytes);
  }
  async setOption(provider, option, value) { await this.#control(CONTROL.setOption, provider, option, value, 0); }
  async trim(provider, unusedBytes = 0) { return this.#control(CONTROL.trim, provider, undefined, undefined, unusedBytes); }
  async suspend(provider) { await this.#control(CONTROL.suspend, provider, undefined, undefined, 0); }
  async resume(provider) { await this.#control(CONTROL.resume, provider, undefined, undefined, 0); }

  async release() {
    this.endProfiling();
    native.release(this.#native);
  }

  // Option enableProfiling starts the profile when the session is created.
  startProfiling() {}
  // Writes the profile to PREFIX_DATE.json, as ONNX Runtime does.
  endProfiling() {
    const text = native.endProfile(this.#native);
    profiled.delete(this);
    if (text !== undefined) fs.writeFileSync(`${this.#prefix}_${timestamp(new Date())}.json`, text);
  }
}

// YYYY-MM-DD_hh-mm-ss, local time.
function timestamp(date) {
  const two = (number) => String(number).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}_` +
    [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join('-');
}

// Returns the number of the word in an option of a run.
function choice(words, name, options) {
  const word = options ? options[name] : undefined;
  if (word === undefined) return 0;
  if (!Object.hasOwn(words, word)) throw invalid(TypeError, `'${name}' must be one of ${Object.keys(words).join(', ')}`);
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
  ...require('./text.js'),
  env: { versions: { node: native.version() }, wasm: {}, webgl: {}, webgpu: {} },
  listSupportedBackends: () => [{ name: 'cpu', bundled: true }],
  version: native.version(),
};
