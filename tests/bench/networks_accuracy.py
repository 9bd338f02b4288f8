#!/usr/bin/env python3
"""Errors of whole networks against float64, compared with ONNX Runtime.

  networks_accuracy.py [--only PART]... [--threads N] [--json FILE] [--dir DIR] [--inlay FILE] [--option NAME=VALUE]...

Uses DIR/torch and DIR/npm (default build/models), as exported by export_models.py, with the random inputs of
check_models.py. The exact results are those of the model in float64 (widen.py), by inlay's reference provider without
an optimiser. The printed value is the largest error relative to the largest result, of the worst output. Default and
strict pass if their error is at most 4 times ONNX Runtime's, or 1e-6. The exit status is 1 if one does not."""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx

import accuracy
from accuracy import models
from widen import widen

OF_PEER, SMALL = 4, 1e-6


def networks(folder, only):
    found = sorted(os.path.join(d, f) for part in ("torch", "npm") for d, _, files in os.walk(os.path.join(folder, part))
                   for f in files if f.endswith(".onnx"))
    return [(os.path.relpath(f, folder), f) for f in found if not only or any(p in f for p in only)]


def exact_results(args, path, inputs, work):
    """Returns outputs by name, or a message if that fails."""
    model = os.path.join(work, "wide.onnx")
    fed = os.path.join(work, "wide_in")
    os.mkdir(fed)
    wide = widen(onnx.load(path))
    for value in wide.graph.input:
        old = os.path.join(inputs, models.file_name(value.name.removesuffix("__float")))
        if os.path.exists(old):
            os.link(old, os.path.join(fed, models.file_name(value.name)))
    onnx.save(wide, model)
    wrong = models.run(args.inlay, model, fed, os.path.join(work, "wide_out"),
                       ["--providers", "reference", "--level", "0", "--cache-dir", ""])
    os.unlink(model)
    return wrong or results(os.path.join(work, "wide_out"))


def results(folder):
    return {f[:-4]: np.load(os.path.join(folder, f)) for f in sorted(os.listdir(folder))}


def error(got, want):
    """Returns the worst output, or a message if one cannot be compared."""
    worst = 0.0
    for name, exact in want.items():
        here = got.get(name)
        if here is None or here.shape != exact.shape:
            return f"{name} has another shape"
        if exact.dtype.kind != "f" or exact.size == 0:
            continue
        here = here.astype(np.float64)
        both = np.isfinite(exact) & np.isfinite(here)
        if not np.array_equal(here[~both], exact[~both].astype(np.float64), equal_nan=True):
            return f"{name} is not finite elsewhere"
        if both.any():
            worst = max(worst, float(np.abs(here - exact)[both].max() / (np.abs(exact[both]).max() or 1)))
    return worst


def measure(args, name, path, engines):
    row = {"network": name}
    with tempfile.TemporaryDirectory() as work:
        inputs = os.path.join(work, "in")
        os.mkdir(inputs)
        models.write_inputs(args.inlay, path, inputs, quiet=True)
        want = exact_results(args, path, inputs, work)
        if isinstance(want, str):
            return row | {"fault": want}
        for engine, run in engines:
            out = os.path.join(work, engine)
            row[engine] = run(path, inputs, out) or error(results(out), want)
    return row


def holds(row, engine):
    figure, peer = row.get(engine), row.get("ort")
    if not isinstance(figure, float):
        return False
    return figure <= max(SMALL, OF_PEER * peer if isinstance(peer, float) else 0)


def line_of(row, names):
    if "fault" in row:
        return f"| {row['network']} | {row['fault']} |" + " |" * len(names)
    cells = [f"{row[n]:.1e}" if isinstance(row[n], float) else row[n] for n in names]
    ratio = f"{row['default'] / (row['ort'] or 1):.2f}" \
        if isinstance(row.get("ort"), float) and isinstance(row["default"], float) else ""
    verdicts = ", ".join(n for n in ("default", "strict") if not holds(row, n))
    return f"| {row['network']} | " + " | ".join([*cells, ratio, "BROKEN: " + verdicts if verdicts else "holds"]) + " |"


def main():
    ap = accuracy.parser(__doc__)
    ap.add_argument("--only", action="append", default=[], help="networks whose paths have this in them")
    args = accuracy.checked(ap)
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        engines = accuracy.engines_of(args, cache)
        names = [n for n, _ in engines]
        print("| network | " + " | ".join(names) + " | default / ort | |\n" + "|---" * (len(names) + 3) + "|")
        for name, path in networks(args.dir, args.only):
            try:
                rows.append(measure(args, name, path, engines))
            except subprocess.TimeoutExpired:
                rows.append({"network": name, "fault": "takes too long in float64"})
            print(line_of(rows[-1], names), flush=True)
    for name in ("default", "strict"):
        print(f"{name}: {sum(holds(r, name) for r in rows)} of {len(rows)} networks hold")
    accuracy.keep(args, rows)
    sys.exit(not rows or not all(holds(r, n) for r in rows for n in ("default", "strict")))


if __name__ == "__main__":
    main()
