#!/usr/bin/python3
"""Option max_error: measures the errors of generated models on some samples, lets a session choose nodes, and counts
the inputs that were not samples whose error exceeds the limit.

    max_error.py BUILD [--models N] [--samples N] [--held N] [--limits X,X] [--seed N] [--time]
                         [--convolutions]

Models: perceptrons and blocks of attention, 3 to 14 matrices with normal weights, some of them with a large column; or,
with --convolutions, residual blocks of 3 to 9 convolutions, some of them with a large filter.
Inputs are normal, every fourth one larger by a factor of up to 3. A line for each model and limit: the largest error of
the held inputs and the violations. Every node may be chosen, even if it saves no time; with --time only those that do,
and the line has the milliseconds of a run with floats and with the option, interleaved. The exit status is 1 if there
is a violation. Only the providers cpu and reference are used."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

TREE = pathlib.Path(__file__).resolve().parents[2]


class Maker:
    def __init__(self, rng):
        self.rng, self.nodes, self.weights = rng, [], []

    def add(self, op, *inputs, **attributes):
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, array):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def product(self, x, depth, columns):
        w = self.rng.normal(size=(depth, columns)) / np.sqrt(depth)
        if self.rng.random() < .3:
            w[:, self.rng.integers(columns)] *= 8
        return self.add("MatMul", x, self.constant(w.astype(np.float32)))

    def norm(self, x, size):
        return self.add("LayerNormalization", x, self.constant(np.ones(size, np.float32)),
                        self.constant(np.zeros(size, np.float32)))


def perceptron(m, rows, size):
    x = "x"
    for _ in range(m.rng.integers(3, 8)):
        x = m.norm(m.add(m.rng.choice(["Relu", "Tanh", "Sigmoid"]), m.product(x, size, size)), size)
    return m.product(x, size, 10)


def attention(m, rows, size):
    x = "x"
    for _ in range(m.rng.integers(1, 3)):
        n = m.norm(x, size)
        q, k, v = (m.product(n, size, size) for _ in range(3))
        scores = m.add("MatMul", q, m.add("Transpose", k, perm=[0, 2, 1]))
        weights = m.add("Softmax", m.add("Mul", scores, m.constant(np.float32(size ** -.5))), axis=-1)
        x = m.add("Add", x, m.product(m.add("MatMul", weights, v), size, size))
        h = m.add("Relu", m.product(m.norm(x, size), size, 2 * size))
        x = m.add("Add", x, m.product(h, 2 * size, size))
    return m.norm(x, size)


def filters(m, x, channels, count, window):
    w = m.rng.normal(size=(count, channels, window, window)) * np.sqrt(2 / (channels * window * window))
    if m.rng.random() < .3:
        w[m.rng.integers(count)] *= 4
    return m.add("Conv", x, m.constant(w.astype(np.float32)), m.constant(m.rng.normal(size=count).astype(np.float32) / 10),
                 pads=[window // 2] * 4)


def convolutions(m, rows, size):
    x = m.add("Reshape", "x", m.constant(np.array([1, rows, size // 16, 16])))
    x, channels = m.add("Relu", filters(m, x, rows, 32, 3)), 32
    for _ in range(m.rng.integers(1, 5)):
        h = m.add("Relu", filters(m, x, channels, 48, int(m.rng.choice([1, 3, 5]))))
        x = m.add("Relu", m.add("Add", x, filters(m, h, 48, channels, 1)))
    return m.product(m.add("Flatten", m.add("GlobalAveragePool", x)), channels, 40)


def write_model(path, rng, kinds):
    m, size = Maker(rng), int(rng.choice([64, 128, 192]))
    shape = [1, int(rng.integers(4, 33)), size]
    y = rng.choice(kinds)(m, shape[1], size)
    graph = helper.make_graph(m.nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, shape)],
                              [helper.make_tensor_value_info(y, T.FLOAT, None)], m.weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return shape


def inputs(rng, shape):
    x = rng.normal(size=shape).astype(np.float32)
    return x * np.float32(rng.uniform(1, 3)) if rng.random() < .25 else x


def first(outputs):
    return np.asarray(next(iter(outputs.values())) if isinstance(outputs, dict) else outputs[0])


def milliseconds(contexts, x):
    best = [float("inf")] * len(contexts)
    for _ in range(40):
        for i, context in enumerate(contexts):
            begin = time.perf_counter()
            context.run({"x": x})
            best[i] = min(best[i], time.perf_counter() - begin)
    return [1e3 * b for b in best]


def check(args, index, limits, inlay):
    rng = np.random.default_rng([args.seed, index])
    flags = ["--no-config", "--intra-threads=1", "--providers=cpu?,reference"]
    with tempfile.TemporaryDirectory() as work:
        model, table, data = (os.path.join(work, name) for name in ("m.onnx", "m.errors", "data.npz"))
        shape = write_model(model, rng, [convolutions] if args.convolutions else [perceptron, attention])
        np.savez(data, x=np.stack([inputs(rng, shape) for _ in range(args.samples)]))
        explain = [args.build / "bin/inlay", "explain", model, "--errors", "--data", data, "--save", table]
        subprocess.run(explain + flags, check=True, capture_output=True)
        if not args.time:  # every node, whether or not it saves time on this machine
            rows = json.load(open(table))
            for row in rows["rows"]:
                row["saved_ns"] = 2. if row["arithmetic"] == "int8" else 1.
            json.dump(rows, open(table, "w"))
        held = [inputs(rng, shape) for _ in range(args.held)]
        options = {"config": False, "intra_threads": 1, "providers": ["cpu?", "reference"]}
        plain = inlay.Session(model, **options)
        want = [first(plain.run({"x": x})) for x in held]
        for limit in limits:
            wanted = inlay.Session(model, max_error=str(limit), error_table=table, **options)
            errors = []
            for x, y in zip(held, want):
                got = first(wanted.run({"x": x}))
                errors.append(float(np.abs(got - y).max() / np.abs(y).max()))
            yield limit, errors, [plain, wanted] if args.time else None, held[0]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    ap.add_argument("--models", type=int, default=40)
    ap.add_argument("--samples", type=int, default=8)
    ap.add_argument("--held", type=int, default=50)
    ap.add_argument("--limits", default="1e-3,1e-2,5e-2")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--time", action="store_true")
    ap.add_argument("--convolutions", action="store_true")
    args = ap.parse_args()
    if "INLAY_LIBRARY" not in os.environ:
        os.environ["INLAY_LIBRARY"] = str(args.build / "lib/libinlay.so.1")
    sys.path.insert(0, str(TREE / "sdk/bindings/python"))
    import inlay
    violations = total = reduced = 0
    ratios = []
    for index in range(args.models):
        for limit, errors, sessions, x in check(args, index, [float(v) for v in args.limits.split(",")], inlay):
            over = sum(e > limit for e in errors)
            violations, total, reduced = violations + over, total + len(errors), reduced + (max(errors) > 0)
            if max(errors) > 0:
                ratios.append(limit / max(errors))
            took = "" if sessions is None else " %.3f ms -> %.3f ms" % tuple(milliseconds(sessions, x))
            print(f"model {index} limit {limit:g}: largest error {max(errors):.3g}, {over} violations{took}", flush=True)
    print(f"{violations} violations in {total} held inputs; {reduced} of {total // args.held} sessions reduced; "
          f"limit / largest error {min(ratios, default=0):.1f} to {max(ratios, default=0):.1f}, "
          f"median {np.median(ratios or [0]):.1f}")
    return violations > 0


if __name__ == "__main__":
    sys.exit(main())
