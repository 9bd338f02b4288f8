// Models as the bytes of ONNX files: y = Identity(x), x [1, 5] of an element type (its number in ONNX); y = Add(x, w), w a
// default value or external data.
'use strict';
const varint = (value) => (value < 128 ? [value] : [value & 127 | 128, ...varint(value >> 7)]);
const field = (number, content) => {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  return Buffer.concat([Buffer.from([number << 3 | 2, ...varint(bytes.length)]), bytes]);
};
const number = (at, value) => Buffer.from([at << 3, value]);
const port = (name, type) => Buffer.concat([field(1, name), field(2, field(1, Buffer.concat(
  [number(1, type), field(2, Buffer.concat([field(1, number(1, 1)), field(1, number(1, 5))]))])))]);

// y = Add(x, w), x and y of float [1, 5]; elements: fields of w with its elements.
const sum = (elements, ...inputs) => {
  const node = Buffer.concat([field(1, 'x'), field(1, 'w'), field(2, 'y'), field(4, 'Add')]);
  const w = Buffer.concat([number(1, 1), number(1, 5), number(2, 1), field(8, 'w'), elements]);
  const graph = Buffer.concat([field(1, node), field(2, 'g'), field(5, w), field(11, port('x', 1)), ...inputs,
    field(12, port('y', 1))]);
  return new Uint8Array(Buffer.concat([number(1, 8), field(7, graph), field(8, number(2, 16))]));
};

// w is an input with a default value of five ones.
exports.overridable = () => sum(field(9, Buffer.from(new Float32Array(5).fill(1).buffer)), field(11, port('w', 1)));

// w is external data at `location`, from byte 8.
exports.external = (location) => {
  const entry = (key, value) => field(13, Buffer.concat([field(1, key), field(2, value)]));
  return sum(Buffer.concat([entry('location', location), entry('offset', '8'), entry('length', '20'), number(14, 1)]));
};

exports.identity = (type) => {
  const node = Buffer.concat([field(1, 'x'), field(2, 'y'), field(4, 'Identity')]);
  const graph = Buffer.concat([field(1, node), field(2, 'g'), field(11, port('x', type)), field(12, port('y', type))]);
  return new Uint8Array(Buffer.concat([number(1, 8), field(7, graph), field(8, number(2, 16))]));
};
