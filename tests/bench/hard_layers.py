"""The list of difficult layers: data of networks and tables, and data on which fast multiplication algorithms fail."""
import math

import numpy as np

from layers import (F32, attention, conv, conv_batch_norm, conv_transpose, einsum, gemm, instance_norm, layer_norm,
                    multiply, pool, product, recurrent, reduction)

REG = []


def reg(name):
    def deco(fn):
        REG.append((name, fn))
        return fn
    return deco


def normal(rng, *shape):
    return rng.standard_normal(shape)


def weights(rng, *shape):
    """Typical trained weights: [out, in, ...] or, of two axes, [in, out]."""
    terms = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
    return rng.standard_normal(shape) / math.sqrt(terms)


def spread(rng, count, decades):
    """Factors between 10^-decades and 10^decades, in random order."""
    return 10.0 ** rng.permutation(np.linspace(-decades, decades, count))


# ----------------------------------------------------------------- matrix multiplications
def rows(name, make, m=128, k=768, n=256, **options):
    """A matrix multiplication: make(rng, x, w) may change noise and weights."""
    def fn(rng, name):
        x, w = normal(rng, m, k), weights(rng, k, n)
        made = make(rng, x, w)
        return product(name, rng, *(made or (x, w)), **options)
    REG.append((name, fn))


def along_k(decades):
    def make(rng, x, w):
        size = spread(rng, x.shape[1], decades)
        return x * size, w / size[:, None]
    return make


def sized(rows_of_x=1.0, columns_of_w=1.0):
    return lambda rng, x, w: (x * rows_of_x, w * columns_of_w)


def table(rng, x, w):
    """Features of a table: counts, shares, prices, and the time of the row."""
    size = 10.0 ** rng.uniform(-3, 6, x.shape[1])
    x, w = np.abs(x) * size, w / size[:, None]
    x[:, 7], w[7] = 1.7e9 + rng.integers(0, 10 ** 6, len(x)), w[7] * size[7] / 1.7e9
    return x, w


def two_large(factor):
    def make(rng, x, w):
        x[:, [5, 300]] *= 1e4
        w[[5, 300]] *= factor
        return x, w
    return make


def gains(sigma):
    return lambda rng, x, w: (x * rng.lognormal(0, sigma, x.shape[1]), w)


def zeros_in_x(share):
    return lambda rng, x, w: (x * (rng.random(x.shape) >= share), w)


def pruned(share):
    return lambda rng, x, w: (x * spread(rng, x.shape[1], 2), w * (rng.random(w.shape) >= share))


def dead_inputs(rng, x, w):
    dead = rng.random(x.shape[1]) < 0.3
    x[:, dead] *= 1e5
    w[dead] = 0
    return x, w


def dying_inputs(rng, x, w):
    """Weights that weight decay made tiny, and inputs that grew accordingly."""
    dying = rng.random(x.shape[1]) < 0.3
    x[:, dying] *= 1e8
    w[dying] *= 1e-9
    return x, w


def neighbours(rng, x, w):
    x[:, 1::2] = -x[:, ::2]
    w[1::2] = w[::2] * (1 + 1e-3 * normal(rng, *w[::2].shape))
    return x * 1e3, w


def far_pairs(rng, x, w):
    half = x.shape[1] // 2
    x[:, half:] = x[:, :half]
    w[half:] = -w[:half] * (1 + 1e-4 * normal(rng, half, w.shape[1]))
    return x, w


def small_numbers(rng, x, w):
    return rng.integers(-20, 21, x.shape), rng.integers(-20, 21, w.shape)


def one_hot_ids(rng, x, w):
    hot = np.zeros(x.shape)
    hot[np.arange(len(x)), rng.integers(0, x.shape[1], len(x))] = 1
    return hot, rng.integers(0, 1 << 24, w.shape)


def ids_by_one_hot(rng, x, w):
    hot = np.zeros(w.shape)
    hot[rng.integers(0, len(w), w.shape[1]), np.arange(w.shape[1])] = 1
    return rng.integers(0, 1 << 24, x.shape), hot


