#!/usr/bin/env python3
"""Latency on a busy machine: other processes compute on the same CPUs while models run on inlay and on ONNX Runtime.

busy.py [--models NAME|FILE.onnx,...] [--threads N] [--busy N] [--rounds N] [--seconds S] [--inlay FILE,...] [--dir DIR]

--busy N starts N endless loops; 0 measures the machine as it is. --inlay: builds of bin/inlay, to compare several. The
engines alternate, as in compare.sh, whose models and folders are used. Prints the medians over rounds of the median,
the 95th and the 99th percentile of a run, and below them the highest of a round."""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

import compare

MODELS = ("mobilenet_v2,resnet18,squeezenet1_1,shufflenet_v2,mnasnet1_0,regnet_y_400mf,vit_small,transformer_encoder,"
          "gpt2_tiny_kv,face_detector")
FIGURES = ("median_ms", "p95_ms", "p99_ms")


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--models", default=MODELS)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--busy", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=3)
    ap.add_argument("--inlay", default=os.path.join(compare.ROOT, "build", "release", "bin", "inlay"))
    ap.add_argument("--dir", default=os.path.join(compare.ROOT, "build", "models"))
    args = ap.parse_args()
    args.inlays = args.inlay.split(",")
    args.providers, args.grow, args.sid, args.batch, args.peer = "", [], False, 1, ["ort"]
    return args


def time_round(args, engine, model, inputs):
    """engine: a build of inlay, or ort. Ends the script if the model fails."""
    if engine != "ort":
        args.inlay = engine
    report = compare.time_engine(args, "ort" if engine == "ort" else "inlay", model, inputs, args.threads, args.seconds)
    if isinstance(report, str):
        sys.exit(f"{model[0]}: {report}")
    return report


def measure(args, name):
    """By engine, the reports of all rounds."""
    args.inlay = args.inlays[0]
    model = compare.find_model(args, name)
    rounds = {engine: [] for engine in (*args.inlays, "ort")}
    with tempfile.TemporaryDirectory() as work:
        inputs = os.path.join(work, "in")
        os.mkdir(inputs)
        compare.prepare_inputs(args, model[1], inputs)
        loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(args.busy)]
        try:
            for n in range(args.rounds):
                for engine in list(rounds)[::1 if n % 2 == 0 else -1]:
                    rounds[engine].append(time_round(args, engine, model, inputs))
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
    return model[0], rounds


def cells(reports, of):
    return " / ".join(f"{of([r[f] for r in reports]):.4g}" for f in FIGURES)


def main():
    args = arguments()
    compare.set_up(args)
    names = args.inlays if len(args.inlays) > 1 else ["inlay"]
    print(f"{compare.cpu_name()}, {os.cpu_count()} CPUs, {args.threads} threads, {args.busy} other processes; "
          f"{args.rounds} rounds of {args.seconds:g} s; milliseconds, p50 / p95 / p99\n")
    print("| model | " + " | ".join([*names, "ONNX Runtime"]) + " |\n|" + "---|" * (len(names) + 2))
    for name in args.models.split(","):
        shown, rounds = measure(args, name)
        print(f"| {shown} | " + " | ".join(cells(r, statistics.median) for r in rounds.values()) + " |")
        print("| highest round | " + " | ".join(cells(r, max) for r in rounds.values()) + " |", flush=True)


if __name__ == "__main__":
    main()
