#!/usr/bin/python3
"""Writes models with weights of 2, 4 and 8 bits, to measure times and to compare results:

    nbits_models.py DIR [--size 2048] [--layers 8]

  dq4_block32.onnx    DequantizeLinear of int4, blocks of 32, before MatMul
  dq8_channel.onnx    the same with int8, one scale per column
  fp4_block32.onnx    the same with float4
  nbits4.onnx nbits4_level4.onnx nbits8.onnx   MatMulNBits with accuracy_level 0, 4 and 0
  float.onnx          the weights of dq4_block32 as floats
Layers are consecutive, with a Tanh between them, so that results stay near 1. Input x is [rows, size]."""
import argparse
import os

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

BLOCK = 32


def pack4(values):
    flat = (values.astype(np.int32) & 15).astype(np.uint8).reshape(-1)
    return (flat[0::2] | flat[1::2] << 4).tobytes()


def tensor(name, dtype, dims, raw):
    t = onnx.TensorProto()
    t.name, t.data_type, t.raw_data = name, dtype, raw
    t.dims.extend(dims)
    return t


def layer(kind, i, size, rng, inits):
    """Nodes of one layer from x{i} to y{i}."""
    x, y, w = "x%d" % i, "y%d" % i, "w%d" % i
    q4 = rng.integers(-8, 8, (size, size))
    scale = (rng.random((size // BLOCK, size)) * 0.5 + 0.75).astype(np.float32) / (4 * np.sqrt(size))
    if kind == "float":
        f = (q4.reshape(size // BLOCK, BLOCK, size) * scale[:, None, :]).reshape(size, size).astype(np.float32)
        inits.append(numpy_helper.from_array(f, w))
        return [helper.make_node("MatMul", [x, w], [y])]
    if kind in ("dq4_block32", "fp4_block32"):
        inits.append(tensor(w + "q", 22 if kind == "dq4_block32" else 23, (size, size), pack4(q4)))
        inits.append(numpy_helper.from_array(scale, w + "s"))
        return [helper.make_node("DequantizeLinear", [w + "q", w + "s"], [w], axis=0, block_size=BLOCK),
                helper.make_node("MatMul", [x, w], [y])]
    if kind == "dq8_channel":
        inits.append(numpy_helper.from_array(rng.integers(-128, 128, (size, size)).astype(np.int8), w + "q"))
        inits.append(numpy_helper.from_array(scale[0] / 16, w + "s"))
        return [helper.make_node("DequantizeLinear", [w + "q", w + "s"], [w], axis=1),
                helper.make_node("MatMul", [x, w], [y])]
    bits = 8 if kind == "nbits8" else 4
    q = rng.integers(0, 1 << bits, (size, size))
    blob = pack4(q) if bits == 4 else q.astype(np.uint8).tobytes()
    inits.append(tensor(w + "q", T.UINT8, (size, size // BLOCK, BLOCK * bits // 8), blob))
    inits.append(numpy_helper.from_array((scale.T.reshape(-1) / (1 if bits == 4 else 16)).astype(np.float32), w + "s"))
    return [helper.make_node("MatMulNBits", [x, w + "q", w + "s"], [y], domain="com.microsoft", K=size, N=size, bits=bits,
                             block_size=BLOCK, accuracy_level=4 if kind.endswith("level4") else 0)]


def write(path, kind, size, layers):
    rng = np.random.default_rng(1)
    nodes, inits = [], []
    for i in range(layers):
        nodes += layer(kind, i, size, rng, inits)
        nodes.append(helper.make_node("Tanh", ["y%d" % i], ["x%d" % (i + 1)]))
    graph = helper.make_graph(
        nodes, kind, [helper.make_tensor_value_info("x0", T.FLOAT, ["rows", size])],
        [helper.make_tensor_value_info("x%d" % layers, T.FLOAT, ["rows", size])], inits)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 11
    onnx.save(model, path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir")
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=8)
    args = parser.parse_args()
    os.makedirs(args.dir, exist_ok=True)
    for kind in ("dq4_block32", "fp4_block32", "dq8_channel", "nbits4", "nbits4_level4", "nbits8", "float"):
        write(os.path.join(args.dir, kind + ".onnx"), kind, args.size, args.layers)


main()
