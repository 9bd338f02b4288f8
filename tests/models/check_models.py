#!/usr/bin/env python3
"""Runs models through `inlay run` and compares the outputs.

  check_models.py INLAY torch DIR [NAME ...]          DIR/NAME as written by export_models.py: compared with torch
  check_models.py INLAY ort DIR PEER [PATTERN ...]    every *.onnx below DIR: compared with ONNX Runtime, PEER installed by
                                                      peer/setup.sh; random inputs from a fixed seed
  check_models.py INLAY inputs MODEL DIR              writes the model's inputs to DIR: exported ones, or random
                                                      ones; prints the sizes of symbolic dimensions, one NAME=N per line

Each model is one line; the last line is 'N passed, N failed'. Tolerances are rtol * |want| + atol."""
import json
import os
import subprocess
import sys
import tempfile
import zlib

import numpy as np

DEFAULT = (1e-3, 1e-4)
DETECTOR = (3e-3, 3e-3)
# Quantized kernels round: those of torch, ONNX Runtime and inlay differ by single steps that later layers amplify.
# ONNX Runtime differs from torch by 0.126 on this model, whose logits reach 0.70.
PTQ = (0, 0.15)
# Dynamic quantization: one of ten thousand values is rounded differently, and the following layers amplify it. The
# error is compared with the largest value of the output instead.
PEAK = ("peak", 0.05)
# Logits of +-100 that cross zero: rounding errors of large terms are allowed in small results.
LARGE = ("peak", 1e-5)
TOLERANCE = {"deeplabv3_mobilenet_v3_large": LARGE, "moonshine": PEAK, "ssdlite320_mobilenet_v3_large": DETECTOR,
             "mobilenet_v2_ptq": PTQ}

# Sizes for the symbolic dimensions of a model, by a part of its path and the rank, and inputs that need special
# values.
DIMS = {"silero_vad": [1, 512], "encoder_model": [1, 16000], "ch_PP-OCRv4_det": [1, 3, 320, 480], "ch_PP-OCRv4_rec": [1, 3, 48, 320], "cls_infer": [1, 3, 48, 192],
        "u2netp": [1, 3, 320, 320], "melspectrogram": [1, 16000],
        "embedding_model": [1, 76, 32, 1]}
SCALARS = {"sr": np.array(16000, np.int64)}


def file_name(name):
    return name.replace("/", "_").replace(":", "_") + ".npy"


