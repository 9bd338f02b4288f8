// Models as the bytes of ONNX files: y = Identity(x), x [1, 5] of an element type (its number in ONNX); y = Add(x, w).
'use strict';
const field = (number, content) => {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  return Buffer.concat([Buffer.from([number << 3 | 2, bytes.length]), bytes]);
};
const number = (at, value) => Buffer.from([at << 3, value]);
const port = (name, type) => Buffer.concat([field(1, name), field(2, field(1, Buffer.concat(
  [number(1, type), field(2, Buffer.concat([field(1, number(1, 1)), field(1, number(1, 5))]))])))]);

// y = Add(x, w), x and y of float [1, 5]; w is an input with a default value of five ones.
exports.overridable = () => {
  const node = Buffer.concat([field(1, 'x'), field(1, 'w'), field(2, 'y'), field(4, 'Add')]);
  const ones = Buffer.concat(Array(5).fill(Buffer.from(new Float32Array([1]).buffer)));
  const w = Buffer.concat([number(1, 1), number(1, 5), number(2, 1), field(8, 'w'), field(9, ones)]);
  const graph = Buffer.concat([field(1, node), field(2, 'g'), field(5, w), field(11, port('x', 1)), field(11, port('w', 1)),
    field(12, port('y', 1))]);
  return new Uint8Array(Buffer.concat([number(1, 8), field(7, graph), field(8, number(2, 16))]));
};

exports.identity = (type) => {
  const node = Buffer.concat([field(1, 'x'), field(2, 'y'), field(4, 'Identity')]);
  const graph = Buffer.concat([field(1, node), field(2, 'g'), field(11, port('x', type)), field(12, port('y', type))]);
  return new Uint8Array(Buffer.concat([number(1, 8), field(7, graph), field(8, number(2, 16))]));
};
