"""Layers and data that are difficult for float arithmetic, from a seed, for accuracy.py.

A layer is one small model with its input and three results: in double (`exact`), as a plain float sum (`plain`: exact
products, added in chains of 256, and the chains' sums added in order), and `scale`, the unit of an element's error:
the sum of the magnitudes of its terms, |A| |B|. Functions after a matrix multiplication multiply the scale by their
slopes, so that it stays the effect of a relative change of eps of all terms."""
import math

import numpy as np
from onnx import TensorProto, helper, numpy_helper

CHAIN = 256
F32 = np.float32


class Traced:
    """A value in double, the scale of its error, and its value by plain float sums."""

    def __init__(self, exact, scale, plain):
        self.exact, self.scale, self.plain = exact, scale, plain.astype(F32)

    def of(self, f):
        return Traced(f(self.exact), f(self.scale), f(self.plain))


class Layer:
    def __init__(self, name, nodes, feeds, weights, result, terms, integers=False):
        self.name, self.nodes, self.feeds, self.weights = name, nodes, feeds, weights
        self.exact, self.scale, self.plain = result.exact, result.scale, result.plain
        self.terms = terms        # number of terms of the longest sum
        self.integers = integers  # exact in float

    def model(self):
        opset = [helper.make_opsetid("", 17)]
        graph = helper.make_graph(
            self.nodes, "layer",
            [helper.make_tensor_value_info(k, TensorProto.FLOAT, v.shape) for k, v in self.feeds.items()],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, self.exact.shape)],
            [numpy_helper.from_array(np.ascontiguousarray(v), k) for k, v in self.weights.items()])
        return helper.make_model(graph, opset_imports=opset, ir_version=8)


# ----------------------------------------------------------------- sums
def chain_sum(a, b):
    """[m, k] by [k, n] in float: each chain is one accumulator of fused multiply-adds."""
    total = np.zeros((a.shape[0], b.shape[1]), F32)
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, a.shape[1], CHAIN):
            part = np.zeros_like(total)
            for k in range(start, min(start + CHAIN, a.shape[1])):
                part = (part + a[:, k, None] * b[k]).astype(F32)
            total = total + part
    return total


def multiply(a, b):
    """A matrix multiplication, also batched."""
    if a.ndim > 2 or b.ndim > 2:
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a = np.broadcast_to(a, lead + a.shape[-2:]).reshape(-1, *a.shape[-2:])
        b = np.broadcast_to(b, lead + b.shape[-2:]).reshape(-1, *b.shape[-2:])
        parts = [multiply(x, y) for x, y in zip(a, b)]
        return Traced(*(np.stack([getattr(p, f) for p in parts]).reshape(*lead, *parts[0].exact.shape)
                        for f in ("exact", "scale", "plain")))
    wide, other = a.astype(np.float64), b.astype(np.float64)
    return Traced(wide @ other, np.abs(wide) @ np.abs(other), chain_sum(a, b))