def distance(got, want, tolerance):
    """Returns the largest error in units of the tolerance, or a message if the two cannot be compared."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"is {got.dtype}{list(got.shape)}, want {want.dtype}{list(want.shape)}"
    if got.size == 0:
        return 0.0
    if got.dtype.kind not in "fc":
        same = np.array_equal(got, want)
        return 0.0 if same else f"differs in {int((got != want).sum())} of {got.size} elements"
    got, want = got.astype(np.float64), want.astype(np.float64)
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return "has NaN at other elements"
    rtol, atol = tolerance if tolerance[0] != "peak" else (0, tolerance[1] * float(np.nanmax(np.abs(want))))
    error = np.abs(got - want)
    error[got == want] = 0
    return float(np.nanmax(error / (atol + rtol * np.abs(want))))


def run(inlay, model, inputs, outputs, extra=()):
    ran = subprocess.run([inlay, "run", model, "--inputs", inputs, "--outputs", outputs, *extra],
                         capture_output=True, text=True, timeout=900, check=False)
    return "" if ran.returncode == 0 else (ran.stderr or ran.stdout).strip().splitlines()[-1]


def judge(name, got_dir, wanted, tolerance):
    """Compares all outputs, prints the line, returns whether they agree."""
    worst, faults = 0.0, []
    for key, want in wanted.items():
        path = os.path.join(got_dir, file_name(key))
        far = distance(np.load(path), want, tolerance) if os.path.exists(path) else "is missing"
        if isinstance(far, str):
            faults.append(f"output '{key}' {far}")
        else:
            worst = max(worst, far)
            if far > 1:
                faults.append(f"output '{key}' is off by {far:.3g} times the tolerance")
    print(f"{'ok  ' if not faults else 'FAIL'} {name:44s} worst {worst:8.3g} of tolerance  {'; '.join(faults)}".rstrip(),
          flush=True)
    return not faults


def against_torch(inlay, folder, names):
    passed = failed = 0
    for name in names or sorted(os.listdir(folder)):
        here = os.path.join(folder, name)
        if not os.path.exists(os.path.join(here, "outputs.npz")):
            if names:
                print(f"FAIL {name}: not exported")
                failed += 1
            continue
        with tempfile.TemporaryDirectory() as tmp:
            feeds, wanted = np.load(os.path.join(here, "inputs.npz")), np.load(os.path.join(here, "outputs.npz"))
            os.mkdir(os.path.join(tmp, "in"))
            for key in feeds.files:
                np.save(os.path.join(tmp, "in", file_name(key)), feeds[key])
            wrong = run(inlay, os.path.join(here, "model.onnx"), os.path.join(tmp, "in"), os.path.join(tmp, "out"))
            if wrong:
                print(f"FAIL {name:44s} {wrong}", flush=True)
            fine = not wrong and judge(name, os.path.join(tmp, "out"), {k: wanted[k] for k in wanted.files},
                                       TOLERANCE.get(name, DEFAULT))
            passed, failed = passed + fine, failed + (not fine)
    return passed, failed


def draw_input(model, info, rng):
    """Returns a plausible array for an input described by `inlay inspect --json`."""
    name, dims = info["name"], list(info.get("shape") or [])
    for pattern, sizes in DIMS.items():
        if pattern in model and len(sizes) == len(dims):
            dims = [d if isinstance(d, int) and d >= 0 else s for d, s in zip(dims, sizes)]
    dims = [d if isinstance(d, int) and d >= 0 else 1 for d in dims]
    if name in SCALARS:
        return np.broadcast_to(SCALARS[name], dims).copy()
    kind = {"float": np.float32, "double": np.float64, "int64": np.int64, "int32": np.int32, "bool": np.bool_,
            "float16": np.float16, "uint8": np.uint8, "int8": np.int8}[info["type"]]
    if np.issubdtype(kind, np.floating):
        return rng.standard_normal(dims).astype(kind)
    return rng.integers(0, 2, dims).astype(kind)


def inspect(inlay, model):
    """Returns the output of `inlay inspect --json`, or a message if it fails."""
    report = subprocess.run([inlay, "inspect", model, "--json"], capture_output=True, text=True, check=False)
    return json.loads(report.stdout) if report.returncode == 0 else (report.stderr or report.stdout).strip()[-200:]


def write_inputs(inlay, model, folder, quiet=False):
    """Writes inputs; for benchmarks, which need no expected outputs."""
    report = inspect(inlay, model)
    if isinstance(report, str):
        sys.exit(report)
    exported = os.path.join(os.path.dirname(model), "inputs.npz")
    feeds = np.load(exported) if os.path.exists(exported) else {}
    rng = np.random.default_rng(zlib.crc32(os.path.basename(model).encode()))
    sizes = {}
    for info in report["inputs"]:
        array = feeds[info["name"]] if info["name"] in feeds else draw_input(model, info, rng)
        np.save(os.path.join(folder, file_name(info["name"])), array)
        for dim, size in zip(info.get("shape") or [], array.shape):
            if isinstance(dim, str) and dim and "=" not in dim and "," not in dim:
                sizes[dim] = size
    for name, size in sizes.items() if not quiet else ():
        print(f"{name}={size}")


def against_ort(inlay, folder, peer, patterns):
    passed = failed = 0
    models = sorted(os.path.join(d, f) for d, _, files in os.walk(folder) for f in files if f.endswith(".onnx"))
    for model in models:
        name = os.path.relpath(model, folder)
        if patterns and not any(p in name for p in patterns):
            continue
        report = inspect(inlay, model)
        if isinstance(report, str):
            print(f"FAIL {name:44s} {report}")
            failed += 1
            continue
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        with tempfile.TemporaryDirectory() as tmp:
            for sub in ("in", "want", "got"):
                os.mkdir(os.path.join(tmp, sub))
            for info in report["inputs"]:
                np.save(os.path.join(tmp, "in", file_name(info["name"])), draw_input(name, info, rng))
            asked = subprocess.run([os.path.join(peer, "ort_bench"), os.path.join(peer, "libonnxruntime.so.1"), model,
                                    "--threads", "1", "--seconds", "0", "--inputs", os.path.join(tmp, "in"),
                                    "--outputs", os.path.join(tmp, "want")],
                                   capture_output=True, text=True, timeout=900, check=False)
            if asked.returncode != 0:
                print(f"skip {name:44s} ONNX Runtime: {asked.stderr.strip()[-160:]}", flush=True)
                continue
            wanted = {f[:-4]: np.load(os.path.join(tmp, "want", f)) for f in sorted(os.listdir(os.path.join(tmp, "want")))}
            wrong = run(inlay, model, os.path.join(tmp, "in"), os.path.join(tmp, "got"))
            if wrong:
                print(f"FAIL {name:44s} {wrong}", flush=True)
            tolerance = next((t for part, t in TOLERANCE.items() if part in name), DEFAULT)
            fine = not wrong and judge(name, os.path.join(tmp, "got"), wanted, tolerance)
            passed, failed = passed + fine, failed + (not fine)
    return passed, failed


def main():
    few = {"torch": 4, "ort": 5, "inputs": 5}
    if len(sys.argv) < 4 or len(sys.argv) < few.get(sys.argv[2], 100):
        sys.exit(__doc__)
    inlay, mode, folder = sys.argv[1:4]
    if mode == "inputs":
        write_inputs(inlay, folder, sys.argv[4])
        return
    if mode == "torch":
        passed, failed = against_torch(inlay, folder, sys.argv[4:])
    else:
        passed, failed = against_ort(inlay, folder, sys.argv[4], sys.argv[5:])
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
