// y = Identity(x), x [1, 5] of an element type (ONNX's number), as the bytes of an ONNX file.
'use strict';
const field = (number, content) => {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  return Buffer.concat([Buffer.from([number << 3 | 2, bytes.length]), bytes]);
};
const number = (at, value) => Buffer.from([at << 3, value]);
const port = (name, type) => Buffer.concat([field(1, name), field(2, field(1, Buffer.concat(
  [number(1, type), field(2, Buffer.concat([field(1, number(1, 1)), field(1, number(1, 5))]))])))]);

exports.identity = (type) => {
  const node = Buffer.concat([field(1, 'x'), field(2, 'y'), field(4, 'Identity')]);
  const graph = Buffer.concat([field(1, node), field(2, 'g'), field(11, port('x', type)), field(12, port('y', type))]);
  return new Uint8Array(Buffer.concat([number(1, 8), field(7, graph), field(8, number(2, 16))]));
};
