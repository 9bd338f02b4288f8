// Tensors, options, and the arguments and results of runs: the part that the packages inlay (for Node) and inlay-web share.
// The build makes an ES module of it for inlay-web by replacing the last statement.
'use strict';

// Element types: the name in JavaScript, the number in ONNX, the typed array.
const TYPES = [
  ['float32', 1, Float32Array], ['uint8', 2, Uint8Array], ['int8', 3, Int8Array], ['uint16', 4, Uint16Array],
  ['int16', 5, Int16Array], ['int32', 6, Int32Array], ['int64', 7, BigInt64Array], ['string', 8, Array],
  ['bool', 9, Uint8Array], ['float16', 10, Uint16Array], ['float64', 11, Float64Array], ['uint32', 12, Uint32Array],
  ['uint64', 13, BigUint64Array], ['bfloat16', 16, Uint16Array], ['uint4', 21, Uint8Array], ['int4', 22, Uint8Array],
];
const BY_NAME = new Map(TYPES.map(([name, number, array]) => [name, { name, number, array }]));
// The same objects: feedOf() compares them.
const BY_NUMBER = new Map([...BY_NAME.values()].map((type) => [type.number, type]));
// The element type of a typed array, for tensors created without a type.
const BY_ARRAY = new Map(TYPES.filter(([name]) => !['bool', 'float16', 'bfloat16', 'uint4', 'int4', 'string'].includes(name))
  .map(([name, , array]) => [array, name]));
const PACKED = new Set(['uint4', 'int4']);

// An error of an argument, with the code of those that the runtime finds.
const invalid = (Kind, text) => Object.assign(new Kind(text), { code: 'invalid argument' });

function elementsOf(dims) {
  if (!Array.isArray(dims) && !ArrayBuffer.isView(dims)) throw invalid(TypeError, 'dims must be an array of numbers');
  return Array.from(dims).reduce((count, size, i) => {
    if (!Number.isSafeInteger(size)) throw invalid(TypeError, `dims[${i}] must be an integer, got: ${size}`);
    if (size < 0) throw invalid(RangeError, `dims[${i}] must be a non-negative integer, got: ${size}`);
    return count * size;
  }, 1);
}

function dataOf(type, data) {
  const known = BY_NAME.get(type);
  if (!known) throw invalid(TypeError, `unsupported tensor type: ${type}`);
  if (type === 'string') {
    if (!Array.isArray(data)) throw invalid(TypeError, "a string tensor's data must be an array of strings");
    return data;
  }
  if (data instanceof known.array) return data;
  if (ArrayBuffer.isView(data)) { // a view of the same memory with another type, such as Float16Array
    if (data.BYTES_PER_ELEMENT === known.array.BYTES_PER_ELEMENT && type !== 'float32' && type !== 'int32')
      return new known.array(data.buffer, data.byteOffset, data.length);
    throw invalid(TypeError, `a ${type} tensor's data must be of type ${known.array.name}, not ${data.constructor.name}`);
  }
  if (!Array.isArray(data)) throw invalid(TypeError, `a ${type} tensor's data must be an array or ${known.array.name}`);
  if (type === 'int64' || type === 'uint64') return known.array.from(data, BigInt);
  if (type === 'bool') return known.array.from(data, (x) => (x ? 1 : 0));
  return known.array.from(data);
}

function typeOf(data) {
  if (Array.isArray(data)) {
    if (data.length === 0) throw invalid(TypeError, 'tensor type cannot be inferred from an empty array');
    if (typeof data[0] === 'string') return 'string';
    if (typeof data[0] === 'boolean') return 'bool';
    throw invalid(TypeError, `invalid element type of data array: ${typeof data[0]}`);
  }
  const name = data && BY_ARRAY.get(data.constructor);
  if (!name) throw invalid(TypeError, 'unsupported type for tensor data: ' + (data && data.constructor && data.constructor.name));
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
      throw invalid(Error, `Tensor's size(${this.size}) does not match data length(${this.data.length}).`);
  }
  async getData() { return this.data; }
  reshape(dims) { return new Tensor(this.type, this.data, dims); }
  dispose() {}
}

