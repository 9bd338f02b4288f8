"""Families that nearly match the patterns of the optimiser (host/runtime/passes): each writes a pattern of a pass
with one random deviation. A constant has more axes than the other operand, is nearly the right number, or has one
value per column; axes, permutations and masks differ; an intermediate value has another consumer.

    deviation                       chosen by
    constants of rank k+1, [1]      Graph.scalar()
    numbers nearly right            Graph.scalar()
    a factor for each column        Graph.scalar()
    axes that are not the last      axes_near()
    orders that do not cancel       order_near()
    a second consumer               shared()

PASSES_NEARED maps passes of passes.def to families, PASSES_LEFT gives the reason for passes without a family;
random_graphs.py --passes compares both with the list."""
import numpy as np
from families import F, above, family, there_and_back, weights
from onnx import TensorProto as T, helper

PASSES_LEFT = {
    "block_constants": "models in GGUF are in tests/formats",
    "sparse_constants": "sparse constants are in tests/kernels and tests/model",
    "searches": "expands operators that generate text with a decoder (tests/texts)",
    "flex_attention": "an operator of a preview that onnx's package does not have (tests/passes)",
    "attention_past": "an operator of opset 23, which the package onnx of Debian does not have (tests/passes)",
    "reduced_products": "changes results if an option requests it (tests/passes/test_quantized.c)",
    "float_activations": "changes results if an option requests it (tests/passes)",
}
PASSES_NEARED = {}  # pass: names of families


def near(weight, ranks, *passes):
    def keep(f):
        for name in passes:
            PASSES_NEARED.setdefault(name, []).append(f.__name__)
        return family(weight, *ranks)(f)
    return keep


ANY = ()


def shared(g, x, value):
    """Returns the value, sometimes with another consumer."""
    if g.chance(.1):
        g.also.append(g.add(g.pick(["Neg", "Relu"]), x))
    return value


def swapped(g, op, a, b):
    return g.add(op, *((b, a) if g.chance(.4) else (a, b)))


def axes_near(g, shape, right):
    """Returns the axes, or others."""
    if g.chance(.8):
        return [a - len(shape) if g.chance(.4) else a for a in right]
    return g.some(len(shape))


def order_near(g, right):
    if g.chance(.8):
        return right
    order = list(right)
    g.random.shuffle(order)
    return order


# ------------------------------------------------------------------ activations

@near(3, ANY, "gelu")
def spelled_gelu(g, x, shape):
    form = g.pick(["erf", "tanh", "short"])
    if form == "erf":
        inner = g.add("Div", x, g.scalar(2 ** .5, shape)) if g.chance(.5) else swapped(g, "Mul", x, g.scalar(.5 ** .5, shape))
        inner = g.add("Erf", inner)
    elif form == "tanh":
        cube = g.add("Pow", x, g.scalar(3, shape)) if g.chance(.5) else g.add("Mul", x, g.add("Mul", x, x))
        inner = swapped(g, "Add", x, swapped(g, "Mul", cube, g.scalar(.044715, shape)))
        inner = g.add("Tanh", swapped(g, "Mul", inner, g.scalar((2 / np.pi) ** .5, shape)))
    else:
        inner = swapped(g, "Add", g.scalar(1, shape), g.add("Mul", g.add("Mul", x, x), g.scalar(.044715, shape)))
        inner = g.add("Tanh", g.add("Mul", g.add("Mul", x, g.scalar((2 / np.pi) ** .5, shape)), inner))
    sum_ = shared(g, inner, swapped(g, "Add", inner, g.scalar(1, shape)))
    if g.chance(.5):
        return g.add("Mul", swapped(g, "Mul", x, g.scalar(.5, shape)), sum_)
    return swapped(g, "Mul", swapped(g, "Mul", x, sum_), g.scalar(.5, shape))


