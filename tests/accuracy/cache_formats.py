#!/usr/bin/python3
"""Formats of keys and values in few bits, computed with numpy, to choose between them without kernels:

    cache_formats.py [--model FLOAT.onnx --tokenizer tokenizer.json] [--samples 12] [--tokens 256] [--seed 7]
                     [--outlier 10]

prints the error of attention on made-up keys, some of which have channels of unusual size as published models do, and
with --model the divergence of minimind2-small (model_accuracy.md says how its float model is made) for each format of
its caches. A format by channel has a least element and a step, float16, for each channel of a group of tokens; tokens
after the last whole group stay floats. A format by token has one step for each row. Before it, channels may be divided
by powers of two: of the first rows, computed from these as they are stored, so that nothing else must be kept; or
balanced, constants for pairs of channels from the weights of keys and queries. --outlier multiplies two pairs of
channels of each head of keys by its value and divides those of the queries, which the model in floats does not notice
beyond rounding."""
import argparse

import numpy as np
import pages

HEADS, SHARED, SIZE, LAYERS = 8, 2, 64, 8  # of minimind2-small


def rotated(format_of_rows):
    """The format after a multiplication by a Hadamard matrix, as in providers/common/cache_rows.h."""
    def rotate(x):
        matrix = np.ones((1, 1))
        while len(matrix) < x.shape[-1]:
            matrix = np.block([[matrix, matrix], [matrix, -matrix]])
        return matrix.astype(np.float32) / np.float32(np.sqrt(len(matrix)))
    return lambda x: format_of_rows(x @ rotate(x)) @ rotate(x)


def by_token(bits):
    def apply(x):
        largest = np.take_along_axis(x, np.abs(x).argmax(-1)[..., None], -1)
        step = largest / (-2 ** (bits - 1))
        step = np.where(step == 0, 1, step)
        return np.clip(np.rint(x / step), -2 ** (bits - 1), 2 ** (bits - 1) - 1) * step
    return apply


def of_first_rows(format_of_rows, first, power, mean):
    """The format after the first rows. Those are in 4 bits by token. They give the mean of each channel, which is
    subtracted if `mean` is set, and its root mean square, without the mean, relative to the median of all channels;
    channels are divided by this power of it, which is at least 1."""
    def apply(x):
        stored = rotated(by_token(4))(x[..., :first, :])
        middle = stored.mean(-2, keepdims=True) * mean
        size = np.sqrt(((stored - middle) ** 2).mean(-2, keepdims=True))
        factor = np.clip((size / np.median(size, -1, keepdims=True)) ** power, 1, 64)
        factor = 2 ** np.rint(np.log2(factor))
        return np.concatenate([stored, format_of_rows((x[..., first:, :] - middle) / factor) * factor + middle], -2)
    return apply


def by_channel(bits, group):
    def apply(x):
        rows = x.shape[-2]
        groups = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(0, -rows % group), (0, 0)], mode="edge")
        groups = groups.reshape(*x.shape[:-2], -1, group, x.shape[-1])
        least, most = groups.min(-2, keepdims=True), groups.max(-2, keepdims=True)
        step = ((most - least) / (2 ** bits - 1)).astype(np.float16).astype(np.float32)
        step, least = np.where(step == 0, 1, step), least.astype(np.float16).astype(np.float32)
        out = np.clip(np.rint((groups - least) / step), 0, 2 ** bits - 1) * step + least
        return out.reshape(*x.shape[:-2], -1, x.shape[-1])[..., :rows, :]
    return apply


def same(x):
    return x


def rope(x, theta=1e6, begin=0):
    half = x.shape[-1] // 2
    angles = np.arange(begin, begin + x.shape[-2])[:, None] * theta ** (-np.arange(half) / half)
    cosines, sines = (np.concatenate([f(angles)] * 2, 1).astype(np.float32) for f in (np.cos, np.sin))
    return x * cosines + np.concatenate([-x[..., half:], x[..., :half]], -1) * sines


