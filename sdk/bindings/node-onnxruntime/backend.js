// The backend of onnxruntime-common: sessions of the package inlay.
'use strict';
const { Tensor } = require('onnxruntime-common');
const inlay = require('inlay');

const WORDS = { graphOptimizationLevel: ['disabled', 'basic', 'extended', 'layout', 'all'], executionMode: ['sequential', 'parallel'] };

function checkNumber(name, value, most) {
  if (typeof value !== 'number') throw new TypeError(`'${name}' must be a number`);
  if (!Number.isInteger(value) || value < 0 || value > most)
    throw new RangeError(`'${name}' must be an integer from 0 to ${most}, got: ${value}`);
}

// The checks that onnxruntime-node makes and the package inlay does not.
function check(options) {
  for (const name of ['intraOpNumThreads', 'interOpNumThreads'])
    if (options[name] !== undefined) checkNumber(name, options[name], 0x7fffffff);
  for (const name of ['enableCpuMemArena', 'enableMemPattern'])
    if (options[name] !== undefined && typeof options[name] !== 'boolean') throw new TypeError(`'${name}' must be a boolean`);
  for (const [name, words] of Object.entries(WORDS))
    if (options[name] !== undefined && !words.includes(options[name]))
      throw new TypeError(`'${name}' must be one of ${words.join(', ')}, got: ${options[name]}`);
}

function metadata(info) {
  if (!info.isTensor) return { name: info.name, isTensor: false };
  return { name: info.name, isTensor: true, type: info.type, shape: info.shape };
}

class Handler {
  #session;

  constructor(session) {
    this.#session = session;
    this.inputNames = session.inputNames;
    this.outputNames = session.outputNames;
    this.inputMetadata = session.inputMetadata.map(metadata);
    this.outputMetadata = session.outputMetadata.map(metadata);
  }

  // fetches: tensors by output name; those that are not null receive the output.
  async run(feeds, fetches, options) {
    if (options && options.logSeverityLevel !== undefined) checkNumber('logSeverityLevel', options.logSeverityLevel, 4);
    // onnxruntime-node ignores feeds that are not inputs.
    const known = [...this.#session.inputNames, ...this.#session.overridableInitializerNames];
    const used = Object.fromEntries(known.filter((name) => name in feeds).map((name) => [name, feeds[name]]));
    // Programs transfer results to other threads, which Node permits only for memory of JavaScript: hence the copies.
    const results = await this.#session.run(used, fetches, options);
    return Object.fromEntries(Object.entries(results).map(([name, value]) =>
      [name, value instanceof Tensor ? value : new Tensor(value.type, value.data.slice(), value.dims)]));
  }

  startProfiling() {}
  endProfiling() { this.#session.endProfiling(); }
  async dispose() { await this.#session.release(); }
}

async function createHandler(model, options) {
  check(options || {});
  if (typeof model !== 'string' && model.byteLength === 0) throw new Error('Model data pointer is null.');
  try {
    return new Handler(await inlay.InferenceSession.create(model, options || {}));
  } catch (error) {
    if (typeof model === 'string') error.message = `Load model from ${model} failed:${error.message}`;
    throw error;
  }
}

// What onnxruntime-common before 1.17 calls. Later versions remove the names of providers that are not registered.
function createSessionHandler(model, options) {
  const providers = (options.executionProviders || []).filter((one) => (one.name || one) === 'cpu');
  return createHandler(model, { ...options, executionProviders: providers });
}

exports.backend = { async init() {}, createInferenceSessionHandler: createHandler, createSessionHandler };
exports.version = inlay.version;
