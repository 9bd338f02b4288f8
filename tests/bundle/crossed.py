#!/usr/bin/env python3
"""Generated models as programs of `inlay bundle`, compared with `inlay run`.

  crossed.py INLAY [unread|control|products|data]... [--first SEED] [--count N] [--isa LEVELS] [--wasm] [-- FLAG...]

unread     operators of several outputs, each after another node; every subset of the outputs is read
control    Scans in both directions, on several axes, and Ifs with dead, unread and nested branches, each with some of
           its outputs unread
products   a quantized matrix product or convolution, beside another weight of 0 to 4 MB
data       operators whose kernels may depend on the data: mixtures of experts, attention that hides NaN or reads a
           cache, convolutions by Winograd's algorithm and FFT, products with sparse weights, recurrences with lengths

Each program runs on inputs of four kinds: ordinary ones, integers from the whole range of their type, integers at its
ends, zero points among them, and floats with NaN, infinities and large numbers. At each level of LEVELS (avx512,avx2),
a program and `inlay run --isa LEVEL` with the same providers have the same kernels, so that results must have the same
bits. With --wasm, WebAssembly modules, whose kernels are others, are compared by `inlay bundle` alone. FLAGs are those
of `inlay bundle`."""
import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.uint8): TensorProto.UINT8,
         np.dtype(np.int8): TensorProto.INT8, np.dtype(np.int32): TensorProto.INT32,
         np.dtype(np.int64): TensorProto.INT64, np.dtype(np.bool_): TensorProto.BOOL}
KINDS = ["ordinary", "whole", "ends", "special"]
ALONE = ["--providers", "cpu,reference", "--policy", "priority", "--intra-threads", "1", "--no-config", "--quiet"]


class Model:
    """The parts of a model. Inputs: name -> (dtype, shape, number of valid values of an index or 0)."""

    def __init__(self, seed, opset):
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.opset, self.nodes, self.constants, self.inputs, self.outputs = opset, [], [], {}, []

    def node(self, op, inputs, outputs, domain="", **attributes):
        self.nodes.append(helper.make_node(op, inputs, outputs, f"node_{len(self.nodes)}", domain=domain, **attributes))

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def floats(self, *shape):
        return self.constant((self.numbers.standard_normal(shape) * .2).astype(np.float32))

    def bytes(self, dtype, *shape):
        info = np.iinfo(dtype)
        return self.constant(self.numbers.integers(info.min, info.max + 1, shape).astype(dtype))

    def input(self, dtype, *shape, index=0):
        name = f"in{len(self.inputs)}"
        self.inputs[name] = (np.dtype(dtype), shape, index)
        return name

    def save(self, path):
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes, "generated", [info(n, TYPES[d], s) for n, (d, s, _) in self.inputs.items()],
            [helper.make_empty_tensor_value_info(n) for n in self.outputs], self.constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        with open(path, "wb") as file:
            file.write(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())

    def feed(self, kind, seed):
        numbers, made = np.random.default_rng(seed), {}
        for name, (dtype, shape, index) in self.inputs.items():
            if index or dtype in (np.int64, np.int32):
                value = numbers.integers(0, max(index, 2), shape)
            elif dtype == np.bool_:
                value = numbers.integers(0, 2, shape)
            elif dtype == np.float32:
                value = numbers.standard_normal(shape) * (1 if kind in ("ordinary", "special") else 30)
                if kind == "special":
                    odd = numbers.choice([np.nan, np.inf, -np.inf, 1e30, -1e20, 1e-39], shape)
                    value = np.where(numbers.random(shape) < .01, odd, value)
            else:
                low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
                value = (numbers.choice([low, high], shape) if kind == "ends" else
                         numbers.integers(low, high + 1, shape) if kind == "whole" else numbers.integers(0, 8, shape))
            made[name] = np.asarray(value).astype(dtype)
        return made


