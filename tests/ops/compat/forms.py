#!/usr/bin/env python3
"""The legal forms of operators that the optimiser expands to others.

    forms.py [--peer DIR] [WORD...]

WORD: runs only cases whose name contains a WORD. --peer compares with ONNX Runtime as well, as in compat.py.

forms() yields a case in every form with the same meaning: sizes fixed, named, or of unknown rank; constants, or inputs
instead of them; single numbers as scalars or as vectors of one element. bases() yields cases that models.operators()
lacks: each scale, each mask, each optional input; each of them runs unchanged and in one other form. The expected
outputs are those of the case, which numpy computes."""
import argparse
import copy
import itertools
import os
import pathlib
import re
import sys
import tempfile

import numpy as np
from onnx import numpy_helper

import compat
import models
from models import RNG, floats, one

os.environ.update(INLAY_CACHE_DIR="", INLAY_PROBE="never") # as compat.run() has them
import inlay # pylint: disable=wrong-import-position

SHAPES = ("fixed", "named", "unknown")
CONSTANTS = ("", "fed")

PASSES = pathlib.Path(__file__).resolve().parents[3] / "host" / "runtime" / "passes"
UNTESTED = {"QEmbedLayerNormalization"} # its parts, EmbedLayerNormalization and DequantizeLinear, are tested

# ------------------------------------------------------------------ quantized LSTM

FUNCTIONS = {
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0),
    "HardSigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "Softsign": lambda x: x / (1 + np.abs(x)),
}


def lstm_direction(x, w, r, bias, peepholes, h, c, lengths, names, clip, coupled):
    """[length, batch, rows] by w [4 hidden, rows] and r; gates in ONNX's order i o f c."""
    f, g, k = (FUNCTIONS[name] for name in names)
    made = np.zeros((x.shape[0], x.shape[1], r.shape[1]))
    for t, step in enumerate(x):
        gates = step @ w.T + h @ r.T + bias[: len(w)] + bias[len(w) :]
        i, o, forget, new = np.split(gates, 4, axis=1)
        held = np.clip if clip else (lambda v, low, high: v)
        i = f(held(i + peepholes[0] * c, -clip, clip))
        forget = 1 - i if coupled else f(held(forget + peepholes[2] * c, -clip, clip))
        cell = forget * c + i * g(held(new, -clip, clip))
        out = f(held(o + peepholes[1] * cell, -clip, clip)) * k(cell)
        live = (t < lengths)[:, None]
        c, h = np.where(live, cell, c), np.where(live, out, h)
        made[t] = np.where(live, out, 0)
    return made, h, c


def reversed_rows(x, lengths):
    """Each sequence of the batch reversed."""
    y = np.array(x)
    for n, length in enumerate(lengths):
        y[:length, n] = x[:length, n][::-1]
    return y


