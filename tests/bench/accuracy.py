#!/usr/bin/env python3
"""Errors against float64 on difficult layers (hard_layers.py), compared with ONNX Runtime.

  accuracy.py [--only PART] [--seed N] [--threads N] [--json FILE] [--dir DIR] [--inlay FILE] [--option NAME=VALUE]...

The engines are inlay with precision f32 (the default), strict and fast, and ONNX Runtime. Each has four numbers: the
largest error relative to the largest result; the root mean square of errors relative to that of results; the largest
error of an element relative to the sum of the magnitudes of its terms, |A| |B|, in units of eps = 2^-24; and the same
in units of eps * sqrt(K). `plain` is a float sum in chains of 256. Requirements for every element:

  default  |error| <= max(8 * eps * sqrt(K) * (|A| |B|), 4 times the plain sum's); integers exact in float are exact
  strict   the same, and the third number is at most twice ONNX Runtime's (at least 1)
  fast     none

Half of the smallest subnormal number is allowed for each term that underflows. The exit status is 1 if a row fails.
ONNX Runtime is installed in DIR/peer (default build/models) if it is missing."""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(HERE, "..", "models"))
import check_models as models  # noqa: E402
import hard_layers  # noqa: E402

EPS, SMALLEST = 2.0 ** -24, 2.0 ** -149
FACTOR, OF_PLAIN, OF_PEER, NAMED = 8, 4, 2, 12


def parser(doc):
    """Arguments of this program and networks_accuracy.py."""
    ap = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--json", help="write the numbers here, too")
    ap.add_argument("--dir", default=os.path.join(ROOT, "build", "models"))
    ap.add_argument("--inlay", default=os.path.join(ROOT, "build", "release", "bin", "inlay"))
    ap.add_argument("--option", action="append", default=[], help="a session option for all of inlay's runs")
    ap.add_argument("--no-peer", action="store_true", help="without ONNX Runtime")
    return ap


def checked(ap):
    """Parses the arguments and installs ONNX Runtime if it is missing."""
    args = ap.parse_args()
    if not os.path.exists(args.inlay):
        sys.exit(f"{args.inlay} does not exist: build it first, or name it with --inlay")
    if not args.no_peer and not os.path.exists(os.path.join(args.dir, "peer", "ort_bench")):
        subprocess.run(["bash", os.path.join(ROOT, "tests", "models", "peer", "setup.sh"),
                        os.path.join(args.dir, "peer")], check=True, stdout=sys.stderr)
    return args


def keep(args, rows):
    if args.json:
        with open(args.json, "w") as f:
            json.dump(rows, f, indent=1)


# ----------------------------------------------------------------- engines
def engines_of(args, cache):
    """(name, function of model, inputs and outputs that returns a message if it fails)"""
    common = ["--intra-threads", str(args.threads), "--cache-dir", cache]
    common += [x for o in args.option for x in ("--option", o)]

    def inlay(*more):
        return lambda model, got, out: models.run(args.inlay, model, got, out, [*common, *more])

    def ort(model, got, out):
        os.makedirs(out, exist_ok=True)
        peer = os.path.join(args.dir, "peer")
        ran = subprocess.run([os.path.join(peer, "ort_bench"), os.path.join(peer, "libonnxruntime.so.1"), model,
                              "--threads", str(args.threads), "--seconds", "0", "--runs", "1", "--warmup", "0",
                              "--inputs", got, "--outputs", out], capture_output=True, text=True, check=False)
        return "" if ran.returncode == 0 else (ran.stderr or ran.stdout).strip().splitlines()[-1]

    out = [(name, inlay("--precision", value)) for name, value in
           (("default", "f32"), ("strict", "strict"), ("fast", "fast"))]
    return out if args.no_peer else [*out, ("ort", ort)]


# ----------------------------------------------------------------- errors
def figures_of(layer, got):
    """Computes the numbers of one result."""
    if got.shape != layer.exact.shape:
        return {"fault": f"has the shape {list(got.shape)}"}
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        inside = np.isfinite(layer.exact.astype(np.float32))  # results that overflow may be infinite
        if not np.isfinite(got[inside]).all():
            return {"fault": "is not finite"}
        error = np.abs(got.astype(np.float64) - layer.exact)[inside]
        exact, scale = np.abs(layer.exact[inside]), layer.scale[inside]
        counted = np.maximum(error - layer.terms * SMALLEST / 2, 0)
        part = np.where(counted > 0, counted / scale, 0)
    rms = math.sqrt(np.mean(error ** 2)) / (math.sqrt(np.mean(exact ** 2)) or 1)
    return {"largest": float(error.max() / (exact.max() or 1)), "rms": rms, "part": float(part.max() / EPS),
            "part_root": float(part.max() / EPS / math.sqrt(layer.terms)), "error": float(error.max())}