# ---- operators of several outputs: name -> (inputs and attributes of the node, number of outputs)

def recurrent(m, x, gates, hidden=4):
    return ([x, m.floats(1, gates * hidden, 8), m.floats(1, gates * hidden, hidden)], {"hidden_size": hidden})


SEVERAL = {
    "TopK": lambda m, x: ([x, m.constant(np.array([3], np.int64))], {}, 2),
    "Split": lambda m, x: ([x, m.constant(np.array([1, 2, 5], np.int64))], {"axis": -1}, 3),
    "MaxPool": lambda m, x: ([x], {"kernel_shape": [2], "strides": [2]}, 2),
    "Dropout": lambda m, x: ([x], {}, 2),
    "DynamicQuantizeLinear": lambda m, x: ([x], {}, 3),
    "LayerNormalization": lambda m, x: ([x, m.floats(8)], {}, 3),
    "LSTM": lambda m, x: (*recurrent(m, x, 4), 3),
    "GRU": lambda m, x: (*recurrent(m, x, 3), 2),
    "RNN": lambda m, x: (*recurrent(m, x, 1), 2),
    "BatchNormalization": lambda m, x: ([x, *(m.constant(np.abs(m.numbers.standard_normal(3)).astype(np.float32) + 1)
                                             for _ in range(4))], {"training_mode": 1}, 3),
    "SoftmaxCrossEntropyLoss": lambda m, x: ([x, m.constant(np.array([[1] * 8, [2] * 8], np.int64))], {}, 2),
    "Unique": lambda m, x: ([m.constant(np.array([2, 1, 1, 3], np.float32))], {}, 4),
    "com.microsoft.SkipLayerNormalization": lambda m, x: ([x, x, m.floats(8)], {}, 4),
    "com.microsoft.SkipSimplifiedLayerNormalization": lambda m, x: ([x, x, m.floats(8)], {}, 4),
    "com.microsoft.MultiHeadAttention": lambda m, x: ([x, x, x], {"num_heads": 2}, 3),
    "com.microsoft.GroupQueryAttention": lambda m, x: (
        [x, x, x, "", "", m.constant(np.array([2, 2], np.int32)), m.constant(np.array(3, np.int32))],
        {"num_heads": 2, "kv_num_heads": 2}, 3),
    "com.microsoft.Attention": lambda m, x: ([x, m.floats(8, 24), m.floats(24)], {"num_heads": 2}, 2),
    "com.microsoft.EmbedLayerNormalization": lambda m, x: (
        [m.constant(np.array([[1, 2, 0], [3, 1, 2]], np.int32)), "", m.floats(4, 8), m.floats(3, 8), "", m.floats(8),
         m.floats(8)], {}, 3),
}
# Of a newer opset than the others.
NEWER = {
    "Attention": lambda m, x: ([x, x, x], {"q_num_heads": 2, "kv_num_heads": 2}, 4),
}


def several_outputs(name, opset, seed, subsets):
    """A model with the operator once for each subset of its outputs, after an Add; unread outputs are named or not."""
    m = Model(seed, opset)
    x = m.input(np.float32, 2, 3, 8)
    *domain, op = name.split(".")
    rule = {**SEVERAL, **NEWER}[name]
    for read, named in subsets(rule(m, x)[2]):
        if op == "Split" and not named:  # a variadic output cannot be omitted
            continue
        m.node("Add", [x, m.floats(2, 3, 8)], [f"a{len(m.nodes)}"])
        inputs, attributes, count = rule(m, m.nodes[-1].output[0])
        names = [f"y{len(m.nodes)}_{i}" if i in read or named else "" for i in range(count)]
        m.node(op, inputs, names, ".".join(domain), **attributes)
        for i in read:
            m.node("Identity", [names[i]], [f"out{len(m.outputs)}"])
            m.outputs.append(f"out{len(m.outputs)}")
    return m


