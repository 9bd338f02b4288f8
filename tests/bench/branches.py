#!/usr/bin/env python3
"""Concurrent branches of one run: option inter_threads, on models of several learners with the same features.

    branches.py [--inlay FILE] [--threads N] [--rounds N] [--seconds S]

Each model is timed with inter_threads 1 (sequential), 0 (measured choice) and N, interleaved, N rounds of S seconds
each; the minimum time of all rounds is printed. `gain` is the time of 1 / that of 0."""
import argparse
import json
import os
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper

import operator_rows

HERE = os.path.dirname(os.path.abspath(__file__))
INLAY = os.path.join(HERE, "..", "..", "build", "release", "bin", "inlay")
ML = operator_rows.ML


def forest(i, trees, depth):
    made = operator_rows.trees(trees, depth, 100, 1, "TreeEnsembleRegressor")
    made["target_weights"] = made["target_weights"] * np.float32(1 + i / 8)  # all different
    return helper.make_node("TreeEnsembleRegressor", ["x"], [f"t{i}"], domain=ML, **made)


def machine(i, count):
    rng = np.random.default_rng(i)
    return helper.make_node("SVMRegressor", ["x"], [f"s{i}"], domain=ML, kernel_type="RBF",
                            kernel_params=np.array([0.02, 0, 3], np.float32), n_supports=count,
                            coefficients=rng.standard_normal(count).astype(np.float32), rho=np.zeros(1, np.float32),
                            support_vectors=rng.standard_normal(count * 100).astype(np.float32))


def stacked(learners):
    """Learners of the same features, combined by a linear one."""
    outputs = [n.output[0] for n in learners]
    joined = [helper.make_node("Concat", outputs, ["c"], axis=1),
              helper.make_node("LinearRegressor", ["c"], ["y"], domain=ML, targets=1,
                               coefficients=np.ones(len(outputs), np.float32))]
    graph = helper.make_graph([*learners, *joined], "stacked", [helper.make_tensor_value_info("x", T.FLOAT, ["n", 100])],
                              [helper.make_tensor_value_info("y", T.FLOAT, ["n", 1])])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)])
    made.ir_version = 8
    return made


MODELS = {
    "2 forests, 300 trees": lambda: stacked([forest(i, 300, 7) for i in range(2)]),
    "4 forests, 300 trees": lambda: stacked([forest(i, 300, 7) for i in range(4)]),
    "4 machines, 2000 supports": lambda: stacked([machine(i, 2000) for i in range(4)]),
    "a large and a small forest": lambda: stacked([forest(0, 1000, 7), forest(1, 50, 5)]),
    "4 small forests": lambda: stacked([forest(i, 10, 4) for i in range(4)]),
}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--inlay", default=INLAY)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=7)
    ap.add_argument("--seconds", type=float, default=0.2)
    args = ap.parse_args()
    print("| model | rows | sequential us | inter_threads 0 us | "
          f"inter_threads {args.threads} us | gain |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, make in MODELS.items():
            path = os.path.join(folder, "m.onnx")
            onnx.save(make(), path)
            for rows in (1, 100):
                least = {}
                for _ in range(args.rounds):
                    for inter in (1, 0, args.threads):
                        ran = subprocess.run([args.inlay, "bench", path, "--json", "--dim", f"n={rows}", "--intra-threads",
                                              str(args.threads), "--inter-threads", str(inter), "--seconds",
                                              str(args.seconds)], capture_output=True, text=True, check=True)
                        took = json.loads(ran.stdout)["min_ms"] * 1e3
                        least[inter] = min(took, least.get(inter, took))
                print(f"| {name} | {rows} | {least[1]:.1f} | {least[0]:.1f} | {least[args.threads]:.1f} | "
                      f"{least[1] / least[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
