#!/usr/bin/env python3
"""Nodes of models before and after the optimiser, compared with ONNX Runtime's, and whether the optimised model gives
the same results.

  node_counts.py [--dir DIR] [--inlay FILE] [--md FILE] [MODEL ...]

Models are those below DIR/torch and DIR/npm (default build/models, where tests/models/run.sh stores them), or files,
or parts of paths below DIR. The count includes the nodes of all graphs of the model, with bodies, without Constant; a
call of a function counts as one. Levels are those of both optimisers: 1 basic, 2 extended. `regions` is the number of
calls of providers in a run at level 99, because inlay fuses further within its providers.

Outputs of level 99 are compared with those of level 0, |a - b| <= 1e-4 * max(1, |b|), on the reference provider,
which computes a node independently of its neighbours, and on all providers. If these differ, the largest difference
is printed; with a * they agree without the pass quantized_ops, which sums integers exactly. It is followed by the
difference between ONNX Runtime's levels: in models that quantize computed values, a rounding difference may become a
whole step, so that levels agree only if no value is close to the border of a step."""
import argparse
import json
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


def nodes_of(graph):
    count = sum(n.op_type != "Constant" for n in graph.node)
    for node in graph.node:
        for a in node.attribute:
            count += nodes_of(a.g) if a.type == onnx.AttributeProto.GRAPH else sum(nodes_of(g) for g in a.graphs)
    return count


def count(path):
    return nodes_of(onnx.load(path, load_external_data=False).graph)


def last_line(ran):
    return ((ran.stderr or ran.stdout).strip().splitlines() or ["no output"])[-1]


def after_inlay(args, model, level, work):
    out = os.path.join(work, "inlay.onnx")
    ran = subprocess.run([args.inlay, "optimize", model, "-o", out, "--level", str(level), "--quiet"],
                         capture_output=True, text=True, check=False)
    return count(out) if ran.returncode == 0 else last_line(ran)


def after_ort(args, model, level, work):
    out = os.path.join(work, "ort.onnx")
    ran = subprocess.run([os.path.join(args.peer, "ort_bench"), os.path.join(args.peer, "libonnxruntime.so.1"), model,
                          "--level", str(level), "--save", out], capture_output=True, text=True, check=False)
    return count(out) if ran.returncode == 0 and os.path.exists(out) else "-"


def regions(args, model):
    ran = subprocess.run([args.inlay, "explain", model, "--json"], capture_output=True, text=True, check=False)
    return json.loads(ran.stdout)["regions"] if ran.returncode == 0 else "-"


def peer_difference(args, model, inputs, work):
    """Returns the largest difference between ONNX Runtime's levels 0 and 99."""
    out = {level: os.path.join(work, "peer-" + level) for level in ("0", "99")}
    for level, folder in out.items():
        os.makedirs(folder, exist_ok=True)
        ran = subprocess.run([os.path.join(args.peer, "ort_bench"), os.path.join(args.peer, "libonnxruntime.so.1"),
                              model, "--level", level, "--seconds", "0.01", "--inputs", inputs, "--outputs", folder],
                             capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            return last_line(ran)
    both = [[np.load(os.path.join(out[level], f)).astype(np.float64) for level in ("0", "99")]
            for f in sorted(os.listdir(out["0"]))]
    return f"{max((np.nanmax(np.abs(a - b)) for a, b in both if a.size), default=0):.1e}"


def difference(args, model, inputs, work, providers, extra=()):
    """Whether levels 0 and 99 agree, as text."""
    out = {level: os.path.join(work, "-".join((providers, level, *extra))) for level in ("0", "99")}
    for level, folder in out.items():
        wrong = models.run(args.inlay, model, inputs, folder,
                           ["--level", level, *(["--providers", providers] if providers else []), *extra])
        if wrong:
            return f"level {level}: {wrong}"
    worst, largest = 0.0, 0.0
    for file in sorted(os.listdir(out["0"])):
        want, got = np.load(os.path.join(out["0"], file)), np.load(os.path.join(out["99"], file))
        far = models.distance(got, want, (1e-4, 1e-4))
        if isinstance(far, str):
            return f"{file} {far}"
        worst = max(worst, far)
        if want.size and want.dtype.kind == "f":
            largest = max(largest, float(np.nanmax(np.abs(got.astype(np.float64) - want))))
    if worst <= 1:
        return "agree"
    report = f"{largest:.1e}" + ("" if providers or extra else f", ORT {peer_difference(args, model, inputs, work)}")
    if providers == "reference" and not extra and difference(args, model, inputs, work, providers,
                                                             ("--no-pass", "quantized_ops")) == "agree":
        return f"agree* ({report})"
    return f"off by {report}"


def find(args):
    found = []
    for folder in ("torch", "npm"):
        below = os.path.join(args.dir, folder)
        found += [os.path.join(d, f) for d, _, files in os.walk(below) for f in files
                  if f.endswith(".onnx") and "node_modules" not in d]
    listed = [m for m in args.models if os.path.isfile(m)]
    parts = [m for m in args.models if not os.path.isfile(m)]
    return listed + sorted(f for f in found if any(p in f for p in parts) or not args.models)


def name_of(args, model):
    name = os.path.relpath(model, args.dir)
    return os.path.basename(model) if name.startswith("..") else name.removesuffix("/model.onnx").split("/", 1)[1]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--dir", default=os.path.join(ROOT, "build", "models"))
    ap.add_argument("--inlay", default=os.path.join(ROOT, "build", "release", "bin", "inlay"))
    ap.add_argument("--peer")
    ap.add_argument("--md")
    ap.add_argument("models", nargs="*")
    args = ap.parse_args()
    args.peer = args.peer or os.path.join(args.dir, "peer")
    if not os.path.exists(os.path.join(args.peer, "ort_bench")):
        subprocess.run(["bash", os.path.join(ROOT, "tests", "models", "peer", "setup.sh"), args.peer], check=True)
    lines = ["| model | file | inlay 1 | ORT 1 | inlay 2 | ORT 2 | regions | on reference | on all |",
             "|---|---|---|---|---|---|---|---|---|"]
    wrong = []
    for model in find(args):
        with tempfile.TemporaryDirectory() as work:
            cells = [name_of(args, model), count(model)]
            for level in (1, 2):
                cells += [after_inlay(args, model, level, work), after_ort(args, model, level, work)]
            cells.append(regions(args, model))
            inputs = os.path.join(work, "in")
            os.mkdir(inputs)
            models.write_inputs(args.inlay, model, inputs, quiet=True)
            cells += [difference(args, model, inputs, work, p) for p in ("reference", "")]
        if not cells[-2].startswith("agree"):
            wrong.append(cells[0])
        lines.append("| " + " | ".join(str(c) for c in cells) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    print("\n".join(lines))
    if args.md:
        with open(args.md, "w") as f:
            f.write("\n".join(lines) + "\n")
    if wrong or len(lines) <= 2:
        sys.exit(f"no models, or outputs differ: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
