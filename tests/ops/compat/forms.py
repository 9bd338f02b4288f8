#!/usr/bin/env python3
"""The forms in which an operator that is lowered to others may stand in a model.

    forms.py INLAY [--peer DIR] [WORD...]

WORD: only cases whose name has it. --peer compares with ONNX Runtime as well, as in compat.py.

bases() has what the table of models.operators() does not: each scale, each mask, each optional input. forms() gives
each case in every form that keeps its meaning: sizes fixed, named, or of unknown rank; constants as they are or as
inputs; single numbers as scalars or as vectors of one element. The reference is the case's own formula."""
import argparse
import copy
import itertools
import sys
import tempfile

import numpy as np
from onnx import numpy_helper

import compat
import models
from models import RNG, floats, one

SHAPES = ("fixed", "named", "unknown")
CONSTANTS = ("", "fed")
# What a rank decides that no operator fixes: such a node is refused, with this as the reason.
REFUSED = "unknown rank: declare", "of a known rank: declare"

# ------------------------------------------------------------------ LSTM of bytes

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
    """Each sequence of the batch from its end."""
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
               name=f"DynamicQuantizeLSTM {name}", rtol=4e-2, atol=4e-2, # ONNX Runtime rounds x and h to bytes,
               peer=not (columns and "zeros" in given)) # and takes no zero points of columns but 0


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
    """Attention whose mask of rank 1 has where the keys of each row of the batch end, and where they begin."""
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
            if name == "ends and begins": # MultiHeadAttention has none
                continue
            q, k, v = np.split((x @ weights + bias).astype(np.float32), 3, axis=2)
            yield one("MultiHeadAttention", {"q": q, "k": k, "v": v, "b": None, "m": mask}, [y.astype(np.float32)],
                      {"num_heads": 2}, name=f"MultiHeadAttention {name} of {batch}")


def bases():
    yield from recurrences()
    yield from masks()


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
    """Makes an input of each constant."""
    for tensor in made.graph.initializer:
        inputs[tensor.name] = numpy_helper.to_array(tensor)
        made.graph.input.append(models.info(tensor.name, list(tensor.dims), tensor.data_type))
    del made.graph.initializer[:]


def other_numbers(made):
    """Makes vectors of one element of scalar constants, and the other way round. False: there are none."""
    found = False
    for i, tensor in enumerate(made.graph.initializer):
        array = numpy_helper.to_array(tensor)
        if array.size == 1 and array.ndim < 2:
            other = array.reshape([1] if array.ndim == 0 else [])
            made.graph.initializer[i].CopyFrom(numpy_helper.from_array(other, tensor.name))
            found = True
    return found


def forms(case):
    for shapes, constants, numbers in [*itertools.product(SHAPES, CONSTANTS, ("",)), ("fixed", "", "other numbers")]:
        made, inputs = copy.deepcopy(case.model), dict(case.inputs)
        if numbers and (made.graph.node[0].op_type == "DynamicQuantizeLSTM" or not other_numbers(made)):
            continue # whose scales are vectors
        if constants and not made.graph.initializer:
            continue
        if constants:
            feed_constants(made, inputs)
        shape_inputs(made, shapes)
        name = ", ".join(part for part in (case.name, shapes, constants, numbers) if part)
        yield shapes, models.Case(name, made, inputs, case.outputs, case.codes, case.rtol, case.atol,
                                  case.peer and not (shapes == "named" and "EmbedLayerNormalization" in case.name))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("inlay")
    parser.add_argument("--peer")
    parser.add_argument("words", nargs="*")
    args = parser.parse_args()
    bad = count = refused = 0
    for base in itertools.chain(models.operators(), bases()):
        for shapes, case in forms(base):
            if args.words and not any(word in case.name for word in args.words):
                continue
            count += 1
            compat.LEVELS = ("0", "99") if shapes == "fixed" else ("0",)
            with tempfile.TemporaryDirectory() as folder:
                path = compat.feed(folder, case.model, case.inputs)
                wrong = compat.computes(args.inlay, path, case, folder)
                if shapes == "unknown" and wrong and any(text in wrong[0] for text in REFUSED):
                    wrong = []
                    refused += 1
                if args.peer and case.peer:
                    wrong += compat.peer(folder, path, case, args.peer)
            for text in wrong:
                print(f"{case.name}: {text}")
            bad += bool(wrong)
    print(f"{count} models, {refused} of unknown rank refused, {bad} wrong")
    return 1 if bad or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