def softmax(scores):
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def made_keys(rng, outlier, slow, size=128, rows=2048):
    """Queries, keys and values; four channels of keys have a mean of `outlier`. slow: channels that RoPE turns slowly,
    where queries are of the usual magnitude; otherwise any channels, where queries are small."""
    q, k, v = (rng.standard_normal((n, size)).astype(np.float32) for n in (64, rows, rows))
    q *= 1.5
    if slow:
        at = rng.choice(np.arange(40, 64), 4, replace=False) + 64 * rng.integers(0, 2, 4)
        k[:, at] += outlier * np.sign(rng.standard_normal(4))
        return rope(q, begin=rows - len(q)), rope(k), v
    if outlier > 0:
        at = rng.choice(size, 4, replace=False)
        k[:, at] = outlier * (np.sign(rng.standard_normal(4)) + rng.standard_normal((rows, 4)) / 10)
        q[:, at] /= outlier / 2
    return q, rope(k), v


def made_up():
    print("| keys | no outliers | 4 channels of 10 | 4 channels of 30 | 4 slow ones of 30 |\n|---|---|---|---|---|")
    token = rotated(by_token(4))
    for name, keys in (("8 bits by token, rotated", rotated(by_token(8))), ("8 bits by token", by_token(8)),
                       ("8 bits by channel of 32", by_channel(8, 32)),
                       ("5 bits by token, rotated", rotated(by_token(5))),
                       ("4 bits by token, rotated", token), ("4 bits by token", by_token(4)),
                       ("4 bits, factors of 32 rows", of_first_rows(token, 32, 1, False)),
                       ("4 bits, roots of these factors", of_first_rows(token, 32, .5, False)),
                       ("4 bits, means of 32 rows", of_first_rows(token, 32, 0, True)),
                       ("4 bits, means and roots", of_first_rows(token, 32, .5, True)),
                       ("4 bits by channel of 32", by_channel(4, 32)),
                       ("4 bits by channel of 128", by_channel(4, 128))):
        errors = []
        for outlier, slow in ((0, False), (10, False), (30, False), (30, True)):
            rng, sums = np.random.default_rng(3), np.zeros(2)
            for _ in range(4):
                q, k, v = made_keys(rng, outlier, slow)
                exact, made = (softmax(q @ other.T / np.sqrt(q.shape[1])) @ v for other in (k, keys(k)))
                sums += ((made - exact) ** 2).sum(), (exact ** 2).sum()
            errors.append("%.4f" % np.sqrt(sums[0] / sums[1]))
        print("| %s | %s |" % (name, " | ".join(errors)))


def balanced(_, keys, queries):
    """Factors with which the weights of keys and of queries have one norm for a pair, to a power of two."""
    sums = [(w * w).sum((0, 2, 3)) / w.shape[2] for w in (queries, keys)]
    return 2 ** np.rint(np.log2((sums[0] / sums[1]) ** .25))


