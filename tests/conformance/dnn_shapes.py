#!/usr/bin/python3
"""Shapes that two libraries of kernels are measured with, as models of one operator: the results of default settings
are compared with those of provider reference, and prices with the median of their kind.

    dnn_shapes.py BENCHDNN XNNPACK [--only TEXT] [--most MULTIPLICATIONS] [--first N] [--price FACTOR]

BENCHDNN is tests/benchdnn/inputs of https://github.com/uxlfoundation/oneDNN; XNNPACK is bench of
https://github.com/google/XNNPACK at a version of 2023, whose conv.h, dwconv.h and gemm.h have the shapes. Batches
become 1. Shapes with more multiplications than --most (3e7) are left out. Of each file, the first N (40) shapes are
taken, and every 25th of the others. Convolutions and products are tested with floats and with 8 bits. With --price,
models whose price for each multiplication is that many times above or below the median of their kind are printed. Needs
python3-onnx; INLAY_LIBRARY and PYTHONPATH as for the Python package."""
import argparse
import collections
import itertools
import math
import pathlib
import re
import statistics
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import inlay

RNG = np.random.default_rng(5)
AXES = "dhw"
EVERY = 25


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def codes(dtype, *shape):
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


class Made:
    """A model of one operator on input x, whose other inputs are constants."""

    def __init__(self, kind, macs, op, x, constants, opset=17, domain="", **attributes):
        self.kind, self.macs, self.x = kind, macs, x
        names = ["x"] + [f"c{i}" if c is not None else "" for i, c in enumerate(constants)]
        node = helper.make_node(op, names, ["y"], domain=domain, **attributes)
        held = [numpy_helper.from_array(c, f"c{i}") for i, c in enumerate(constants) if c is not None]
        code = helper.np_dtype_to_tensor_dtype(x.dtype) if hasattr(helper, "np_dtype_to_tensor_dtype") else {
            "float32": TensorProto.FLOAT, "uint8": TensorProto.UINT8}[str(x.dtype)]
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", code, x.shape)],
                                  [helper.make_empty_tensor_value_info("y")], held)
        self.data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)],
                                      ir_version=8).SerializeToString()


def numbers(text):
    """The members of a problem: ic64ih56..., names of benchdnn."""
    text = re.sub(r'n"[^"]*".*', "", text.split("#")[0]).replace("_", "")
    found = re.findall(r"([a-z]+)(-?\d+(?:\.\d+)?)", text)
    return {name: float(value) if "." in value else int(value) for name, value in found}


def spatial(p):
    """The axes of a problem, and a function that reads a member for each axis. A member that is missing is that of the
    axis after it in h, w or before it, as benchdnn takes squares."""
    deep = "id" in p or "kd" in p or "od" in p
    axes = "w" if "iw" in p and "ih" not in p and "id" not in p else "dhw" if deep else "hw"

    def read(name, otherwise):
        values = []
        for axis in axes:
            near = [p[name + other] for other in (axis, *("hdw" if axis == "w" else "dwh" if axis == "h" else "hwd"))
                    if name + other in p]
            values.append(near[0] if near else otherwise)
        return values
    return axes, read


def window(p, transposed=False):
    """(in, out, kernel, strides, dilations, pads, output_padding) of a convolution or pool; None: not in ONNX."""
    axes, read = spatial(p)
    inputs, kernel, strides = read("i", 0), read("k", 1), read("s", 1)
    dilations, begins = [1 + d for d in read("d", 0)], read("p", 0)
    if "d" in axes: # "dd" is the dilation of depth, but "d" of no axis
        dilations = [1 + p.get("d" + axis, p.get("dh", 0)) for axis in axes]
    else:
        dilations = [1 + p.get("d" + axis, p.get("dh", p.get("dw", 0))) for axis in axes]
    ends, more, outputs = [], [], read("o", 0)
    for i, (size, k, s, d, b) in enumerate(zip(inputs, kernel, strides, dilations, begins)):
        reach = (k - 1) * d + 1
        if transposed:
            if outputs[i] < 1:
                outputs[i] = (size - 1) * s + reach - 2 * b
            end = (size - 1) * s + reach - b - outputs[i]
            ends.append(max(end, 0))
            more.append(max(-end, 0))
            if more[-1] >= s:
                return None
            continue
        if outputs[i] < 1:
            outputs[i] = (size + 2 * b - reach) // s + 1
        end = (outputs[i] - 1) * s + reach - size - b
        ends.append(max(end, 0))
        if size < 1 or outputs[i] < 1 or (size + b + ends[-1] - reach) // s + 1 != outputs[i]:
            return None
    return inputs, outputs, kernel, strides, dilations, begins + ends, more


