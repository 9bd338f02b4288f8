#!/usr/bin/env python3
"""The expected times of inlay compared with measured ones, and its choices with the best single provider.

    predict.py [--models FOLDER]... [--layers N] [--seed N] [--threads 1,2] [--rounds N] [--seconds S] [--tune]
               [--providers cpu,onednn,openblas] [--kind KIND] [--match TEXT] [--json FILE] [FLAG...]

Models are FOLDER/*/model.onnx; layers are N random models of one node, from 1 KB to 256 MB: Gemm of 1 to 64 rows, Conv
of all kinds, attention, recurrent, quantized, elementwise; --kind: only those of one function, or convolutions with any
stride (windows). Expected is what `inlay explain` and `inlay bench` print.
Measured is the shortest run; on one thread its CPU time if that is less, so that other processes have little effect.
Regret is the time of the default assignment / the shortest of all single providers, and with --tune of the tuned
assignment; runs are interleaved. FLAGs are passed to inlay. Prints a row per model, then for each number of threads the
median and the 95 % quantile of |expected / measured - 1|, and the geometric mean and the worst regret."""
import argparse
import glob
import json
import math
import os
import subprocess
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from predictions import ROOT, Model, weights

INLAY = os.environ.get("INLAY", os.path.join(ROOT, "build", "release", "bin", "inlay"))


def between(rng, low, high):
    """A whole number, uniform in its logarithm."""
    return int(round(math.exp(rng.uniform(math.log(low), math.log(high)))))


def gemm(rng):
    rows, depth, columns = between(rng, 1, 64), between(rng, 16, 9216), between(rng, 16, 4096)
    return Model(f"Gemm {rows}x{depth}x{columns}", "Gemm",
                 [[rows, depth], weights(columns, depth), weights(columns)], transB=1)


def matmul(rng):
    rows, depth, columns = between(rng, 1, 512), between(rng, 16, 2048), between(rng, 16, 2048)
    other = [depth, columns] if rng.random() < 0.3 else weights(depth, columns)
    return Model(f"MatMul {rows}x{depth}x{columns}", "MatMul", [[rows, depth], other])