def lstm_case(name, direction, columns, dtype, given, names=("Sigmoid", "Tanh", "Tanh"), clip=0.0, coupled=False,
              batch=2, wanted=3):
    directions, hidden, rows, length = 2 if direction == "bidirectional" else 1, 4, 6, 5
    x = floats(length, batch, rows)
    lengths = np.full(batch, length, np.int32)
    if "lengths" in given:
        lengths[-1] = 3
    bias = floats(directions, 8 * hidden) if "bias" in given else np.zeros((directions, 8 * hidden), np.float32)
    h, c = (floats(directions, batch, hidden) if "states" in given else np.zeros((directions, batch, hidden))
            for _ in range(2))
    peepholes = floats(directions, 3 * hidden) * ("peepholes" in given)
    zero = {"i": 0, "u": 128}[np.dtype(dtype).kind] + 3 * ("zeros" in given)
    parts = []
    for size in (rows, hidden):
        values = RNG.integers(-110, 110, (directions, size, 4 * hidden))
        scale = floats(directions, *((4 * hidden,) if columns else ()), low=0.003, high=0.005)
        zeros = np.full(scale.shape, zero, dtype)
        parts.append(((values + zero).astype(dtype), scale, zeros, values * scale.reshape(directions, 1, -1)))
    made, last_h, last_c = [], [], []
    for d in range(directions):
        back = direction == "reverse" or d == 1
        steps = reversed_rows(x, lengths) if back else x
        y, hd, cd = lstm_direction(steps, parts[0][3][d].T, parts[1][3][d].T, bias[d], np.split(peepholes[d], 3), h[d],
                                   c[d], lengths, names, clip, coupled)
        made.append(reversed_rows(y, lengths) if back else y)
        last_h.append(hd)
        last_c.append(cd)
    (w, ws, wz, _), (r, rs, rz, _) = parts
    attributes = {"hidden_size": hidden, "direction": direction}
    if names != ("Sigmoid", "Tanh", "Tanh"):
        attributes["activations"] = list(names) * directions
    if clip:
        attributes["clip"] = clip
    if coupled:
        attributes["input_forget"] = 1
    outputs = [np.stack(v, 1 if i == 0 else 0).astype(np.float32) for i, v in enumerate((made, last_h, last_c))]
    return one("DynamicQuantizeLSTM",
               {"x": x, "w_": w, "r_": r, "b_": bias if "bias" in given else None,
                "l": lengths if "lengths" in given else None,
                "h": h.astype(np.float32) if "states" in given else None,
                "c": c.astype(np.float32) if "states" in given else None,
                "p_": peepholes if "peepholes" in given else None, "ws_": ws, "wz_": wz, "rs_": rs, "rz_": rz},
               [y if wanted & 1 << i else None for i, y in enumerate(outputs)], attributes,
               name=f"DynamicQuantizeLSTM {name}", rtol=4e-2, atol=4e-2, # ONNX Runtime rounds x and h to bytes
               peer=not (columns and "zeros" in given)) # and accepts only the zero point 0 for columns


def recurrences():
    options = ((), ("bias",), ("states",), ("peepholes", "bias"), ("lengths", "bias"), ("zeros", "bias"),
               ("bias", "states", "peepholes", "lengths", "zeros"))
    scales = itertools.product(("forward", "reverse", "bidirectional"), (False, True), (np.int8, np.uint8))
    turn = itertools.cycle(options)
    for direction, columns, dtype in scales:
        for given in (next(turn), next(turn)):
            name = f"{direction} {'columns' if columns else 'whole'} {np.dtype(dtype).name} {' '.join(given)}"
            yield lstm_case(name, direction, columns, dtype, given, wanted=7)
    yield lstm_case("batch of one", "bidirectional", False, np.int8, ("bias",), batch=1, wanted=7)
    yield lstm_case("last state alone", "forward", False, np.uint8, ("bias",), wanted=2)
    yield lstm_case("activations", "bidirectional", False, np.int8, ("bias", "states"),
                    ("HardSigmoid", "Relu", "Softsign"), wanted=7)
    yield lstm_case("clip", "forward", True, np.int8, ("bias",), clip=0.5, wanted=7)
    yield lstm_case("coupled", "forward", False, np.int8, ("bias",), coupled=True, wanted=7)


# ------------------------------------------------------------------ masks of attention


def attended(x, weights, bias, count, ends, begins):
    """Attention with a mask of rank 1: the ends, or the ends and begins, of the keys in each row of the batch."""
    batch, rows = x.shape[:2]
    q, k, v = (models.heads(part, count) for part in np.split(x @ weights + bias, 3, axis=2))
    keys = np.arange(rows)
    hidden = np.stack([(keys >= end) | (keys < begin) for end, begin in zip(ends, begins)]).reshape(batch, 1, 1, rows)
    return models.attend(q, k, v, np.where(hidden, -10000.0, 0.0))