def each_subset(count):
    for bits in range(1, 1 << count):
        for named in (True, False):
            yield [i for i in range(count) if bits >> i & 1], named


def unread_models(args):
    for name in SEVERAL:
        yield name, several_outputs(name, 17, 1, each_subset)
    yield "Attention", several_outputs("Attention", 23, 1, each_subset)


# ---- control flow

def body_of(name, nodes, inputs, outputs, shapes):
    info = helper.make_tensor_value_info
    return helper.make_graph(nodes, name, [info(n, TensorProto.FLOAT, shapes) for n in inputs],
                             [info(n, TensorProto.FLOAT, None) for n in outputs])


def add_outputs(m, outputs, read):
    for name in (n for n, used in zip(outputs, read) if used):
        m.node("Identity", [name], [f"out{len(m.outputs)}"])
        m.outputs.append(f"out{len(m.outputs)}")


def scan_model(seed, read, named, **attributes):
    """A state and two scan outputs. The axes of the scan input are moved so that 7 elements [3, 4] are scanned."""
    m = Model(seed, 17)
    weight = m.floats(3, 4)
    shape = list(np.moveaxis(np.empty((7, 3, 4)), 0, attributes.get("scan_input_axes", [0])[0]).shape)
    body = body_of("body", [helper.make_node("Add", ["s", "x"], ["s2"]), helper.make_node("Neg", ["s2"], ["y"]),
                            helper.make_node("Mul", ["x", weight], ["z"])], ["s", "x"], ["s2", "y", "z"], [3, 4])
    names = [n if r or named else "" for n, r in zip(("state", "first", "second"), read)]
    m.node("Scan", [m.input(np.float32, 3, 4), m.input(np.float32, *shape)], names, body=body, num_scan_inputs=1,
           **attributes)
    add_outputs(m, names, read)
    return m


def if_model(seed, read, named, condition):
    """Branches whose second results differ in size if nobody reads them. condition: an input, or a constant."""
    m = Model(seed, 17)
    x, weight, two = m.input(np.float32, 3, 4), m.floats(4, 4), m.constant(np.array([2], np.int64))
    chosen = m.input(np.bool_) if condition is None else m.constant(np.array(condition))
    again = "Relu" if read[1] else "Transpose"
    then = body_of("then", [helper.make_node("MatMul", [x, weight], ["a"]), helper.make_node("Exp", [x], ["dead"]),
                            helper.make_node("TopK", [x, two], ["top", "index"]),
                            helper.make_node(again, [x], ["b"])], [], ["a", "b"], None)
    inner = [body_of(n, [helper.make_node(op, [x], [f"{n}_y"])], [], [f"{n}_y"], None)
             for n, op in (("i", "Abs"), ("e", "Identity"))]
    other = body_of("else", [helper.make_node("If", [m.input(np.bool_)], ["c"], then_branch=inner[0],
                                              else_branch=inner[1]),
                             helper.make_node("Sigmoid", [x], ["d"])], [], ["c", "d"], None)
    names = [n if r or named else "" for n, r in zip(("p", "q"), read)]
    m.node("If", [chosen], names, then_branch=then, else_branch=other)
    add_outputs(m, names, read)
    return m


def control_models(args):
    places = [{}, {"scan_input_directions": [1], "scan_output_directions": [1, 0]},
              {"scan_input_axes": [2], "scan_output_axes": [1, -1], "scan_output_directions": [0, 1]}]
    for i, read in enumerate(r for r in itertools.product((True, False), repeat=3) if any(r)):
        yield f"Scan, reads {read}", scan_model(i, read, i % 2 == 0, **places[i % 3])
    for i, (read, condition) in enumerate(itertools.product([(True, True), (True, False), (False, True)],
                                                            [None, True, False])):
        yield f"If, reads {read}, condition {condition}", if_model(i, read, i % 2 == 0, condition)


# ---- products of integers beside other weights