@near(3, ANY, "swish")
def spelled_swish(g, x, shape):
    form = g.pick(["sigmoid", "factor", "hard", "sixth", "unit", "mish"])
    if form == "sigmoid":
        gate = g.add("Sigmoid", x)
    elif form == "factor":
        gate = g.add("Sigmoid", swapped(g, "Mul", x, g.scalar(1.702, shape)))
    elif form == "mish":
        gate = g.add("Tanh", g.add("Softplus", x))
    elif form == "unit":
        gate = g.add("HardSigmoid", x, alpha=g.pick([1 / 6, 1 / 6, .2]), beta=g.pick([.5, .5, .4]))
    else:
        gate = g.add("Clip", swapped(g, "Add", x, g.scalar(3, shape)), F(0), F(6))
        if form == "hard":
            return g.add("Div", swapped(g, "Mul", x, shared(g, gate, gate)), g.scalar(6, shape))
        gate = g.add("Div", gate, g.scalar(6, shape)) if g.chance(.5) else swapped(g, "Mul", gate, g.scalar(1 / 6, shape))
        if g.chance(.3):
            return gate
    return swapped(g, "Mul", x, shared(g, gate, gate))


# ------------------------------------------------------------------ normalisation

def normalised(g, d, axes, shape):
    square = g.add("Mul", d, d) if g.chance(.5) else g.add("Pow", d, g.scalar(2, shape))
    mean = g.add("ReduceMean", square, axes=axes, keepdims=1)
    root = g.add("Sqrt", swapped(g, "Add", mean, g.scalar(1e-5, shape)))
    form = g.pick(["div", "reciprocal", "one"])
    if form == "div":
        return g.add("Div", d, root)
    one = g.add("Reciprocal", root) if form == "reciprocal" else g.add("Div", g.scalar(1, shape), root)
    return swapped(g, "Mul", d, one)


@near(4, (1, 2, 3, 4), "layer_norm", "skip_layer_norm")
def spelled_norm(g, x, shape):
    first = len(shape) - 1 if g.chance(.7) else g.below(len(shape))
    axes = axes_near(g, shape, list(range(first, len(shape))))
    if g.chance(.4):
        x = g.add("Add", x, g.alike(shape))
    if g.chance(.3):
        bias = g.numbers.standard_normal(shape[-1:]).astype(F)
        x = g.add("Add", g.add("Add", x, bias), g.alike(shape))
    if g.chance(.5):
        d = g.add("Sub", x, g.add("ReduceMean", x, axes=axes_near(g, shape, axes) if g.chance(.1) else axes, keepdims=1))
    else:
        d = x
    y = normalised(g, d, axes, shape)
    size = shape[first:] if g.chance(.8) else [1] * g.below(2) + shape[-1:]
    y = swapped(g, "Mul", shared(g, y, y), (g.numbers.random(size) + .5).astype(F))
    return swapped(g, "Add", y, g.numbers.standard_normal(size).astype(F)) if g.chance(.5) else y


# ------------------------------------------------------------------ arithmetic without effect

@near(3, ANY, "algebra", "no_op", "common_subexpressions")
def idle(g, x, shape):
    form = g.below(9)
    if form == 0:
        return swapped(g, "Mul", x, g.scalar(1, shape))
    if form == 1:
        return swapped(g, "Add", x, g.scalar(g.pick([0, -0.0]), shape))
    if form == 2:
        return g.add("Div", x, g.scalar(g.pick([1, 2, .25, 3]), shape))
    if form == 3:
        return g.add(g.pick(["Add", "Sub"]), *(g.add("Neg", v) if g.chance(.6) else v for v in (x, g.alike(shape))))
    if form == 4:
        f = g.pick(["Neg", "Abs", "Relu", "Floor", "Sign", "Ceil"])
        return g.add(f if g.chance(.7) else "Neg", g.add(f, x))
    if form == 5:
        return g.add("Log", g.add("Softmax", x, axis=g.axis(shape)))
    if form == 6:
        hidden = g.add("Not", g.add("Greater", x, g.scalar(0, shape)))
        return g.add("Where", hidden, x, g.scalar(2.5, shape))
    if form == 7:
        f, axis = g.pick(["Exp", "Sigmoid", "Tanh"]), g.axis(shape)
        a, b = g.add(f, g.add("Clip", x, F(-3), F(3))), g.add(f, g.add("Clip", x, F(-3), F(3)))
        return g.add("Concat", a, b, axis=axis)
    return g.add(g.pick(["Sum", "Max", "Min", "Mean"]), x)


@near(2, ANY, "merge_casts")
def casts(g, x, shape):
    x = g.add("Clip", x, F(0), F(100))
    for _ in range(2 + g.below(2)):
        x = g.add("Cast", x, to=g.pick([T.FLOAT16, T.DOUBLE, T.INT32, T.INT64, T.UINT8, T.BOOL, T.FLOAT]))
    return g.add("Cast", x, to=T.FLOAT)


