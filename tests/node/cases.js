// ONNX's node cases with tensors of basic types, for the packages inlay and inlay-web.
'use strict';
const assert = require('assert');
const fs = require('fs');
const path = require('path');

// Cases whose expected outputs contradict their model.
const wrong = new Set(fs.readFileSync(path.join(__dirname, '../conformance/wrong_data.txt'), 'utf8').split('\n')
  .filter((line) => line && !line.startsWith('#')).map((line) => line.split(' ')[0]));

// Reads a TensorProto of a test case with a minimal protobuf reader.
function readTensor(file) {
  const bytes = fs.readFileSync(file);
  const t = { dims: [], type: 0, raw: null, numbers: [], texts: [] };
  let at = 0;
  const varint = () => {
    let value = 0n, shift = 0n, byte;
    do {
      byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      shift += 7n;
    } while (byte & 128);
    return BigInt.asIntN(64, value);
  };
  while (at < bytes.length) {
    const tag = Number(varint()), field = tag >> 3, wire = tag & 7;
    if (wire === 0) {
      const value = varint();
      if (field === 1) t.dims.push(Number(value));
      else if (field === 2) t.type = Number(value);
      else if (field === 5 || field === 7) t.numbers.push(value);
    } else if (wire === 2) {
      const length = Number(varint()), part = bytes.subarray(at, at + length), end = at + length;
      if (field === 9) t.raw = part;
      else if (field === 6) t.texts.push(part.toString('utf8'));
      else if (field === 1) while (at < end) t.dims.push(Number(varint()));
      else if (field === 5 || field === 7) while (at < end) t.numbers.push(varint());
      else if (field === 4) for (let i = 0; i < length; i += 4) t.numbers.push(part.readFloatLE(i));
      at = end;
    } else if (wire === 5) {
      if (field === 4) t.numbers.push(bytes.readFloatLE(at));
      at += 4;
    } else {
      at += 8;
    }
  }
  return t;
}

const KINDS = { 1: ['float32', Float32Array], 2: ['uint8', Uint8Array], 3: ['int8', Int8Array], 4: ['uint16', Uint16Array],
  5: ['int16', Int16Array], 6: ['int32', Int32Array], 7: ['int64', BigInt64Array], 8: ['string'], 9: ['bool', Uint8Array],
  10: ['float16', Uint16Array], 11: ['float64', Float64Array], 12: ['uint32', Uint32Array], 13: ['uint64', BigUint64Array] };

const TYPES = new Set(Object.values(KINDS).map(([name]) => name));

// Converts the bits of a float16 to a number.
function ofHalf(bits) {
  const exponent = bits >> 10 & 31, fraction = bits & 1023;
  const size = exponent === 31 ? (fraction ? NaN : Infinity)
    : exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25);
  return bits & 0x8000 ? -size : size;
}

function tensorOf(Tensor, t) {
  const [type, Elements] = KINDS[t.type];
  if (type === 'string') return new Tensor('string', t.texts, t.dims);
  if (t.raw) return new Tensor(type, new Elements(new Uint8Array(t.raw).buffer), t.dims);
  return new Tensor(type, type === 'int64' || type === 'uint64' ? t.numbers : t.numbers.map(Number), t.dims);
}

function close(got, want, name) {
  assert.strictEqual(got.type, want.type, name);
  assert.deepStrictEqual(got.dims, want.dims, name);
  for (let i = 0; i < want.data.length; i++) {
    const half = got.type === 'float16';
    const a = half ? ofHalf(got.data[i]) : got.data[i], b = half ? ofHalf(want.data[i]) : want.data[i];
    if (got.type.startsWith('float'))
      assert(Object.is(a, b) || Math.abs(a - b) <= (half ? 1e-3 : 1e-4) + (half ? 2e-3 : 1e-3) * Math.abs(b),
        `${name}[${i}]: ${a}, not ${b}`);
    else
      assert.strictEqual(a, b, `${name}[${i}]`);
  }
}

// Runs the cases below data/node: the results equal the expected ones. Returns how many ran. refused: called with the name and
// the error of each model from which no session can be created.
async function runCases(data, InferenceSession, Tensor, refused = () => {}) {
  let ran = 0;
  for (const name of fs.readdirSync(path.join(data, 'node'))) {
    const folder = path.join(data, 'node', name, 'test_data_set_0');
    if (!fs.existsSync(folder)) continue;
    const file = path.join(data, 'node', name, 'model.onnx');
    const session = await InferenceSession.create(file, { intraOpNumThreads: 1 }).catch((error) => refused(name, error));
    if (!session) continue;
    if (![...session.inputMetadata, ...session.outputMetadata].every((m) => m.isTensor && TYPES.has(m.type))) continue;
    const read = (kind, i) => tensorOf(Tensor, readTensor(path.join(folder, `${kind}_${i}.pb`)));
    const feeds = Object.fromEntries(session.inputNames.map((n, i) => [n, read('input', i)]));
    const results = await session.run(feeds);
    if (!/random|bernoulli|dropout/.test(name) && !wrong.has(name))
      session.outputNames.forEach((n, i) => close(results[n], read('output', i), `${name}.${n}`));
    ran++;
    await session.release();
  }
  return ran;
}

module.exports = { runCases };