def other_weight(m):
    """A table of 0 to 4 MB and a reader of it."""
    rows = m.random.choice([0, 0, 30, 300, 1000, 2000, 8000, 31000])
    if rows == 0:
        return
    dtype = m.random.choice([np.uint8, np.float32, np.int8])
    rows = rows if dtype != np.float32 else rows // 4 + 1
    table = m.floats(rows, 128) if dtype == np.float32 else m.bytes(dtype, rows, 128)
    m.node("Gather", [table, m.input(np.int64, 1, 2, index=rows)], [f"g{len(m.nodes)}"])
    m.outputs.append(m.nodes[-1].output[0])


def byte_type(m):
    return m.random.choice([np.uint8, np.int8])


def zero_point(m, dtype, shape=()):
    """None, a constant, or an input."""
    kind = m.random.randrange(3)
    return "" if kind == 0 else m.bytes(dtype, *shape) if kind == 1 else m.input(dtype, *shape)


def mat_mul_integer(m, k, n):
    a, w = byte_type(m), byte_type(m)
    zeros = m.random.choice([(), (n,)])
    w_zero = m.random.choice(["", m.bytes(w, *zeros), m.constant(np.zeros(zeros, w))])
    inputs = [m.input(a, 1, m.random.choice([1, 4, 7]), k), m.bytes(w, k, n), zero_point(m, a), w_zero]
    while not inputs[-1]:
        inputs.pop()
    m.node("MatMulInteger", inputs, ["y"])


def dynamic_product(m, k, n):
    w = byte_type(m)
    m.node("DynamicQuantizeLinear", [m.input(np.float32, 1, 5, k)], ["q", "s", "z"])
    m.node("MatMulInteger", ["q", m.bytes(w, k, n), "z", m.bytes(w)], ["i"])
    m.node("Cast", ["i"], ["f"], to=TensorProto.FLOAT)
    m.node("Mul", ["s", m.constant(np.float32(.01))], ["sw"])
    m.node("Mul", ["f", "sw"], ["p"])
    m.node("Add", ["p", m.floats(n)], ["y"])


def q_linear_mat_mul(m, k, n):
    a, w = byte_type(m), byte_type(m)
    columns = m.random.choice([(), (n,)])
    m.node("QLinearMatMul", [m.input(a, 1, 4, k), m.constant(np.float32(.05)), m.bytes(a), m.bytes(w, k, n),
                             m.constant(np.full(columns, .02, np.float32)), m.bytes(w, *columns),
                             m.constant(np.float32(2)), m.bytes(a)], ["y"])


def q_gemm(m, k, n):
    a, w = byte_type(m), byte_type(m)
    m.node("QGemm", [m.input(a, 4, k), m.constant(np.float32(.05)), m.bytes(a), m.bytes(w, k, n),
                     m.constant(np.float32(.02)), m.bytes(w), "", m.constant(np.float32(2)), m.bytes(a)], ["y"],
           "com.microsoft")


