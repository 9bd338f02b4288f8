#!/usr/bin/env python3
"""Models as PyTorch 2.14 exports them: patterns that the optimiser must fuse, and patterns that it must keep.

  exports.py [--first SEED] [--count N] [--save FOLDER] [-- FLAG...]

Every model of MODELS, with open and with fixed sizes, has no Softmax, IsNaN or spelled-out norm left in its plan. N
random attentions follow: half of them as the exporter writes them, which must be fused, the others with one deviation.
All results are compared with those of level 0 on the reference provider, also for rows that are hidden and for inputs
with NaN; provider cpu has the same bits with one thread and with four. FLAGs (--isa avx2) apply to the tested run.
--save writes the models of MODELS instead."""
import argparse
import os
import random
import sys

import numpy as np
import onnx
from onnx import TensorProto as T

from exporter import Export, F, ints

# Layers, masks and heads of the models; width 32.
MODELS = {
    "bert": dict(layers=2, mask="padding"),
    "modernbert": dict(layers=2, mask="window", rotates=True),
    "dinov3": dict(layers=2, rotates=True),
    "llama": dict(layers=2, mask="causal", norm="rms", groups=2, rotates=True),
    "llama_cache": dict(layers=2, norm="rms", groups=2, rotates=True, cache=True),
    "qwen": dict(layers=2, mask="causal", norm="ones", groups=1),
    "gpt2": dict(layers=2, mask="causal", pads=True),
    "clip": dict(layers=2, mask="causal"),
    "whisper": dict(layers=2, mask="triangle"),
    "transformer": dict(layers=2, norm="bare"),
    "sdpa": dict(layers=1, mask="added"),
}
WIDTH, HEADS = 32, 4
SIZES = [(2, 9), (1, 5), (3, 1)]  # batch and length; the first for models with fixed sizes
SPELLED = {"Softmax", "IsNaN", "ReduceMean", "Pow", "Sqrt", "Reciprocal"}


def norm_of(g, kind, x):
    if kind == "layer":
        return g.layer_norm(x, WIDTH)
    weight = {"rms": (g.numbers.random(WIDTH) + .5).astype(F), "ones": np.ones(WIDTH, F), "bare": None}[kind]
    return g.rms_norm(x, weight)


