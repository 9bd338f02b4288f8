"""Families of random graphs: each adds a few nodes that read a float tensor of the graph.

A family is a function of the graph and of one of its tensors: its name and its shape. It returns nothing; the graph
finds the added nodes. The graph drops steps with sizes that ONNX does not allow."""
import numpy as np
from onnx import TensorProto as T

F = np.float32
FAMILIES = {}  # rank, or None for any: [(weight, function)]


def family_of(table):
    """Returns a decorator that adds families to the table."""
    def family_(weight, *ranks):
        def keep(f):
            for rank in ranks or (None,):
                table.setdefault(rank, []).append((weight, f))
            return f
        return keep
    return family_


family = family_of(FAMILIES)


def weights(g, *shape):
    """Random weights, small enough that results have the magnitude of the inputs."""
    return (g.numbers.standard_normal(shape) / np.sqrt(max(1, int(np.prod(shape[1:]))))).astype(F)


def above(g, x, least):
    return g.add("Add", g.add("Abs", x), F(least))


# ------------------------------------------------------------------ elementwise

@family(2)
def unary(g, x, shape):
    name = g.pick("Relu Sigmoid Tanh Erf Abs Neg HardSigmoid LeakyRelu Elu Selu Softplus Softsign Sign Sin Cos Atan "
                  "Identity ThresholdedRelu Celu Exp Sqrt Log Reciprocal Floor Ceil Round HardSwish Not".split())
    if name == "Exp":
        x = g.add("Clip", x, F(-5), F(3))
    elif name in ("Sqrt", "Log", "Reciprocal"):
        x = above(g, x, 0.5)
    elif name in ("Floor", "Ceil", "Round"):
        x = g.add("Mul", x, F(3.37))
    elif name == "Not":
        return g.add("Cast", g.add("Not", g.add("Greater", x, F(0))), to=T.FLOAT)
    return g.add(name, x)


@family(4)
def binary(g, x, shape):
    name = g.pick(["Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mean", "Mod"])
    kind = g.pick(["scalar", "channel", "stretched", "same", "same"])
    if kind == "same":
        y = g.alike(shape)
    elif kind == "scalar" or not shape:
        y = F(g.numbers.standard_normal())
    elif kind == "channel":
        axis = g.below(len(shape))
        y = g.numbers.standard_normal([shape[axis]] + [1] * (len(shape) - axis - 1)).astype(F)
    else:
        y = g.numbers.standard_normal([d if g.chance(.6) else 1 for d in shape]).astype(F)
    if name == "Div":
        return g.add("Div", x, above(g, y, 0.7))
    if name == "Pow":
        return g.add("Pow", above(g, x, 0.1), F(g.pick([2, 0.5, 3, -1, 1.7])))
    if name == "Mod":
        return g.add("Mod", x, F(1.7), fmod=1)
    return g.add(name, *((y, x) if g.chance(.3) else (x, y)))


@family(1)
def choice(g, x, shape):
    return g.add("Where", g.add(g.pick(["Greater", "Less"]), x, F(0.1)), x, g.pick([F(2.5), g.alike(shape)]))


@family(1)
def converted(g, x, shape):
    to = g.pick([T.FLOAT16, T.DOUBLE, T.INT32, T.INT64, T.INT8, T.UINT8, T.BOOL])
    return g.add("Cast", g.add("Cast", g.add("Clip", x, F(0), F(100)), to=to), to=T.FLOAT)


@family(1)
def clipped(g, x, shape):
    return g.add("Clip", x, F(-0.5), F(g.pick([1, 6])))


# ------------------------------------------------------------------ reductions and norms

@family(1)
def reduced(g, x, shape):
    name = g.pick("Mean Sum Max Min L1 L2 SumSquare LogSumExp".split())
    axes = [a - len(shape) if g.chance(.3) else a for a in g.some(len(shape))]
    if name == "Sum":
        return g.add("ReduceSum", x, np.array(axes, np.int64), keepdims=g.below(2))
    return g.add("Reduce" + name, x, axes=axes, keepdims=g.below(2))