// Options of onnxruntime-common that have a counterpart, then those of inlay: { inlay: { precision: 'strict' } }.
const LEVELS = { disabled: '0', basic: '1', extended: '2', layout: '3', all: '99' };
// Those without a counterpart that change nothing that a program gets, and those that would.
const WITHOUT_EFFECT = ['interOpNumThreads', 'enableCpuMemArena', 'enableMemPattern', 'executionMode', 'logId',
  'logSeverityLevel', 'logVerbosityLevel', 'preferredOutputLocation', 'enableGraphCapture', 'profileFilePrefix', 'extra'];
const UNSUPPORTED = ['enableProfiling', 'optimizedModelFilePath']; // unless the package has them
const WITH_EFFECT = ['executionProviders', 'freeDimensionOverrides', 'graphOptimizationLevel', 'inlay', 'intraOpNumThreads'];

// more: options that only this package has; providers: the names that stand for all of inlay's providers.
function settingsOf(options = {}, more = [], providers = ['cpu']) {
  const out = [], known = [...WITH_EFFECT, ...more, ...WITHOUT_EFFECT];
  for (const [name, value] of Object.entries(options)) {
    if (UNSUPPORTED.includes(name) && !more.includes(name) && value !== undefined && value !== false && value !== '')
      throw invalid(TypeError, `session option '${name}' is not supported`);
    if (!known.includes(name) && !UNSUPPORTED.includes(name) && value !== undefined)
      throw invalid(TypeError, `unknown session option '${name}'; there are: ` +
        known.slice(0, WITH_EFFECT.length + more.length).join(', '));
  }
  const chosen = options.executionProviders ?? [];
  const wanted = Array.isArray(chosen) ? chosen.map((one) => (typeof one === 'string' ? one : one?.name)) : [undefined];
  if (!wanted.every((name) => typeof name === 'string'))
    throw invalid(TypeError, `executionProviders must be a list of names, such as ['${providers[0]}'], not ${JSON.stringify(chosen)}`);
  for (const name of wanted)
    if (!providers.includes(name))
      throw invalid(TypeError, `executionProviders: '${name}' is not one of ${providers.join(', ')}, which stands for all of ` +
        "inlay's providers; { inlay: { providers: 'NAME' } } chooses among these");
  if (options.intraOpNumThreads > 0) out.push(['intra_threads', String(options.intraOpNumThreads)]);
  if (options.graphOptimizationLevel !== undefined) {
    if (!(options.graphOptimizationLevel in LEVELS))
      throw invalid(TypeError, `graphOptimizationLevel must be one of ${Object.keys(LEVELS).join(', ')}`);
    out.push(['level', LEVELS[options.graphOptimizationLevel]]);
  }
  for (const [name, size] of Object.entries(options.freeDimensionOverrides || {})) out.push(['dim', `${name}?=${size}`]);
  for (const [name, value] of Object.entries(options.inlay || {}))
    for (const one of Array.isArray(value) ? value : [value]) out.push([name, typeof one === 'boolean' ? (one ? '1' : '0') : String(one)]);
  return out;
}

// The inputs that a program has to feed. An input with a default value (ONNX Runtime's overridable initializer) may be fed,
// too, but is not in the lists of inputs, as in ONNX Runtime.
function requiredOf(inputs) {
  return inputs.filter((input) => !(input.optional && BY_NUMBER.has(input.kind)));
}
function overridableOf(inputs) {
  return inputs.filter((input) => input.optional && BY_NUMBER.has(input.kind)).map((input) => input.name);
}

function metadata(info) {
  const type = BY_NUMBER.get(info.kind);
  return { name: info.name, isTensor: type !== undefined, type: type && type.name, shape: info.shape };
}

// The arguments of run() for a session with these inputs and output names. Returns the inputs as [index, number of the type,
// data, dims], the names and the indices of the outputs, the tensors that receive them, and the options.
// fetches: names, or an object whose values may be tensors that receive the outputs; by default all outputs.
function requestOf(inputs, outputNames, feeds, fetches, options) {
  if (typeof feeds !== 'object' || feeds === null) throw invalid(TypeError, "'feeds' must be an object of tensors by input name");
  let names = outputNames, given = {};
  if (Array.isArray(fetches)) {
    names = fetches;
  } else if (fetches && typeof fetches === 'object') {
    const keys = Object.keys(fetches);
    if (keys.length > 0 && keys.every((k) => outputNames.includes(k))) {
      names = keys;
      given = fetches;
    } else if (options === undefined) {
      options = fetches;
    }
  }
  const wanted = names.map((name) => {
    const index = outputNames.indexOf(name);
    if (index < 0) throw invalid(Error, `the model has no output '${name}'; there are: ${outputNames.join(', ')}`);
    return index;
  });
  for (const input of inputs)
    if (!(input.name in feeds) && !input.optional)
      throw invalid(Error, `input '${input.name}' is missing in 'feeds', which has: ${Object.keys(feeds).join(', ')}`);
  const list = Object.entries(feeds).filter(([, tensor]) => tensor !== undefined && tensor !== null)
    .map(([name, tensor]) => feedOf(inputs, name, tensor));
  return { list, names, wanted, given, options };
}