def conv(rng):
    channels, side = between(rng, 3, 512), between(rng, 7, 112)
    kind, kernel = rng.integers(4), int(rng.choice([1, 3, 3, 5, 7]))
    filters, group, stride = between(rng, 8, 512), 1, int(rng.choice([1, 1, 2]))
    if kind == 0:
        kernel = 1
    elif kind == 1:
        group = filters = channels
        kernel = max(kernel, 3)
    elif kind == 2:
        group, channels, filters = 4, (channels + 3) // 4 * 4, (filters + 3) // 4 * 4
    return Model(f"Conv {channels}x{side}x{side} {filters} filters {kernel}x{kernel} group {group} stride {stride}",
                 "Conv", [[1, channels, side, side], weights(filters, channels // group, kernel, kernel)],
                 kernel_shape=[kernel, kernel], pads=[kernel // 2] * 4, strides=[stride, stride], group=group)


def windows(rng):
    """A convolution with any stride, of oblong images, with or without padding; not among KINDS."""
    images, channels, filters = int(rng.choice([1, 1, 2, 4])), between(rng, 3, 512), between(rng, 3, 512)
    kernel, stride = int(rng.choice([1, 1, 2, 3, 3, 5, 7])), int(rng.choice([1, 2, 2, 3]))
    height, width, pad = between(rng, 7, 112), between(rng, 7, 112), int(rng.choice([0, kernel // 2]))
    group = int(rng.choice([1, 1, 1, 4]))
    channels, filters = (channels + group - 1) // group * group, (filters + group - 1) // group * group
    return Model(f"Conv {images}x{channels}x{height}x{width} {filters} filters {kernel}x{kernel} group {group} stride "
                 f"{stride} pad {pad}",
                 "Conv", [[images, channels, height, width], weights(filters, channels // group, kernel, kernel)],
                 kernel_shape=[kernel, kernel], pads=[pad] * 4, strides=[stride, stride], group=group)


def elementwise(rng):
    rows, columns = between(rng, 1, 4096), between(rng, 64, 8192)
    op = str(rng.choice(["Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Add", "Mul", "Softmax", "LayerNormalization",
                         "Transpose", "ReduceMean"]))
    shape, more = [rows, columns], {}
    inputs = [shape]
    if op in ("Add", "Mul"):
        inputs = [shape, shape]
    elif op == "LayerNormalization":
        inputs = [shape, weights(columns), weights(columns)]
    elif op in ("Softmax", "Transpose", "ReduceMean"):
        more = {"Softmax": {"axis": -1}, "Transpose": {"perm": [1, 0]}, "ReduceMean": {"axes": [1]}}[op]
    return Model(f"{op} {rows}x{columns}", op, inputs, **more)


def pool(rng):
    channels, side = between(rng, 8, 256), between(rng, 8, 112)
    op = str(rng.choice(["MaxPool", "AveragePool"]))
    return Model(f"{op} {channels}x{side}x{side}", op, [[1, channels, side, side]], kernel_shape=[3, 3],
                 pads=[1, 1, 1, 1], strides=[2, 2])


def recurrent(rng):
    steps, width, hidden = between(rng, 4, 64), between(rng, 16, 512), between(rng, 16, 512)
    op, gates = [("LSTM", 4), ("GRU", 3)][rng.integers(2)]
    return Model(f"{op} {steps} steps {width} to {hidden}", op,
                 [[steps, 1, width], weights(1, gates * hidden, width), weights(1, gates * hidden, hidden)],
                 hidden_size=hidden)


class Graph:
    """A model of several nodes that make one layer."""

    def __init__(self, name, nodes, inputs, constants, dtype=TensorProto.FLOAT):
        self.name, self.nodes, self.inputs, self.constants, self.dtype = name, nodes, inputs, constants, dtype

    def write(self, path):
        graph = helper.make_graph(
            self.nodes, "layer", [helper.make_tensor_value_info(k, self.dtype, v) for k, v in self.inputs.items()],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(v, k) for k, v in self.constants.items()])
        with open(path, "wb") as file:
            file.write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                                         ir_version=8).SerializeToString())


def attention(rng):
    heads, tokens, width = between(rng, 1, 16), between(rng, 8, 512), int(rng.choice([32, 64, 128]))
    shape = [1, heads, tokens, width]
    nodes = [helper.make_node("MatMul", ["q", "k"], ["scores"]), helper.make_node("Mul", ["scores", "s"], ["scaled"]),
             helper.make_node("Softmax", ["scaled"], ["shares"], axis=-1),
             helper.make_node("MatMul", ["shares", "v"], ["y"])]
    return Graph(f"attention {heads} heads {tokens} tokens of {width}", nodes,
                 {"q": shape, "k": [1, heads, width, tokens], "v": shape},
                 {"s": np.array(width ** -0.5, np.float32)})


def quantized(rng):
    rows, depth, columns = between(rng, 1, 256), between(rng, 64, 2048), between(rng, 64, 2048)
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
             helper.make_node("MatMulInteger", ["q", "w", "zero"], ["sums"]),
             helper.make_node("Cast", ["sums"], ["floats"], to=TensorProto.FLOAT),
             helper.make_node("Mul", ["floats", "scale"], ["y"])]
    return Graph(f"quantized {rows}x{depth}x{columns}", nodes, {"x": [rows, depth]},
                 {"w": np.random.default_rng(1).integers(-127, 128, (depth, columns)).astype(np.int8)})


KINDS = [gemm, gemm, gemm, conv, conv, conv, conv, matmul, matmul, elementwise, elementwise, elementwise, pool,
         attention, quantized, recurrent]


def bench(path, threads, options, providers=None, cache=""):
    """Expected and measured milliseconds; None if the providers cannot run the model."""
    command = [INLAY, "bench", path, "--quiet", "--json", "--cache-dir", cache, "--intra-threads", str(threads),
               "--seconds", str(options.seconds), *options.flags]
    if providers is not None:
        command += ["--providers", providers]
    inputs = os.path.join(os.path.dirname(path), "inputs")
    if os.path.isdir(inputs):
        command += ["--inputs", inputs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        if providers is None:
            print(f"{path}: {done.stderr.strip()[-300:]}", flush=True)
        return None
    times = json.loads(done.stdout)
    return times["predicted_ms"], min(times["min_ms"], times["cpu_ms"]) if threads == 1 else times["min_ms"]


def measure(name, path, threads, options):
    """The row of a model."""
    ways = {"default": (None, "")}
    for provider in options.providers:
        ways[provider] = (f"{provider},reference", "")
    if options.tune:
        cache = tempfile.mkdtemp()
        subprocess.run([INLAY, "tune", path, "--quiet", "--cache-dir", cache, "--intra-threads", str(threads),
                        "--budget-s", "20"], capture_output=True, timeout=600, check=False)
        ways["tuned"] = (None, cache)
    best, expected = {}, {}
    for _ in range(options.rounds):
        for way, (providers, cache) in ways.items():
            if best.get(way, 0) is None:
                continue
            times = bench(path, threads, options, providers, cache)
            if times is None:
                best[way] = None
                continue
            expected[way] = times[0]
            best[way] = min(best.get(way) or math.inf, times[1])
    if not best.get("default"):
        return None
    others = [took for way, took in best.items() if way != "default" and took]
    return {"name": name, "threads": threads, "expected_ms": expected["default"], "expected": expected, "ms": best,
            "ratio": expected["default"] / best["default"],
            "regret": best["default"] / min(others + [best["default"]])}


def inputs_of(folder):
    """Unpacks inputs.npz for `inlay bench --inputs`."""
    path, to = os.path.join(folder, "inputs.npz"), os.path.join(folder, "inputs")
    if os.path.exists(path) and not os.path.isdir(to):
        os.mkdir(to)
        for name, value in np.load(path).items():
            np.save(os.path.join(to, name.replace("/", "_").replace(":", "_")), value)


def models(options, scratch):
    for folder in options.models:
        for path in sorted(glob.glob(os.path.join(folder, "*", "model.onnx"))):
            inputs_of(os.path.dirname(path))
            yield os.path.basename(os.path.dirname(path)), path
    rng = np.random.default_rng(options.seed)
    for _ in range(options.layers):
        layer = globals()[options.kind](rng) if options.kind else KINDS[rng.integers(len(KINDS))](rng)
        path = os.path.join(scratch, "model.onnx")
        if options.match in layer.name:
            layer.write(path)
            yield layer.name, path


def summary(rows, threads):
    errors = sorted(abs(row["ratio"] - 1) for row in rows)
    ratios = sorted(row["ratio"] for row in rows)
    regrets = [row["regret"] for row in rows]
    print(f"{threads} threads, {len(rows)} models: expected / measured {ratios[len(rows) // 20]:.2f} (5 %) "
          f"{ratios[len(rows) // 2]:.2f} (median) {ratios[len(rows) * 19 // 20]:.2f} (95 %); error "
          f"{errors[len(rows) // 2]:.0%} (median) {errors[len(rows) * 19 // 20]:.0%} (95 %); regret "
          f"{math.exp(sum(map(math.log, regrets)) / len(regrets)):.3f} (mean) {max(regrets):.2f} (worst)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", action="append", default=[])
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", default="1")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--providers", default="cpu,onednn,openblas")
    parser.add_argument("--kind", choices=["windows", *(kind.__name__ for kind in KINDS)])
    parser.add_argument("--match", default="")
    parser.add_argument("--json")
    options, options.flags = parser.parse_known_args()
    options.providers = [name for name in options.providers.split(",") if name]
    rows = []
    for threads in map(int, options.threads.split(",")):
        with tempfile.TemporaryDirectory() as scratch:
            for name, path in models(options, scratch):
                row = measure(name, path, threads, options) if options.match in name else None
                if row is None:
                    continue
                rows.append(row)
                times = " ".join(f"{way} {took:.3f} ({row['expected'][way] / took:.2f})"
                                 for way, took in row["ms"].items() if took)
                print(f"{name:<44} expected {row['expected_ms']:9.3f} ratio {row['ratio']:5.2f} regret "
                      f"{row['regret']:4.2f}  {times}", flush=True)
                if options.json:
                    with open(options.json, "w", encoding="utf-8") as file:
                        json.dump(rows, file, indent=0)
        own = [row for row in rows if row["threads"] == threads]
        if own:
            summary(own, threads)


if __name__ == "__main__":
    main()
