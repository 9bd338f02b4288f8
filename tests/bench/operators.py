#!/usr/bin/env python3
"""Single operators at sizes of real models, compared with ONNX Runtime.

    operators.py [--match GLOB[,GLOB...] | --drawn N[:SEED]] [--peer DIR] [--threads N] [--rounds N] [--seconds S]
                 [--json FILE]

The rows are those of operator_rows.py, or N random ones of drawn_rows.py. Each is a model of one node. The engines
alternate, N rounds of S seconds each; the minimum time over all rounds is printed, so that other load has little
effect. `ratio` is ONNX Runtime's time / inlay's. Outputs are compared once. --list prints the names of the rows;
--providers restricts inlay's providers; --env NAME=VALUE sets a variable for both. DIR contains ort_bench and
libonnxruntime.so.1, installed by tests/models/peer/setup.sh."""
import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(HERE, "..", "models"))
import check_models as models  # noqa: E402
import drawn_rows  # noqa: E402
import operator_rows  # noqa: E402

NUMBERS = {"f32": T.FLOAT, "f64": T.DOUBLE, "f16": T.FLOAT16, "i64": T.INT64, "i32": T.INT32, "u8": T.UINT8,
           "i8": T.INT8, "bool": T.BOOL, "str": T.STRING}
TOLERANCE = {"f16": (2e-2, 2e-2)}


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--match", default="*", help="rows whose name matches one of these, as 'Softmax*,*u8*'")
    ap.add_argument("--peer", default=os.path.join(ROOT, "build", "models", "peer"))
    ap.add_argument("--inlay", default=os.path.join(ROOT, "build", "release", "bin", "inlay"))
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=0.1)
    ap.add_argument("--providers", default="")
    ap.add_argument("--env", action="append", default=[])
    ap.add_argument("--json")
    ap.add_argument("--rows", default="", help="JSON files of earlier runs: print these, measure nothing")
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--drawn", metavar="N[:SEED]", help="N random operators of random sizes (drawn_rows.py)")
    return ap.parse_args()


# ----------------------------------------------------------------- models
def model_of(row, folder):
    """Writes the model and its inputs below folder; returns the model's path."""
    rng = np.random.default_rng(len(row.name))
    names, inputs, constants = [], [], []
    os.makedirs(os.path.join(folder, "in"))
    for i, text in enumerate(row.inputs):
        names.append(f"x{i}" if text else "")
        if not text:
            continue
        array = operator_rows.draw(text, rng)
        if text.startswith("="):
            constants.append(numpy_helper.from_array(array, names[i]))
        else:
            np.save(os.path.join(folder, "in", names[i] + ".npy"), array)
            inputs.append(helper.make_tensor_value_info(names[i], NUMBERS[operator_rows.type_of(text)], array.shape))
    attributes = dict(row.attributes)
    attributes.update(attributes.pop("make", dict)())
    if row.op == "Cast":
        attributes["to"] = NUMBERS[attributes["to"]]
    outputs = [f"y{i}" if kind else "" for i, kind in enumerate(row.outputs)]
    node = helper.make_node(row.op, names, outputs, domain=row.domain, **attributes)
    shown = [helper.make_tensor_value_info(n, NUMBERS[k], None) for n, k in zip(outputs, row.outputs) if n]
    imports = [helper.make_opsetid("", row.opset)]
    if row.domain:
        imports.append(helper.make_opsetid(row.domain, 3 if row.domain == operator_rows.ML else 1))
    made = helper.make_model(helper.make_graph([node], "row", inputs, shown, constants), opset_imports=imports)
    made.ir_version = 8
    path = os.path.join(folder, "model.onnx")
    onnx.save(made, path)
    return path


# ----------------------------------------------------------------- engines
def last_json(command, env):
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if ran.returncode != 0 or "{" not in ran.stdout:
        return ((ran.stderr or ran.stdout).strip().splitlines() or [f"exit {ran.returncode}"])[-1]
    return json.loads(ran.stdout[ran.stdout.index("{"):])