def windows_of(x, kernel, strides, dilations, pads):
    """[n, c, h, w] as rows of receptive fields: [n * oh * ow, c, kh * kw], oh, ow."""
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    out = [(x.shape[2 + i] - reach[i]) // strides[i] + 1 for i in range(2)]
    taps = [x[:, :, i * dilations[0]:, j * dilations[1]:][:, :, :(out[0] - 1) * strides[0] + 1:strides[0],
                                                          :(out[1] - 1) * strides[1] + 1:strides[1]]
            for i in range(kernel[0]) for j in range(kernel[1])]
    return np.stack(taps, -1).transpose(0, 2, 3, 1, 4).reshape(-1, x.shape[1], len(taps)), out


def convolve(x, w, strides=(1, 1), dilations=(1, 1), pads=(0, 0, 0, 0), group=1):
    rows, out = windows_of(x, w.shape[2:], strides, dilations, pads)
    parts = []
    for g in range(group):
        part = rows[:, g * w.shape[1]:(g + 1) * w.shape[1]]
        parts.append(multiply(part.reshape(len(part), -1),
                              w[g * (len(w) // group):(g + 1) * (len(w) // group)].reshape(len(w) // group, -1).T))
    whole = Traced(*(np.concatenate([getattr(p, f) for p in parts], 1) for f in ("exact", "scale", "plain")))
    return whole.of(lambda v: v.reshape(len(x), *out, -1).transpose(0, 3, 1, 2))


def transposed(x, w, strides, pads):
    """ConvTranspose: a convolution of the image with zeros between its pixels, with flipped weights."""
    n, c, h, width = x.shape
    wide = np.zeros((n, c, (h - 1) * strides[0] + 1, (width - 1) * strides[1] + 1), F32)
    wide[:, :, ::strides[0], ::strides[1]] = x
    reach = [w.shape[2 + i] - 1 for i in range(2)]
    around = (reach[0] - pads[0], reach[1] - pads[1], reach[0] - pads[2], reach[1] - pads[3])
    return convolve(wide, w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3), pads=around)


# ----------------------------------------------------------------- functions after a matrix multiplication
def plus(v, other):
    return Traced(v.exact + other, v.scale + np.abs(other), v.plain + other.astype(F32))


def relu(v):
    return Traced(np.maximum(v.exact, 0), v.scale, np.maximum(v.plain, 0))


def function(v, f, slope):
    """f in double, also for the plain value: the rounding of f is not included."""
    exact = f(v.exact)
    return Traced(exact, v.scale * slope + np.abs(exact), f(v.plain.astype(np.float64)))


def sigmoid(x):
    return 1 / (1 + np.exp(-np.clip(x, -700, 700)))


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[np.float64])(x * math.sqrt(0.5)))


def times(a, b):
    return Traced(a.exact * b.exact, np.abs(a.exact) * b.scale + a.scale * np.abs(b.exact), a.plain * b.plain)


def add(a, b):
    return Traced(a.exact + b.exact, a.scale + b.scale, a.plain + b.plain)


def softmax(v):
    def f(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)
    p = f(v.exact)
    return Traced(p, p * (1 + v.scale + (p * v.scale).sum(-1, keepdims=True)), f(v.plain.astype(np.float64)))


def multiply_traced(a, b):
    scale = a.scale @ np.abs(b.exact) + np.abs(a.exact) @ b.scale
    return Traced(a.exact @ b.exact, scale, multiply(a.plain, b.plain).plain)


def given(x):
    """A value without error."""
    return Traced(x.astype(np.float64), np.zeros(x.shape), x)


# ----------------------------------------------------------------- layers of one operator
def finish(name, result, nodes, feeds, weights, terms, ending, rng, **kind):
    """Adds the functions after `k`."""
    node = helper.make_node
    if ending == "relu":
        nodes.append(node("Relu", ["k"], ["y"]))
        result = relu(result)
    elif ending == "residual":
        feeds["r"] = rng.standard_normal(result.exact.shape).astype(F32)
        nodes += [node("Add", ["k", "r"], ["a"]), node("Relu", ["a"], ["y"])]
        result = relu(plus(result, feeds["r"]))
    elif ending == "swish":
        nodes += [node("Sigmoid", ["k"], ["s"]), node("Mul", ["k", "s"], ["y"])]
        result = function(result, lambda x: x * sigmoid(x), 1.1)
    elif ending == "gelu":
        half = {"root": np.array(math.sqrt(2), F32), "one": np.array(1, F32), "half": np.array(0.5, F32)}
        weights.update(half)
        nodes += [node("Div", ["k", "root"], ["g0"]), node("Erf", ["g0"], ["g1"]), node("Add", ["g1", "one"], ["g2"]),
                  node("Mul", ["k", "g2"], ["g3"]), node("Mul", ["g3", "half"], ["y"])]
        result = function(result, gelu, 1.13)
    else:
        nodes[-1].output[0] = "y"
    return Layer(name, nodes, feeds, weights, result, terms, **kind)


def product(name, rng, x, w, ending="", bias=None, turned=False, computed=False, **kind):
    """x times a constant w; `turned`: Gemm with transB, `computed`: both are inputs."""
    x, w = x.astype(F32), w.astype(F32)
    result, feeds, weights = multiply(x, w), {"x": x}, {}
    (feeds if computed else weights)["w"] = np.ascontiguousarray(w.T) if turned else w
    if turned or bias is not None:
        names = ["x", "w"] + (["b"] if bias is not None else [])
        if bias is not None:
            weights["b"] = bias.astype(F32)
            result = plus(result, weights["b"])
        nodes = [helper.make_node("Gemm", names, ["k"], transB=int(turned))]
    else:
        nodes = [helper.make_node("MatMul", ["x", "w"], ["k"])]
    return finish(name, result, nodes, feeds, weights, w.shape[-2], ending, rng, **kind)


def conv(name, rng, x, w, ending="", bias=None, integers=False, strides=(1, 1), dilations=(1, 1), pads=None, group=1):
    x, w = x.astype(F32), w.astype(F32)
    if pads is None:
        pads = [(k - 1) * d // 2 for k, d in zip(w.shape[2:], dilations)] * 2
    result, feeds, weights = convolve(x, w, strides, dilations, pads, group), {"x": x}, {"w": w}
    if bias is not None:
        weights["b"] = bias.astype(F32)
        result = plus(result, weights["b"][:, None, None])
    nodes = [helper.make_node("Conv", ["x", "w"] + (["b"] if bias is not None else []), ["k"], strides=strides,
                              dilations=dilations, pads=pads, group=group)]
    return finish(name, result, nodes, feeds, weights, int(np.prod(w.shape[1:])), ending, rng,
                  integers=integers)


def conv_transpose(name, rng, x, w, strides, pads=(0, 0, 0, 0), ending=""):
    x, w = x.astype(F32), w.astype(F32)
    nodes = [helper.make_node("ConvTranspose", ["x", "w"], ["k"], strides=strides, pads=pads)]
    terms = w.shape[0] * math.ceil(w.shape[2] / strides[0]) * math.ceil(w.shape[3] / strides[1])
    return finish(name, transposed(x, w, strides, pads), nodes, {"x": x}, {"w": w}, terms, ending, rng)


# ----------------------------------------------------------------- norms, reductions
def sum_rows(x):
    """[m, k] to [m, 1]."""
    return multiply(x, np.ones((x.shape[1], 1), x.dtype))


def mean_rows(x):
    return sum_rows(x).of(lambda v: (v / x.shape[1]).astype(v.dtype))


def normalized(x, gain, bias, epsilon):
    """Rows of x minus their mean, divided by their deviation; the deviation's error counts as terms, too."""
    mean = mean_rows(x)
    exact = x.astype(np.float64) - mean.exact
    deviation = np.sqrt((exact ** 2).mean(1, keepdims=True) + epsilon)
    apart = np.abs(x) + mean.scale
    scale = (apart + np.abs(exact) + np.abs(exact) / deviation ** 2 * (np.abs(exact) * apart).mean(1, keepdims=True))
    plain = x - mean.plain
    squares = mean_rows(plain * plain).plain
    return Traced(exact / deviation * gain + bias, scale / deviation * np.abs(gain) + np.abs(bias),
                  plain / np.sqrt(squares + F32(epsilon)) * gain + bias)


def layer_norm(name, rng, x, written_out=False):
    """As one operator, or as exporters before opset 17 wrote it."""
    x, n = x.astype(F32), x.shape[1]
    weights = {"g": (1 + 0.2 * rng.standard_normal(n)).astype(F32), "b": rng.standard_normal(n).astype(F32)}
    result, node = normalized(x, weights["g"], weights["b"], 1e-5), helper.make_node
    if not written_out:
        nodes = [node("LayerNormalization", ["x", "g", "b"], ["y"], axis=-1, epsilon=1e-5)]
        return Layer(name, nodes, {"x": x}, weights, result, n)
    weights |= {"two": np.array(2, F32), "e": np.array(1e-5, F32)}
    nodes = [node("ReduceMean", ["x"], ["m"], axes=[-1]), node("Sub", ["x", "m"], ["d"]), node("Pow", ["d", "two"], ["q"]),
             node("ReduceMean", ["q"], ["v"], axes=[-1]), node("Add", ["v", "e"], ["w"]), node("Sqrt", ["w"], ["s"]),
             node("Div", ["d", "s"], ["z"]), node("Mul", ["z", "g"], ["p"]), node("Add", ["p", "b"], ["y"])]
    return Layer(name, nodes, {"x": x}, weights, result, n)


def instance_norm(name, rng, x):
    """x: [channels, pixels], as an image of one row."""
    x, n = x.astype(F32), len(x)
    weights = {"g": (1 + 0.2 * rng.standard_normal(n)).astype(F32), "b": rng.standard_normal(n).astype(F32)}
    result = normalized(x, weights["g"][:, None], weights["b"][:, None], 1e-5).of(lambda v: v[None])
    return Layer(name, [helper.make_node("InstanceNormalization", ["x", "g", "b"], ["y"])], {"x": x[None]}, weights,
                 result, x.shape[1])


def reduction(name, op, x, axis=1, **kind):
    """ReduceSum or ReduceMean of a matrix."""
    x = x.astype(F32)
    result = (sum_rows if op == "ReduceSum" else mean_rows)(x if axis == 1 else np.ascontiguousarray(x.T))
    result = result.of(lambda v: v if axis == 1 else v.T)
    feeds, weights, node = {"x": x}, {}, helper.make_node
    if op == "ReduceSum":
        weights["axes"] = np.array([axis], np.int64)
        nodes = [node(op, ["x", "axes"], ["y"])]
    else:
        nodes = [node(op, ["x"], ["y"], axes=[axis])]
    return Layer(name, nodes, feeds, weights, result, x.shape[axis], **kind)


def pool(name, x):
    """GlobalAveragePool; x: [n, c, h, w]."""
    x = x.astype(F32)
    result = mean_rows(x.reshape(x.shape[0] * x.shape[1], -1)).of(lambda v: v.reshape(*x.shape[:2], 1, 1))
    return Layer(name, [helper.make_node("GlobalAveragePool", ["x"], ["y"])], {"x": x}, {}, result,
                 x.shape[2] * x.shape[3])


# ----------------------------------------------------------------- layers of several operators
def einsum(name, equation, x, w, result):
    """Einsum of two inputs."""
    nodes = [helper.make_node("Einsum", ["x", "w"], ["y"], equation=equation)]
    return Layer(name, nodes, {"x": x, "w": w}, {}, result, x.shape[-1])


def gemm(name, rng, x, w, alpha, beta):
    """alpha * x' * w + beta * c, of three inputs; x: [k, m]."""
    x, w = x.astype(F32), w.astype(F32)
    c = rng.standard_normal((x.shape[1], w.shape[1])).astype(F32)
    result = multiply(np.ascontiguousarray(x.T), w)
    result = plus(Traced(result.exact * alpha, result.scale * abs(alpha), result.plain * F32(alpha)), c * F32(beta))
    nodes = [helper.make_node("Gemm", ["x", "w", "c"], ["y"], transA=1, alpha=alpha, beta=beta)]
    return Layer(name, nodes, {"x": x, "w": w, "c": c}, {}, result, len(x))


def conv_batch_norm(name, rng, x, w, variance):
    """A convolution with a norm that can be folded into its weights."""
    x, w, n = x.astype(F32), w.astype(F32), len(w)
    given_to = {"g": 1 + 0.2 * rng.standard_normal(n), "b": rng.standard_normal(n), "m": rng.standard_normal(n),
                "v": variance}
    weights = {"w": w} | {k: v.astype(F32) for k, v in given_to.items()}
    g, b, m, v = (weights[k].astype(np.float64)[:, None, None] for k in "gbmv")
    k, pads = convolve(x, w, pads=[e // 2 for e in w.shape[2:]] * 2), [e // 2 for e in w.shape[2:]] * 2
    factor = g / np.sqrt(v + 1e-5)
    result = Traced((k.exact - m) * factor + b, (k.scale + np.abs(m)) * np.abs(factor) + np.abs(b),
                    (k.plain - m.astype(F32)) * factor.astype(F32) + b.astype(F32))
    nodes = [helper.make_node("Conv", ["x", "w"], ["k"], pads=pads),
             helper.make_node("BatchNormalization", ["k", "g", "b", "m", "v"], ["y"], epsilon=1e-5)]
    return Layer(name, nodes, {"x": x}, weights, result, int(np.prod(w.shape[1:])))


def attention(name, q, k, v):
    """Softmax(q k' / sqrt(d)) v; [heads, rows, d]."""
    q, k, v = (a.astype(F32) for a in (q, k, v))
    size = np.array(1 / math.sqrt(q.shape[-1]), F32)
    scores = multiply(q, k.transpose(0, 2, 1))
    scores = Traced(scores.exact * size, scores.scale * size, scores.plain * size)
    result = multiply_traced(softmax(scores), given(v))
    nodes = [helper.make_node("Transpose", ["k"], ["t"], perm=[0, 2, 1]), helper.make_node("MatMul", ["q", "t"], ["s"]),
             helper.make_node("Mul", ["s", "c"], ["m"]), helper.make_node("Softmax", ["m"], ["p"], axis=-1),
             helper.make_node("MatMul", ["p", "v"], ["y"])]
    return Layer(name, nodes, {"q": q, "k": k, "v": v}, {"c": size}, result, max(k.shape[1], k.shape[2]))


def tanh(v):
    return function(v, np.tanh, 1 - np.tanh(v.exact) ** 2)


def gate(v):
    s = sigmoid(v.exact)
    return function(v, sigmoid, s * (1 - s))


def recurrent(name, kind, x, w, r):
    """LSTM or GRU of one direction, without bias; x: [steps, batch, in], w: [gates * size, in], r: [.., size]."""
    x, w, r = (a.astype(F32) for a in (x, w, r))
    size, batch = r.shape[1], x.shape[1]
    h = c = given(np.zeros((batch, size), F32))
    out = []

    def gates(step, state, rows):
        left = multiply(step, w[rows].T)
        return add(left, multiply_traced(state, given(r[rows].T)))

    def reversed_gate(z):  # 1 - z
        return Traced(1 - z.exact, z.scale, 1 - z.plain)

    for step in x:
        part = [slice(i * size, (i + 1) * size) for i in range(len(w) // size)]
        if kind == "LSTM":  # input, output, forget, cell
            i, o, f = (gate(gates(step, h, part[n])) for n in range(3))
            c = add(times(f, c), times(i, tanh(gates(step, h, part[3]))))
            h = times(o, tanh(c))
        else:  # update, reset, hidden
            z, n = gate(gates(step, h, part[0])), gate(gates(step, h, part[1]))
            new = tanh(gates(step, times(n, h), part[2]))
            h = add(times(reversed_gate(z), new), times(z, h))
        out.append(h)
    result = Traced(*(np.stack([getattr(o, f) for o in out])[:, None] for f in ("exact", "scale", "plain")))
    nodes = [helper.make_node(kind, ["x", "w", "r"], ["y"], hidden_size=size)]
    return Layer(name, nodes, {"x": x}, {"w": w[None], "r": r[None]}, result, x.shape[2] + size)