@near(1, ANY, "fold_constants", "constant_nodes", "known_shapes")
def computed_constants(g, x, shape):
    c = g.add("Constant", value=helper.make_tensor("c", T.FLOAT, [1] * g.below(3), [g.pick([2.0, .5, 1.0])]))
    if g.chance(.5):
        c = g.add("Sqrt", g.add("Mul", c, c))
    if g.chance(.5) and len(shape) > 0:
        axis = g.axis(shape)
        size = g.add("Cast", g.add("Gather", g.add("Shape", x), np.array(axis, np.int64)), to=T.FLOAT)
        c = g.add("Mul", c, g.add("Sqrt", size))
    if g.chance(.3):
        full = g.add("Expand", c, g.add("Shape", x))
        return g.add("Add", x, full)
    return g.add("Div", x, c)


# ------------------------------------------------------------------ transposes and views

@near(4, (2, 3, 4), "merge_transposes", "cancel_transposes", "sink_transposes")
def turns(g, x, shape):
    n = len(shape)
    order = list(range(n))
    g.random.shuffle(order)
    back = order_near(g, [order.index(d) for d in range(n)])
    y = g.add("Transpose", x, perm=order)
    form = g.below(4)
    if form == 0:
        other = g.add("Transpose", g.alike(shape), perm=order_near(g, order))
        y = swapped(g, g.pick(["Add", "Mul", "Sub"]), y, other)
    elif form == 1:
        inner = [shape[d] for d in order]
        y = g.add(g.pick(["Relu", "Tanh", "Neg"]), y)
        for _ in range(g.below(3)):
            size = inner if g.chance(.3) else [d if g.chance(.4) else 1 for d in inner[g.below(n):]]
            y = swapped(g, g.pick(["Add", "Mul"]), y,
                        g.scalar(.7, shape) if g.chance(.4) else g.numbers.standard_normal(size).astype(F))
    elif form == 2:
        y = g.add("Concat", y, g.add("Transpose", g.alike(shape), perm=order), axis=g.below(n))
    return g.add("Transpose", shared(g, x, y), perm=back)


@near(3, (1, 2, 3, 4), "merge_views")
def views(g, x, shape):
    n = len(shape)
    form = g.below(4)
    if form == 0:
        axes = sorted(g.random.sample(range(n + 2), 2))
        y = g.add("Unsqueeze", x, np.array(axes, np.int64))
        if g.chance(.5):
            y = g.add(g.pick(["Add", "Mul"]), y, g.scalar(1.5, shape + [1, 1]))
        return g.add("Squeeze", y, np.array(axes if g.chance(.8) else axes[:1], np.int64))
    if form == 1:
        ones = 1 + g.below(2)
        y = g.add("Reshape", x, np.array([1] * ones + shape, np.int64))
        size = [1] * g.below(ones + 1) + [d if g.chance(.6) else 1 for d in shape]
        if g.chance(.15):
            size = [2] + size[1:]
        y = swapped(g, g.pick(["Add", "Mul", "Sub", "Div"]), y, (g.numbers.random(size) + .5).astype(F))
        return g.add("Reshape", y, np.array(shape if g.chance(.7) else [-1] + shape[1:], np.int64))
    if form == 2:
        y = g.add("Flatten", x, axis=g.below(n + 1))
        return g.add("Reshape", y, np.array([-1] + shape[1:] if g.chance(.7) else [-1], np.int64))
    y = g.add("Reshape", x, np.array([0] * (n - 1) + [-1] if g.chance(.5) else [int(np.prod(shape))], np.int64))
    if g.chance(.5):
        sizes = g.add("Concat", *[g.add("Slice", g.add("Shape", x), np.array([d], np.int64), np.array([d + 1], np.int64))
                                  for d in range(n)], axis=0)
        return g.add("Reshape", y, sizes)
    return g.add("Reshape", y, np.array(shape, np.int64))


@near(3, (2, 3, 4), "merge_transposes")
def merged_turns(g, x, shape):
    """A Transpose between a view that merges axes and one that splits them."""
    if g.chance(.3):
        shape = shape[:1] + [1] + shape[1:]
        x = g.add("Unsqueeze", x, np.array([1], np.int64))
    n = len(shape)
    groups, d = [], 0
    while d < n:
        groups.append(list(range(d, min(n, d + 1 + g.below(3)))))
        d = groups[-1][-1] + 1
    sizes = [int(np.prod([shape[d] for d in group])) for group in groups]
    if g.chance(.5):
        sizes[g.below(len(sizes))] = -1
    order = list(range(len(groups)))
    g.random.shuffle(order)
    y = g.add("Transpose", shared(g, x, g.add("Reshape", x, np.array(sizes, np.int64))), perm=order)
    split = [shape[d] for i in order for d in groups[i]]
    if g.chance(.3):
        g.random.shuffle(split)
    return g.add("Reshape", y, np.array(split, np.int64))