def masks():
    for batch in (1, 2, 3):
        x, weights, bias = floats(batch, 5, 8), floats(8, 24), floats(24)
        ends = np.array([4, 3, 5], np.int32)[:batch]
        begins = np.array([1, 0, 2], np.int32)[:batch]
        none = np.zeros(batch, np.int32)
        packed = np.concatenate([ends, np.arange(batch + 1) * 5, np.arange(batch + 1) * 5]).astype(np.int32)
        for name, mask, first in (("ends", ends, none), ("ends and begins", np.concatenate([ends, begins]), begins),
                                  ("sums", packed, none)):
            y = attended(x, weights, bias, 2, ends, first)
            yield one("Attention", {"x": x, "w_": weights, "b_": bias, "m": mask}, [y.astype(np.float32)],
                      {"num_heads": 2}, name=f"Attention {name} of {batch}")
            if name == "ends and begins": # MultiHeadAttention has no such mask
                continue
            q, k, v = np.split((x @ weights + bias).astype(np.float32), 3, axis=2)
            yield one("MultiHeadAttention", {"q": q, "k": k, "v": v, "b": None, "m": mask}, [y.astype(np.float32)],
                      {"num_heads": 2}, name=f"MultiHeadAttention {name} of {batch}")


# ------------------------------------------------------------------ optional inputs of attention


def added_to_scores(mask, kind, batch, keys, causal_rows):
    """The mask of the caller and the causal mask as an additive mask, [batch, 1, rows, keys]."""
    added = np.zeros((batch, 1, 1, keys))
    if kind == "keys":
        added = np.where(mask[:, None, None] > 0, 0.0, -10000.0)
    elif kind == "rows":
        added = np.where(mask[:, None] > 0, 0.0, -10000.0)
    elif kind == "ends":
        added = np.where(np.arange(keys) < mask[:, None, None, None], 0.0, -10000.0)
    return added + (models.causal(causal_rows, keys) if causal_rows else 0)


def some_mask(kind, batch, rows, keys):
    if kind == "ends":
        return RNG.integers(1, keys + 1, batch).astype(np.int32)
    shape = {"keys": (batch, keys), "rows": (batch, rows, keys)}.get(kind)
    mask = None if shape is None else RNG.integers(0, 2, shape).astype(np.int32)
    if mask is not None:
        mask[..., 0] = 1 # no row is hidden altogether
    return mask


def by_heads(x, count):
    return models.heads(x, count).astype(np.float32)