def verdict(layer, figures, plain):
    """Returns whether the bound holds, as a word."""
    if "fault" in figures:
        return "BROKEN: " + figures["fault"]
    if layer.integers:
        return "exact" if figures["error"] == 0 else "BROKEN: not exact"
    most = max(FACTOR * math.sqrt(layer.terms), OF_PLAIN * plain["part"])
    return "holds" if figures["part"] <= most else f"BROKEN: {figures['part'] / most:.2g} times the bound"


def beside_peer(figures, peer):
    """Applies the comparison with ONNX Runtime to a verdict."""
    far = max(figures.get("part", 0), 1) / max(peer.get("part", 0), 1)
    return figures["bound"] if "fault" in peer or far <= OF_PEER else f"BROKEN: {far:.2g} times ONNX Runtime's"


def measure(layer, engines, work):
    model, inputs = os.path.join(work, "layer.onnx"), os.path.join(work, "in")
    os.makedirs(inputs, exist_ok=True)
    for file in os.listdir(inputs):
        os.unlink(os.path.join(inputs, file))
    onnx.save(layer.model(), model)
    for name, x in layer.feeds.items():
        np.save(os.path.join(inputs, models.file_name(name)), np.ascontiguousarray(x))
    row = {"layer": layer.name, "terms": layer.terms, "plain": figures_of(layer, layer.plain)}
    for name, run in engines:
        out = os.path.join(work, name)
        wrong = run(model, inputs, out)
        row[name] = {"fault": wrong} if wrong else figures_of(layer, np.load(os.path.join(out, "y.npy")))
        row[name]["bound"] = verdict(layer, row[name], row["plain"])
    if "ort" in row and not row["strict"]["bound"].startswith("BROKEN"):
        row["strict"]["bound"] = beside_peer(row["strict"], row["ort"])
    return row


# ----------------------------------------------------------------- output
def cell(f):
    return "fails" if "fault" in f else \
        f"{f['largest']:.1e} {f['rms']:.1e} {f['part']:.2g} {f['part_root']:.2g}"


def line_of(row, names):
    words = [row["layer"], str(row["terms"]), *(cell(row[n]) for n in ("plain", *names)), row["default"]["bound"],
             row["strict"]["bound"]]
    return "| " + " | ".join(words) + " |"


def summary(rows, names):
    for name in names:
        broken = [r["layer"] for r in rows if r[name]["bound"].startswith("BROKEN")]
        print(f"{name}: {len(rows) - len(broken)} of {len(rows)} layers hold"
              + ("; not: " + ", ".join(broken[:NAMED]) + (" ..." if len(broken) > NAMED else "") if broken else ""))
    for name in names[:-1] if "ort" in names else ():
        far = sorted((max(r[name]["part"], 1) / max(r["ort"]["part"], 1), r["layer"]) for r in rows
                     if "fault" not in r[name] and "fault" not in r["ort"])[::-1]
        if far:
            print(f"{name} / ONNX Runtime, error of an element over its terms (at least eps): geometric mean "
                  f"{np.exp(np.mean(np.log([f for f, _ in far]))):.2f}; worst: "
                  + "; ".join(f"{f:.3g} ({n})" for f, n in far[:5]))


def main():
    ap = parser(__doc__)
    ap.add_argument("--only", default="", help="layers whose names have this in them")
    ap.add_argument("--seed", type=int, default=1)
    args = checked(ap)
    rows = []
    with tempfile.TemporaryDirectory() as work:
        engines = engines_of(args, os.path.join(work, "cache"))
        names = [n for n, _ in engines]
        print("| layer | K | plain sum | " + " | ".join(names) + " | default | strict |\n" +
              "|---|---|---|" + "---|" * (len(names) + 2))
        for layer in hard_layers.layers(args.seed, args.only):
            rows.append(measure(layer, engines, work))
            print(line_of(rows[-1], names), flush=True)
    if not rows:
        sys.exit(f"accuracy.py: --only {args.only}: no layer has that in its name")
    print()
    summary(rows, names)
    keep(args, rows)
    sys.exit(any(r[n]["bound"].startswith("BROKEN") for r in rows for n in ("default", "strict")))


if __name__ == "__main__":
    main()