def q_linear_conv(m, k, n):
    a, w, channels = byte_type(m), byte_type(m), max(1, k // 16)
    group = m.random.choice([1, 1, channels])
    out = channels if group > 1 else n // 4 + 1
    m.node("QLinearConv", [m.input(a, 1, channels, 9, 9), m.constant(np.float32(.05)), m.bytes(a),
                           m.bytes(w, out, channels // group, 3, 3), m.constant(np.float32(.02)),
                           m.constant(np.zeros((), w)), m.constant(np.float32(1)), m.bytes(a)], ["y"], group=group)


def conv_integer(m, k, n):
    a, w = byte_type(m), byte_type(m)
    inputs = [m.input(a, 1, max(1, k // 16), 8, 8), m.bytes(w, n // 4 + 1, max(1, k // 16), 3, 3), zero_point(m, a)]
    m.node("ConvInteger", inputs if inputs[2] else inputs[:2], ["y"])


def mat_mul_n_bits(m, k, n):
    block, bits = m.random.choice([16, 32, 64]), m.random.choice([4, 8])
    blocks = (k + block - 1) // block
    inputs = [m.input(np.float32, 1, m.random.choice([1, 5]), k), m.bytes(np.uint8, n, blocks, block * bits // 8),
              m.constant(np.abs(m.numbers.standard_normal(n * blocks)).astype(np.float32) * .02)]
    if m.random.randrange(2):
        inputs.append(m.bytes(np.uint8, n * ((blocks * bits + 7) // 8)))
    m.node("MatMulNBits", inputs, ["y"], "com.microsoft", K=k, N=n, bits=bits, block_size=block,
           accuracy_level=m.random.choice([0, 4]))


def quantized_pair(m, k, n):
    """DequantizeLinear of a weight, read by one or two products, or also as it is."""
    w, a = byte_type(m), byte_type(m)
    scales = m.constant(np.abs(m.numbers.standard_normal(n)).astype(np.float32) * .02 + .001)
    weight = m.bytes(w, k, n)
    m.node("QuantizeLinear", [m.input(np.float32, 4, k), m.constant(np.float32(.05)), m.bytes(a)], ["q"])
    m.node("DequantizeLinear", ["q", m.constant(np.float32(.05)), m.nodes[-1].input[2]], ["d"])
    m.node("DequantizeLinear", [weight, scales, m.constant(np.zeros(n, w))], ["w"], axis=1)
    m.node("MatMul", ["d", "w"], ["y"])
    if m.random.randrange(3) == 0:
        m.node("MatMulInteger", [m.input(a, 2, k), weight], ["y2"])
        m.outputs.append("y2")


def float_product(m, k, n):
    """A float weight, perhaps sparse, that is also an output, a table, or the state of a Loop."""
    values = m.numbers.standard_normal((k, n)).astype(np.float32)
    if m.random.randrange(2):
        values[:, : n * 3 // 4] = 0
    weight = m.constant(values)
    m.node("MatMul", [m.input(np.float32, 3, k), weight], ["y"])
    also = m.random.randrange(4)
    if also == 1:
        m.node("Identity", [weight], ["copy"])
    elif also == 2:
        m.node("Reshape", [weight, m.constant(np.array([-1], np.int64))], ["copy"])
    elif also == 3:
        m.node("Gather", [weight, m.input(np.int64, 3, index=k)], ["copy"])
    if also:
        m.outputs.append("copy")


PRODUCTS = [mat_mul_integer, dynamic_product, q_linear_mat_mul, q_gemm, q_linear_conv, conv_integer, mat_mul_n_bits,
            quantized_pair, float_product]


def product_models(args):
    for seed in range(args.first, args.first + args.count):
        m = Model(seed, 17)
        if m.random.randrange(2):
            other_weight(m)
        m.outputs.append("y")
        PRODUCTS[seed % len(PRODUCTS)](m, m.random.choice([32, 64, 100, 128, 256]), m.random.choice([16, 33, 128, 256]))
        if len(m.constants) < 12 and m.random.randrange(2):
            other_weight(m)
        yield f"{PRODUCTS[seed % len(PRODUCTS)].__name__}, seed {seed}", m


# ---- kernels that data select

def mixture(m):
    rows, experts, k = m.random.choice([1, 6, 16, 40]), m.random.choice([4, 7]), m.random.choice([1, 2, 3])
    hidden, inner = m.random.choice([16, 32, 48]), m.random.choice([24, 64])
    weights = [m.floats(experts, inner, hidden), m.floats(experts, hidden, inner)]
    m.node("MoE", [m.input(np.float32, rows, hidden), m.input(np.float32, rows, experts), weights[0],
                   m.floats(experts, inner), weights[1], m.floats(experts, hidden)], ["y"], "com.microsoft", k=k,
           activation_type=m.random.choice(["relu", "silu", "gelu"]), normalize_routing_weights=m.random.randrange(2))


def coded_mixture(m):
    rows, experts, hidden, inner = m.random.choice([2, 9, 33]), 5, 32, 64
    parts = []
    for lines, columns in ((inner, hidden), (hidden, inner)):
        parts += [m.bytes(np.uint8, experts, lines, columns // 2),
                  m.constant(np.abs(m.numbers.standard_normal((experts, lines))).astype(np.float32) * .02),
                  m.floats(experts, lines)]
    m.node("QMoE", [m.input(np.float32, rows, hidden), m.input(np.float32, rows, experts), *parts], ["y"],
           "com.microsoft", k=2, activation_type="relu", expert_weight_bits=4)


def hiding_attention(m):
    batch, queries, keys, size = 2, m.random.choice([1, 5, 30]), m.random.choice([7, 40]), m.random.choice([8, 20, 64])
    mask = np.zeros((1, 1, queries, keys), np.float32)
    mask[..., keys // 2:] = -np.inf
    past = [m.input(np.float32, batch, 2, keys, size) for _ in range(2)]
    visible = m.constant(np.arange(keys).reshape(1, 1, keys, 1) < keys // 2)
    names = []
    for state in past:  # NaN where the mask hides, but not in the first run, whose inputs are 0
        m.node("Sqrt", [state], [f"n{len(m.nodes)}"])
        m.node("Where", [visible, state, m.nodes[-1].output[0]], [f"n{len(m.nodes)}"])
        names.append(m.nodes[-1].output[0])
    m.node("Attention", [m.input(np.float32, batch, 4, queries, size), *names, m.constant(mask)], ["y"])


def convolution(m):
    """3x3 by Winograd's algorithm, of images that it suits or not; 7x7 and 15x15 perhaps by FFT."""
    channels, size, width = m.random.choice([(32, 28, 3), (64, 14, 3), (16, 40, 3), (8, 56, 7), (4, 64, 15)])
    m.node("Conv", [m.input(np.float32, 1, channels, size, size), m.floats(channels, channels, width, width),
                    m.floats(channels)], ["y"], pads=[width // 2] * 4)


def sparse_product(m):
    rows, k, n = m.random.choice([1, 3, 20]), 256, 192
    values = m.numbers.standard_normal((k, n)).astype(np.float32)
    values[m.numbers.random((k // 16, n)).repeat(16, axis=0) < .8] = 0
    m.node("MatMul", [m.input(np.float32, rows, k), m.constant(values)], ["y"])


def cached_attention(m):
    """One new token for each text, whose length is an input."""
    heads, groups, keys = 4, m.random.choice([1, 2, 4]), m.random.choice([9, 40, 150])
    size = m.random.choice([8, 20, 64])
    new = [m.input(np.float32, 2, 1, count * size) for count in (heads, groups, groups)]
    past = [m.input(np.float32, 2, groups, keys, size) for _ in range(2)]
    m.node("GroupQueryAttention", [*new, *past, m.input(np.int32, 2, index=keys), m.constant(np.array(keys, np.int32))],
           ["y", "present_key", "present_value"], "com.microsoft", num_heads=heads, kv_num_heads=groups)


def lengths(m):
    """A recurrence over as many steps as an input says, 1 at least."""
    op, gates = m.random.choice([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    m.node("Add", [m.input(np.int32, 3, index=9), m.constant(np.array(1, np.int32))], ["lengths"])
    m.node(op, [m.input(np.float32, 9, 3, 16), m.floats(1, gates * 24, 16), m.floats(1, gates * 24, 24), "", "lengths"],
           ["", "y"], hidden_size=24)


DATA = [mixture, coded_mixture, hiding_attention, convolution, sparse_product, cached_attention, lengths]


def data_models(args):
    for seed in range(args.first, args.first + args.count):
        m = Model(seed, 23)
        m.outputs.append("y")
        DATA[seed % len(DATA)](m)
        yield f"{DATA[seed % len(DATA)].__name__}, seed {seed}", m


# ---- running

def command(*words, level=""):
    environment = {k: v for k, v in os.environ.items() if k != "INLAY_ISA"}
    if level:
        environment["INLAY_ISA"] = level
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=600)
    return done.returncode, (done.stderr + done.stdout).strip().replace("\n", " | ")[-300:], done.stdout


def outputs_differ(m, args, folder, level, kind, flags):
    """What is wrong with a program at a level, or None."""
    for number, (name, value) in enumerate(m.feed(kind, 7 + KINDS.index(kind)).items()):
        np.save(f"{folder}/in/{name}.npy", value)
    code, said, _ = command(args.inlay, "run", f"{folder}/m.onnx", "--inputs", f"{folder}/in", "--outputs",
                            f"{folder}/want", *ALONE, *flags, level=level)
    if code != 0:
        return f"inlay run ended with {code}: {said}"
    code, said, _ = command(f"{folder}/app", "-o", f"{folder}/got", *(f"{n}={folder}/in/{n}.npy" for n in m.inputs),
                            level=level)
    if code != 0:
        return f"the program ended with {code}: {said}"
    for number, name in enumerate(m.outputs):
        want, got = np.load(f"{folder}/want/{name}.npy"), np.load(f"{folder}/got/{number}.npy")
        if want.tobytes() != got.tobytes() and not (kind == "special" and np.array_equal(want, got, equal_nan=True)):
            with np.errstate(invalid="ignore"):
                different = np.abs(want.astype(np.float64) - got.astype(np.float64))
            return f"output {name} differs by {different.max():.3g} of {np.abs(want.astype(np.float64)).max():.3g}"
    return None


def wrong(name, m, args, folder):
    for part in ("in", "got", "want"):
        os.makedirs(f"{folder}/{part}")
    m.save(f"{folder}/m.onnx")
    target = ["-o", f"{folder}/app.wasm", "--target", "wasm32"] if args.wasm else ["-o", f"{folder}/app"]
    code, said, text = command(args.inlay, "bundle", f"{folder}/m.onnx", *target, "--json", "--quiet", "--no-config",
                               *args.flags)
    if code != 0:
        return f"inlay bundle ended with {code}: {said}"
    report = json.loads(text)
    if not report["tried"] or not (report["difference"] < 1e-4 if args.wasm else report["same"]):
        return f"inlay bundle: {said}"
    if args.wasm:
        return None
    for level in args.isa.split(","):
        for kind in KINDS:
            found = outputs_differ(m, args, folder, level, kind, [])
            if found:
                return f"{level}, {kind} inputs: {found}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inlay")
    parser.add_argument("parts", nargs="*", choices=[[], "unread", "control", "products", "data"])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--isa", default="avx512,avx2")
    parser.add_argument("--wasm", action="store_true")
    parser.add_argument("--only", default="", help="models whose names contain this text")
    words = sys.argv[1:]
    flags = words[words.index("--") + 1:] if "--" in words else []
    args = parser.parse_args(words[: words.index("--")] if "--" in words else words)
    args.flags, args.inlay = flags, os.path.abspath(args.inlay)
    tried = failed = 0
    for models in (f for n, f in (("unread", unread_models), ("control", control_models), ("products", product_models),
                                ("data", data_models))
                   if not args.parts or n in args.parts):
        for name, m in models(args):
            if args.only not in name:
                continue
            folder = tempfile.mkdtemp(prefix="crossed_")
            found = wrong(name, m, args, folder)
            tried += 1
            failed += found is not None
            if found:
                print(f"{name}: {found} ({folder})", flush=True)
            else:
                subprocess.run(["rm", "-r", folder], check=False)
    print(f"{tried} models, {failed} wrong")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
