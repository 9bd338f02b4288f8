#!/usr/bin/env python3
"""Writes BERT-small (4 layers of 512, vocabulary 30,522) with random weights, its products quantized dynamically to 8 bits as
ONNX Runtime's quantize_dynamic does: serve_bert.py OUT.onnx"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, WIDTH, HEADS, WORDS, PLACES = 4, 512, 8, 30522, 512
rng = np.random.default_rng(1)
nodes, weights = [], []


def add(op, *inputs, outputs=1, **attributes):
    names = [f"v{len(nodes)}_{i}" for i in range(outputs)]
    nodes.append(helper.make_node(op, inputs, names, **attributes))
    return names[0] if outputs == 1 else names


def constant(array, kind="f"):
    weights.append(numpy_helper.from_array(np.asarray(array, kind), f"w{len(weights)}"))
    return weights[-1].name


def linear(quantized, columns, rows=WIDTH):
    """x W + b of a quantized x: (bytes, scale, zero)."""
    bytes_, scale, zero = quantized
    step = constant(0.02 / 40)
    product = add("MatMulInteger", bytes_, constant(np.clip(rng.standard_normal((rows, columns)) * 40, -127, 127), "i1"), zero,
                  constant(0, "i1"))
    scaled = add("Mul", add("Cast", product, to=TensorProto.FLOAT), add("Mul", scale, step))
    return add("Add", scaled, constant(np.zeros(columns)))


def quantize(x):
    return add("DynamicQuantizeLinear", x, outputs=3)


def normalize(x):
    return add("LayerNormalization", x, constant(np.ones(WIDTH)), constant(np.zeros(WIDTH)), axis=-1, epsilon=1e-12)


def heads(x, order):
    shaped = add("Reshape", x, constant([0, 0, HEADS, WIDTH // HEADS], "i8"))
    return add("Transpose", shaped, perm=order)


def gelu(x):
    half = add("Mul", x, add("Add", add("Erf", add("Div", x, constant(2 ** 0.5))), constant(1)))
    return add("Mul", half, constant(0.5))


def layer(x, hidden):
    quantized = quantize(x)
    q, k, v = (heads(linear(quantized, WIDTH), order) for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
    scores = add("Add", add("Div", add("MatMul", q, k), constant((WIDTH // HEADS) ** 0.5)), hidden)
    seen = add("Transpose", add("MatMul", add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    seen = add("Reshape", seen, constant([0, 0, WIDTH], "i8"))
    x = normalize(add("Add", x, linear(quantize(seen), WIDTH)))
    wide = gelu(linear(quantize(x), 4 * WIDTH))
    return normalize(add("Add", x, linear(quantize(wide), WIDTH, 4 * WIDTH)))


length = add("Gather", add("Shape", "input_ids"), constant(1, "i8"))
places = add("Range", constant(0, "i8"), length, constant(1, "i8"))
embedded = add("Gather", constant(rng.standard_normal((WORDS, WIDTH)) * 0.02), "input_ids")
embedded = add("Add", embedded, add("Gather", constant(rng.standard_normal((2, WIDTH)) * 0.02), "token_type_ids"))
x = normalize(add("Add", embedded, add("Gather", constant(rng.standard_normal((PLACES, WIDTH)) * 0.02), places)))
mask = add("Unsqueeze", add("Cast", "attention_mask", to=TensorProto.FLOAT), constant([1, 2], "i8"))
hidden = add("Mul", add("Sub", constant(1), mask), constant(-10000))
for _ in range(LAYERS):
    x = layer(x, hidden)
first = add("Gather", x, constant(0, "i8"), axis=1)
nodes.append(helper.make_node("Tanh", [linear(quantize(first), WIDTH)], ["pooler_output"]))
inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["N", "S"])
          for name in ("input_ids", "attention_mask", "token_type_ids")]
graph = helper.make_graph(nodes, "bert_small", inputs,
                          [helper.make_tensor_value_info("pooler_output", TensorProto.FLOAT, ["N", WIDTH])], weights)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
model.ir_version = 8
onnx.checker.check_model(model)
onnx.save(model, sys.argv[1])