def triangle(rng, x, w):
    return rng.integers(0, 100, x.shape), np.triu(np.ones(w.shape))


def counts(rng, x, w):
    return rng.random(x.shape) < 0.5, rng.random(w.shape) < 0.5


def large_mean(mean, balanced=False):
    def make(rng, x, w):
        return x + mean, w - w.mean(0) * balanced
    return make


def waves(rng, x, w):
    """A discrete cosine transform of a constant and a small wave."""
    k, n = w.shape
    grid = np.cos(np.pi / k * (np.arange(k)[:, None] + 0.5) * np.arange(n))
    return 100 + 1e-3 * x, grid


def differences(rng, x, w):
    step = np.zeros(w.shape)
    at = np.arange(w.shape[1])
    step[at, at], step[at + 1, at] = 1, -1
    return np.cumsum(0.01 * x, 1) + 1000, step


def averages(rng, x, w):
    return 1 + 1e-5 * x, np.full(w.shape, 1 / len(w))


def loud_rows(rng, x, w):
    return x * spread(rng, len(x), 12)[:, None], w


def loud_columns(rng, x, w):
    return x, w * spread(rng, w.shape[1], 12)


def one_loud_row(rng, x, w):
    x[3] *= 1e30
    return x, w


def outliers(rng, x, w):
    x[rng.random(x.shape) < 0.001] *= 1e4
    w[rng.random(w.shape) < 0.001] *= 1e3
    return x, w


def low_rank(rng, x, w):
    return np.outer(x[:, 0], x[0]) + 1e-4 * x, np.outer(w[:, 0], w[0]) * len(w) + 1e-4 * w


def one_sided(rng, x, w):
    return np.abs(x), np.abs(w)


def smaller_and_smaller(rng, x, w):
    size = 2.0 ** -np.linspace(0, 100, x.shape[1])
    return x * size, w


def pairs_of_sizes(rng, x, w):
    """Every second term is large in x and small in w, its neighbour small in x and large in w."""
    size = np.where(np.arange(x.shape[1]) % 2 == 0, 1e5, 1e-5)
    return x * size, w / size[:, None]


rows("product: noise", lambda rng, x, w: (x, w))
rows("product: sizes 1e-6 ... 1e6 along K", along_k(6), n=768)
rows("product: sizes 1e-3 ... 1e3 along K", along_k(3))
rows("product: sizes 0.1 ... 10 along K", along_k(1))
rows("product: large by small, small by large", pairs_of_sizes)
rows("product: raw features with a time stamp", table, m=64, k=128)
rows("product: x of 1e-25", sized(1e-25))
rows("product: x of 1e-30", sized(1e-30))
rows("product: x of 1e-38", sized(1e-38))
rows("product: x of 1e-38, weights of 1e20", sized(1e-38, 1e20))
rows("product: x subnormal, weights of 1e20", sized(1e-41, 1e20))
rows("product: weights of 1e-38, x of 1e10", sized(1e10, 1e-38))
rows("product: weights subnormal, x of 1e10", sized(1e10, 1e-40))
rows("product: x of 1e18, weights of 1e18", sized(1e18, 1e18), k=64)
rows("product: x of 1e20, weights of 1e-20", sized(1e20, 1e-20))
rows("product: x of 1e-20, weights of 1e20", sized(1e-20, 1e20))
rows("product: two inputs of 1e4, weights 1e-4", two_large(1e-4))
rows("product: two inputs of 1e4, pruned", two_large(0))
rows("product: dead inputs of 1e5", dead_inputs)
rows("product: dying inputs of 1e8, weights 1e-9", dying_inputs)
rows("product: gains lognormal 1.0", gains(1.0))
rows("product: gains lognormal 1.5", gains(1.5))
rows("product: gains lognormal 3.0", gains(3.0))
rows("product: 95 % zeros in x", zeros_in_x(0.95))
rows("product: 99.8 % zeros in x", zeros_in_x(0.998))
rows("product: weights pruned to 10 %", pruned(0.9))
rows("product: cancelling neighbours", neighbours)
rows("product: cancelling far apart", far_pairs)
rows("product: small integers", small_numbers, integers=True)
rows("product: one-hot by ids", one_hot_ids, integers=True)
rows("product: ids by one-hot", ids_by_one_hot, integers=True)
rows("product: cumulative sum by a triangle", triangle, m=64, k=256, integers=True)
rows("product: counts", counts, integers=True)
rows("product: mean of 1e4", large_mean(1e4))
rows("product: mean of 1e4, balanced weights", large_mean(1e4, True))
rows("product: waves of a constant", waves)
rows("product: differences", differences)
rows("product: averages of nearly equal", averages)
rows("product: rows of 1e-12 ... 1e12", loud_rows)
rows("product: columns of 1e-12 ... 1e12", loud_columns)
rows("product: a row of 1e30", one_loud_row)
rows("product: outliers", outliers)
rows("product: nearly of rank 1", low_rank)
rows("product: terms of one sign", one_sided)
rows("product: sizes 1 ... 2^-100 along K", smaller_and_smaller)
rows("product: 12544 terms", one_sided, m=16, k=12544, n=64)
rows("product: 60000 terms", along_k(2), m=4, k=60000, n=48)
rows("product: one row", along_k(3), m=1, n=768)
rows("product: one row of outliers, gelu", outliers, m=1, k=3072, n=768, ending="gelu")
rows("product: five rows, turned", along_k(3), m=5, turned=True)
rows("product: one column", along_k(3), n=1)
rows("product: gelu behind sizes along K", along_k(2), ending="gelu")
rows("product: swish behind noise", lambda rng, x, w: (x, w), ending="swish")
rows("product: residual behind gains 1.5", gains(1.5), ending="residual")
rows("product: of two inputs, sizes along K", along_k(4), computed=True)
rows("product: of two inputs, small integers", small_numbers, computed=True, integers=True)