def quantized_conv(kind, macs, x_shape, w_shape, attributes):
    x, w = codes(np.uint8, *x_shape), codes(np.int8, *w_shape)
    reach = math.prod(w_shape[1:])
    scale = np.float32(3e-5)
    out = np.float32(scale * 74 * 74 * math.sqrt(reach) / 40)
    bias = RNG.integers(-5000, 5000, w_shape[0]).astype(np.int32)
    return Made(kind + " of 8 bits", macs, "QLinearConv", x, [np.float32(1), np.uint8(128), w, scale, np.int8(0), out,
                                                           np.uint8(128), bias], **attributes)


def conv(p, most):
    found = window(p)
    if found is None or "ic" not in p or "oc" not in p:
        return
    inputs, outputs, kernel, strides, dilations, pads, _ = found
    groups = p.get("g", 1)
    macs = p["oc"] * p["ic"] // groups * math.prod(kernel) * math.prod(outputs)
    if macs > most or p["ic"] * math.prod(inputs) > most:
        return
    kind = "depthwise" if groups > 1 and groups == p["ic"] else "convolution"
    attributes = {"strides": strides, "dilations": dilations, "pads": pads, "group": groups}
    shapes = (1, p["ic"], *inputs), (p["oc"], p["ic"] // groups, *kernel)
    yield Made(kind, macs, "Conv", floats(*shapes[0]), [floats(*shapes[1]), floats(p["oc"])], **attributes)
    yield quantized_conv(kind, macs, *shapes, attributes)


def deconv(p, most):
    found = window(p, transposed=True)
    if found is None:
        return
    inputs, _, kernel, strides, dilations, pads, more = found
    groups = p.get("g", 1)
    macs = p["oc"] * p["ic"] // groups * math.prod(kernel) * math.prod(inputs)
    if macs <= most:
        yield Made("transposed convolution", macs, "ConvTranspose", floats(1, p["ic"], *inputs),
                   [floats(p["ic"], p["oc"] // groups, *kernel), floats(p["oc"])], strides=strides, dilations=dilations,
                   pads=pads, output_padding=more, group=groups)


def product(m, n, k, most, batches=((), ())):
    macs = m * n * k * math.prod(np.broadcast_shapes(*batches))
    if macs > most:
        return
    yield Made("product", macs, "MatMul", floats(*batches[0], m, k), [floats(*batches[1], k, n)])
    yield Made("product of 8 bits", macs, "MatMulInteger", codes(np.uint8, *batches[0], m, k),
               [codes(np.int8, *batches[1], k, n), np.uint8(7), np.int8(0)])


def matmul(line, most):
    sides = re.fullmatch(r"([\dx]+):([\dx]+)(?::[\dx]+)?", re.sub(r'_?n".*', "", line).strip())
    if sides is None:
        return
    a, b = ([int(size) for size in side.split("x")] for side in sides.groups())
    if min(*a, *b) > 0 and len(a) == len(b) > 1:
        yield from product(a[-2], b[-1], a[-1], most, (a[:-2], b[:-2]))


def inner(p, most):
    size = p["ic"] * math.prod(p.get("i" + axis, p.get("ih", 1) if axis == "w" else 1) for axis in AXES)
    if size * p["oc"] <= most:
        yield Made("inner product", size * p["oc"], "Gemm", floats(1, size), [floats(p["oc"], size), floats(p["oc"])],
                   transB=1)


def pool(p, most):
    found = window(p)
    if found is None or "ic" not in p:
        return
    inputs, outputs, kernel, strides, dilations, pads, _ = found
    macs = p["ic"] * math.prod(outputs) * math.prod(kernel)
    count = len(kernel)
    if macs > most or p["ic"] * math.prod(inputs) > most or any(
            pads[i] >= kernel[i] or pads[i + count] >= kernel[i] for i in range(count)):
        return
    x = floats(1, p["ic"], *inputs)
    settings = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    yield Made("pool", macs, "MaxPool", x, [], dilations=dilations, **settings)
    if set(dilations) == {1}:
        yield Made("pool", macs, "AveragePool", x, [], count_include_pad=int(p["ic"] % 2), **settings)


def lrn(p, most):
    _, read = spatial(p)
    shape = (1, p["ic"], *read("i", 1))
    if math.prod(shape) <= most:
        yield Made("LRN", math.prod(shape) * p.get("ls", 5), "LRN", floats(*shape), [], size=p.get("ls", 5),
                   alpha=float(p.get("alpha", 1e-4)), beta=float(p.get("beta", 0.75)), bias=float(p.get("k", 1)))


def resampling(p, most):
    _, read = spatial(p)
    inputs, outputs = read("i", 1), read("o", 1)
    if p["ic"] * math.prod(inputs) > most or p["ic"] * math.prod(outputs) > most:
        return
    for mode in ("nearest", "linear"):
        yield Made("resampling", p["ic"] * math.prod(outputs), "Resize", floats(1, p["ic"], *inputs),
                   [None, None, np.array([1, p["ic"], *outputs])], mode=mode)


def rows(line, most):
    """Softmax and normalization of a shape."""
    found = re.match(r"(\d+(?:x\d+)+)", line)
    if found is None:
        return
    shape = [int(size) for size in found.group(1).split("x")]
    if math.prod(shape) > most:
        return
    for axis in range(len(shape)):
        yield Made("softmax", math.prod(shape), "Softmax", floats(*shape), [], axis=axis)
    yield Made("normalization", math.prod(shape), "LayerNormalization", floats(*shape),
               [floats(shape[-1]), floats(shape[-1])])


def batch(p, most):
    _, read = spatial(p)
    shape = (1, p["ic"], *(size for size in read("i", 0) if size > 0))
    if math.prod(shape) > most:
        return
    x = floats(*shape)
    yield Made("batch normalization", x.size, "BatchNormalization", x,
               [floats(p["ic"]), floats(p["ic"]), floats(p["ic"]), np.abs(floats(p["ic"])) + np.float32(0.1)])
    if len(shape) > 2 and math.prod(shape[2:]) > 1:
        yield Made("instance normalization", x.size, "InstanceNormalization", x, [floats(p["ic"]), floats(p["ic"])])


def recurrent(p, most):
    steps, x, hidden = p.get("t", 1), p["sic"], p.get("dhc", p["sic"])
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        macs = steps * gates * hidden * (x + hidden)
        if macs <= most:
            yield Made("recurrent", macs, op, floats(steps, 1, x) / np.float32(4),
                       [floats(1, gates * hidden, x) / np.float32(math.sqrt(x)),
                        floats(1, gates * hidden, hidden) / np.float32(math.sqrt(hidden))], hidden_size=hidden)


READERS = {"conv": conv, "deconv": deconv, "ip": inner, "pool": pool, "lrn": lrn, "resampling": resampling,
           "bnorm": batch, "rnn": recurrent}


def benchdnn(folder, first, most):
    """(name, models) of each shape."""
    for path in sorted(folder.glob("*/shapes*")):
        driver, taken, seen = path.parent.name, 0, set()
        for line in path.read_text().splitlines():
            line = line.strip()
            key = re.sub(r'_?n".*|mb\d+', "", line)
            if not line or line.startswith(("#", "-")) or key in seen:
                continue
            seen.add(key)
            taken += 1
            if taken > first and taken % EVERY != 0:
                continue
            name = f"{driver}/{path.name} {line}"
            if driver == "matmul":
                yield name, matmul(line, most)
            elif driver in ("softmax", "lnorm"):
                yield name, rows(line, most)
            elif driver in READERS:
                yield name, READERS[driver](numbers(line), most)


def xnnpack(folder, most):
    for file, names in (("conv.h", ("ih", "iw", "kh", "kw", "ph", "pw", "sh", "d", "ic", "oc")),
                        ("dwconv.h", ("ih", "iw", "kh", "kw", "ph", "pw", "sh", "d", "g")),
                        ("gemm.h", ("m", "n", "k"))):
        seen = set()
        for line in re.findall(r"b->Args\(\{(.*?)\}\);", (folder / file).read_text()):
            values = [math.prod(int(x) for x in part.split("*")) for part in line.split(",")]
            if tuple(values) in seen or len(values) != len(names):
                continue
            seen.add(tuple(values))
            p = dict(zip(names, values))
            if file == "gemm.h":
                yield f"{file} {line}", product(p["m"], p["n"], p["k"], most)
                continue
            # Padding is that of both sides; strides and dilations are those of both axes.
            first = {axis: p["p" + axis] // 2 for axis in "hw"}
            reach = {axis: (p["k" + axis] - 1) * p["d"] + 1 for axis in "hw"}
            p.update({"o" + axis: (p["i" + axis] + p["p" + axis] - reach[axis]) // p["sh"] + 1 for axis in "hw"})
            p.update(ph=first["h"], pw=first["w"], sw=p["sh"], dh=p["d"] - 1, dw=p["d"] - 1)
            if file == "dwconv.h":
                p.update(ic=p["g"], oc=p["g"])
            yield f"{file} {line}", conv(p, most)


def difference(got, want):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.abs(want[np.isfinite(want)])
    allowed = 5e-5 * (float(finite.max()) if finite.size else 0) + 1e-6
    wrong = ~((np.abs(got - want) <= allowed) | (got == want) | (np.isnan(got) & np.isnan(want)))
    if not wrong.any():
        return ""
    at = tuple(int(x) for x in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} elements: at {list(at)} {got[at]}, not {want[at]}"


def run(made):
    """(difference, price in ns)"""
    with inlay.Session(made.data, config=False, cache_dir="") as session:
        got = session.run({"x": made.x})["y"]
        price = session.explain().json["cost_ns"]
    with inlay.Session(made.data, config=False, cache_dir="", providers="reference", level="0") as session:
        want = session.run({"x": made.x})["y"]
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype == np.uint8 and made.kind.endswith("of 8 bits"): # a result in the middle of two steps
        near = np.abs(got.astype(int) - want.astype(int)) <= 1
        if near.all() and (got != want).mean() < 0.001:
            return "", price
    return difference(got, want), price


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchdnn", type=pathlib.Path)
    parser.add_argument("xnnpack", type=pathlib.Path)
    parser.add_argument("--only", default="", help="shapes whose names contain this text")
    parser.add_argument("--most", type=float, default=3e7, help="most multiplications of a shape")
    parser.add_argument("--first", type=int, default=40)
    parser.add_argument("--price", type=float, default=0)
    args = parser.parse_args()
    counts, prices = collections.Counter(), collections.defaultdict(list)
    for name, models in itertools.chain(benchdnn(args.benchdnn, args.first, args.most),
                                        xnnpack(args.xnnpack, args.most)):
        if args.only not in name:
            continue
        count = 0
        for made in models:
            count += 1
            try:
                wrong, price = run(made)
                prices[made.kind].append((price / max(made.macs, 1), price, name))
            except inlay.InlayError as error:
                wrong = str(error)
            counts["failed" if wrong else "passed"] += 1
            if wrong:
                print(f"{name}: {made.kind}: {wrong}", flush=True)
        counts["shapes" if count else "left out"] += 1
    for kind, known in sorted(prices.items()) if args.price else ():
        middle = statistics.median(price for price, _, _ in known)
        print(f"{kind}: {len(known)} models, median {middle:.4f} ns for each multiplication")
        for rate, price, name in sorted(known):
            # The cost of a call hides that of its multiplications.
            if rate * args.price < middle or rate > middle * args.price and price > 20000:
                print(f"  {rate / middle:.3g} times the median, {price:.0f} ns: {name}")
    print(f"{counts['shapes']} shapes, {counts['left out']} left out: {counts['passed']} models passed, "
          f"{counts['failed']} failed")
    return counts["failed"] > 0 or counts["passed"] == 0


if __name__ == "__main__":
    sys.exit(main())
