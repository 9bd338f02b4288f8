#!/usr/bin/python3
"""PyTorch's samples of its operators (OpInfo), exported to ONNX and compared with PyTorch's results.

    torch_samples.py [--only TEXT] [--samples N] [--part I/N] [--peer DIR]

Each sample of torch.testing's operator database that torch.onnx exports is run with default settings and on provider
reference without optimiser. Needs python3-torch. A difference is printed with the case; what cannot be exported is
counted by its reason. The last line has the counts. --peer runs samples that differ in ONNX Runtime, too: DIR has
ort_bench and libonnxruntime.so.1. If all three differ from PyTorch, the model is counted as exported wrongly."""
import argparse
import collections
import io
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest
import warnings

import numpy as np
import torch

# The database imports the package expecttest, which Debian lacks, for a class that is not used here.
sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase, ACCEPT=True))
from torch.testing._internal.common_methods_invocations import op_db # pylint: disable=wrong-import-position
from torch.utils import _pytree as pytree # pylint: disable=wrong-import-position

import inlay

SETTINGS = {"default": {}, "reference": {"providers": "reference", "level": "0"}}
DTYPES = torch.float32, torch.int64, torch.bool, torch.float64
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-9}
OPSET = 16
# Random, or the memory of the result is not initialised; torch 1.13 crashes when it exports the last three.
LEFT_OUT = {"bernoulli", "multinomial", "normal", "empty", "empty_like", "new_empty", "rand_like", "randn_like",
            "randn", "randint_like", "uniform", "new_empty_strided", "randint", "exponential", "geometric",
            "log_normal", "cauchy"} | {f"nn.functional.{name}" for name in (
                "dropout", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "rrelu",
                "fractional_max_pool2d", "fractional_max_pool3d", "fold", "unfold", "pixel_unshuffle")}


class Call(torch.nn.Module):
    """A call of an operator, whose tensors are the inputs."""

    def __init__(self, op, sample):
        super().__init__()
        self.op = op
        self.leaves, self.spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.at = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = tuple(self.leaves[i].detach() for i in self.at)

    def forward(self, *tensors):
        leaves = list(self.leaves)
        for i, tensor in zip(self.at, tensors):
            leaves[i] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.op(*args, **kwargs)


def flat(value):
    return [x for x in pytree.tree_flatten(value)[0] if isinstance(x, torch.Tensor)]


def difference(got, want):
    got, want = np.asarray(got), want.detach().resolve_conj().resolve_neg().numpy()
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"is {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    if want.dtype.kind in "iub":
        right = got == want
    else:
        tolerance = TOLERANCE[torch.float64 if want.dtype == np.float64 else torch.float32]
        with np.errstate(invalid="ignore"):
            right = np.isclose(got, want, tolerance * 10, tolerance, equal_nan=True)
    wrong = np.argwhere(~right)
    return f"at {wrong[0].tolist()}: {got[tuple(wrong[0])]}, not {want[tuple(wrong[0])]}" if len(wrong) else ""


def export(call):
    made = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(call, call.tensors, made, opset_version=OPSET, do_constant_folding=False,
                          input_names=[f"x{i}" for i in range(len(call.tensors))])
    return made.getvalue()


def run(model, call, options):
    session = inlay.Session(model, config=False, **options)
    names = {x.name for x in session.inputs}
    return list(session.run({f"x{i}": t.numpy() for i, t in enumerate(call.tensors) if f"x{i}" in names}).values())


def differences(who, run_model, model, want):
    """What differs from `want` in the results of run_model(model), or its error."""
    try:
        got = run_model(model)
    except Exception as error: # pylint: disable=broad-except
        return [f"{who}: {str(error)[:300]}"]
    if len(got) != len(want):
        return [f"{who}: {len(got)} outputs, not {len(want)}"]
    return [f"{who}: output {i} {text}" for i, (a, b) in enumerate(zip(got, want)) if (text := difference(a, b))]


def run_peer(model, call, peer):
    """The results of ONNX Runtime, or its error as an exception."""
    with tempfile.TemporaryDirectory() as made:
        made = pathlib.Path(made)
        (made / "m.onnx").write_bytes(model)
        (made / "in").mkdir()
        (made / "out").mkdir()
        for i, tensor in enumerate(call.tensors):
            np.save(made / "in" / f"x{i}.npy", tensor.numpy())
        ran = subprocess.run([peer / "ort_bench", peer / "libonnxruntime.so.1", made / "m.onnx", "--inputs",
                              made / "in", "--outputs", made / "out", "--seconds", "0", "--warmup", "0", "--level",
                              "0"], capture_output=True, text=True, timeout=60, check=False)
        if ran.returncode != 0:
            raise RuntimeError(ran.stderr.strip() or f"ended with {ran.returncode}")
        names = [x.name for x in inlay.Session(model, config=False, **SETTINGS["reference"]).outputs]
        return [np.load(made / "out" / (re.sub("[/:]", "_", name) + ".npy")) for name in names]


def samples_of(op, dtype):
    """Samples as far as they can be made: some need packages that are missing."""
    try:
        yield from op.sample_inputs("cpu", dtype)
    except Exception as error: # pylint: disable=broad-except
        print(f"{op.name} {dtype}: no samples: {error}")


def examine(op, sample, peer):
    """The result of a sample, and the texts that explain it."""
    try:
        call = Call(op, sample)
        want = flat(call(*call.tensors))
        for tensor in want:
            tensor.detach().resolve_conj().resolve_neg().numpy() # fails for types that numpy lacks
        model = export(call)
    except Exception as error: # pylint: disable=broad-except
        return "not exported", [f"{type(error).__name__}: {str(error).splitlines()[0][:90]}" if str(error) else "?"]
    wrong = [differences(who, lambda made, options=options: run(made, call, options), model, want)
             for who, options in SETTINGS.items()]
    if not any(wrong):
        return "passed", []
    theirs = differences("ONNX Runtime", lambda made: run_peer(made, call, peer), model, want) if peer else []
    is_theirs = all(wrong) and theirs and "implementation" not in theirs[0]
    return "exported wrongly" if is_theirs else "failed", [*sum(wrong, []), *theirs]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="operators whose names contain this text")
    parser.add_argument("--samples", type=int, default=6, help="most samples of an operator and type")
    parser.add_argument("--part", default="1/1", help="of the operators")
    parser.add_argument("--peer", type=pathlib.Path)
    args = parser.parse_args()
    part, parts = (int(x) for x in args.part.split("/"))
    counts, reasons = collections.Counter(), collections.Counter()
    for k, op in enumerate(op_db):
        if k % parts != part - 1 or args.only not in op.name or op.name in LEFT_OUT:
            continue
        for dtype in DTYPES:
            if dtype not in op.supported_dtypes("cpu"):
                continue
            torch.manual_seed(0)
            for number, sample in zip(range(args.samples), samples_of(op, dtype)):
                name = f"{op.name} {op.variant_test_name} {dtype} {number}".replace("  ", " ")
                result, texts = examine(op.op, sample, args.peer)
                counts[result] += 1
                if result == "not exported":
                    reasons[texts[0]] += 1
                    continue
                for text in texts:
                    print(f"{name}: {text}", flush=True)
    for reason, count in reasons.most_common(20):
        print(f"not exported: {count} x {reason}")
    print(", ".join(f"{counts[x]} {x}" for x in ("passed", "failed", "exported wrongly", "not exported")))
    return counts["failed"] > 0 or counts["passed"] == 0


if __name__ == "__main__":
    sys.exit(main())