@near(2, (1, 2, 3, 4), "merge_slices", "merge_concats")
def cuts(g, x, shape):
    axis = g.axis(shape)
    if g.chance(.4):
        y = g.add("Concat", x, g.pick(g.joinable(shape, axis)), axis=axis)
        other = axis if g.chance(.7) else g.axis(shape)
        return g.add("Concat", x if other == axis else y, y, axis=other)
    y = x
    for _ in range(2):
        first, last = g.pick([0, 1, -2, 2]), g.pick([1000, -1, 3, 5])
        step = g.pick([1, 1, 1, 2])
        if g.chance(.2):
            first, last, step = -1, -1000, -1
        at = axis if g.chance(.7) else g.axis(shape)
        y = g.add("Slice", y, *(np.array([v], np.int64) for v in (first, last, at - len(shape) if g.chance(.3) else at,
                                                                    step)))
    return y


@near(2, (2, 3, 4), "merge_reduces")
def twice_reduced(g, x, shape):
    name = g.pick(["ReduceMean", "ReduceMax", "ReduceL2", "ReduceMin", "ReduceSumSquare"])
    first = g.below(len(shape))
    keep = g.below(2)
    y = g.add(name, x, axes=[first], keepdims=keep)
    form = g.below(3)
    if form == 0:
        left = len(shape) if keep else len(shape) - 1
        again = name if g.chance(.8) else "ReduceMean"
        return g.add(again, y, axes=[g.below(left)], keepdims=g.below(2))
    axes = np.array([first if g.chance(.9) else 0], np.int64)
    return g.add("Squeeze" if keep else "Unsqueeze", y, axes)


# ------------------------------------------------------------------ matrix multiplications

@near(3, (2, 3, 4), "gemm", "merge_products")
def near_gemm(g, x, shape):
    n = g.pick([1, 4, 8, 16])
    if g.chance(.3):  # several multiplications with one value
        parts = []
        for _ in range(2 + g.below(2)):
            y = g.add("MatMul", x, weights(g, n, shape[-1]).T.copy())
            parts.append(g.add("Add", y, g.numbers.standard_normal(n).astype(F)) if g.chance(.7) else y)
        return g.add("Concat", *parts, axis=len(shape) - 1 if g.chance(.8) else 0)
    w = weights(g, n, shape[-1])
    if g.chance(.5):
        y = g.add("MatMul", x, g.add("Transpose", w, perm=[1, 0]))
    elif g.chance(.5) and len(shape) == 2:
        y = g.add("MatMul", g.add("Transpose", x, perm=order_near(g, [1, 0])), weights(g, n, shape[0]).T.copy())
        shape = [shape[1], shape[0]]
    else:
        y = g.add("MatMul", x, w.T.copy())
    size = g.pick([[n], [n], [1], [1, n], [1, 1, n], [], [shape[-2], n], [shape[-2], 1], [3, 1, n]])
    return swapped(g, "Add", shared(g, y, y), g.numbers.standard_normal(size).astype(F))


@near(2, (2, 3, 4), "gathered_products")
def near_gathered(g, x, shape):
    """Products with matrices of a constant that the largest column of x chooses."""
    lead, k, n = len(shape) - 2, shape[-1], g.pick([1, 3, 8, 17])
    row = g.add("ReduceMax", x, axes=[-2], keepdims=0)
    index = g.add("ArgMax", row, axis=-1, keepdims=0)
    if g.chance(.2):
        index = g.add("Sub", index, np.int64(k))  # from the end
    if lead and g.chance(.15):  # the matrix of the first one for all
        index = g.add("Slice", index, np.zeros(1, np.int64), np.ones(1, np.int64))
    swaps, left = g.chance(.5), g.chance(.4)
    table = g.numbers.standard_normal([k, *((n, k) if swaps != left else (k, n))]).astype(F) / np.sqrt(k).astype(F)
    if g.chance(.2):
        last = np.array([-1], np.int64)
        chosen = g.add("GatherND", table, g.add("Unsqueeze", index, last))
    else:
        chosen = g.add("Gather", table, index, axis=0 if g.chance(.9) else g.below(3))
    chosen = shared(g, chosen, chosen)
    if swaps:
        order = list(range(lead)) + [lead + 1, lead]
        chosen = g.add("Transpose", chosen, perm=order if g.chance(.8) else order_near(g, order))
    if not left:
        return g.add("MatMul", x, chosen)
    column = g.add("Unsqueeze", row, np.array([-1], np.int64))
    if g.chance(.3):
        column = g.add("Transpose", x, perm=list(range(lead)) + [lead + 1, lead])
    return g.add("MatMul", chosen, column)