@family(1)
def softmax(g, x, shape):
    return g.add(g.pick(["Softmax", "LogSoftmax"]), x, axis=g.axis(shape))


@family(1)
def running_sum(g, x, shape):
    return g.add("CumSum", x, np.array(g.axis(shape), np.int64), exclusive=g.below(2), reverse=g.below(2))


@family(1)
def best(g, x, shape):
    axis = g.axis(shape)
    if g.chance(.5):
        return g.add("Cast", g.add(g.pick(["ArgMax", "ArgMin"]), x, axis=axis, keepdims=g.below(2)), to=T.FLOAT)
    return g.add("TopK", x, np.array([1 + g.below(shape[axis])], np.int64), axis=axis, largest=g.below(2), outputs=2)


@family(1)
def layer_norm(g, x, shape):
    """As exporters write it with single operators; from opset 17 on as one operator half of the time."""
    scale, shift = (g.numbers.random(shape[-1]) + .5).astype(F), g.numbers.standard_normal(shape[-1]).astype(F)
    if g.opset >= 17 and g.chance(.5):
        return g.add("LayerNormalization", x, scale, shift, axis=-1)
    centred = g.add("Sub", x, g.add("ReduceMean", x, axes=[-1], keepdims=1))
    spread = g.add("ReduceMean", g.add("Pow", centred, F(2)), axes=[-1], keepdims=1)
    return g.add("Add", g.add("Mul", g.add("Div", centred, g.add("Sqrt", g.add("Add", spread, F(1e-5)))), scale), shift)


# ------------------------------------------------------------------ data movement

@family(2)
def moved(g, x, shape):
    order = list(range(len(shape)))
    g.random.shuffle(order)
    return g.add("Transpose", x, perm=order)