class Decoder:
    def __init__(self, path):
        import onnx.numpy_helper
        graph = onnx.load(path).graph
        self.constants = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
        self.weights = {n.name: self.constants[n.input[1]].copy() for n in graph.node
                        if n.op_type == "MatMul" and n.input[1] in self.constants}
        self.words = self.constants["model.embed_tokens.weight_quantized_wide"]

    def of(self, layer, name):
        return self.weights["/model/layers.%d/%s/MatMul_quant_output_scale_mul" % (layer, name)]

    def linear(self, x, layer, name):
        return x @ self.of(layer, name)

    def scale_pairs(self, factors_of):
        """Multiplies pairs of channels of keys by factors [SHARED, SIZE / 2], and divides those of queries. factors_of
        is called with the layer and the weights of both [inputs, SHARED, heads of a shared one, 2, SIZE / 2]."""
        for layer in range(LAYERS):
            keys, queries = (self.of(layer, "self_attn/%s_proj" % name).reshape(-1, SHARED, heads, 2, SIZE // 2)
                             for name, heads in (("k", 1), ("q", HEADS // SHARED)))
            factors = factors_of(layer, keys, queries)[:, None, None].astype(np.float32)
            keys *= factors
            queries /= factors

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * self.constants["model.%s.weight" % name]

    def logits(self, tokens, keys, values, group):
        """group: queries read keys of their own, incomplete group as floats; 0: no key is read as floats."""
        x, at = self.words[tokens], np.arange(len(tokens))
        hidden = at[None, :] > at[:, None]
        coded = at[None, :] // group < (at[:, None] + 1) // group if group else ~hidden
        for layer in range(LAYERS):
            h = self.norm(x, "layers.%d.input_layernorm" % layer)
            q, k, v = (self.linear(h, layer, "self_attn/%s_proj" % name).reshape(len(x), -1, SIZE).transpose(1, 0, 2)
                       for name in "qkv")
            q, k, v = rope(q), np.repeat(rope(k), HEADS // SHARED, 0), np.repeat(v, HEADS // SHARED, 0)
            scores = np.where(coded, q @ keys(k).transpose(0, 2, 1), q @ k.transpose(0, 2, 1)) / np.sqrt(SIZE)
            y = softmax(np.where(hidden, -np.inf, scores)) @ values(v)
            x = x + self.linear(y.transpose(1, 0, 2).reshape(len(x), -1), layer, "self_attn/o_proj")
            h = self.norm(x, "layers.%d.post_attention_layernorm" % layer)
            gate = self.linear(h, layer, "mlp/gate_proj")
            h = gate / (1 + np.exp(-gate)) * self.linear(h, layer, "mlp/up_proj")
            x = x + self.linear(h, layer, "mlp/down_proj")
        return pages.log_softmax(self.norm(x, "norm") @ self.words.T)


def published(args):
    decoder, token = Decoder(args.model), {bits: rotated(by_token(bits)) for bits in (4, 5, 8)}
    rows = pages.samples(pages.Tokenizer(args.tokenizer), args.samples, args.tokens, args.seed, 1)
    dice = np.random.default_rng(1)
    outliers = np.ones((LAYERS, SHARED, SIZE // 2))
    for row in outliers.reshape(-1, SIZE // 2):
        row[dice.choice(len(row), 2, replace=False)] = args.outlier
    decoder.scale_pairs(lambda layer, keys, queries: outliers[layer])
    first = [decoder.logits(row, same, same, 0) for row in rows]

    def show(*formats):
        for name, keys, group, values in formats:
            out = [decoder.logits(row, keys, token.get(values, same), group) for row in rows]
            print("| %s | %s | %.4f |" % (name, "%d bits" % values if values else "float", np.mean(
                [(np.exp(f) * (f - o)).sum(axis=-1).mean() for f, o in zip(first, out)])), flush=True)

    print("\n| keys | values | divergence from float |\n|---|---|---|")
    show(
        ("8 bits by token", token[8], 0, 8), ("8 bits by channel of 32", by_channel(8, 32), 32, 8),
        ("4 bits by token", token[4], 0, 0), ("4 bits by token, rest of 32 in floats", token[4], 32, 0),
        ("5 bits by token", token[5], 0, 0),
        ("4 bits, factors of 32 rows", of_first_rows(token[4], 32, 1, False), 0, 0),
        ("4 bits, roots of these factors", of_first_rows(token[4], 32, .5, False), 0, 0),
        ("4 bits, means of 32 rows", of_first_rows(token[4], 32, 0, True), 0, 0),
        ("4 bits, means and roots", of_first_rows(token[4], 32, .5, True), 0, 0),
        ("4 bits by channel of 32", by_channel(4, 32), 32, 0),
        ("4 bits by channel of 128", by_channel(4, 128), 128, 0), ("float", same, 0, 4),
        ("4 bits by token", token[4], 0, 4), ("4 bits by channel of 32", by_channel(4, 32), 32, 4),
        ("8 bits by token", token[8], 0, 4))
    decoder.scale_pairs(balanced)
    show(("8 bits by token, balanced", token[8], 0, 8), ("4 bits by token, balanced", token[4], 0, 0),
         ("4 bits by token, balanced", token[4], 0, 4))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--tokenizer")
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--outlier", type=float, default=1)
    args = parser.parse_args()
    made_up()
    if args.model is not None:
        published(args)


main()