def exported(seed, batch, length, layers, mask=None, norm="layer", groups=HEADS, rotates=False, cache=False, pads=False):
    g = Export(seed, batch, length)
    size, x, seen, added = WIDTH // HEADS, g.input("x", T.FLOAT, batch, length, WIDTH), None, None
    if mask == "padding":
        seen = g.padding_mask()
    elif mask in ("causal", "window"):
        seen = g.causal_mask(x) if mask == "causal" else g.window_mask(x)
        seen = g.add("And", seen, g.padding_mask()) if pads else seen
    elif mask == "added":
        added = g.input("mask", T.FLOAT, batch, 1, length, length)
    for layer in range(layers):
        y = norm_of(g, norm, x)
        q = g.heads(g.linear(y, WIDTH, WIDTH), HEADS, size)
        k, v = (g.heads(g.linear(y, WIDTH, groups * size), groups, size) for _ in range(2))
        if rotates:
            q, k = g.rotated(q, size), g.rotated(k, size)
        if cache:
            k, v = (g.add("Concat", g.input(f"{name}{layer}", T.FLOAT, batch, groups, 4, size), new, axis=2)
                    for name, new in (("k", k), ("v", v)))
            g.output(k)
            g.output(v)
        if groups != HEADS:
            k, v = (g.repeated(part, groups, HEADS // groups, size) for part in (k, v))
        y = g.attention(q, k, v, size, seen, g.triangle(q, k) if mask == "triangle" else added)
        x = g.add("Add", x, g.linear(g.merged_heads(y, WIDTH), WIDTH, WIDTH))
        y = g.linear(norm_of(g, norm, x), WIDTH, 2 * WIDTH)
        x = g.add("Add", x, g.linear(g.add("Gelu", y), 2 * WIDTH, WIDTH))
    g.output(x)
    return g.model()


# ------------------------------------------------------------------ random attentions

DEVIATIONS = ["heads before the batch", "another axis", "a guard of one", "a guard that is read twice", "scores are read",
              "keys are not transposed", "a scale for each head", "heads interleaved", "weights are an output"]


def attention(seed):
    """Returns a random attention, its sizes, and its deviation or None."""
    rng = random.Random(seed)
    deviation = rng.choice(DEVIATIONS) if seed % 2 else None
    batch, groups = rng.choice([1, 2, 3]), rng.choice([1, 2, 3])
    repeats, size = rng.choice([1, 2, 6, 6]), rng.choice([4, 8, 40, 40])
    queries, keys = rng.choice([1, 1, 5, 8]), rng.choice([1, 6, 8])
    if deviation == "keys are not transposed":
        keys = size
    if deviation == "heads before the batch":
        groups, repeats = batch, 1
    if deviation == "heads interleaved":
        groups, repeats = 2, 2
    opened = rng.random() < .5
    g = Export(seed, "batch" if opened else batch, "length" if opened else queries, rng.choice([18, 20, 23]))
    heads = groups * repeats
    q = g.input("q", T.FLOAT, g.batch, heads, g.length, size)
    k, v = (g.input(name, T.FLOAT, g.batch, groups, "keys" if opened else keys, size) for name in "kv")
    if deviation == "heads interleaved":
        shape = g.add("Concat", g.size(k, 0), ints(repeats, groups), g.size(k, 2), ints(size), axis=0)
        k, v = (g.add("Reshape", g.add("Expand", g.add("Unsqueeze", part, ints(1)), shape),
                      g.add("Concat", g.size(k, 0), ints(heads), g.size(k, 2), ints(size), axis=0)) for part in (k, v))
    elif repeats > 1:
        k, v = g.repeated(k, groups, repeats, size), g.repeated(v, groups, repeats, size)
    kt = g.keys(k, (1, 0, 2) if deviation == "keys are not transposed" and batch * heads == size else (0, 2, 1))
    if deviation == "keys are not transposed":
        kt = k  # [.., size, size]
    if deviation == "heads before the batch":
        kt = g.add("Transpose", kt, perm=[1, 0, 2, 3])
    root = F(size ** -.25)
    many = (g.numbers.random((heads, 1, 1)) + .5).astype(F) if deviation == "a scale for each head" else root
    scores = g.add("MatMul", g.add("Mul", q, many), g.add("Mul", kt, root))
    kind = rng.choice(["none", "seen", "seen", "added", "row"])
    if kind == "seen":
        shape = rng.choice([("batch", 1, "length", "keys"), ("length", "keys"), ("batch", 1, 1, "keys")]) if opened else \
            rng.choice([(batch, 1, queries, keys), (queries, keys), (batch, 1, 1, keys)])
        mask = g.add("Where", g.input("mask", T.BOOL, *shape), F(0), F(-np.inf))
    elif kind == "added":
        mask = g.input("mask", T.FLOAT, g.batch, heads, g.length, "keys" if opened else keys)
    elif kind == "row":
        mask = g.input("mask", T.FLOAT, 1, "keys" if opened else keys)
    if kind != "none":
        scores = g.add("Add", scores, mask)
    p = g.add("Softmax", scores, axis=2 if deviation == "another axis" else -1)
    soft = p
    if kind == "seen" or "guard" in str(deviation):
        p = g.add("Where", g.add("IsNaN", p), F(1 if deviation == "a guard of one" else 0), p)
    g.output(g.add("MatMul", p, v))
    if deviation == "scores are read":
        g.output(scores)
    elif deviation == "a guard that is read twice":
        g.output(g.add("Neg", p))
    elif deviation == "weights are an output":
        g.output(soft)
    return g.model(), {"batch": batch, "length": queries, "keys": keys}, deviation


# ------------------------------------------------------------------ comparison

def feeds_of(model, sizes, numbers, special):
    """Random inputs; special: rows that are hidden, NaN, and infinite scores."""
    feeds = {}
    for info in model.graph.input:
        tensor = info.type.tensor_type
        dims = [sizes.get(d.dim_param, d.dim_value) for d in tensor.shape.dim]
        if tensor.elem_type != T.FLOAT:
            x = numbers.random(dims) < (.4 if special else .8)
            feeds[info.name] = x if tensor.elem_type == T.BOOL else x.astype(np.int64)
            continue
        x = numbers.standard_normal(dims).astype(F)
        if special and info.name == "mask":
            x[numbers.random(dims) < .5] = -np.inf
        elif special and x.size:
            x.flat[numbers.integers(x.size)] = np.nan
        feeds[info.name] = x
    return feeds


def planned(report):
    """The operators of a plan."""
    if isinstance(report, list):
        return set().union(*map(planned, report))
    if not isinstance(report, dict):
        return set()
    own = {report["op"]} if "op" in report and "offers" in report else set()
    return own.union(*map(planned, report.values()))


class Judge:
    def __init__(self, flags):
        import inlay
        self.inlay, self.flags = inlay, dict(zip((f[2:].replace("-", "_") for f in flags[::2]), flags[1::2]))

    def open(self, model, **options):
        return self.inlay.Session(model.SerializeToString(), config=False, cache_dir="", **options)

    def compare(self, model, sizes, seed, without, small=False):
        """Returns an error message, or None. without: the plan has none of these operators. small: the nodes may
        be cheaper than the fused operator by some nanoseconds, so the plan of cpu and reference is checked instead."""
        flags = {"isa": self.flags["isa"]} if "isa" in self.flags else {}
        ours = {"providers": ["cpu", "reference"], "policy": "priority", **flags}
        with self.open(model, **self.flags) as tested, \
                self.open(model, providers=["reference"], policy="priority", level=0, **flags) as plain, \
                self.open(model, intra_threads=1, **ours) as alone, self.open(model, intra_threads=4, **ours) as shared:
            left = sorted(planned((alone if small else tested).explain().json) & without)
            if left:
                return f"left: {' '.join(left)}"
            for at, size in enumerate(sizes):
                for special in (False, True):
                    feeds = feeds_of(model, size, np.random.default_rng(seed + 10 * at + special), special)
                    got, want = ({n: np.array(y) for n, y in s.run(feeds).items()} for s in (tested, plain))
                    for name, y in want.items():
                        if not np.allclose(got[name], y, rtol=2e-4, atol=2e-5, equal_nan=True):
                            worst = np.nanmax(np.abs(got[name] - y), initial=0)
                            return f"output '{name}' differs by {worst:g} at {size}{', special values' * special}"
                    bits = [{n: np.array(y).tobytes() for n, y in s.run(feeds).items()} for s in (alone, shared)]
                    if bits[0] != bits[1]:
                        return f"4 threads give other bits than one at {size}{', special values' * special}"
        return None


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--first", type=int, default=0)
    flags.add_argument("--count", type=int, default=60)
    flags.add_argument("--save")
    given = sys.argv[1:]
    cut = given.index("--") if "--" in given else len(given)
    args = flags.parse_args(given[:cut])
    models = {f"{name}, {kind} sizes": exported(seed, *(("batch", "length") if kind == "open" else SIZES[0]), **how)
              for seed, (name, how) in enumerate(MODELS.items()) for kind in ("open", "fixed")}
    if args.save:
        for name, model in models.items():
            onnx.save(model, os.path.join(args.save, name.split(" sizes")[0].replace(", ", "_") + ".onnx"))
        return 0
    judge, wrong, total = Judge(given[cut + 1:]), 0, 0
    for name, model in models.items():
        sizes = [dict(zip(("batch", "length"), size)) for size in (SIZES if "open" in name else SIZES[:1])]
        error, total = judge.compare(model, sizes, 7, SPELLED), total + 1
        if error:
            wrong += 1
            print(f"{name}: {error}")
    for seed in range(args.first, args.first + args.count):
        model, sizes, deviation = attention(seed)
        more = [sizes] if deviation == "keys are not transposed" or deviation == "heads before the batch" else \
            [sizes, dict(sizes, length=3, keys=4)] if model.graph.input[0].type.tensor_type.shape.dim[2].dim_param else [sizes]
        try:
            error = judge.compare(model, more, seed, set() if deviation else {"Softmax", "IsNaN"}, small=True)
        except judge.inlay.InlayError as e:
            error = str(e)
        total += 1
        if error:
            wrong += 1
            print(f"seed {seed} ({deviation or 'as exported'}): {error}")
    print(f"{total - wrong} models agree, {wrong} differ")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
