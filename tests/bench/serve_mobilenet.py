#!/usr/bin/env python3
"""Writes MobileNetV2 (width 1, 224x224, batch norms folded) with random weights: serve_mobilenet.py OUT.onnx"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(1)
nodes, weights = [], []


def add(op, inputs, **attributes):
    out = f"v{len(nodes)}"
    nodes.append(helper.make_node(op, inputs, [out], **attributes))
    return out


def constant(name, array):
    weights.append(numpy_helper.from_array(np.asarray(array, "f"), name))
    return name


def conv(x, into, out, size, stride=1, groups=1, relu=True):
    name = f"w{len(weights)}"
    w = constant(name, rng.standard_normal((out, into // groups, size, size)) * (2 / (into // groups * size * size)) ** .5)
    b = constant(name + "b", np.zeros(out))
    y = add("Conv", [x, w, b], strides=[stride] * 2, pads=[size // 2] * 4, group=groups, kernel_shape=[size] * 2)
    return add("Clip", [y, "zero", "six"]) if relu else y


def block(x, into, out, stride, wider):
    hidden = into * wider
    y = conv(x, into, hidden, 1) if wider > 1 else x
    y = conv(y, hidden, hidden, 3, stride, hidden)
    y = conv(y, hidden, out, 1, relu=False)
    return add("Add", [x, y]) if stride == 1 and into == out else y


constant("zero", 0)
constant("six", 6)
x, channels = conv("x", 3, 32, 3, 2), 32
for wider, out, times, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                  (6, 320, 1, 1)]:
    for i in range(times):
        x, channels = block(x, channels, out, stride if i == 0 else 1, wider), out
x = add("Flatten", [add("GlobalAveragePool", [conv(x, channels, 1280, 1)])])
nodes.append(helper.make_node("Gemm", [x, constant("fc", rng.standard_normal((1280, 1000)) / 36), constant("fcb", np.zeros(1000))],
                              ["y"]))
graph = helper.make_graph(nodes, "mobilenet_v2", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 224, 224])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 1000])], weights)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
model.ir_version = 8
onnx.checker.check_model(model)
onnx.save(model, sys.argv[1])
