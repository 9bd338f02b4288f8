// inlay for Node, with the interface of onnxruntime-common: InferenceSession and Tensor.
'use strict';
const path = require('path');

// The native part: the file given by INLAY_NODE_ADDON, or inlay.node next to this file.
const native = require(path.resolve(process.env.INLAY_NODE_ADDON || path.join(__dirname, 'inlay.node')));
const { Tensor, metadata, overridableOf, requestOf, requiredOf, resultsOf, settingsOf } = require('./common.js');

// INLAY_PRIORITY_*, INLAY_POWER_*, INLAY_CONTROL_*.
const PRIORITIES = { normal: 0, low: 1, high: 2 };
const POWERS = { default: 0, efficiency: 1, performance: 2 };
const CONTROL = { setOption: 1, trim: 2, suspend: 3, resume: 4 };

class InferenceSession {
  #native;
  #inputs;
  #outputs;

  constructor(handle) {
    const description = native.describe(handle);
    this.#native = handle;
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
    if (model instanceof ArrayBuffer || (typeof SharedArrayBuffer !== 'undefined' && model instanceof SharedArrayBuffer)) {
      const [offset, length] = rest;
      model = typeof offset === 'number'
        ? new Uint8Array(model, offset, typeof length === 'number' ? length : undefined) : new Uint8Array(model);
    }
    return new InferenceSession(await native.createSession(model, settingsOf(options)));
  }

  // fetches: names, or an object whose values may be tensors that receive the outputs; by default all outputs.
  async run(feeds, fetches, runOptions) {
    const request = requestOf(this.#inputs, this.outputNames, feeds, fetches, runOptions), { options } = request;
    const threads = options && options.maxThreads !== undefined ? options.maxThreads : 0;
    if (!Number.isInteger(threads) || threads < 0 || threads > 0xffffffff) throw new TypeError("'maxThreads' must be a number of threads");
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
