"""Families of quantized operators, for random_graphs.py --quantized: convolutions of one to three dimensions, matrix
multiplications, recurrent operators and lookups with weights of 2, 4 and 8 bits, functions of bytes, and activations of
4 to 16 bits, written with QuantizeLinear and DequantizeLinear, as QLinear and Integer operators, and as operators of
com.microsoft.

Every row of weights contains the smallest and the largest value of its type, and zero points are often at an end of
the type, so weights minus zero points reach -255 and 255. Most scales are powers of two: then the sums of the
reference, which are floats, are exact, and results are the same in every order of additions.

A family returns the float tensor that it ends in, and records in g.within how far it may be off:
    ("step", scale)   one step of the last quantization, in a few elements: a sum that is rounded in another order
    ("size", error)   this times the largest element: float sums
    ("same", 0)         the same bits"""
import numpy as np
from families import F, family_of
from onnx import TensorProto as T

IMAGES, ROWS = {}, {}  # rank: [(weight, function)]
image, rows = family_of(IMAGES), family_of(ROWS)
INT4, UINT4, INT2, UINT2 = 22, 21, 26, 25  # newer than Debian's package of onnx
BITS = {T.INT8: (8, True), T.UINT8: (8, False), INT4: (4, True), UINT4: (4, False), INT2: (2, True), UINT2: (2, False),
        T.INT16: (16, True), T.UINT16: (16, False)}
EXACT = 250  # products of two bytes whose sum, with a bias, is exact as a float
CLOSE = ("size", 3e-5)
MICROSOFT = "com.microsoft"