@reg("product: large bias")
def _(rng, name):
    return product(name, rng, normal(rng, 64, 512), weights(rng, 512, 200), bias=1e4 * normal(rng, 200), turned=True)


@reg("product: stacked, computed, sizes along K")
def _(rng, name):
    size = spread(rng, 64, 4)
    return product(name, rng, normal(rng, 6, 40, 64) * size, normal(rng, 6, 64, 50) / size[:, None], computed=True)


# ----------------------------------------------------------------- convolutions
def image(name, make, shape=(1, 64, 28, 28), out=64, window=(1, 1), **options):
    """A convolution: make(rng, x, w) may change noise and weights."""
    def fn(rng, name):
        x, w = normal(rng, *shape), weights(rng, out, shape[1] // options.get("group", 1), *window)
        made = make(rng, x, w)
        return conv(name, rng, *(made or (x, w)), **options)
    REG.append((name, fn))


def noise(rng, x, w):
    return x, w


def channels(decades, inverse=True):
    def make(rng, x, w):
        size = spread(rng, x.shape[1], decades)[:, None, None]
        own = size if w.shape[1] == x.shape[1] else 1
        return x * size, w / own if inverse else w
    return make


def one_channel(rng, x, w):
    x[:, 9] *= 1e4
    w[:, 9] *= 1e-4
    return x, w


def dead_channels(rng, x, w):
    dead = rng.random(x.shape[1]) < 0.2
    x[:, dead] *= 1e4
    w[:, dead] = 0
    return x, w


def bright(count):
    def make(rng, x, w):
        for _ in range(count):
            x[0, rng.integers(x.shape[1]), rng.integers(x.shape[2]), rng.integers(x.shape[3])] = 1e4
        return x, w
    return make


def bright_everywhere(rng, x, w):
    x[0, :, 11, 13] = 1e4 * np.sign(x[0, :, 11, 13])
    return x, w


def bright_tiles(rng, x, w):
    """Bright squares of 5 by 5 next to dark ones."""
    row, column = np.indices(x.shape[2:]) // 5
    return x * np.where((row + column) % 2 == 0, 1e4, 1e-2), w


def constant(rng, x, w):
    return 100 + 1e-3 * x, w


def step(rng, x, w):
    x = 1e-2 * x
    x[..., x.shape[3] // 2:] += 100
    return x, w


def lone_pixels(rng, x, w):
    return x * (rng.random(x.shape) < 0.02) * 100, w


def edges(rng, x, w):
    """Filters that sum to zero, on an image with a large mean."""
    return x + 50, w - w.mean((2, 3), keepdims=True)


def whole(rng, x, w):
    return rng.integers(-9, 10, x.shape), rng.integers(-9, 10, w.shape)


def raw_pixels(rng, x, w):
    return np.clip(128 + 60 * x, 0, 255).round(), w


def relu_gains(rng, x, w):
    return np.maximum(x, 0) * rng.lognormal(0, 1.5, x.shape[1])[:, None, None], w


def tiny(rng, x, w):
    return x * 1e-30, w


image("1x1: noise", noise)
image("1x1: one channel of 1e4, weights 1e-4", one_channel)
image("1x1: channels of 10^-1.5 ... 10^1.5", channels(1.5))
image("1x1: channels of 1e-6 ... 1e6", channels(6))
image("1x1: dead channels of 1e4", dead_channels)
image("1x1: bright pixels", bright(5))
image("1x1: gains behind Relu, 256 channels", relu_gains, shape=(1, 256, 14, 14), out=96)
image("1x1: integers", whole, integers=True)
image("1x1: x of 1e-30", tiny)
image("1x1: stride 2, channels of 1e-3 ... 1e3", channels(3), strides=(2, 2))
image("1x1: residual behind unequal channels", channels(2), ending="residual")
image("1x1: swish behind gains", relu_gains, ending="swish")
image("3x3: noise, 64 channels", noise, window=(3, 3))
image("3x3: noise, 256 channels", noise, shape=(1, 256, 14, 14), window=(3, 3))
image("3x3: a bright pixel", bright(1), shape=(1, 256, 16, 16), window=(3, 3))
image("3x3: a pixel bright in all channels", bright_everywhere, window=(3, 3))
image("3x3: lone pixels", lone_pixels, window=(3, 3))
image("3x3: bright tiles next to dark ones", bright_tiles, shape=(1, 64, 30, 30), window=(3, 3))
image("3x3: constant", constant, window=(3, 3))
image("3x3: step", step, window=(3, 3))
image("3x3: channels of 10^-1.5 ... 10^1.5", channels(1.5), window=(3, 3))
image("3x3: channels of 1e-6 ... 1e6", channels(6), window=(3, 3))
image("3x3: gains behind Relu", relu_gains, window=(3, 3))
image("3x3: filters for edges", edges, window=(3, 3))
image("3x3: integers", whole, window=(3, 3), integers=True)
image("3x3: x of 1e-30", tiny, window=(3, 3))
image("3x3: residual", noise, window=(3, 3), ending="residual")
image("3x3: of 3 channels, raw pixels", raw_pixels, shape=(1, 3, 56, 56), out=32, window=(3, 3))
image("3x3: stride 2, unequal channels", channels(3), window=(3, 3), strides=(2, 2))
image("3x3: dilated, bright pixel", bright(1), window=(3, 3), dilations=(2, 2))
image("5x5: unequal channels", channels(3), shape=(1, 32, 20, 20), window=(5, 5))
image("5x5: integers", whole, shape=(1, 32, 20, 20), window=(5, 5), integers=True)
image("7x7: stride 2, raw pixels", raw_pixels, shape=(1, 3, 56, 56), window=(7, 7), strides=(2, 2), ending="relu")
image("depthwise 3x3: unequal channels, swish", channels(3, False), window=(3, 3), group=64, ending="swish")
image("depthwise 3x3: integers", whole, window=(3, 3), group=64, integers=True)
image("depthwise 5x5: stride 2, bright pixels", bright(9), window=(5, 5), strides=(2, 2), group=64)
image("4 groups, 3x3: unequal channels", channels(3, False), window=(3, 3), group=4)
image("32 groups, 3x3: bright pixels", bright(9), shape=(1, 128, 14, 14), out=128, window=(3, 3), group=32)
image("21x21: noise", noise, shape=(1, 4, 60, 60), out=6, window=(21, 21))
image("21x21: bright pixels", bright(5), shape=(1, 4, 60, 60), out=6, window=(21, 21))
image("21x21: step", step, shape=(1, 4, 60, 60), out=6, window=(21, 21))
image("21x21: constant", constant, shape=(1, 4, 60, 60), out=6, window=(21, 21))
image("21x21: filters for edges", edges, shape=(1, 4, 60, 60), out=6, window=(21, 21))
image("21x21: unequal channels", channels(3, False), shape=(1, 8, 60, 60), out=8, window=(21, 21), group=8)
image("row of 600 taps: lone pixels", lone_pixels, shape=(1, 1, 1, 4000), out=2, window=(1, 600))
image("row of 400 taps: far from zero", edges, shape=(1, 1, 1, 8000), out=130, window=(1, 400), strides=(1, 160),
      pads=(0, 0, 0, 0))


@reg("1x1 with BatchNormalization: variances 1e-6 ... 1e6")
def _(rng, name):
    size = spread(rng, 64, 3)
    return conv_batch_norm(name, rng, normal(rng, 1, 64, 20, 20), weights(rng, 48, 64, 1, 1) * size[:48, None, None, None],
                           size[:48] ** 2)


@reg("3x3 with BatchNormalization: unequal channels")
def _(rng, name):
    size = spread(rng, 64, 2)
    return conv_batch_norm(name, rng, normal(rng, 1, 64, 20, 20) * size[:, None, None], weights(rng, 64, 64, 3, 3),
                           spread(rng, 64, 2))


@reg("transposed 2x2: unequal channels")
def _(rng, name):
    size = spread(rng, 48, 3)
    return conv_transpose(name, rng, normal(rng, 1, 48, 15, 17) * size[:, None, None],
                          weights(rng, 48, 24, 2, 2) / size[:, None, None, None], (2, 2))


@reg("transposed 4x4: bright pixels, relu")
def _(rng, name):
    x = normal(rng, 1, 32, 14, 14)
    x[0, 3, 5, 6] = 1e4
    return conv_transpose(name, rng, x, weights(rng, 32, 32, 4, 4), (2, 2), (1, 1, 1, 1), "relu")


# ----------------------------------------------------------------- several operators
@reg("attention: noise")
def _(rng, name):
    return attention(name, *(normal(rng, 4, 65, 64) for _ in range(3)))


@reg("attention: scores of +-50")
def _(rng, name):
    return attention(name, 2.5 * normal(rng, 4, 65, 64), 2.5 * normal(rng, 4, 80, 64), normal(rng, 4, 80, 64))


@reg("attention: sizes along K, loud values")
def _(rng, name):
    size = spread(rng, 64, 2)
    return attention(name, normal(rng, 4, 65, 64) * size, normal(rng, 4, 80, 64) / size,
                     normal(rng, 4, 80, 64) * spread(rng, 80, 3)[:, None])


@reg("LSTM: noise")
def _(rng, name):
    return recurrent(name, "LSTM", normal(rng, 9, 2, 64), weights(rng, 4 * 48, 64), weights(rng, 4 * 48, 48))


@reg("LSTM: sizes along K")
def _(rng, name):
    size = spread(rng, 64, 4)
    return recurrent(name, "LSTM", normal(rng, 9, 2, 64) * size, weights(rng, 4 * 48, 64) / size / 8,
                     weights(rng, 4 * 48, 48))


@reg("GRU: sizes along K")
def _(rng, name):
    size = spread(rng, 64, 4)
    return recurrent(name, "GRU", normal(rng, 9, 2, 64) * size, weights(rng, 3 * 48, 64) / size / 8,
                     weights(rng, 3 * 48, 48))


# ----------------------------------------------------------------- norms, reductions, other multiplications
@reg("LayerNormalization: mean of 1e4")
def _(rng, name):
    return layer_norm(name, rng, 1e4 + normal(rng, 64, 768))


@reg("LayerNormalization written out: mean of 1e4")
def _(rng, name):
    return layer_norm(name, rng, 1e4 + normal(rng, 64, 768), written_out=True)


@reg("LayerNormalization: outliers")
def _(rng, name):
    x = normal(rng, 64, 768)
    x[:, 77] *= 1e4
    return layer_norm(name, rng, x)


@reg("LayerNormalization: rows of 1e-10 ... 1e10")
def _(rng, name):
    return layer_norm(name, rng, normal(rng, 64, 300) * spread(rng, 64, 10)[:, None])


@reg("InstanceNormalization: mean of 1e3")
def _(rng, name):
    return instance_norm(name, rng, 1e3 + normal(rng, 30, 1500))


@reg("ReduceSum: rows of sizes 1e-6 ... 1e6")
def _(rng, name):
    return reduction(name, "ReduceSum", normal(rng, 64, 3000) * spread(rng, 3000, 6))


@reg("ReduceSum: columns, one sign")
def _(rng, name):
    return reduction(name, "ReduceSum", rng.random((5000, 40)), axis=0)


@reg("ReduceSum: integers")
def _(rng, name):
    return reduction(name, "ReduceSum", rng.integers(-2000, 2000, (40, 5000)), integers=True)


@reg("ReduceMean: mean of 1e4")
def _(rng, name):
    return reduction(name, "ReduceMean", 1e4 + normal(rng, 50, 4096))


@reg("ReduceMean: columns that cancel")
def _(rng, name):
    x = normal(rng, 1500, 60)
    return reduction(name, "ReduceMean", np.concatenate([x, -x[::-1] * (1 + 1e-4 * normal(rng, 1500, 60))]), axis=0)


@reg("GlobalAveragePool: bright pixels")
def _(rng, name):
    x = normal(rng, 1, 32, 112, 112)
    x[0, :, 50, 60] = 1e6
    return pool(name, x)


@reg("Einsum bij,bjk->bik: sizes along K")
def _(rng, name):
    size = spread(rng, 200, 4)
    x, w = (normal(rng, 3, 30, 200) * size).astype(F32), (normal(rng, 3, 200, 40) / size[:, None]).astype(F32)
    return einsum(name, "bij,bjk->bik", x, w, multiply(x, w))


@reg("Einsum bhid,bhjd->bhij: outliers")
def _(rng, name):
    x, w = normal(rng, 2, 3, 40, 64), normal(rng, 2, 3, 50, 64)
    x[..., 9] *= 1e4
    x, w = x.astype(F32), w.astype(F32)
    return einsum(name, "bhid,bhjd->bhij", x, w, multiply(x, w.swapaxes(2, 3)))


@reg("Gemm turned, of three inputs: sizes along K")
def _(rng, name):
    size = spread(rng, 300, 4)[:, None]
    return gemm(name, rng, normal(rng, 300, 70) * size, normal(rng, 300, 90) / size, 0.75, 3.0)


# ----------------------------------------------------------------- recurrent layers with a large input projection
def inputs_512(name, kind, make):
    """A layer whose input projection has many rows and terms; make as in rows()."""
    def fn(rng, name):
        gates = 4 if kind == "LSTM" else 3
        x, w = normal(rng, 96, 512), weights(rng, 512, gates * 64)
        x, w = make(rng, x, w) or (x, w)
        return recurrent(name, kind, x.reshape(24, 4, 512), w.T, weights(rng, gates * 64, 64))
    REG.append((name, fn))


inputs_512("LSTM: 512 inputs, noise", "LSTM", lambda rng, x, w: (x, w))
inputs_512("LSTM: 512 inputs, sizes along K", "LSTM", along_k(4))
inputs_512("LSTM: 512 inputs, outliers", "LSTM", outliers)
inputs_512("GRU: 512 inputs, noise", "GRU", lambda rng, x, w: (x, w))
inputs_512("GRU: 512 inputs, sizes along K", "GRU", along_k(4))


def layers(seed, pattern=""):
    """All layers; each has its own random numbers, independent of the selection."""
    for index, (name, fn) in enumerate(REG):
        if pattern.lower() in name.lower():
            with np.errstate(over="ignore", under="ignore"):
                yield fn(np.random.default_rng([seed, index]), name)


__all__ = ["F32", "layers"]
