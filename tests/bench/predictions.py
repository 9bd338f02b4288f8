#!/usr/bin/env python3
"""Predicted compared with measured times of models of one operator.

    predictions.py [--set fit|check] [--rounds N] [--seconds S] [--threads N] [--json FILE] [--match TEXT] [FLAG...]

About 120 models with 64 to 300,000 elements, of one node each; the two sets have the same operators at different sizes,
so that constants of cost models that were chosen with one are checked with the other. Predictions are those of `inlay
bench --json`; measured is the shortest run or the CPU time, whichever is less, the minimum of all rounds. FLAGs are
passed to inlay, for instance --isa avx2 or --cache-dir DIR. Prints one line per model, and the share of models above a
microsecond, and of all, that are within a factor of 1.5."""
import argparse
import json
import os
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
LIMIT = 1.5
UNARY = ["Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Log", "Sqrt", "Softplus", "HardSwish", "Abs", "LeakyRelu"]
BINARY = ["Add", "Mul", "Div"]


class Model:
    """A model of one node. inputs: shapes of inputs, constants: arrays, in the order of the node's inputs."""

    def __init__(self, name, op, inputs, **attributes):
        self.name, self.op, self.inputs, self.attributes = name, op, inputs, attributes
        self.outputs = attributes.pop("outputs", 1)

    def write(self, path):
        names, values, constants = [], [], []
        for i, value in enumerate(self.inputs):
            names.append("" if value is None else f"x{i}")
            if isinstance(value, np.ndarray):
                constants.append(numpy_helper.from_array(value, names[i]))
            elif value is not None:
                values.append(helper.make_tensor_value_info(names[i], TensorProto.FLOAT, value))
        outputs = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, outputs, **self.attributes)
        shown = [helper.make_tensor_value_info(name, self.type_of_output(), None) for name in outputs]
        model = helper.make_model(helper.make_graph([node], "one", values, shown, constants),
                                  opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        onnx.save(model, path)

    def type_of_output(self):
        if self.op == "Greater":
            return TensorProto.BOOL
        return TensorProto.INT64 if self.op == "ArgMax" else TensorProto.FLOAT


def weights(*shape):
    return (np.random.default_rng(1).standard_normal(shape) * 0.1).astype(np.float32)


def integers(*values):
    return np.array(values, np.int64)


def flat_models(rows, columns):
    """Operators on a matrix."""
    at, shape = f"{rows}x{columns}", [rows, columns]
    for op in UNARY:
        yield Model(f"{op} {at}", op, [shape])
    for op in BINARY:
        yield Model(f"{op} {at}", op, [shape, shape])
    yield Model(f"Add row {at}", "Add", [shape, weights(columns)])
    yield Model(f"Greater {at}", "Greater", [shape, shape])
    yield Model(f"Softmax {at}", "Softmax", [shape], axis=-1)
    yield Model(f"LayerNormalization {at}", "LayerNormalization", [shape, weights(columns), weights(columns)])
    yield Model(f"ReduceMean {at}", "ReduceMean", [shape], axes=[1])
    yield Model(f"ReduceMax {at}", "ReduceMax", [shape], axes=[1])
    yield Model(f"Transpose {at}", "Transpose", [shape], perm=[1, 0])
    yield Model(f"Concat {at}", "Concat", [shape, shape], axis=1)
    yield Model(f"Split {at}", "Split", [shape], axis=1, outputs=2)
    yield Model(f"Slice {at}", "Slice", [shape, integers(0), integers(columns // 2), integers(1)])
    yield Model(f"Gather {at}", "Gather", [shape, integers(*range(0, rows, 2))], axis=0)
    yield Model(f"Pad {at}", "Pad", [shape, integers(1, 1, 1, 1)])
    yield Model(f"Expand {at}", "Expand", [[rows, 1], integers(rows, columns)])


def matrix_models(rows, depth, columns):
    at = f"{rows}x{depth}x{columns}"
    yield Model(f"MatMul {at}", "MatMul", [[rows, depth], weights(depth, columns)])
    yield Model(f"MatMul both {at}", "MatMul", [[rows, depth], [depth, columns]])
    yield Model(f"Gemm {at}", "Gemm", [[rows, depth], weights(columns, depth), weights(columns)], transB=1)


def image_models(channels, side):
    at, shape = f"{channels}x{side}x{side}", [1, channels, side, side]
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    yield Model(f"Conv 1x1 {at}", "Conv", [shape, weights(channels, channels, 1, 1)])
    yield Model(f"Conv 3x3 {at}", "Conv", [shape, weights(channels, channels, 3, 3)], **same)
    yield Model(f"Conv depthwise {at}", "Conv", [shape, weights(channels, 1, 3, 3)], group=channels, **same)
    yield Model(f"MaxPool 3x3 {at}", "MaxPool", [shape], strides=[2, 2], **same)
    yield Model(f"AveragePool 3x3 {at}", "AveragePool", [shape], **same)
    yield Model(f"GlobalAveragePool {at}", "GlobalAveragePool", [shape])
    yield Model(f"Resize {at}", "Resize", [shape, None, np.array([1, 1, 2, 2], np.float32)], mode="nearest",
                coordinate_transformation_mode="asymmetric", nearest_mode="floor")


def models(kind):
    flat, matrix, image = {
        "fit": ([(8, 8), (32, 128), (256, 1024)], [(1, 256, 256), (16, 64, 64), (128, 256, 192)],
                [(16, 14), (64, 14), (64, 56)]),
        "check": ([(4, 64), (48, 320), (512, 400)], [(1, 384, 512), (49, 96, 96), (64, 512, 256)],
                  [(32, 10), (96, 20), (48, 40)]),
    }[kind]
    for sizes in flat:
        yield from flat_models(*sizes)
    for sizes in matrix:
        yield from matrix_models(*sizes)
    for sizes in image:
        yield from image_models(*sizes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="check", choices=["fit", "check"])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", default="0.03")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--match", default="")
    parser.add_argument("--json")
    options, flags = parser.parse_known_args()
    inlay = os.environ.get("INLAY", os.path.join(ROOT, "build", "release", "bin", "inlay"))
    flags = flags if "--cache-dir" in flags else flags + ["--cache-dir", ""]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model in models(options.set):
            if options.match not in model.name:
                continue
            path, measured = os.path.join(folder, "model.onnx"), []
            model.write(path)
            for _ in range(options.rounds):
                done = subprocess.run([inlay, "bench", path, "--quiet", "--json", "--providers", "cpu,reference",
                                       "--intra-threads", options.threads, "--seconds", options.seconds] + flags,
                                      capture_output=True, text=True, timeout=120)
                if done.returncode != 0:
                    break
                times = json.loads(done.stdout)
                measured.append(min(times["min_ms"], times["cpu_ms"]) * 1e3)
            if not measured:
                print(f"{model.name}: {done.stderr.strip()[-200:]}")
                continue
            rows.append((model.name, times["predicted_ms"] * 1e3, min(measured)))
            ratio = rows[-1][1] / rows[-1][2]
            print("%-30s predicted %9.2f us, measured %9.2f us, ratio %5.2f%s" %
                  (*rows[-1], ratio, "" if 1 / LIMIT <= ratio <= LIMIT else " *"), flush=True)
    near = [(1 / LIMIT <= predicted / took <= LIMIT, took >= 1) for _, predicted, took in rows]
    print("above 1 us: %d of %d within %.1f; all: %d of %d" % (
        sum(n and long for n, long in near), sum(long for _, long in near), LIMIT, sum(n for n, _ in near), len(near)))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=0)


if __name__ == "__main__":
    main()
