"""Operators that ONNX defines by a function, on special values, compared with the body of the function.

    bodies.py FOLDER... [--only TEXT]

FOLDER has ONNX's cases. Those of such an operator come in pairs: NAME, and NAME_expanded with the body's nodes in place
of the operator. Both get the inputs of the case, in which special values replace some floats. The body runs as written,
on provider reference; the operator runs there and with default settings. They must agree on NaN, infinities, signs of
zeros, and on other numbers up to rounding. EXCEPTIONS lists the operators that differ from their bodies, with the
reasons; there, default settings must agree with the reference."""
import argparse
import os
import pathlib
import re
import sys

import numpy as np
import onnx
from onnx import numpy_helper

import inlay

AS_WRITTEN = {"providers": "reference", "level": "0"}
SETTINGS = {"reference": AS_WRITTEN, "default": {}}
TOLERANCE = {np.dtype(np.float16): 2e-3, np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-12}

# Kind -> values of a float type. "large" ones may overflow in a body; see agree().
KINDS = {
    "NaN": lambda info: [np.nan],
    "infinite": lambda info: [np.inf, -np.inf],
    "mixed": lambda info: [np.nan, np.inf, -np.inf, 0.0, -0.0, info.smallest_subnormal, -6.5],
    "small": lambda info: [0.0, -0.0, info.smallest_subnormal, -info.smallest_subnormal, info.tiny / 3],
    "steps": lambda info: [-3.0, 3.0, 0.5, -0.5, 88.8, -104.0, 11.0, 1e-3],
    "large": lambda info: [info.max, info.min, info.max / 4, -info.max / 4],
}

# Operator -> why it differs from its body.
EXCEPTIONS = {
    "Attention": "hidden keys take no part, and a query without a visible key gets 0 (numerics.md)",
}
# Operators without any comparison, and those without "large" numbers, whose sums and squares overflow or cancel out.
LEFT_OUT = {
    "Bernoulli": "random",
    "SequenceMap": "its inputs are sequences, and its body is part of the model",
    "Range": "numbers that define no range are refused, where the body's loop hardly ends",
}
OVERFLOWING = {"Attention", "LayerNormalization", "GroupNormalization", "MeanVarianceNormalization",
               "NegativeLogLikelihoodLoss", "RMSNormalization"}


def planted(values, kind, numbers):
    """A copy of the values in which one of eight floats, and at least one, is a special value."""
    special = np.array([float(x) for x in KINDS[kind](np.finfo(values.dtype))])
    made = values.flatten()
    at = numbers.choice(made.size, max(1, made.size // 8), replace=False)
    with np.errstate(over="ignore"):
        made[at] = numbers.choice(special, len(at)).astype(values.dtype)
    return made.reshape(values.shape)


def agree(got, want, kind):
    """What differs, or "". A body that overflows is no judge: its operator may be exact."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"is {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    if got.dtype not in TOLERANCE:
        different = got != want
    else:
        with np.errstate(all="ignore"):
            a, b = got.astype(np.float64), want.astype(np.float64)
            near = np.abs(a - b) <= TOLERANCE[got.dtype] * np.maximum(np.abs(b), 1)
        same = (np.isnan(a) & np.isnan(b)) | (a == b) & ((a != 0) | (np.signbit(a) == np.signbit(b)))
        different = ~(same | near & (a != b))
        if kind == "large":
            different &= np.isfinite(b)
    places = np.argwhere(different)
    return f"at {places[0].tolist()}: {got[tuple(places[0])]}, not {want[tuple(places[0])]}" if len(places) else ""


def inputs_of(case):
    """The inputs of a case; None if numpy lacks the type of one."""
    made = []
    for i in range(len(list((case / "test_data_set_0").glob("input_*.pb")))):
        tensor = onnx.TensorProto()
        tensor.ParseFromString((case / "test_data_set_0" / f"input_{i}.pb").read_bytes())
        if not tensor.data_type or tensor.data_type == onnx.TensorProto.BFLOAT16 or tensor.data_type > 16:
            return None
        made.append(numpy_helper.to_array(tensor))
    return made


def outputs_of(session, values):
    try:
        return list(session.run(dict(zip([i.name for i in session.inputs], values))).values()), None
    except inlay.InlayError as error:
        return None, str(error)


def differences(case, body, operator):
    """Yields a line for each difference, and counts comparisons in differences.count."""
    values = inputs_of(case)
    floats = [] if values is None else [i for i, v in enumerate(values) if v.dtype in TOLERANCE and v.size > 0]
    if not floats:
        return
    judged = {name: inlay.Session(case / "model.onnx", config=False, **more) for name, more in SETTINGS.items()}
    judge = judged.pop("reference") if operator in EXCEPTIONS else inlay.Session(body / "model.onnx", config=False,
                                                                                 **AS_WRITTEN)
    numbers = np.random.default_rng(1)
    for kind in KINDS:
        if kind == "large" and operator in OVERFLOWING:
            continue
        for chosen in [floats] + ([[i] for i in floats] if len(floats) > 1 else []):
            given = [planted(v, kind, numbers) if i in chosen else v for i, v in enumerate(values)]
            want, refused = outputs_of(judge, given)
            for name, session in judged.items():
                differences.count += 1
                got, error = outputs_of(session, given)
                if error is not None or refused is not None:
                    if (error is None) != (refused is None):
                        yield f"{kind} in {chosen}, {name}: {error or 'runs'}, not: {refused or 'runs'}"
                    continue
                for i, (g, w) in enumerate(zip(got, want)):
                    text = agree(np.asarray(g), np.asarray(w), kind)
                    if text:
                        yield f"{kind} in {chosen}, {name}: output {i} {text}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--only", default="", help="cases whose names contain this text")
    args = parser.parse_args()
    differences.count = wrong = 0
    operators = set()
    for folder in args.folders:
        for body in sorted(p for p in folder.glob("*_expanded*") if args.only in p.name):
            case = folder / re.sub("_expanded.*", "", body.name)
            if not case.is_dir():
                continue
            operator = onnx.load(os.fspath(case / "model.onnx")).graph.node[0].op_type
            if operator in LEFT_OUT:
                continue
            before = differences.count
            for text in differences(case, body, operator):
                print(f"{body.name}: {text}")
                wrong += 1
            if differences.count > before:
                operators.add(operator)
    print(f"{differences.count} comparisons of {len(operators)} operators with their bodies, {wrong} wrong")
    return wrong > 0 or not operators


if __name__ == "__main__":
    sys.exit(main())