@family(2)
def reshaped(g, x, shape):
    to, at = list(shape), g.below(len(shape))
    if at + 1 < len(to) and g.chance(.6):
        to[at:at + 2] = [to[at] * to[at + 1]]
    elif len(to) < 5:
        to[at:at + 1] = next(([to[at] // d, d] for d in (2, 3, 4) if to[at] % d == 0), [to[at], 1])
    if g.chance(.5):
        to[g.below(len(to))] = -1
    elif g.chance(.3) and g.opset >= 13:  # as exporters write it, from the sizes of a tensor
        head = g.add("Slice", g.add("Shape", x), *(np.array([v], np.int64) for v in (0, 1, 0)))
        return g.add("Reshape", x, g.add("Concat", head, np.array([-1], np.int64), axis=0))
    return g.add("Reshape", x, np.array(to, np.int64))


@family(1)
def joined(g, x, shape):
    axis = g.axis(shape)
    others = g.joinable(shape, axis)
    return g.add("Concat", *[g.pick(others) for _ in range(1 + g.below(3))], x, axis=axis)


@family(1)
def sliced(g, x, shape):
    axis = g.axis(shape)
    n, step = shape[axis], g.pick([1, 1, 2, -1, -2])
    first = g.below(n) if step > 0 else g.pick([n - 1, -1, 1000])
    last = g.pick([n, 1000]) if step > 0 else -1000
    return g.add("Slice", x, *(np.array([v], np.int64) for v in (first, last, axis, step)))


@family(1)
def split(g, x, shape):
    axis = g.axis(shape)
    first = 1 + g.below(shape[axis] - 1) if shape[axis] > 1 else 1
    return g.add("Split", x, np.array([first, shape[axis] - first], np.int64), axis=axis, outputs=2)


@family(1)
def padded(g, x, shape):
    pads = np.array([g.below(3) if d > 3 else 0 for d in shape + shape], np.int64)
    mode = g.pick(["constant", "reflect", "edge"])
    return g.add("Pad", x, pads, *([F(1.5)] if mode == "constant" and g.chance(.6) else []), mode=mode)


@family(1)
def gathered(g, x, shape):
    axis = g.axis(shape)
    places = g.numbers.integers(-shape[axis], shape[axis], size=g.pick([[], [3], [2, 2]]))
    return g.add("Gather", x, places.astype(np.int64), axis=axis)


@family(1)
def scattered(g, x, shape):
    axis = g.below(len(shape))
    size = [1 + g.below(d) for d in shape]
    size[axis] = min(size[axis], 3)
    places = np.broadcast_to(g.numbers.permutation(shape[axis])[:size[axis]].reshape(
        [-1 if d == axis else 1 for d in range(len(shape))]), size).astype(np.int64)
    return g.add("ScatterElements", x, places, g.numbers.standard_normal(size).astype(F), axis=axis)


@family(1)
def repeated(g, x, shape):
    if g.chance(.5):
        return g.add("Tile", x, np.array([g.pick([1, 1, 2]) for _ in shape], np.int64))
    return g.add("Expand", x, np.array(([2] if len(shape) < 5 and g.chance(.3) else []) +
                                       [d if d > 1 else g.pick([1, 2, 3]) for d in shape], np.int64))


# ------------------------------------------------------------------ matrix multiplications

@family(3, 2, 3, 4)
def product(g, x, shape):
    if g.chance(.2):
        order = list(range(len(shape) - 2)) + [len(shape) - 1, len(shape) - 2]
        return g.add("MatMul", x, g.add("Transpose", x, perm=order))
    n = g.pick([1, 3, 8, 17, 32, 64])
    y = g.add("MatMul", x, weights(g, n, shape[-1]).T.copy())
    if g.chance(.6):
        y = g.add("Add", y, g.numbers.standard_normal(n).astype(F))
    return g.add(g.pick(["Relu", "Sigmoid", "Tanh"]), y) if g.chance(.4) else y


@family(3, 2)
def gemm(g, x, shape):
    a, b, n = g.below(2), g.below(2), g.pick([1, 5, 16, 33])
    rows, inner = (shape[1], shape[0]) if a else shape
    w = weights(g, n, inner)
    c = g.pick([[n], [1, n], [rows, n], [rows, 1], [1]])
    return g.add("Gemm", x, w if b else w.T.copy(), g.numbers.standard_normal(c).astype(F), transA=a, transB=b,
                 alpha=g.pick([1.0, 0.5]), beta=g.pick([1.0, 2.0]))


@family(1, 2)
def integers(g, x, shape):
    """Rounded at run time, multiplied as integers."""
    low, scale, zero = g.add("DynamicQuantizeLinear", x, outputs=3)
    y = g.add("MatMulInteger", low, g.numbers.integers(-127, 128, (shape[1], 9)).astype(np.int8), zero)
    return g.add("Mul", g.add("Cast", y, to=T.FLOAT), g.add("Mul", scale, F(0.01)))


@family(2, 3)
def attention(g, x, shape):
    _, n, width = shape
    heads = g.pick([h for h in (1, 2, 4) if width % h == 0])
    split_up = np.array([0, -1, heads, width // heads], np.int64)

    def side(order):
        y = g.add("Add", g.add("MatMul", x, weights(g, width, width)), g.numbers.standard_normal(width).astype(F))
        return g.add("Transpose", g.add("Reshape", y, split_up), perm=order)

    scores = g.add("MatMul", side([0, 2, 1, 3]), side([0, 2, 3, 1]))
    scores = g.add("Div", scores, F(np.sqrt(width // heads)))
    if g.chance(.4):
        scores = g.add("Add", scores, np.triu(np.full((n, n), -1e9, F), 1))
    y = g.add("MatMul", g.add("Softmax", scores, axis=-1), side([0, 2, 1, 3]))
    return g.add("Reshape", g.add("Transpose", y, perm=[0, 2, 1, 3]), np.array([0, -1, width], np.int64))


@family(2, 3)
def recurrent(g, x, shape):
    name, gates = g.pick([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    direction, hidden = g.pick(["forward", "reverse", "bidirectional"]), g.pick([3, 8, 16])
    ways = 2 if direction == "bidirectional" else 1
    more = {"linear_before_reset": g.below(2)} if name == "GRU" else {}
    bias = [g.numbers.standard_normal((ways, 2 * gates * hidden)).astype(F)] if g.chance(.6) else []
    return g.add(name, x, weights(g, ways, gates * hidden, shape[2]) * F(4), weights(g, ways, gates * hidden, hidden),
                 *bias, hidden_size=hidden, direction=direction, outputs=3 if name == "LSTM" else 2, **more)


# ------------------------------------------------------------------ images

def windows(g, spatial, dilated=True):
    axes = range(len(spatial))
    size, step = [g.pick([1, 1, 2, 3, 3, 5]) for _ in axes], [g.pick([1, 1, 2, 3]) for _ in axes]
    more = {"kernel_shape": size, "strides": step}
    if g.chance(.2):
        return dict(more, auto_pad=g.pick(["SAME_UPPER", "SAME_LOWER"]))
    apart = [g.pick([1, 1, 1, 2]) if dilated else 1 for _ in axes]
    more["pads"] = [g.below(k) for k in size + size]
    if any(n + more["pads"][i] + more["pads"][len(size) + i] < (size[i] - 1) * apart[i] + 1
           for i, n in enumerate(spatial)):
        raise ValueError("a window larger than the picture")
    return dict(more, dilations=apart) if dilated else more


def groups_of(g, channels):
    groups = g.pick([n for n in (1, 1, 1, 2, 4, channels) if channels % n == 0])
    return groups, groups * max(1, g.pick([1, 4, 8, 12, 16, 32]) // groups) if groups <= 32 else groups


@family(5, 3, 4)
def convolution(g, x, shape):
    more, (groups, to) = windows(g, shape[2:]), groups_of(g, shape[1])
    bias = [g.numbers.standard_normal(to).astype(F)] if g.chance(.7) else []
    y = g.add("Conv", x, weights(g, to, shape[1] // groups, *more["kernel_shape"]), *bias, group=groups, **more)
    if g.chance(.4):
        y = batch_norm(g, y, [0, to])
    if g.chance(.3):
        return g.add("Mul", y, g.add("Sigmoid", y))
    return g.add(g.pick(["Relu", "Sigmoid", "LeakyRelu"]), y) if g.chance(.5) else y


@family(1, 4)
def atrous(g, x, shape):
    """Dilations as wide as the image (atrous spatial pyramid pooling): most taps read padding."""
    ways = []
    for _ in range(g.pick([1, 2, 3])):
        d, to = g.pick([2, 3, 6, 12, 18]), g.pick([4, 16, 20])
        ways.append(g.add("Conv", x, weights(g, to, shape[1], 3, 3), dilations=[d, d], pads=[d, d, d, d]))
    return g.add("Relu", g.add("Concat", *ways, axis=1) if len(ways) > 1 else ways[0])


@family(1, 3, 4)
def stacked(g, x, shape):
    """Outputs of two convolutions, concatenated along any axis."""
    def layer():
        return g.add("Conv", x, weights(g, 16, shape[1], *[1] * (len(shape) - 2)))
    return g.add("Concat", layer(), g.add("Relu", layer()), axis=g.axis(shape))


@family(1, 3, 4)
def transposed_convolution(g, x, shape):
    more, (groups, to) = windows(g, shape[2:]), groups_of(g, shape[1])
    if "auto_pad" in more:
        raise ValueError("its sizes are not what a convolution's are")
    w = weights(g, shape[1], to // groups, *more["kernel_shape"])
    return g.add("ConvTranspose", x, w, g.numbers.standard_normal(to).astype(F), group=groups, **more)


@family(2, 3, 4)
def quantized_convolution(g, x, shape):
    more, (groups, to) = windows(g, shape[2:]), groups_of(g, shape[1])
    w = weights(g, to, shape[1] // groups, *more["kernel_shape"])
    by_channel = g.chance(.5)
    scale = (np.abs(w).reshape(to, -1).max(1) / 127 + 1e-6).astype(F) if by_channel else F(np.abs(w).max() / 127)
    spread = scale.reshape([to] + [1] * (w.ndim - 1)) if by_channel else scale
    low = np.clip(np.rint(w / spread), -127, 127).astype(np.int8)
    zero = np.zeros(to, np.int8) if by_channel else np.int8(0)
    w = g.add("DequantizeLinear", low, scale, zero, **({"axis": 0} if by_channel else {}))
    y = g.add("Conv", there_and_back(g, x, 0.04, 128), w, group=groups, **more)
    return there_and_back(g, g.add("Relu", y) if g.chance(.5) else y, 0.05, 100)


@family(1)
def rounded(g, x, shape):
    return there_and_back(g, x, 0.05, g.pick([0, 3, 100]))


def there_and_back(g, x, scale, zero):
    return g.add("DequantizeLinear", g.add("QuantizeLinear", x, F(scale), np.uint8(zero)), F(scale), np.uint8(zero))


@family(2, 3, 4)
def batch_norm(g, x, shape):
    c = shape[1]
    return g.add("BatchNormalization", x, (g.numbers.random(c) + .5).astype(F), g.numbers.standard_normal(c).astype(F),
                 g.numbers.standard_normal(c).astype(F), (g.numbers.random(c) + .5).astype(F))


@family(2, 3, 4)
def pool(g, x, shape):
    average = g.chance(.5)
    more = windows(g, shape[2:], dilated=not average)
    if average:
        more["count_include_pad"] = g.below(2)
    return g.add("AveragePool" if average else "MaxPool", x, **more)


@family(2, 4)
def squeezed(g, x, shape):
    """Squeeze and excitation."""
    c = shape[1]
    small = g.add(g.pick(["GlobalAveragePool", "GlobalMaxPool"]), x)
    return g.add("Mul", x, g.add("Sigmoid", g.add("Conv", small, weights(g, c, c, 1, 1))))


@family(1, 4)
def normalised(g, x, shape):
    if g.chance(.5):
        return g.add("LRN", x, size=g.pick([1, 3, 5]))
    c = shape[1]
    return g.add("InstanceNormalization", x, (g.numbers.random(c) + .5).astype(F),
                 g.numbers.standard_normal(c).astype(F))


@family(2, 4)
def resized(g, x, shape):
    mode = g.pick(["nearest", "linear", "linear", "cubic"])
    more = {}
    if mode == "nearest":
        more["nearest_mode"] = g.pick(["floor", "round_prefer_floor", "ceil", "round_prefer_ceil"])
    places = g.pick(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
    scales = [1, 1, g.pick([1, 2, 1.5, .5]), g.pick([1, 2, 3, .6])]
    sizes = [max(1, int(n * s)) for n, s in zip(shape, scales)]
    how = [None, None, np.array(sizes, np.int64)] if g.chance(.5) else [None, np.array(scales, F)]
    return g.add("Resize", x, *how, mode=mode, coordinate_transformation_mode=places, **more)


@family(1, 4)
def sampled(g, x, shape):
    if g.opset < 16:
        raise ValueError("not in this opset")
    places = (g.numbers.random((shape[0], 5, 6, 2)) * 2.4 - 1.2).astype(F)
    return g.add("GridSample", x, places, mode=g.pick(["bilinear", "nearest", "bicubic"]), align_corners=g.below(2),
                 padding_mode=g.pick(["zeros", "border", "reflection"]))


@family(1, 4)
def blocks(g, x, shape):
    if shape[1] % 4 == 0:
        return g.add("DepthToSpace", x, blocksize=2, mode=g.pick(["DCR", "CRD"]))
    if shape[2] % 2 or shape[3] % 2:
        raise ValueError("no multiple of the block")
    return g.add("SpaceToDepth", x, blocksize=2)