@near(2, (2, 3), "einsum")
def letters(g, x, shape):
    n = g.pick([1, 4, 6])
    if len(shape) == 2:
        text, other = g.pick([("ab,cb->ac", [n, shape[1]]), ("ab,bc->ca", [shape[1], n]), ("ab,ab->a", shape),
                              ("ab,b->ab", [shape[1]]), ("ab,ab->ab", [1, shape[1]]), ("ab,c->abc", [n])])
    else:
        text, other = g.pick([("abc,dc->abd", [n, shape[2]]), ("abc,acd->abd", [shape[0], shape[2], n]),
                              ("abc,adc->adb", [shape[0], n, shape[2]]), ("abc,abc->ab", shape),
                              ("abc,b->ca", [shape[1]])])
    if g.chance(.15):
        return g.add("Einsum", x, equation="ab->b" if len(shape) == 2 else g.pick(["abc->cb", "abc->b"]))
    return g.add("Einsum", x, g.numbers.standard_normal(other).astype(F), equation=text)


@near(3, (2, 3), "gather_weights", "fold_weights", "quantized_pairs")
def narrow_weights(g, x, shape):
    n = g.pick([4, 8, 16])
    low = g.numbers.integers(-127, 128, (shape[-1], n)).astype(np.int8)
    columns = g.chance(.5)
    scale = (g.numbers.random(n) * .02 + .001).astype(F) if columns else F(.01)
    zero = (np.zeros(n, np.int8) if columns else np.int8(0)) if g.chance(.7) else \
        (g.numbers.integers(-9, 9, n).astype(np.int8) if columns else np.int8(5))
    w = g.add("DequantizeLinear", low, scale, zero, **({"axis": 1} if columns else {}))
    if g.chance(.4):
        axis = 0 if g.chance(.8) else 1
        rows = g.numbers.integers(-low.shape[axis], low.shape[axis], (3,)).astype(np.int64)
        return g.add("Gather", w, rows, axis=axis)
    y = g.add("MatMul", x, w)
    if g.chance(.3):
        return there_and_back(g, there_and_back(g, y, .05, 100), .05, g.pick([100, 100, 99]))
    return y


@near(2, (2, 3, 4), "widen_halves")
def halves(g, x, shape):
    y = g.add("Cast", g.add("Clip", x, F(-50), F(50)), to=T.FLOAT16)
    n = g.pick([4, 8])
    y = g.add("MatMul", y, weights(g, n, shape[-1]).T.astype(np.float16))
    if g.chance(.6):
        y = g.add("Add", y, g.numbers.standard_normal(n).astype(np.float16))
    y = g.add(g.pick(["Relu", "Sigmoid", "Tanh"]), y) if g.chance(.5) else y
    return g.add("Cast", y, to=T.FLOAT)


# ------------------------------------------------------------------ attention

