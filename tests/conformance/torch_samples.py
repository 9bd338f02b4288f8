#!/usr/bin/python3
"""PyTorch's samples of its operators (OpInfo), exported to ONNX and compared with PyTorch's results.

    torch_samples.py [--only TEXT] [--samples N] [--part I/N] [--peer DIR]

Each sample of torch.testing's operator database that torch.onnx exports is run with default settings and on provider
reference without optimiser. Needs python3-torch. A difference is printed with the case; what cannot be exported is
counted by its reason. The last line has the counts. --peer runs samples that differ in ONNX Runtime, too: DIR has
ort_bench and libonnxruntime.so.1. If it has the same results as inlay, or both refuse the model, the model is counted
as exported wrongly. KNOWN has the other samples that differ, with the reason."""
import argparse
import collections
import fnmatch
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
# Random, or the memory of the result is not initialised; torch 1.13 crashes when it exports the last four.
LEFT_OUT = {"bernoulli", "multinomial", "normal", "empty", "empty_like", "new_empty", "rand_like", "randn_like",
            "randn", "randint_like", "uniform", "new_empty_strided", "randint", "exponential", "geometric",
            "log_normal", "cauchy"} | {f"nn.functional.{name}" for name in (
                "dropout", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "rrelu",
                "fractional_max_pool2d", "fractional_max_pool3d", "fold", "unfold",
                "pixel_unshuffle", "group_norm")}

# Samples that differ, by the reason. ONNX Runtime lacks the kernel, or rounds floats in another order.
KNOWN = {
    "addmm torch.int64 *": "PyTorch rounds alpha and beta to integers, Gemm has them as floats",
    "log_softmax dtype torch.float32 *": "the type changes after LogSoftmax, in PyTorch before",
    "logsumexp torch.int64 *": "is exported with a result of integers, which is rounded to 0",
    "nn.functional.adaptive_avg_pool2d torch.float64 *": "is exported with another size, also for floats",
    "nn.functional.celu torch.float64 *": "is exported as Celu of floats, since ONNX has none of doubles",
    "nn.functional.hardsigmoid torch.float64 *": "alpha is 1/6, rounded to float as ONNX's attributes are",
    "nn.functional.mish torch.float64 *": "is exported with a result of floats",
    "nn.functional.selu torch.float64 *": "alpha and gamma are rounded to float",
    "nn.functional.softmin with_dtype torch.float32 *": "the type changes after Softmax, in PyTorch before",
    "nn.functional.softplus torch.float64 *": "the export drops the threshold above which PyTorch returns its input",
    "softmax with_dtype torch.float32 *": "the type changes after Softmax, in PyTorch before",
}


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
    """The arrays of a result; an exception for types that numpy lacks."""
    return [x.detach().resolve_conj().resolve_neg().numpy() for x in pytree.tree_flatten(value)[0]
            if isinstance(x, torch.Tensor)]


def difference(got, want):
    got = np.asarray(got)
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


def results_of(run_model, model):
    """The results of run_model(model), or its error as a text."""
    try:
        return run_model(model)
    except Exception as error: # pylint: disable=broad-except
        return str(error)[:300]


def differences(got, want):
    """What differs in two lists of results, of which the first may be an error."""
    if isinstance(got, str):
        return [got]
    if len(got) != len(want):
        return [f"{len(got)} outputs, not {len(want)}"]
    return [f"output {i} {text}" for i, (a, b) in enumerate(zip(got, want)) if (text := difference(a, b))]


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
        model = export(call)
    except Exception as error: # pylint: disable=broad-except
        return "not exported", [f"{type(error).__name__}: {str(error).splitlines()[0][:90]}" if str(error) else "?"]
    ours = {who: results_of(lambda made, options=options: run(made, call, options), model)
            for who, options in SETTINGS.items()}
    texts = [f"{who}: {text}" for who, got in ours.items() for text in differences(got, want)]
    if not texts or peer is None:
        return "failed" if texts else "passed", texts
    theirs = results_of(lambda made: run_peer(made, call, peer), model)
    texts += [f"ONNX Runtime: {text}" for text in differences(theirs, want)]
    if isinstance(theirs, str):
        agree = "implementation" not in theirs and all(isinstance(got, str) for got in ours.values())
    else:
        agree = not any(differences(got, theirs) for got in ours.values())
    return "exported wrongly" if agree else "failed", texts


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
                if result == "failed" and any(fnmatch.fnmatchcase(name, known) for known in KNOWN):
                    result = "known"
                counts[result] += 1
                if result == "not exported":
                    reasons[texts[0]] += 1
                    continue
                for text in texts:
                    print(f"{name}: {result}: {text}", flush=True)
    for reason, count in reasons.most_common(20):
        print(f"not exported: {count} x {reason}")
    print(", ".join(f"{counts[x]} {x}" for x in ("passed", "failed", "known", "exported wrongly", "not exported")))
    return counts["failed"] > 0 or counts["passed"] == 0


if __name__ == "__main__":
    sys.exit(main())