def ends_of(dtype):
    bits, signed = BITS[dtype]
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def integers(g, dtype, values):
    """A constant of an integer type of up to 16 bits."""
    bits, _ = BITS[dtype]
    values = np.asarray(values)
    if bits == 16:
        return g.tensor(dtype, values.shape, (values.reshape(-1).astype(np.int64) & 0xffff).astype(np.uint16).tobytes())
    flat = (values.reshape(-1).astype(np.int64) & (1 << bits) - 1).astype(np.uint8)
    flat = np.concatenate([flat, np.zeros(-flat.size % (8 // bits), np.uint8)]).reshape(-1, 8 // bits)
    packed = (flat << np.arange(0, 8, bits, dtype=np.uint8)).sum(1).astype(np.uint8)
    return g.tensor(dtype, values.shape, packed.tobytes())


def zero_points(g, dtype, dims):
    """Zero points of any value, mostly at the ends or in the middle of the type."""
    low, high = ends_of(dtype)
    kinds = np.array([low, high, (low + high + 1) // 2, 0, low + g.below(high - low + 1)])
    kind = g.pick(["one", "one", "ends", "any"])
    if kind == "one":
        return np.full(dims, g.pick(list(kinds[:4])))
    return g.numbers.choice(kinds[:2] if kind == "ends" else kinds, dims)


def weights(g, dtype, dims, axis):
    """Weights with both ends of the type at every index of the axis."""
    low, high = ends_of(dtype)
    kind = g.pick(["any", "any", "ends", "few"])
    if kind == "ends":
        w = g.numbers.choice([low, high], dims)
    elif kind == "few":
        w = np.clip(g.numbers.integers(-4, 5, dims) + (low + high + 1) // 2, low, high)
    else:
        w = g.numbers.integers(low, high + 1, dims)
    lines = np.moveaxis(w, axis, 0)
    flat = lines.reshape(lines.shape[0], -1).copy()
    for line in flat:
        at = g.numbers.permutation(line.size)[:2]
        line[at] = g.numbers.permutation([low, high])[:at.size]
    return np.moveaxis(flat.reshape(lines.shape), 0, axis)


def scale_near(g, size, dims=()):
    """Positive scales: powers of two below size and up to four times smaller, or any numbers there."""
    powers = np.floor(np.log2(size)) - g.numbers.integers(0, 3, dims)
    return np.asarray(2.0 ** powers if g.exact else 2.0 ** (powers + g.numbers.random(dims)), F)


class Bytes:
    """A quantized tensor: name, type, scale and zero point."""

    def __init__(self, name, dtype, scale, zero):
        self.name, self.dtype, self.scale, self.zero = name, dtype, scale, zero

    def inputs(self, g):
        return self.name, self.scale, integers(g, self.dtype, self.zero)

    def reach(self):
        return max(abs(end - int(self.zero)) for end in ends_of(self.dtype)) * float(self.scale)


def some_bytes(g, size, dtype=None):
    """Type, scale and zero point for numbers of this size."""
    dtype = dtype or g.pick([T.UINT8, T.INT8])
    return Bytes(None, dtype, scale_near(g, size / 60), zero_points(g, dtype, ()))


def quantize(g, x, dtype=None):
    made = some_bytes(g, g.sizes.get(x, 4.0), dtype)
    made.name = g.add("QuantizeLinear", x, made.scale, integers(g, made.dtype, made.zero))
    return made


def dequantize(g, quantized):
    y = g.add("DequantizeLinear", *quantized.inputs(g))
    g.sizes[y] = quantized.reach()
    return y


def there_and_back(g, x):
    return dequantize(g, quantize(g, x))


def ended(g, y, size, exact):
    """Quantizes and dequantizes the result of an operator, or leaves the floats."""
    g.sizes[y] = size
    if g.chance(.4):
        g.within = ("same", 0) if exact and g.exact else CLOSE
        return y
    made = some_bytes(g, size)
    made.name = g.add("QuantizeLinear", y, made.scale, integers(g, made.dtype, made.zero))
    g.within = ("step", float(made.scale))
    return dequantize(g, made)


class Weights:
    """Constant integer weights, with a scale and a zero point for all or for each index of an axis."""

    def __init__(self, g, dtype, dims, axis):
        low, high = ends_of(dtype)
        self.dtype, self.axis, self.dims, self.each = dtype, axis, dims, g.chance(.6)
        self.codes = weights(g, dtype, dims, axis)
        count = (dims[axis],) if self.each else g.pick([(), (1,)])
        self.zero = np.full(count, (low + high + 1) // 2) if g.chance(.3) else zero_points(g, dtype, count)
        self.scale = scale_near(g, 1 / 64 / (high - low), count)
        self.value, self.zeros = integers(g, dtype, self.codes), integers(g, dtype, self.zero)

    def dequantized(self, g):
        more = {"axis": self.axis} if self.each else {}
        zeros = [] if not self.zero.any() and g.chance(.5) else [self.zeros]
        return g.add("DequantizeLinear", self.value, self.scale, *zeros, known=[(T.FLOAT, self.dims)], **more)

    def inputs(self, g):
        """Value, scale and zero point as inputs of an operator: scalars, or vectors along the axis."""
        if self.each:
            return self.value, self.scale, self.zeros
        return self.value, self.scale.reshape(()), integers(g, self.dtype, self.zero.reshape(()))


def result_size(x_reach, w, products):
    """The typical size of a sum of products."""
    spread = max(1, int(np.abs(w.codes - w.zero.mean()).mean()))
    return x_reach / 2 * spread * float(w.scale.max()) * np.sqrt(products)


# ------------------------------------------------------------------ convolutions

def window(g, spatial):
    size = [g.pick([1, 1, 2, 3, 3, 5]) if n > 4 else 1 + g.below(min(3, n)) for n in spatial]
    if len(size) == 3:
        size = [min(s, 3) for s in size]
    apart = [g.pick([1, 1, 1, 2]) for _ in size]
    pads = [g.below(k) for k in size + size]
    if g.chance(.2):
        return {"kernel_shape": size, "strides": [1 + g.below(2) for _ in size],
                "auto_pad": g.pick(["SAME_UPPER", "SAME_LOWER"])}
    if any(n + pads[i] + pads[len(size) + i] < (size[i] - 1) * apart[i] + 1 for i, n in enumerate(spatial)):
        raise ValueError("a window larger than the image")
    return {"kernel_shape": size, "strides": [g.pick([1, 1, 2]) for _ in size], "pads": pads, "dilations": apart}


class Layer:
    """The shapes of a convolution: many filters, groups or channels of their own."""

    def __init__(self, g, shape, groups=True):
        self.more, c = window(g, shape[2:]), shape[1]
        self.groups = g.pick([n for n in (1, 1, 1, 2, 4, c, c) if c % n == 0]) if groups else 1
        self.filters = self.groups * g.pick([1, 1, 2]) if self.groups == c and c > 1 else \
            self.groups * max(1, g.pick([1, 4, 8, 17, 32, 128]) // self.groups)
        self.dims = [self.filters, c // self.groups] + self.more["kernel_shape"]
        self.products = int(np.prod(self.dims[1:]))
        self.more["group"] = self.groups

    def exact(self):
        return self.products <= EXACT


def units(g, x, w):
    """The unit of a bias: the products of both scales."""
    return np.asarray(x.scale * w.scale, F)


@image(6, 3, 4, 5)
def conv_of_dequantized(g, x, shape):
    layer, quantized = Layer(g, shape), quantize(g, x)
    w = Weights(g, g.pick([T.INT8, T.UINT8]), layer.dims, 0)
    unit, bias = units(g, quantized, w), []
    if g.chance(.6):
        codes = g.numbers.integers(-9999, 9999, layer.filters)
        if g.chance(.5):
            bias = [(codes * unit).astype(F)]
        else:
            more = {"axis": 0} if unit.size > 1 else {}
            bias = [g.add("DequantizeLinear", codes.astype(np.int32), unit if unit.size > 1 else unit.reshape(()), **more)]
    y = g.add("Conv", dequantize(g, quantized), w.dequantized(g), *bias, **layer.more)
    if g.chance(.4):
        y = g.add("Relu", y) if g.chance(.5) else g.add("Clip", y, F(-1), F(g.pick([1, 6])))
    return ended(g, y, result_size(quantized.reach(), w, layer.products), layer.exact())


@image(4, 3, 4, 5)
def linear_conv(g, x, shape):
    layer, quantized = Layer(g, shape), quantize(g, x)
    w = Weights(g, g.pick([T.INT8, T.UINT8]), layer.dims, 0)
    made = some_bytes(g, result_size(quantized.reach(), w, layer.products))
    bias = [g.numbers.integers(-9999, 9999, layer.filters).astype(np.int32)] if g.chance(.6) else []
    made.name = g.add("QLinearConv", *quantized.inputs(g), *w.inputs(g), made.scale, integers(g, made.dtype, made.zero),
                      *bias, **layer.more)
    g.within = ("same", 0) if g.exact else ("step", float(made.scale))
    return dequantize(g, made)


@image(3, 3, 4, 5)
def integer_conv(g, x, shape):
    layer = Layer(g, shape)
    if g.chance(.4):
        name, scale, zero = g.add("DynamicQuantizeLinear", x, outputs=3)
        size, x_dtype = g.sizes.get(x, 4.0), T.UINT8
    else:
        quantized = quantize(g, x)
        name, scale, zero = quantized.inputs(g)
        size, x_dtype = quantized.reach(), quantized.dtype
        zero = None if not quantized.zero and g.chance(.5) else zero
    w = Weights(g, g.pick([T.INT8, T.UINT8]), layer.dims, 0)
    value, spread, *zeros = w.inputs(g)
    zeros = [] if not w.zero.any() and g.chance(.3) else zeros
    y = g.add("Cast", g.add("ConvInteger", name, value, zero, *zeros, **layer.more), to=T.FLOAT)
    spread = spread.reshape([-1] + [1] * (len(shape) - 2)) if w.each else spread
    y = g.add("Mul", y, g.add("Mul", scale, spread))
    if g.chance(.4):
        y = g.add("Add", y, g.numbers.standard_normal([layer.filters] + [1] * (len(shape) - 2)).astype(F))
    g.within = CLOSE
    g.sizes[y] = result_size(size, w, layer.products)
    return y


@image(2, 3, 4, 5)
def conv_with_low_bit_weights(g, x, shape):
    """The activations stay floats; large weights stay packed."""
    transposed = g.chance(.3)
    layer = Layer(g, shape, groups=not transposed)
    dtype = g.pick([T.INT8, T.UINT8] + ([INT4, UINT4] if g.opset >= 21 else []))
    dims = [shape[1], layer.filters] + layer.more["kernel_shape"] if transposed else layer.dims
    w = Weights(g, dtype, dims, 1 if transposed else 0)
    if transposed and "auto_pad" in layer.more:
        raise ValueError("its sizes are not what a convolution's are")
    y = g.add("ConvTranspose" if transposed else "Conv", x, w.dequantized(g), **layer.more)
    g.sizes[y] = result_size(g.sizes.get(x, 4.0), w, layer.products)
    g.within, g.over = CLOSE, True
    return y


@image(2, 3, 4, 5)
def transposed_conv_of_dequantized(g, x, shape):
    layer, quantized = Layer(g, shape), quantize(g, x)
    if "auto_pad" in layer.more:
        raise ValueError("its sizes are not what a convolution's are")
    dims = [shape[1], layer.filters // layer.groups] + layer.more["kernel_shape"]
    w = Weights(g, g.pick([T.INT8, T.UINT8]), dims, g.below(2) if layer.groups == 1 else 0)
    products = shape[1] // layer.groups * int(np.prod(dims[2:]))
    y = g.add("ConvTranspose", dequantize(g, quantized), w.dequantized(g), **layer.more)
    exact = products <= EXACT and (w.axis == 1 or not w.each)
    return ended(g, y, result_size(quantized.reach(), w, products), exact)


@image(1, 3, 4, 5)
def conv_with_computed_weights(g, x, shape):
    layer, quantized = Layer(g, shape), quantize(g, x)
    low, high = ends_of(T.INT8)
    top = g.add("Clip", g.add("ReduceMax", x, keepdims=0), F(.5), F(1))
    w = g.add("Mul", top, (weights(g, T.INT8, layer.dims, 0) / 64).astype(F))
    spread, zero = scale_near(g, 1 / 32), zero_points(g, T.INT8, ())
    w = g.add("QuantizeLinear", w, spread, integers(g, T.INT8, zero))
    w = g.add("DequantizeLinear", w, spread, integers(g, T.INT8, zero))
    y = g.add("Conv", dequantize(g, quantized), w, **layer.more)
    size = quantized.reach() / 2 * float(spread) * (high - low) / 3 * np.sqrt(layer.products)
    return ended(g, y, size, layer.exact())


# ------------------------------------------------------------------ matrix multiplications

COLUMNS = [1, 3, 8, 16, 17, 33, 64, 100]


@rows(4, 2, 3)
def product_of_dequantized(g, x, shape):
    quantized, n, k = quantize(g, x), g.pick(COLUMNS), shape[-1]
    turned = g.chance(.4)
    w = Weights(g, g.pick([T.INT8, T.UINT8]), [n, k] if turned else [k, n], g.below(2) if g.chance(.2) else int(not turned))
    name = w.dequantized(g)
    a = dequantize(g, quantized)
    if len(shape) == 2 and g.chance(.5):
        c = [g.numbers.standard_normal(n).astype(F)] if g.chance(.5) else []
        y = g.add("Gemm", a, name, *c, transB=int(turned), alpha=g.pick([1.0, .5]))
        exact = not c
    else:
        y = g.add("MatMul", a, g.add("Transpose", name, perm=[1, 0]) if turned else name)
        exact = True
        if g.chance(.4):
            y, exact = g.add("Add", y, g.numbers.standard_normal(n).astype(F)), False
    return ended(g, y, result_size(quantized.reach(), w, k), exact and k <= EXACT)


@rows(2, 2, 3)
def linear_product(g, x, shape):
    quantized, n, k = quantize(g, x), g.pick(COLUMNS), shape[-1]
    w = Weights(g, g.pick([T.INT8, T.UINT8]), [k, n], 1)
    made = some_bytes(g, result_size(quantized.reach(), w, k))
    made.name = g.add("QLinearMatMul", *quantized.inputs(g), *w.inputs(g), made.scale,
                      integers(g, made.dtype, made.zero))
    g.within = ("same", 0) if g.exact else ("step", float(made.scale))
    return dequantize(g, made)


@rows(2, 2)
def gemm_of_bytes(g, x, shape):
    quantized, n, k = quantize(g, x), g.pick(COLUMNS), shape[-1]
    turned = g.below(2)
    w = Weights(g, g.pick([T.INT8, T.UINT8]), [n, k] if turned else [k, n], 1 - turned)
    made = some_bytes(g, result_size(quantized.reach(), w, k), quantized.dtype)
    bias = g.numbers.integers(-9999, 9999, n).astype(np.int32) if g.chance(.5) else None
    y = g.add("QGemm", *quantized.inputs(g), w.value, w.scale, w.zeros, bias, made.scale,
              integers(g, made.dtype, made.zero), transB=turned, domain=MICROSOFT, known=[(made.dtype, [shape[0], n])])
    made.name = y
    g.within = ("step", float(made.scale))
    return dequantize(g, made)


@rows(3, 2, 3)
def integer_product(g, x, shape):
    form, n, k = g.pick(["integer", "fused", "dynamic"]), g.pick(COLUMNS), shape[-1]
    w = Weights(g, g.pick([T.INT8, T.UINT8]), [k, n], 1)
    known = [(T.FLOAT, shape[:-1] + [n])]
    g.within = CLOSE
    if form == "dynamic":
        y = g.add("DynamicQuantizeMatMul", x, w.value, w.scale, w.zeros, domain=MICROSOFT, known=known)
        size = g.sizes.get(x, 4.0)
    elif form == "fused":
        quantized = quantize(g, x)
        name, scale, zero = quantized.inputs(g)
        y = g.add("MatMulIntegerToFloat", name, w.value, scale, w.scale, zero, w.zeros, domain=MICROSOFT, known=known)
        size = quantized.reach()
    else:
        if g.chance(.5):
            name, scale, zero = g.add("DynamicQuantizeLinear", x, outputs=3)
            size = g.sizes.get(x, 4.0)
        else:
            quantized = quantize(g, x)
            name, scale, zero = quantized.inputs(g)
            size = quantized.reach()
        y = g.add("MatMulInteger", name, w.value, zero, w.zeros)
        y = g.add("Mul", g.add("Cast", y, to=T.FLOAT), g.add("Mul", scale, w.scale))
    g.sizes[y] = result_size(size, w, k)
    return y


@rows(3, 3)
def product_of_activations(g, x, shape):
    """Both matrices are computed."""
    a = quantize(g, x)
    b = quantize(g, g.add("Transpose", x, perm=[0, 2, 1]))
    size = a.reach() * b.reach() / 4 * np.sqrt(shape[2])
    form = g.below(3)
    if form == 0:
        y = g.add("MatMul", dequantize(g, a), dequantize(g, b))
        return ended(g, y, size, shape[2] <= EXACT)
    if form == 1:
        made = some_bytes(g, size)
        made.name = g.add("QLinearMatMul", *a.inputs(g), *b.inputs(g), made.scale, integers(g, made.dtype, made.zero))
        g.within = ("same", 0) if g.exact else ("step", float(made.scale))
        return dequantize(g, made)
    y = g.add("MatMulInteger", a.name, b.name, integers(g, a.dtype, a.zero), integers(g, b.dtype, b.zero))
    y = g.add("Cast", y, to=T.FLOAT)
    g.sizes[y], g.within = size / float(a.scale * b.scale), ("same", 0)
    return y


# ------------------------------------------------------------------ weights of a few bits, activations in float

def blocked(g, dtype, dims, axis, block):
    """Weights with a scale and a zero point for each block of the axis; returns the DequantizeLinear."""
    small = list(dims)
    small[axis] = -(-dims[axis] // block)
    low, high = ends_of(dtype)
    codes, zero = weights(g, dtype, dims, 1 - axis), zero_points(g, dtype, small)
    scale = scale_near(g, 1 / 8 / (high - low) / np.sqrt(dims[axis]), small)
    zeros = [integers(g, dtype, zero)] if zero.any() or g.chance(.5) else []
    return g.add("DequantizeLinear", integers(g, dtype, codes), scale, *zeros, axis=axis, block_size=block,
                 known=[(T.FLOAT, dims)])


@rows(3, 2, 3)
def product_with_low_bit_weights(g, x, shape):
    k, n, turned = shape[-1], g.pick([16, 33, 64, 130, 260]), g.chance(.5)
    dims, axis = [n, k] if turned else [k, n], int(turned)
    types = [T.INT8, T.UINT8] + ([INT4, UINT4] if g.opset >= 21 else []) + ([INT2, UINT2] if g.opset >= 25 else [])
    dtype = g.pick(types)
    if g.opset >= 21 and g.chance(.6):
        w = blocked(g, dtype, dims, axis, g.pick([b for b in (16, 32, 64, 128) if b <= k] or [k]))
    else:
        w = Weights(g, dtype, dims, 1 - axis if g.chance(.8) else axis).dequantized(g)
    if turned:
        w = g.add("Transpose", w, perm=[1, 0])
    y = g.add("MatMul", x, w)
    g.sizes[y] = g.sizes.get(x, 4.0)
    g.within, g.over = ("size", 3e-4), True
    return y


@rows(3, 2, 3)
def product_with_packed_weights(g, x, shape):
    k, n, bits, block = shape[-1], g.pick([8, 16, 33, 64, 130]), g.pick([4, 4, 4, 8]), g.pick([16, 32, 64, 128])
    blocks, dtype = -(-k // block), {4: UINT4, 8: T.UINT8}[bits]
    codes = np.zeros((n, blocks * block), np.int64)
    codes[:, :k] = weights(g, dtype, (n, k), 0)
    q = np.asarray(codes.reshape(n, blocks, block), np.uint8)
    if bits == 4:
        q = q[..., ::2] | q[..., 1::2] << 4
    scale = scale_near(g, 1 / 8 / ends_of(dtype)[1] / np.sqrt(k), (n, blocks))
    zero = []
    if g.chance(.7):
        points = np.zeros((n, -(-blocks * bits // 8) * 8 // bits), np.uint8)
        points[:, :blocks] = zero_points(g, dtype, (n, blocks))
        zero = [np.asarray(points[:, ::2] | points[:, 1::2] << 4 if bits == 4 else points, np.uint8)]
    y = g.add("MatMulNBits", x, q, scale.reshape(-1) if g.chance(.5) else scale, *zero, K=k, N=n, bits=bits, block_size=block,
              domain=MICROSOFT, known=[(T.FLOAT, shape[:-1] + [n])])
    g.sizes[y] = g.sizes.get(x, 4.0)
    g.within, g.over = ("size", 3e-4), True
    return y


@rows(2, 2, 3)
def looked_up(g, x, shape):
    """Rows of a table of weights, as in embeddings, multiplied by the activations."""
    k, count = shape[-1], g.pick([20, 130, 300])
    indices = g.numbers.integers(0, count, shape[:-1] if len(shape) == 2 else [1, 1]).astype(np.int64)
    if len(shape) == 2:
        indices = indices[:1]
    if g.opset >= 21 and k % 16 == 0 and g.chance(.6):
        dtype = g.pick([INT4, UINT4, T.UINT8])
        zero, scale = zero_points(g, dtype, (count, k // 16)), scale_near(g, 1 / 16, (count, k // 16))
        codes = integers(g, dtype, weights(g, dtype, (count, k), 0))
        more = {"bits": 8} if dtype == T.UINT8 else {}
        y = g.add("GatherBlockQuantized", codes, indices, scale, integers(g, dtype, zero), block_size=16, gather_axis=0,
                  quantize_axis=1, **more, domain=MICROSOFT, known=[(T.FLOAT, list(indices.shape) + [k])])
    else:
        w = Weights(g, g.pick([T.INT8, T.UINT8]), [count, k], g.below(2))
        y = g.add("Gather", w.dequantized(g), indices, axis=0)
    y = g.add("Mul", x, y)
    g.sizes[y] = g.sizes.get(x, 4.0)
    g.within, g.over = ("size", 1e-6), True
    return y


@rows(4, 3)
def recurrent(g, x, shape):
    """Weights of 8 bits: of an operator of com.microsoft, or through DequantizeLinear."""
    name, gates = g.pick([("LSTM", 4), ("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    hidden, ways = g.pick([4, 16, 33, 64]), g.pick([1, 2])
    direction = "bidirectional" if ways == 2 else g.pick(["forward", "reverse"])
    g.within, g.over = ("size", 1e-3), True
    if name == "LSTM" and g.chance(.5):
        dtype, inputs = g.pick([T.INT8, T.UINT8]), []
        for depth in shape[2], hidden:
            each = g.chance(.5)
            dims = (ways, gates * hidden) if each else (ways,)
            inputs += [integers(g, dtype, weights(g, dtype, (ways, depth, gates * hidden), 2)),
                       scale_near(g, 1 / 256 / np.sqrt(depth), dims), integers(g, dtype, zero_points(g, dtype, dims))]
        w, w_scale, w_zero, r, r_scale, r_zero = inputs
        y = g.add("DynamicQuantizeLSTM", x, w, r, None, None, None, None, None, w_scale, w_zero, r_scale, r_zero,
                  hidden_size=hidden, direction=direction, domain=MICROSOFT,
                  known=[(T.FLOAT, [shape[0], ways, shape[1], hidden])])
        g.within = ("size", .05)
        return y
    made = []
    for depth in shape[2], hidden:
        w = Weights(g, g.pick([T.INT8, T.UINT8]), [ways, gates * hidden, depth], 1)
        w.scale = (w.scale / np.sqrt(depth)).astype(F)
        made.append(w.dequantized(g))
    return g.add(name, x, *made, hidden_size=hidden, direction=direction)


# ------------------------------------------------------------------ between them

@image(2, 3, 4, 5)
@rows(2, 2)
def sum_of_bytes(g, x, shape):
    fused = g.chance(.5)
    dtype = g.pick([T.UINT8, T.INT8]) if fused else None  # the operators of com.microsoft have one type
    a, b = quantize(g, x, dtype), quantize(g, g.alike(shape), dtype)
    made = some_bytes(g, max(a.reach(), b.reach()), dtype)
    if fused:
        made.name = g.add(g.pick(["QLinearAdd", "QLinearMul"]), *a.inputs(g), *b.inputs(g), made.scale,
                          integers(g, made.dtype, made.zero), domain=MICROSOFT, known=[(made.dtype, shape)])
    else:
        y = g.add(g.pick(["Add", "Mul"]), dequantize(g, a), dequantize(g, b))
        y = g.add("Relu", y) if g.chance(.4) else y
        made.name = g.add("QuantizeLinear", y, made.scale, integers(g, made.dtype, made.zero))
    g.within = ("same", 0)
    return dequantize(g, made)


@image(1, 3, 4, 5)
def pool_of_bytes(g, x, shape):
    more = window(g, shape[2:])
    y = g.add("MaxPool", there_and_back(g, x), **more)
    g.within = ("same", 0)
    g.sizes[y] = g.sizes.get(x, 4.0)
    return there_and_back(g, y)


@image(1, 3, 4, 5)
def stacked_bytes(g, x, shape):
    y = g.add("Concat", there_and_back(g, x), there_and_back(g, x), axis=1)
    g.within = ("same", 0)
    g.sizes[y] = g.sizes.get(x, 4.0)
    return there_and_back(g, y) if g.chance(.6) else y


def pooled(spatial, more):
    """The sizes of a pool's result."""
    if "auto_pad" in more:
        return [-(-n // s) for n, s in zip(spatial, more["strides"])]
    n = len(spatial)
    return [(spatial[i] + more["pads"][i] + more["pads"][n + i] - more["kernel_shape"][i]) // more["strides"][i] + 1
            for i in range(n)]


@image(2, 3, 4, 5)
@rows(2, 2, 3)
def function_of_bytes(g, x, shape):
    """Functions that com.microsoft has as one operator of bytes."""
    pools = ["AveragePool", "GlobalAveragePool"] if g.kind == "images" else []
    kind = g.pick(["Sigmoid", "LeakyRelu", "Softmax", "ReduceMean", "Concat", "Where"] + pools)
    a, to, more = quantize(g, x), list(shape), {}
    made = some_bytes(g, {"Sigmoid": 1.0, "Softmax": 1.0}.get(kind, a.reach()), a.dtype)
    out, inputs = [made.scale, integers(g, made.dtype, made.zero)], list(a.inputs(g))
    if kind == "LeakyRelu":
        more["alpha"] = g.pick([.01, .5, 2.0])
    elif kind == "Softmax":
        more = {"axis": g.axis(shape), "opset": 13}
    elif kind == "ReduceMean":
        more = {"axes": g.some(len(shape)), "keepdims": g.below(2)}
        to = [1 if i in more["axes"] else d for i, d in enumerate(shape) if more["keepdims"] or i not in more["axes"]]
        if len(to) != len(shape):
            g.over = True  # no family reads its rank
    elif kind == "Concat":
        axis = 1 if g.kind == "images" else len(shape) - 1
        b, more["axis"] = quantize(g, x, a.dtype), axis
        to[axis] *= 2
        inputs += b.inputs(g)
    elif kind == "Where":
        b = quantize(g, g.alike(shape), a.dtype)
        inputs = [g.add("Greater", x, F(0))] + inputs + list(b.inputs(g))
    elif kind == "AveragePool":
        more = {name: value for name, value in window(g, shape[2:]).items() if name != "dilations"}
        more["count_include_pad"] = g.below(2)
        to[2:] = pooled(shape[2:], more)
    elif kind == "GlobalAveragePool":
        to[2:] = [1] * len(shape[2:])
    inputs = out + inputs if kind == "Concat" else inputs + out
    made.name = g.add("QLinear" + kind, *inputs, domain=MICROSOFT, known=[(made.dtype, to)], **more)
    g.within = ("step", float(made.scale))
    return dequantize(g, made)


@image(1, 3, 4, 5)
@rows(1, 2, 3)
def other_bits(g, x, shape):
    """Activations of 4 to 16 bits, with a scale for all, for each index of an axis, or for each block of an axis."""
    if g.opset < 21:
        raise ValueError("not in this opset")
    dtype, kind = g.pick([T.INT16, T.UINT16, INT4, UINT4, T.INT8, T.UINT8]), g.pick(["one", "axis", "blocks"])
    axis = 1 if g.kind == "images" else len(shape) - 1
    bits, _ = BITS[dtype]
    dims, more = (), {}
    if kind != "one":
        more["axis"] = axis
        dims = (shape[axis],)
    if kind == "blocks":
        more["block_size"] = g.pick([b for b in (2, 4, 16) if b <= shape[axis]] or [1])
        dims = tuple(-(-d // more["block_size"]) if i == axis else d for i, d in enumerate(shape))
    scale, zero = scale_near(g, g.sizes.get(x, 4.0) * 4 / 2**bits, dims), integers(g, dtype, zero_points(g, dtype, dims))
    y = g.add("QuantizeLinear", x, scale, zero, known=[(dtype, shape)], **more)
    y = g.add("DequantizeLinear", y, scale, zero, known=[(T.FLOAT, shape)], **more)
    g.sizes[y], g.within = g.sizes.get(x, 4.0), ("same", 0)
    return y