@near(4, (3,), "attention")
def spelled_attention(g, x, shape):
    batch, n, width = shape
    heads = g.pick([h for h in (1, 2, 4) if width % h == 0])
    size = width // heads
    split = np.array([0, -1, heads, size], np.int64)
    plain = g.chance(.2)  # [batch, length, size], without heads

    def side(order):
        y = g.add("MatMul", x, weights(g, width, width))
        if plain:
            return y if order[3] == 3 else g.add("Transpose", y, perm=order_near(g, [0, 2, 1]))
        return g.add("Transpose", g.add("Reshape", y, split), perm=order)

    q, k, v = side([0, 2, 1, 3]), side([0, 2, 3, 1]), side([0, 2, 1, 3])
    rank = 3 if plain else 4
    ones = [1] * rank
    scale = (width if plain else size) ** -.5
    form = g.below(4)
    if form == 0:
        q = swapped(g, "Mul", q, g.scalar(scale, ones))
    elif form == 1:
        q, k = g.add("Mul", q, g.scalar(scale ** .5, ones)), g.add("Mul", k, g.scalar(scale ** .5, ones))
    scores = g.add("MatMul", q, k)
    if form == 2:
        scores = g.add("Div", scores, g.scalar(1 / scale, ones))
    low = g.pick([-1e9, -1e4, -3.4e38, -65504.0, -5.0])
    mask = g.below(5)
    if mask == 1:
        scores = swapped(g, "Add", scores, np.triu(np.full((n, n), low, F), 1))
    elif mask == 2:
        scores = swapped(g, "Add", scores, g.numbers.standard_normal(g.pick([[n, n], [n], [n, 1], [1, 1], [batch] + [1] *
                                                                              (rank - 2) + [n]])).astype(F))
    elif mask == 3:
        seen = g.numbers.random(g.pick([[n, n], [1, n], [n, 1]])) > .3
        scores = g.add("Where", seen, scores, g.scalar(low, ones))
    elif mask == 4:
        hidden = g.add("Greater", g.add("ReduceMax", x, axes=[-1], keepdims=0), F(.8))
        hidden = g.add("Unsqueeze", hidden, np.array([1] if plain else [1, 2], np.int64))
        scores = g.add("Where", hidden, g.scalar(low, ones), scores)
    p = g.add("Softmax", scores, axis=-1 if g.chance(.9) else rank - 2)
    if g.chance(.15):
        p = g.add("Where", g.add("IsNaN", p), g.scalar(0, ones), p)
    y = g.add("MatMul", shared(g, p, p), v)
    if plain:
        return y
    return g.add("Reshape", g.add("Transpose", y, perm=[0, 2, 1, 3]), np.array([0, -1, width], np.int64))


# ------------------------------------------------------------------ convolutions

@near(3, (3, 4), "conv_batch_norm", "conv_scale", "pad_into")
def near_convolution(g, x, shape):
    c, spatial = shape[1], len(shape) - 2
    to = g.pick([4, 8, c])
    if g.chance(.4):
        value = g.pick([0.0, 0.0, 1.5, -np.inf])
        pads = [0, 0] + [g.below(3) for _ in range(spatial)]
        if g.chance(.1):
            pads[1] = 1
        x = g.add("Pad", x, np.array(pads + [0, 0] + pads[2:], np.int64), F(value))
        if g.chance(.5):
            name = g.pick(["MaxPool", "AveragePool"])
            more = {"count_include_pad": g.below(2)} if name == "AveragePool" else {}
            return g.add(name, x, kernel_shape=[3] * spatial, pads=[g.below(2)] * 2 * spatial, **more)
        if pads[1]:
            raise ValueError("channels are padded")
    y = g.add("Conv", x, weights(g, to, c, *[g.pick([1, 3])] * spatial), pads=[1] * 2 * spatial)
    form = g.below(3)
    if form == 0:
        return g.add("BatchNormalization", y, (g.numbers.random(to) + .5).astype(F),
                     g.numbers.standard_normal(to).astype(F), g.numbers.standard_normal(to).astype(F),
                     (g.numbers.random(to) + .1).astype(F))
    size = g.pick([[to] + [1] * spatial, [1, to] + [1] * spatial, [1, 1, to] + [1] * spatial, [1], [],
                   [1] * (len(shape) + 1), [to]])
    op = g.pick(["Mul", "Add", "Sub", "Div"])
    return swapped(g, op if op != "Div" else "Mul", shared(g, y, y), g.numbers.standard_normal(size).astype(F))


@near(2, (2, 4), "quantized_ops")
def quantized_chain(g, x, shape):
    y = there_and_back(g, x, .04, g.pick([128, 100]))
    to, c = g.pick([4, 8]), shape[1]
    low = g.numbers.integers(-127, 128, (to, c) + (1,) * (len(shape) - 2)).astype(np.int8)
    w = g.add("DequantizeLinear", low, F(.01), np.int8(g.pick([0, 0, 3])))
    if len(shape) == 4:
        y = g.add("Conv", y, w)
        if g.chance(.5):
            y = g.add("Relu", y) if g.chance(.5) else g.add("Clip", y, F(0), F(6))
    else:
        y = g.add("MatMul", y, g.add("Transpose", w, perm=[1, 0]))
    return there_and_back(g, y, .05, g.pick([0, 100])) if g.chance(.7) else y


