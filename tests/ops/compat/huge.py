#!/usr/bin/env python3
"""Attributes far larger than the image: the memory depends on the image only, or the model is refused with one line.

    huge.py INLAY

Each case is a small input and one huge attribute. On each provider the run ends with a result or with one line, within
the memory below; convolutions and pools are also compared with numpy."""
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper

from models import constant, info, model, type_of

PROVIDERS = ("reference", "cpu,reference", "onednn,reference", "openblas,reference")
MOST_KB = 200 << 10 # of a process, of which about 60 MB are programs
RNG = np.random.default_rng(3)
SIZES = (3000017, 2**31 - 1, 2**62)


def floats(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


X, X1, W = floats(1, 2, 6, 6), floats(1, 2, 9), floats(2, 2, 3, 3)


def pad_of(count, size, window, stride, auto):
    """The padding at the start and the number of outputs along one axis."""
    if auto == "VALID":
        return 0, (size - window) // stride + 1
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + window - size, 0)
    return total // 2 if auto == "SAME_UPPER" else total - total // 2, outputs


def windows(size, kernel, stride=1, dilation=1, begin=0, outputs=1):
    """For each output the pairs (tap, index) inside the image; all other taps are skipped."""
    for o in range(outputs):
        first = o * stride - begin
        low = max(0, -(first // dilation))
        yield [(k, first + k * dilation) for k in range(low, min(kernel, (size - 1 - first) // dilation + 1))
               if 0 <= first + k * dilation < size]


def conv(x, w, rows, columns):
    rows, columns = list(rows), list(columns)
    y = np.zeros((1, w.shape[0], len(rows), len(columns)), np.float32)
    for (i, row), (j, column) in itertools.product(enumerate(rows), enumerate(columns)):
        for (ky, at), (kx, to) in itertools.product(row, column):
            y[0, :, i, j] += w[:, :, ky, kx] @ x[0, :, at, to]
    return y


def pool(x, rows, columns, mean):
    rows, columns = list(rows), list(columns)
    y = np.empty((1, x.shape[1], len(rows), len(columns)), np.float32)
    for (i, row), (j, column) in itertools.product(enumerate(rows), enumerate(columns)):
        met = x[0][:, [at for _, at in row]][:, :, [to for _, to in column]].reshape(x.shape[1], -1)
        y[0, :, i, j] = met.mean(1) if mean else met.max(1)
    return y


def compared(big):
    """(operator, inputs, attributes, expected output)"""
    plain = list(windows(6, 3, outputs=4))
    for auto in ("SAME_UPPER", "SAME_LOWER"):
        begin, outputs = pad_of(3, 6, 2 * big + 1, 1, auto)
        same = list(windows(6, 3, begin=1, outputs=6))
        yield "Conv", [X, W], {"dilations": [1, big], "auto_pad": auto}, conv(
            X, W, same, windows(6, 3, 1, big, begin, outputs))
        yield "Conv", [X, W], {"strides": [1, big], "auto_pad": auto}, conv(
            X, W, same, windows(6, 3, big, 1, pad_of(3, 6, 3, big, auto)[0], 1))
        begin, outputs = pad_of(1, 6, big, 2, auto)
        three = pad_of(1, 6, 3, 2, auto)
        for op in ("MaxPool", "AveragePool"):
            yield op, [X], {"kernel_shape": [3, big], "strides": [2, 2], "auto_pad": auto}, pool(
                X, windows(6, 3, 2, 1, *three), windows(6, big, 2, 1, begin, outputs), op == "AveragePool")
    yield "Conv", [X, W], {"strides": [1, big]}, conv(X, W, plain, windows(6, 3, big))
    yield "Conv", [X, W], {"strides": [big, 1]}, conv(X, W, windows(6, 3, big), plain)
    yield "Conv", [X, W], {"pads": [0, big, 0, 0], "strides": [1, big]}, conv(
        X, W, plain, windows(6, 3, big, 1, big, 2))
    yield "Conv", [X, W], {"pads": [big, 0, big, 0], "dilations": [big, 1]}, conv(
        X, W, windows(6, 3, 1, big, big, 6), plain)
    yield "Conv", [X[:, :1], W[:, :1]], {"pads": [big, 0, big, 0], "dilations": [big, 1]}, conv(
        X[:, :1], W[:, :1], windows(6, 3, 1, big, big, 6), plain)


def bounded(big):
    """(operator, inputs, attributes, opset): success and failure are both legal, but not high memory use."""
    x5, rois = floats(1, 1, 4, 4, 4), np.array([[0, 0, 5, 5]], np.float32)
    for op, extra in (("MaxPool", {}), ("AveragePool", {"count_include_pad": 1}), ("LpPool", {"p": 2})):
        yield op, [X], dict(kernel_shape=[3, big], pads=[0, big // 2, 0, big // 2], **extra), 17
        yield op, [X], dict(kernel_shape=[3, 3], pads=[0, big, 0, 0], strides=[1, big], **extra), 17
        yield op, [X1], dict(kernel_shape=[big], auto_pad="SAME_UPPER", **extra), 17
        yield op, [x5], dict(kernel_shape=[2, big, 2], auto_pad="SAME_UPPER", **extra), 17
    yield "MaxPool", [(X * 9).astype(np.int8)], {"kernel_shape": [3, big], "auto_pad": "SAME_UPPER"}, 17
    yield "MaxPool", [X], {"kernel_shape": [3, 2], "dilations": [1, big], "auto_pad": "SAME_UPPER"}, 17
    yield "ConvTranspose", [X, W], {"output_shape": [6, 6], "strides": [1, big]}, 17
    if big > SIZES[0]: # the result itself is large
        yield "ConvTranspose", [X, W], {"pads": [0, big, 0, big], "strides": [1, big]}, 17
    pads = {"pads": [0, big, 0, big], "dilations": [1, big]}
    yield "ConvInteger", [(X * 9).astype(np.uint8), (W * 9).astype(np.uint8)], pads, 17
    yield "DeformConv", [X, W, np.zeros((1, 18, 4, 4), np.float32)], {"dilations": [1, big]}, 19
    yield "MaxUnpool", [X, np.zeros(X.shape, np.int64)], {"kernel_shape": [2, 2], "pads": [0, big, 0, big]}, 17
    for image, block, attributes in (([5, 5], [1, big], {}), ([5, 5], [1, 5], {"dilations": [1, big]}),
                                     ([5, 5], [1, 5], {"strides": [1, big]})):
        yield "Col2Im", [floats(1, 5, 5), np.array(image), np.array(block)], attributes, 18
    yield "LRN", [X], {"size": big}, 13
    for mode in ("avg", "max"):
        yield "RoiAlign", [X, rois, np.array([0])], {"sampling_ratio": big, "output_height": 2, "output_width": 2,
                                                     "mode": mode}, 16
    yield "MaxRoiPool", [X, np.array([[0, 0, 0, 1e30, 1e30]], np.float32)], {"pooled_shape": [2, 2]}, 13
    yield "Pad", [X, np.array([0, 0, 0, -big, 0, 0, 0, big])], {}, 13
    yield "Pad", [X, np.array([0, 0, 0, big, 0, 0, 0, -big])], {}, 13
    yield "Resize", [X, None, np.array([1, 1, 1, 1 / big], np.float32)], {"mode": "linear", "antialias": 1}, 18
    yield "TfIdfVectorizer", [np.arange(12)], {"max_gram_length": 2, "min_gram_length": 1, "max_skip_count": big,
                                               "mode": "TF", "ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2],
                                               "pool_int64s": [2, 3, 5, 4]}, 9


def run(inlay, folder, op, inputs, attributes, opset, providers):
    """Returns the error and the path of the output. The measured memory is at least that of this process, which is small."""
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(inputs)]
    made = model([helper.make_node(op, names, ["y"], **attributes)],
                 [info("x0", list(inputs[0].shape), type_of(inputs[0]))], [onnx.ValueInfoProto(name="y")],
                 [constant(n, a) for n, a in list(zip(names, inputs))[1:] if a is not None], imports=(("", opset),))
    path, out = os.path.join(folder, "m.onnx"), os.path.join(folder, "out")
    onnx.save(made, path)
    os.makedirs(os.path.join(folder, "in"), exist_ok=True)
    np.save(os.path.join(folder, "in", "x0.npy"), inputs[0])
    command = [inlay, "run", path, "--inputs", os.path.join(folder, "in"), "--outputs", out, "--providers", providers]
    command += ["--policy", "priority"] if "," in providers else []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          env=dict(os.environ, INLAY_CACHE_DIR="", INLAY_PROBE="never")) as process:
        error = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wrong = []
    if process.returncode != 0 and (not 0 < process.returncode < 128 or len(error.strip().splitlines()) != 1):
        wrong.append(f"exit {process.returncode}: {error.strip()[:300]}")
    if usage.ru_maxrss > MOST_KB:
        wrong.append(f"took {usage.ru_maxrss >> 10} MB")
    return wrong, os.path.join(out, "y.npy") if process.returncode == 0 else None


def main():
    inlay, bad, count = sys.argv[1], 0, 0
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    listed = subprocess.run([inlay, "providers", "--json"], check=True, capture_output=True, text=True).stdout
    built = {p["name"] for p in json.loads(listed)["providers"]}
    for big, providers in itertools.product(SIZES, [p for p in PROVIDERS if built.issuperset(p.split(","))]):
        cases = [(*c[:3], 17, c[3]) for c in compared(big)] if big < 2**40 else []
        for op, inputs, attributes, opset, want in cases + [(*c, None) for c in bounded(big)]:
            count += 1
            with tempfile.TemporaryDirectory() as folder:
                wrong, path = run(inlay, folder, op, inputs, attributes, opset, providers)
                got = np.load(path) if path and want is not None else None
            if got is not None and (got.shape != want.shape or
                                    not np.allclose(got, want, 1e-4, 1e-5)):
                wrong.append(f"is {got.tolist()}, expected {want.tolist()}")
            if want is not None and got is None and big == SIZES[0]:
                wrong.append("is refused")
            for text in wrong:
                print(f"{op} {attributes} on {providers}: {text}")
            bad += bool(wrong)
    print(f"{count} runs, {bad} wrong")
    return 1 if bad or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