def commands(args, path, folder):
    """The command that times each engine, without the number of seconds."""
    inputs = os.path.join(folder, "in")
    flags = ["--intra-threads", str(args.threads), "--cache-dir", os.path.join(folder, "cache")]
    flags += ["--providers", args.providers] if args.providers else []
    peer = [os.path.join(args.peer, "ort_bench"), os.path.join(args.peer, "libonnxruntime.so.1"), path, "--threads",
            str(args.threads), "--inputs", inputs]
    return {"inlay": [args.inlay, "bench", path, "--json", "--inputs", inputs, *flags], "ort": peer}, flags


def agree(args, row, path, folder, peer, flags, env):
    """Returns `yes`, or the difference."""
    got, want = os.path.join(folder, "got"), os.path.join(folder, "want")
    os.makedirs(want, exist_ok=True)
    report = last_json([*peer, "--seconds", "0", "--warmup", "0", "--outputs", want], env)
    if isinstance(report, str):
        return report
    wrong = models.run(args.inlay, path, os.path.join(folder, "in"), got, flags)
    if wrong:
        return wrong
    for file in sorted(os.listdir(want)):
        a, b = (np.atleast_1d(np.load(os.path.join(d, file))) for d in (got, want))
        if a.dtype == np.uint8 and a.shape == b.shape:  # a step of rounding
            far = float(np.abs(a.astype(int) - b).max())
        else:
            kind = "f16" if any(t and "f16" in t for t in row.inputs) else ""
            far = models.distance(a, b, TOLERANCE.get(kind, models.DEFAULT))
        if isinstance(far, str) or far > 1:
            return f"{file} {far}" if isinstance(far, str) else f"{file} off by {far:.3g} tolerances"
    return "yes"


def measure(args, row):
    env = dict(os.environ, **dict(e.split("=", 1) for e in args.env))
    with tempfile.TemporaryDirectory() as folder:
        path = model_of(row, folder)
        engines, flags = commands(args, path, folder)
        out = {"row": row.name}
        for _ in range(args.rounds):
            for name, command in engines.items():
                report = last_json([*command, "--seconds", str(args.seconds)], env)
                if isinstance(report, str):
                    return {**out, name: report}
                best = out.setdefault(name, {"min_ms": 1e30, "create_ms": 1e30, "peak_mb": 1e30})
                for key in best:
                    best[key] = min(best[key], report[key])
                if "predicted_ms" in report:
                    best["predicted_ms"] = report["predicted_ms"]
        return {**out, "agree": agree(args, row, path, folder, engines["ort"], flags, env)}


# ----------------------------------------------------------------- output
def ratio(report):
    if isinstance(report.get("inlay"), dict) and isinstance(report.get("ort"), dict):
        return report["ort"]["min_ms"] / report["inlay"]["min_ms"]
    return None


def line_of(report):
    """A row of the table."""
    own, peer, times = report.get("inlay"), report.get("ort"), ratio(report)
    if times is None:
        what = own if isinstance(own, str) else f"ONNX Runtime: {peer}"
        return f"| {report['row']} | | | | | {what} |"
    return (f"| {report['row']} | {own['min_ms'] * 1e3:.1f} | {peer['min_ms'] * 1e3:.1f} | {times:.2f} | "
            f"{own.get('predicted_ms', 0) * 1e3:.1f} | {report['agree']} |")


def main():
    args = arguments()
    globs = args.match.split(",")
    count, _, seed = (args.drawn or "").partition(":")
    rows = drawn_rows.rows(int(count), int(seed or 1)) if args.drawn else operator_rows.rows()
    chosen = [r for r in rows if any(fnmatch.fnmatch(r.name, g) for g in globs)]
    if args.list:
        print("\n".join(r.name for r in chosen))
        return
    print("| row | inlay us | ONNX Runtime us | ratio | predicted us | outputs agree |\n|---|---|---|---|---|---|")
    results = []
    if args.rows:
        for path in args.rows.split(","):
            with open(path) as f:
                results += json.load(f)
        print("\n".join(line_of(r) for r in results))
    else:
        for row in chosen:
            results.append(measure(args, row))
            print(line_of(results[-1]), flush=True)
    ratios = [r for r in map(ratio, results) if r is not None]
    if ratios:
        print(f"\nONNX Runtime / inlay: geometric mean {np.exp(np.mean(np.log(ratios))):.2f}, least {min(ratios):.2f}, "
              f"{sum(r < 0.95 for r in ratios)} of {len(ratios)} below 0.95")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