def attention_options():
    """Each value of each option of Attention at least twice."""
    turn = [itertools.cycle(values) for values in (("", "keys", "rows", "ends"), (True, False), (False, True, True),
                                                   (False, False, True), (None, 0.3), (False, True), (1, 2, 3),
                                                   (None, (6, 6, 10)))]
    for number in range(14):
        kind, biased, past, causal, scale, added, batch, sizes = (next(values) for values in turn)
        if sizes:
            past = False # past keys and values must have the same size
        rows, old, count, sizes = 4, 3 * past, 2, sizes or (8, 8, 8)
        x, weights = floats(batch, rows, 8), floats(8, sum(sizes))
        bias = floats(sum(sizes)) if biased else None
        q, k, v = np.split(x @ weights + (bias if biased else 0), np.cumsum(sizes)[:2], axis=2)
        k, v = by_heads(k, count), by_heads(v, count)
        before = floats(2, batch, count, old, sizes[0] // count) if past else None
        if past:
            k, v = (np.concatenate([before[i], new], axis=2) for i, new in enumerate((k, v)))
        keys = rows + old
        mask = some_mask(kind, batch, rows, keys)
        more = floats(batch, count, rows, keys) if added else None
        scores = added_to_scores(mask, kind, batch, keys, rows * causal) + (more if added else 0)
        y = models.attend(by_heads(q, count), k, v, scores, scale)
        attributes = {"num_heads": count, "unidirectional": int(causal)} | ({"scale": scale} if scale else {})
        if sizes != (8, 8, 8):
            attributes["qkv_hidden_sizes"] = list(sizes)
        yield one("Attention", {"x": x, "w_": weights, "b_": bias, "m": mask, "p": before, "a": more},
                  [y] + ([np.stack([k, v])] if past else []), attributes, name=f"Attention options {number}",
                  rtol=1e-4, atol=1e-4, peer=biased) # ONNX Runtime requires the bias, although its schema makes it optional


def multi_head_options():
    turn = [itertools.cycle(values) for values in (("", "keys", "rows", "ends"), (True, False, False), (False, True, False),
                                                   ("apart", "keys by head", "packed keys", "packed"), (None, 0.3),
                                                   (False, True), (1, 2, 3), (False, False, True, True, True))]
    for number in range(24):
        kind, biased, past, how, scale, added, batch, causal = (next(values) for values in turn)
        rows, count, wide = 4, 2, 8
        past, biased, causal = past and how == "apart", biased and how == "apart", causal and how in ("apart", "packed")
        new = rows if past or causal or how == "packed" else 5
        old, value_wide = 3 * past, 12 if how == "apart" and not past else 8
        q, k, v = floats(batch, rows, wide), floats(batch, new, wide), floats(batch, new, value_wide)
        bias = floats(2 * wide + value_wide) if biased else None
        parts = np.split(bias if biased else np.zeros(2 * wide + value_wide), [wide, 2 * wide])
        qh, kh, vh = (by_heads(part + more, count) for part, more in zip((q, k, v), parts))
        inputs = {"q": q, "k": k, "v": v}
        if how == "keys by head":
            inputs |= {"k": kh, "v": vh}
        elif how == "packed keys":
            inputs |= {"k": np.stack([kh, vh], 3).transpose(0, 2, 1, 3, 4).copy(), "v": None}
        elif how == "packed":
            inputs = {"q": np.stack([qh, kh, vh], 3).transpose(0, 2, 1, 3, 4).copy(), "k": None, "v": None}
        pasts = [floats(batch, count, old, wide // count) if past else None for _ in range(2)]
        if past:
            kh, vh = np.concatenate([pasts[0], kh], 2), np.concatenate([pasts[1], vh], 2)
        keys = new + old
        mask = some_mask(kind, batch, rows, keys)
        more = floats(1 if number % 3 else batch, count, rows, keys) if added else None
        scores = added_to_scores(mask, kind, batch, keys, rows * causal) + (more if added else 0)
        y = models.attend(qh, kh, vh, scores, scale)
        inputs |= {"b_": bias, "m": mask, "a": more, "pk": pasts[0], "pv": pasts[1]}
        attributes = {"num_heads": count, "unidirectional": int(causal)} | ({"scale": scale} if scale else {})
        yield one("MultiHeadAttention", inputs, [y] + ([kh, vh] if past else []), attributes, rtol=1e-4, atol=1e-4,
                  name=f"MultiHeadAttention options {number}", peer=not how.startswith("packed")) # ONNX Runtime: GPUs only


def group_query_options():
    """A bias added to the scores of valid keys, with a buffer for the past of exact size and larger."""
    batch, size, past = 2, 16, 4
    for room, shape in itertools.product((past, 8), ((1, 1), (2, 4))):
        q, k, v = floats(batch, 1, 4 * size), floats(batch, 1, 2 * size), floats(batch, 1, 2 * size)
        pasts, added = [floats(batch, 2, room, size) for _ in range(2)], floats(*shape, 1, past + 1)
        keys, values = (np.concatenate([old[:, :, :past], models.heads(new, 2)], 2).repeat(2, 1)
                        for old, new in zip(pasts, (k, v)))
        y = models.attend(models.heads(q, 4), keys, values, added)
        yield one("GroupQueryAttention",
                  {"q": q, "k": k, "v": v, "pk": pasts[0], "pv": pasts[1], "l": np.full(batch, past, np.int32),
                   "t": np.int32(past + 1), "c": None, "s": None, "i": None, "a": added}, [y],
                  {"num_heads": 4, "kv_num_heads": 2}, peer=False, # ONNX Runtime ignores the past if the present is omitted
                  name=f"GroupQueryAttention added {shape} room {room}", rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------ functions of quantized values


def some_bytes(dtype, *shape):
    least = np.iinfo(dtype).min
    return RNG.integers(least, least + 256, shape).astype(dtype)


def stored(y, scale, zero, dtype):
    least = np.iinfo(dtype).min
    return np.clip(np.rint(y / scale) + zero, least, least + 255).astype(dtype)


def pooled(x, kernel):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // kernel, kernel, w // kernel, kernel).mean((3, 5))


# operator: number of operands, attributes, function on floats, may zero points be omitted, does ONNX Runtime support it
FUNCTIONS_OF_BYTES = {
    "QLinearAdd": (2, {}, np.add, True, True),
    "QLinearMul": (2, {}, np.multiply, True, True),
    "QLinearSigmoid": (1, {}, FUNCTIONS["Sigmoid"], True, True),
    "QLinearLeakyRelu": (1, {"alpha": 0.25}, lambda x: np.where(x < 0, x * 0.25, x), True, True),
    "QLinearSoftmax": (1, {"axis": 1, "opset": 13}, lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True), False, True),
    "QLinearAveragePool": (1, {"kernel_shape": [2, 2], "strides": [2, 2]}, lambda x: pooled(x, 2), True, True),
    "QLinearGlobalAveragePool": (1, {}, lambda x: x.mean((2, 3), keepdims=True), False, True),
    "QLinearReduceMean": (1, {"axes": [2], "keepdims": 0}, lambda x: x.mean(2), True, False),
}


def functions_of_bytes():
    for (op, (count, attributes, function, omits, peer)), dtype, zeros in itertools.product(
            FUNCTIONS_OF_BYTES.items(), (np.uint8, np.int8), (True, False)):
        if not zeros and not omits:
            continue
        middle = (int(np.iinfo(dtype).min) + 100) * zeros
        scales = [np.float32(v) for v in (0.02, 0.03)[:count]]
        shape = [(2, 3, 4, 4), (3, 1, 4)]
        values = [some_bytes(dtype, *shape[i]) for i in range(count)]
        inputs = {}
        for i, (value, scale) in enumerate(zip(values, scales)):
            inputs |= {f"x{i}": value, f"s{i}_": scale, f"z{i}_": dtype(middle) if zeros else None}
        result = 0.004 if op in ("QLinearSigmoid", "QLinearSoftmax") else 0.05
        inputs |= {"ys_": np.float32(result), "yz_": dtype(middle) if zeros else None}
        y = function(*[(v.astype(np.float64) - middle) * s for v, s in zip(values, scales)])
        # For other operators ONNX Runtime's type inference fails if zero points are omitted.
        peer = peer and (zeros or op in ("QLinearSigmoid", "QLinearLeakyRelu"))
        yield one(op, inputs, [stored(y, result, middle, dtype)], attributes, atol=1, peer=peer,
                  name=f"{op} {np.dtype(dtype).name}{'' if zeros else ' without zero points'}")


def concats_of_bytes():
    """Up to more operands than a fixed-size list holds, each with its own scale; some are floats."""
    for count in (1, 3, 70):
        inputs, parts = {"ys_": np.float32(0.05), "yz_": np.uint8(90)}, []
        for i in range(count):
            x, scale, zero = some_bytes(np.uint8, 2, 1 + i % 3), np.float32(0.02 + 0.01 * (i % 4)), np.uint8(100 + i)
            inputs |= {f"x{i}": x, f"s{i}_": scale, f"z{i}_": zero}
            parts.append((x.astype(np.float64) - zero) * scale)
        yield one("QLinearConcat", inputs, [stored(np.concatenate(parts, 1), 0.05, 90, np.uint8)], {"axis": 1}, atol=1,
                  name=f"QLinearConcat of {count}")


def choices_of_bytes():
    for dtype in (np.uint8, np.int8):
        x, y, condition = some_bytes(dtype, 2, 3, 4), some_bytes(dtype, 3, 1), RNG.integers(0, 2, (2, 1, 4)) > 0
        middle = dtype(int(np.iinfo(dtype).min) + 100)
        floats_of = [(v.astype(np.float64) - middle) * s for v, s in ((x, 0.02), (y, 0.03))]
        yield one("QLinearWhere", {"c": condition, "x": x, "xs_": np.float32(0.02), "xz_": middle, "y": y,
                  "ys_": np.float32(0.03), "yz_": middle, "zs_": np.float32(0.025), "zz_": middle},
                  [stored(np.where(condition, *floats_of), 0.025, middle, dtype)], atol=1,
                  name=f"QLinearWhere {np.dtype(dtype).name}")


def products_of_bytes():
    forms_of = itertools.product((np.uint8, np.int8), (np.uint8, np.int8), ((), (5,)), (None, (), (5,)), (True, False))
    for a_type, b_type, scales, zeros, more in forms_of:
        a, b, bias = some_bytes(a_type, 2, 3, 6), some_bytes(b_type, 6, 5), floats(5)
        a_zero, b_zero = a_type(7 * more), RNG.integers(1, 9, zeros or ()).astype(b_type)
        b_scale = floats(*scales, low=0.01, high=0.02)
        y = (a.astype(np.int64) - a_zero) @ (b.astype(np.int64) - (b_zero if zeros is not None else 0))
        y = y * (np.float32(0.02) * b_scale) + bias * more
        name = f"{np.dtype(a_type).name} {np.dtype(b_type).name} scales {scales} zeros {zeros} {more}"
        yield one("MatMulIntegerToFloat",
                  {"a": a, "b_": b, "as_": np.float32(0.02), "bs_": b_scale, "az_": a_zero if more else None,
                   "bz_": b_zero if zeros is not None else None, "bias_": bias if more else None},
                  [y.astype(np.float32)], name=f"MatMulIntegerToFloat {name}", rtol=1e-4, atol=1e-4,
                  peer=(a_type, b_type) != (np.int8, np.uint8))
        if a_type == np.int8:
            continue
        x = floats(2, 3, 6)
        q, scale, zero = models.quantize_dynamic(x)
        y = (q.astype(np.int64) - zero) @ (b.astype(np.int64) - (b_zero if zeros is not None else 0))
        yield one("DynamicQuantizeMatMul",
                  {"a": x, "b_": b, "bs_": b_scale, "bz_": b_zero if zeros is not None else None,
                   "bias_": bias if more else None}, [(y * (scale * b_scale) + bias * more).astype(np.float32)],
                  name=f"DynamicQuantizeMatMul {name}", rtol=1e-4, atol=1e-4)


def gemms_of_bytes():
    for dtype, columns, bias, floats_out, turned in itertools.product((np.uint8, np.int8), (False, True), (False, True),
                                                                      (False, True), (False, True)):
        a, b = some_bytes(dtype, 3, 6), some_bytes(dtype, 6, 5)
        middle = int(np.iinfo(dtype).min) + 120
        a_scale, b_scale = np.float32(0.02), floats(*((5,) if columns else ()), low=0.01, high=0.02)
        b_zero = np.full(b_scale.shape, middle, dtype)
        c = RNG.integers(-9000, 9000, 5).astype(np.int32)
        y = ((a.astype(np.int64) - middle) @ (b.astype(np.int64) - middle) + c * bias) * (0.5 * a_scale * b_scale)
        yield one("QGemm",
                  {"a": a.T.copy() if turned else a, "as_": a_scale, "az_": dtype(middle),
                   "b_": b.T.copy() if turned else b, "bs_": b_scale, "bz_": b_zero, "c_": c if bias else None,
                   "ys_": None if floats_out else np.float32(0.05), "yz_": None if floats_out else dtype(middle)},
                  [y.astype(np.float32) if floats_out else stored(y, 0.05, middle, dtype)],
                  {"alpha": 0.5, "transA": int(turned), "transB": int(turned)}, rtol=1e-4,
                  atol=1e-4 if floats_out else 1,
                  name=f"QGemm {np.dtype(dtype).name}{' columns' * columns}{' bias' * bias}{' floats' * floats_out}"
                       f"{' turned' * turned}")


def scales():
    """QuantizeLinear and DequantizeLinear: one number, or one for each index of an axis, by default axis 1."""
    for axis, dtype, zeros in itertools.product((None, "default", 0, -1), (np.uint8, np.int8, np.int16), (True, False)):
        x = floats(2, 3, 4, low=-4, high=4)
        size = {None: (), "default": (3,), 0: (2,), -1: (4,)}[axis]
        wide = [1 if size == () or n != size[0] else n for n in x.shape]
        scale = floats(*size, low=0.02, high=0.04)
        zero = RNG.integers(1, 9, size).astype(dtype)
        if not zeros and dtype != np.uint8:
            continue
        info = np.iinfo(dtype)
        q = np.clip(np.rint(x / scale.reshape(wide)) + (zero.reshape(wide).astype(np.int64) if zeros else 0), info.min,
                    info.max)
        attributes = {} if axis in (None, "default") else {"axis": axis}
        name = f"axis {axis} {np.dtype(dtype).name}{'' if zeros else ' without zero points'}"
        end = {"s_": scale, "z_": zero if zeros else None}
        yield one("QuantizeLinear", {"x": x, **end}, [q.astype(dtype)], attributes, name=f"QuantizeLinear {name}", atol=1)
        back = (q - (zero.reshape(wide).astype(np.int64) if zeros else 0)) * scale.reshape(wide)
        yield one("DequantizeLinear", {"x": q.astype(dtype), **end}, [back.astype(np.float32)], attributes,
                  name=f"DequantizeLinear {name}")


def others():
    x = floats(2, 3, 4, 5)
    yield one("ImageScaler", {"x": x}, [x * np.float32(0.5) + np.array([1, 2, 3], np.float32).reshape(3, 1, 1)],
              {"scale": 0.5, "bias": [1.0, 2.0, 3.0]}, domain="", peer=False) # ONNX Runtime has no version after opset 9
    a, b = floats(4, 6), floats(6, 5)
    yield one("SparseToDenseMatMul", {"a": a, "b": b}, [a @ b], peer=False) # ONNX Runtime requires a sparse `a`
    w, bias = floats(4, 3, 3, 3), floats(4)
    y = models.conv2d(x, w) + bias.reshape(4, 1, 1)
    yield one("NhwcFusedConv", {"x": x.transpose(0, 2, 3, 1).copy(), "w_": w, "b_": bias},
              [np.maximum(y, 0).transpose(0, 2, 3, 1)], {"activation": "Relu"}, peer=False) # ONNX Runtime has no CPU kernel
    rows, columns = np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 5), indexing="ij")
    grid = np.stack([columns, rows], -1)[None].repeat(2, 0).astype(np.float32)
    yield one("GridSample", {"x": x, "g": grid}, [x], {"align_corners": 1}, rtol=1e-4, atol=1e-4)


def bases():
    yield from others()
    yield from recurrences()
    yield from masks()
    yield from attention_options()
    yield from multi_head_options()
    yield from group_query_options()
    yield from functions_of_bytes()
    yield from concats_of_bytes()
    yield from choices_of_bytes()
    yield from products_of_bytes()
    yield from gemms_of_bytes()
    yield from scales()


# ------------------------------------------------------------------ forms


def shape_inputs(made, kind):
    """Declares the inputs with fixed sizes, with a name for each axis, or without a shape."""
    for value in made.graph.input:
        tensor = value.type.tensor_type
        if kind == "unknown":
            tensor.ClearField("shape")
        elif kind == "named":
            for axis, dim in enumerate(tensor.shape.dim):
                dim.Clear()
                dim.dim_param = f"{value.name}_{axis}"


def feed_constants(made, inputs):
    """Changes each constant to an input."""
    for tensor in made.graph.initializer:
        inputs[tensor.name] = numpy_helper.to_array(tensor)
        made.graph.input.append(models.info(tensor.name, list(tensor.dims), tensor.data_type))
    del made.graph.initializer[:]


def other_numbers(made):
    """Changes scalar constants to vectors of one element, and vice versa. False if there are none."""
    found = False
    for i, tensor in enumerate(made.graph.initializer):
        array = numpy_helper.to_array(tensor)
        if array.size == 1 and array.ndim < 2:
            other = array.reshape([1] if array.ndim == 0 else [])
            made.graph.initializer[i].CopyFrom(numpy_helper.from_array(other, tensor.name))
            found = True
    return found


def is_refused_elsewhere(op, shapes, numbers):
    """Does ONNX Runtime refuse this form (tables without fixed shapes, vectors instead of scalars)?"""
    return (op == "EmbedLayerNormalization" and shapes == "named") or (op.startswith("QLinear") and numbers != "")


def is_not_lowered(op, shapes, constants):
    """Forms that the optimiser does not decompose: it needs the rank of the windows, and the layouts of the blocks."""
    return (op == "UnfoldTensor" and shapes == "unknown") or (op == "SparseAttention" and constants and shapes != "fixed")


def forms(case):
    for shapes, constants, numbers in [*itertools.product(SHAPES, CONSTANTS, ("",)), ("fixed", "", "other numbers")]:
        made, inputs = copy.deepcopy(case.model), dict(case.inputs)
        if numbers and (made.graph.node[0].op_type == "DynamicQuantizeLSTM" or not other_numbers(made)):
            continue # the scales of DynamicQuantizeLSTM are vectors
        if constants and not made.graph.initializer:
            continue
        if is_not_lowered(made.graph.node[0].op_type, shapes, constants):
            continue
        if constants:
            feed_constants(made, inputs)
        shape_inputs(made, shapes)
        name = ", ".join(part for part in (case.name, shapes, constants, numbers) if part)
        yield shapes, models.Case(name, made, inputs, case.outputs, case.codes, case.rtol, case.atol,
                                  case.peer and not is_refused_elsewhere(made.graph.node[0].op_type, shapes, numbers))


def computes(case, levels):
    """The differences from the results of the case. Sessions in this process: with one of `inlay run` for each model
    the test would take three times as long."""
    wrong = []
    for level in levels:
        try:
            with inlay.Session(case.model.SerializeToString(), level=level) as session:
                results = session.run(case.inputs)
        except inlay.InlayError as error:
            wrong.append(f"level {level}: {error}")
            continue
        for i, (output, want) in enumerate(zip(case.model.graph.output, case.outputs)):
            text = compat.differs(results[output.name], want, case)
            if text:
                wrong.append(f"level {level}: output {i} {text}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer")
    parser.add_argument("words", nargs="*")
    args = parser.parse_args()
    bad = count = 0
    lowered = re.findall(r"^CONTRIBUTED\((\w+),", (PASSES / "contributed.def").read_text(), re.M)
    lowered += re.findall(r"^com\.microsoft\.(\w+)\(", (PASSES / "rules/contributed.rules").read_text(), re.M)
    lowered += re.findall(r"{ \"(Q\w+)\",", (PASSES / "quantized_functions.c").read_text())
    tables = [(list(forms(base)), False) for base in models.operators()]
    tables += [(list(forms(base)), True) for base in bases()]
    seen = {table[0][1].model.graph.node[0].op_type for table, _ in tables}
    for op in sorted(set(lowered) - seen - UNTESTED):
        print(f"{op}: has no case")
        bad += 1
    for number, (table, alternates) in enumerate(tables):
        for form, (shapes, case) in enumerate(table):
            if form not in (0, 1 + number % (len(table) - 1)) if alternates else form == 0: # compat.py runs these
                continue
            if args.words and not any(word in case.name for word in args.words):
                continue
            count += 1
            wrong = computes(case, (0,) if shapes == "named" else (0, 99))
            if args.peer and case.peer:
                with tempfile.TemporaryDirectory() as folder:
                    path = compat.feed(folder, case.model, case.inputs)
                    wrong += compat.peer(folder, path, case, args.peer)
            for text in wrong:
                print(f"{case.name}: {text}")
            bad += bool(wrong)
    print(f"{count} models, {bad} wrong")
    return 1 if bad or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