# ------------------------------------------------------------------ bodies, sequences, operators of ONNX Runtime

def body(g, nodes, inputs, outputs):
    return helper.make_graph(nodes, f"b{g.name()}", inputs, outputs)


@near(1, ANY, "if_constant", "capture_constants")
def chosen(g, x, shape):
    condition = np.array(bool(g.below(2))) if g.chance(.6) else g.add("Greater", g.add("ReduceMax", x, keepdims=0), F(.5))
    outs, branches = [], []
    factor = g.constant(np.asarray(g.numbers.standard_normal([1] * g.below(len(shape) + 1)), F))
    for op in (g.pick(["Relu", "Neg"]), g.pick(["Abs", "Mul"])):
        outs.append(g.name())
        node = helper.make_node(op, [x, factor] if op == "Mul" else [x], [outs[-1]])
        branches.append(body(g, [node], [], [helper.make_tensor_value_info(outs[-1], T.FLOAT, None)]))
    return g.add("If", condition, then_branch=branches[0], else_branch=branches[1], known=[(T.FLOAT, shape)])


@near(1, ANY, "unroll")
def repeated_body(g, x, shape):
    i, c, v, w, k = (g.name() for _ in range(5))
    factor = g.constant(F(g.pick([.5, .9])))
    nodes = [helper.make_node("Mul", [v, factor], [w]), helper.make_node("Identity", [c], [k])]
    inner = body(g, nodes, [helper.make_tensor_value_info(i, T.INT64, []), helper.make_tensor_value_info(c, T.BOOL, []),
                            helper.make_tensor_value_info(v, T.FLOAT, None)],
                 [helper.make_tensor_value_info(k, T.BOOL, []), helper.make_tensor_value_info(w, T.FLOAT, None)])
    return g.add("Loop", np.array(g.below(4), np.int64), np.array(True), x, body=inner, known=[(T.FLOAT, shape)])


@near(1, ANY, "sequences")
def listed(g, x, shape):
    parts = g.add("SequenceConstruct", x, g.alike(shape), known=[None])
    if g.chance(.4):
        return g.add("ConcatFromSequence", parts, axis=g.axis(shape))
    return g.add("SequenceAt", parts, np.array(g.pick([0, 1, -1]), np.int64), known=[(T.FLOAT, shape)])


@near(2, (2, 3), "contributed", "quantized_functions")
def contributed(g, x, shape):
    form, n = g.below(6), g.pick([4, 8])
    if form == 0:
        return g.add("Gelu", x, domain="com.microsoft", known=[(T.FLOAT, shape)])
    if form == 1:
        bias = g.numbers.standard_normal(shape[-1:]).astype(F)
        return g.add(g.pick(["BiasGelu", "FastGelu"]), x, bias, domain="com.microsoft", known=[(T.FLOAT, shape)])
    if form == 2:
        return g.add("QuickGelu", x, alpha=g.pick([1.702, 1.0]), domain="com.microsoft", known=[(T.FLOAT, shape)])
    if form == 3:
        return g.add("FusedMatMul", x, weights(g, n, shape[-1]), transB=1, alpha=g.pick([1.0, .5]), domain="com.microsoft",
                     known=[(T.FLOAT, shape[:-1] + [n])])
    if form == 4:
        scale = (g.numbers.random(shape[-1]) + .5).astype(F)
        return g.add("SkipLayerNormalization", x, g.alike(shape), scale, domain="com.microsoft",
                     known=[(T.FLOAT, shape)]) if len(shape) == 3 else g.add("SimplifiedLayerNormalization", x, scale,
                                                                             axis=-1, known=[(T.FLOAT, shape)])
    a = g.add("QuantizeLinear", x, F(.05), np.uint8(128))
    b = g.add("QLinearAdd", a, F(.05), np.uint8(128), a, F(.05), np.uint8(128), F(.1), np.uint8(120),
              domain="com.microsoft", known=[(T.UINT8, shape)])
    return g.add("DequantizeLinear", b, F(.1), np.uint8(120))


@near(1, ANY, "dead_code")
def unread(g, x, shape):
    g.add("Neg", g.add("Exp", g.add("Clip", x, F(-1), F(1))), unread=True)
    return g.add("Identity", above(g, x, .1))