// Types whose elements are converted to each other: to floats they are rounded, and must stay finite; to integers they
// must be exact.
const CONVERTED = new Set(['float32', 'float64', 'int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64', 'uint64', 'bool']);

function isSame(value, made) {
  if (typeof value === typeof made) return value === made || (value !== value && made !== made);
  const [whole, number] = typeof value === 'bigint' ? [value, made] : [made, value];
  return Number.isInteger(number) && BigInt(number) === whole;
}

function converted(name, from, data, to) {
  const out = new to.array(data.length), big = out instanceof BigInt64Array || out instanceof BigUint64Array;
  const isFloat = to.name === 'float32' || to.name === 'float64';
  for (let i = 0; i < data.length; i++) {
    const value = data[i];
    if (typeof value === 'bigint' || !big) out[i] = big ? value : Number(value);
    else if (Number.isInteger(value)) out[i] = BigInt(value);
    const good = isFloat ? Number.isFinite(out[i]) || !Number.isFinite(Number(value)) : isSame(value, out[i]);
    if (!good || (to.name === 'bool' && out[i] > 1))
      throw invalid(TypeError, `input '${name}' is ${to.name}, in which element ${i} of the ${from.name} tensor, ${value}, is ` +
        `${isFloat ? 'too large' : 'not exact'}; ` +
        `convert it: new Tensor('${to.name}', ${to.array.name}.from(data), dims)`);
  }
  return out;
}

// Operators compute with the bytes of bool tensors, and expect 0 or 1. As in files, every other byte is true.
function truths(data) {
  for (let i = 0; i < data.length; i++) if (data[i] > 1) return data.map((byte) => (byte ? 1 : 0));
  return data;
}

function feedOf(inputs, name, tensor) {
  const index = inputs.findIndex((input) => input.name === name);
  if (index < 0)
    throw invalid(Error, `the model has no input '${name}'; there are: ${inputs.map((input) => input.name).join(', ')}`);
  const type = tensor && BY_NAME.get(tensor.type);
  if (!type) throw invalid(TypeError, `input '${name}' is not a tensor`);
  // onnxruntime-node accepts the shape [1] for a scalar input.
  const dims = inputs[index].scalar && tensor.size === 1 ? [] : Array.from(tensor.dims);
  const data = dataOf(tensor.type, tensor.data), wanted = BY_NUMBER.get(inputs[index].kind);
  if (!wanted || !CONVERTED.has(wanted.name) || !CONVERTED.has(type.name)) return [index, type.number, data, dims];
  if (wanted !== type) return [index, wanted.number, converted(name, type, data, wanted), dims];
  return [index, type.number, type.name === 'bool' ? truths(data) : data, dims];
}

// The results of a request as tensors by name; results: [number of the type, data, dims].
function resultsOf({ names, given }, results) {
  const out = {};
  results.forEach(([number, data, dims], i) => {
    const type = BY_NUMBER.get(number);
    if (!type)
      throw Object.assign(new Error(`output '${names[i]}' has an element type without a name in JavaScript: ${number}`),
        { code: 'unsupported' });
    const to = given[names[i]];
    if (to) {
      if (to.type !== type.name || to.data.length !== data.length || String(to.dims) !== String(dims))
        throw invalid(Error, `output '${names[i]}' is ${type.name}[${dims}]; the tensor given for it is ${to.type}[${to.dims}]`);
      if (Array.isArray(to.data)) data.forEach((text, k) => { to.data[k] = text; });
      else to.data.set(data);
      out[names[i]] = to;
    } else {
      out[names[i]] = new Tensor(type.name, data, dims);
    }
  });
  return out;
}

module.exports = { BY_NUMBER, Tensor, invalid, metadata, overridableOf, requestOf, requiredOf, resultsOf, settingsOf };
