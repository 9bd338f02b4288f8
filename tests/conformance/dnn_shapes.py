#!/usr/bin/python3
"""Shapes that two libraries of kernels are measured with, as models of one operator: the results of settings are
compared with those of provider reference, and prices of default settings with the median of their kind.

    dnn_shapes.py BENCHDNN XNNPACK [--only TEXT] [--most MULTIPLICATIONS] [--first N] [--settings NAMES]
                  [--price FACTOR]

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

    def __init__(self, kind, macs, op, x, constants, opset=20, domain="", **attributes):
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


def group(p, most):
    _, read = spatial(p)
    shape = (1, p["ic"], *(size for size in read("i", 0) if size > 0))
    if math.prod(shape) <= most and p["ic"] % p["g"] == 0:
        yield Made("group normalization", math.prod(shape), "GroupNormalization", floats(*shape),
                   [floats(p["ic"]), floats(p["ic"])], opset=21, num_groups=p["g"])


def sizes(text):
    return [int(size) for size in text.split("x")]


FUNCTIONS = ("Abs", "Ceil", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Neg",
             "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Softplus", "Softsign", "Tanh")
REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
              "ReduceSum", "ReduceSumSquare")


def functions(line, most):
    found = re.match(r"\d+(x\d+)*", line)
    if math.prod(sizes(found.group(0))) > most:
        return
    x = floats(*sizes(found.group(0))) * np.float32(3)
    for op in FUNCTIONS:
        yield Made("function", x.size, op, x, [])
    for op in ("Log", "Sqrt"):
        yield Made("function", x.size, op, np.abs(x) + np.float32(1e-3), [])
    yield Made("function", x.size, "Clip", x, [np.float32(-1), np.float32(2)])
    yield Made("function", x.size, "Pow", np.abs(x), [np.float32(1.5)])


def pair_of(line):
    """The shapes of two tensors; the second one has as many axes."""
    found = re.match(r"(\d+(?:x\d+)*):(\d+(?:x\d+)*)(?!.*:\d)", re.sub(r'_?n".*|^--.* ', "", line))
    if found is None:
        return None
    first, second = sizes(found.group(1)), sizes(found.group(2))
    return first, second + [1] * (len(first) - len(second))


def reductions(line, most):
    found = pair_of(line)
    if found is None or math.prod(found[0]) > most:
        return
    axes = np.array([i for i, (a, b) in enumerate(zip(*found)) if a != b], np.int64)
    x = floats(*found[0])
    for op in REDUCTIONS if len(axes) else ():
        data = np.float32(1) + x / np.float32(100) if op == "ReduceProd" else x
        yield Made("reduction", x.size, op, data, [axes])


def pairs(line, most):
    found = pair_of(line)
    if found is None or math.prod(np.broadcast_shapes(*found)) > most:
        return
    x, y = floats(*found[0]), floats(*found[1])
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Less", "LessOrEqual", "Greater", "Equal"):
        yield Made("binary function", x.size, op, x, [y])


def slopes(line, most):
    found = pair_of(line)
    if found is not None and math.prod(found[0]) <= most:
        x = floats(*found[0])
        yield Made("binary function", x.size, "PRelu", x, [floats(*found[1])])


def attention(line, most):
    """Queries, transposed keys, and values; keys and values may have fewer heads."""
    found = re.match(r"([\dx]+):([\dx]+):([\dx]+)$", re.sub(r'_?n".*', "", line))
    if found is None:
        return
    q, k, v = (sizes(part) for part in found.groups())
    macs = math.prod(q) * k[3] + math.prod(q[:3]) * k[3] * v[3]
    if len(q) == 4 and macs <= most:
        yield Made("attention", macs, "Attention", floats(*q), [floats(k[0], k[1], k[3], k[2]), floats(*v)], opset=23)


READERS = {"conv": conv, "deconv": deconv, "ip": inner, "pool": pool, "lrn": lrn, "resampling": resampling,
           "bnorm": batch, "rnn": recurrent, "gnorm": group}
LINES = {"matmul": matmul, "brgemm": matmul, "softmax": rows, "lnorm": rows, "eltwise": functions,
         "reduction": reductions, "binary": pairs, "prelu": slopes, "sdpa": attention}
SETTINGS = {"default": {}, "avx2": {"isa": "avx2"}, "baseline": {"isa": "baseline"},
            "onednn": {"providers": "onednn,cpu,reference", "policy": "priority"},
            "openblas": {"providers": "openblas,cpu,reference", "policy": "priority"},
            "vulkan": {"providers": "vulkan,cpu,reference", "policy": "priority"}}


def benchdnn(folder, first, most):
    """(name, models) of each shape."""
    for path in sorted(folder.glob("*/shapes*")):
        driver, taken, seen = path.parent.name, 0, set()
        for line in path.read_text().splitlines():
            line = line.strip()
            key = re.sub(r'_?n".*|mb\d+', "", line)
            if not line or line.startswith("#") or line.startswith("-") and ":" not in line or key in seen:
                continue
            seen.add(key)
            taken += 1
            if taken > first and taken % EVERY != 0:
                continue
            name = f"{driver}/{path.name} {line}"
            if driver in LINES:
                yield name, LINES[driver](line, most)
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


def result(made, price=False, **options):
    with inlay.Session(made.data, config=False, cache_dir="", **options) as session:
        return np.asarray(session.run({"x": made.x})["y"]), session.explain().json["cost_ns"] if price else None


def run(made, settings):
    """(differences, price in ns)"""
    want, _ = result(made, providers="reference", level="0")
    wrong, price = [], None
    for name in settings:
        try:
            got, cost = result(made, name == "default", **SETTINGS[name])
        except inlay.InlayError as error:
            wrong.append(f"{name}: {error}")
            continue
        price = cost or price
        if got.dtype == np.uint8 and made.kind.endswith("of 8 bits"): # a result in the middle of two steps
            near = np.abs(got.astype(int) - want.astype(int)) <= 1
            if near.all() and (got != want).mean() < 0.001:
                continue
        text = difference(got, want)
        if text:
            wrong.append(f"{name}: {text}")
    return wrong, price


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchdnn", type=pathlib.Path)
    parser.add_argument("xnnpack", type=pathlib.Path)
    parser.add_argument("--only", default="", help="shapes whose names contain this text")
    parser.add_argument("--most", type=float, default=3e7, help="most multiplications of a shape")
    parser.add_argument("--first", type=int, default=40)
    parser.add_argument("--settings", type=lambda x: x.split(","), default=["default"],
                        help=f"of {', '.join(SETTINGS)}, separated by commas (default: default)")
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
                wrong, price = run(made, args.settings)
                if price is not None:
                    prices[made.kind].append((price / max(made.macs, 1), price, name))
            except inlay.InlayError as error:
                wrong = [f"reference: {error}"]
            counts["failed" if wrong else "passed"] += 1
            for text in wrong:
                print(f"{name}: {made.kind}: {text}", flush=True)
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
