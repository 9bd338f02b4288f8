#!/usr/bin/env python3
"""Two commits compared on single layers, interleaved; run before merges that touch providers/cpu.

    commits.py [--match GLOB[,GLOB...]] [--threads N] [--rounds N] [--seconds S] [--build DIR] BEFORE [AFTER]

Builds both commits (AFTER: HEAD by default) below DIR, unless they are built there already, and runs the rows of
commit_rows() in pairs, in alternating order, N rounds of S seconds each. A row is a layer alone or between two
convolutions, whose layout it then has; there the time of the layer is that of `inlay profile`. The medians of all
rounds are printed. `ratio` is the time of BEFORE / that of AFTER; below 0.97, the exit status is 1. --list prints the
names of the rows."""
import argparse
import fnmatch
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
LEAST = 0.97


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="*", metavar="COMMIT")
    parser.add_argument("--match", default="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "commits"))
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if not args.list and len(args.commits) not in (1, 2):
        parser.error("one or two commits are needed")
    return args


# ----------------------------------------------------------------- rows
class Row:
    """A layer of one input. between: it runs between two convolutions."""

    def __init__(self, op, size, between, **attributes):
        what = "x".join(map(str, attributes.get("kernel_shape", ())))
        what += f" stride {attributes['strides'][0]}" if "strides" in attributes else ""
        what += " padded" if "pads" in attributes else ""
        self.name = " ".join(filter(None, [op, what, "x".join(map(str, size)), "in a region" if between else ""]))
        self.op, self.size, self.between, self.attributes = op, size, between, attributes


def commit_rows():
    pools = (((64, 112), {"kernel_shape": [3, 3], "strides": [2, 2]}),
             ((64, 56), {"kernel_shape": [2, 2], "strides": [2, 2]}),
             ((192, 35), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
             ((256, 8), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
             ((64, 14), {"kernel_shape": [7, 7]}))
    for between in (False, True):
        for op in ("AveragePool", "MaxPool"):
            for size, attributes in pools:
                yield Row(op, size, between, **attributes)
        for op in ("GlobalAveragePool", "GlobalMaxPool"):
            yield Row(op, (256, 14), between)


def model_of(row, path):
    channels, side = row.size
    outer = 16 if row.between else channels
    random = np.random.default_rng(0)
    nodes, constants = [helper.make_node(row.op, ["b" if row.between else "x"], ["c" if row.between else "y"],
                                         **row.attributes)], []
    if row.between:
        for name, dims in (("v", [channels, outer, 1, 1]), ("w", [outer, channels, 1, 1])):
            constants.append(numpy_helper.from_array((random.standard_normal(dims) / 8).astype(np.float32), name))
        nodes = [helper.make_node("Conv", ["x", "v"], ["b"]), *nodes, helper.make_node("Conv", ["c", "w"], ["y"])]
    graph = helper.make_graph(nodes, "row", [helper.make_tensor_value_info("x", T.FLOAT, [1, outer, side, side])],
                              [helper.make_tensor_value_info("y", T.FLOAT, None)], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    onnx.save(made, path)


# ----------------------------------------------------------------- commits
def built(args, commit):
    """Builds the commit; returns its name and its program."""
    name = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "--verify", commit + "^{commit}"],
                          capture_output=True, text=True, check=True).stdout.strip()
    source = os.path.join(os.path.abspath(args.build), name)
    program = os.path.join(source, "build", "release", "bin", "inlay")
    if not os.path.exists(program):
        if not os.path.exists(source):
            subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", source, name], check=True,
                           stdout=sys.stderr)
        for command in (["cmake", "--preset", "release", "-B", "build/release", "-DINLAY_TESTS=OFF"],
                        ["cmake", "--build", "build/release", "--target", "cpu", "reference", "inlay_cli"]):
            subprocess.run(command, cwd=source, check=True, stdout=sys.stderr)
    return name, program


def time_of(args, program, row, path, cache):
    """Microseconds of the layer in one round."""
    flags = ["--json", "--providers", "cpu,reference", "--intra-threads", str(args.threads), "--cache-dir", cache,
             "--seconds", str(args.seconds)]
    ran = subprocess.run([program, "profile" if row.between else "bench", path, *flags], capture_output=True, text=True,
                         check=True)
    report = json.loads(ran.stdout[ran.stdout.index("{"):])
    if row.between:
        return sum(s["ns"] for s in report["steps"] if s["op"] == row.op and s["leaf"]) / 1e3
    return report["median_ms"] * 1e3


def main():
    args = arguments()
    rows = [r for r in commit_rows() if any(fnmatch.fnmatch(r.name, g) for g in args.match.split(","))]
    if args.list:
        print("\n".join(r.name for r in rows))
        return 0
    sides = [built(args, commit) for commit in [*args.commits, "HEAD"][:2]]
    slower = 0
    print(f"| row | {sides[0][0]} us | {sides[1][0]} us | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        for row in rows:
            model_of(row, path)
            times = ([], [])
            for turn in range(args.rounds):
                for side in ((0, 1), (1, 0))[turn % 2]:
                    times[side].append(time_of(args, sides[side][1], row, path, os.path.join(folder, str(side))))
            before, after = map(statistics.median, times)
            slower += before / after < LEAST
            print(f"| {row.name} | {before:.1f} | {after:.1f} | {before / after:.2f} |", flush=True)
    print(f"\n{slower} of {len(rows)} rows below {LEAST}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
