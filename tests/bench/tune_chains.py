#!/usr/bin/env python3
"""Checks that `inlay tune` makes no model slower: random chains of elementwise nodes, or models, before and after.

    tune_chains.py [--inlay FILE] [--count N] [--seed N] [--rounds N] [--seconds S] [--threads N] [--providers LIST]
                   [MODEL...]

Each chain has 2 to 9 nodes on a square of 64 to 1536 columns, and a separate cache folder. Runs before and after
alternate; the minimum of each counts, because other load only increases times. An apparent slowdown is measured four
times as often before it counts. Prints a line for each chain whose regions changed or that is slower by more than 2
%, and a summary. Exit status 1: one was slower by more than 2 %."""
import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from onnx_fields import block, number, value  # noqa: E402

UNARY = ["Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Exp", "Floor", "Sqrt"]
BINARY = ["Add", "Mul", "Sub", "Max"]


def chain(rng):
    """Returns the bytes of a model, and its description."""
    side, made, nodes, words = rng.choice([64, 256, 512, 1024, 1536]), ["x"], b"", []
    for i in range(rng.randint(2, 9)):
        op = rng.choice(UNARY + BINARY)
        reads = [made[-1]] + ([rng.choice(made)] if op in BINARY else [])
        made.append(f"v{i}")
        nodes += block(1, b"".join(block(1, r) for r in reads) + block(2, made[-1]) + block(4, op))
        words.append(op)
    graph = nodes + block(2, "chain") + block(11, value("x", (side, side))) + block(12, value(made[-1], (side, side)))
    return number(1, 8) + block(8, number(2, 17)) + block(7, graph), f"{side}: {' '.join(words)}"


def run(inlay, *args):
    done = subprocess.run([inlay, *args], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(args)}: {done.stdout}{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inlay", default=str(ROOT / "build/release/bin/inlay"))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.06)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--providers", default="")
    parser.add_argument("models", nargs="*")
    a = parser.parse_args()
    rng, work = random.Random(a.seed), pathlib.Path(tempfile.mkdtemp())
    slower, changed, faster, dropped = 0, 0, 0, 0
    try:
        for i in range(len(a.models) or a.count):
            model, cache = work / "chain.onnx", [work / f"before{i}", work / f"after{i}"]
            if a.models:
                model = words = a.models[i]
            else:
                data, words = chain(rng)
                model.write_bytes(data)
            flags = [str(model), "--intra-threads", str(a.threads)]
            flags += ["--providers", a.providers] if a.providers else []
            for c in cache:
                c.mkdir()
            tuned = json.loads(run(a.inlay, "tune", *flags, "--cache-dir", str(cache[1]), "--json"))
            plans = [json.loads(run(a.inlay, "partition", *flags, "--cache-dir", str(c), "--json")) for c in cache]
            regions = [[(o["provider"], o["nodes"]) for g in p["graphs"] for o in g["offers"]] for p in plans]
            best = [float("inf"), float("inf")]
            for r in range(4 * a.rounds):
                if r >= a.rounds and best[1] <= 1.02 * best[0]:
                    break
                for k in (0, 1) if r % 2 == 0 else (1, 0):
                    best[k] = min(best[k], json.loads(run(a.inlay, "bench", *flags, "--cache-dir", str(cache[k]),
                                                          "--seconds", str(a.seconds), "--json"))["min_ms"])
            ratio = best[1] / best[0]
            changed += regions[0] != regions[1]
            dropped += bool(tuned["dropped"])
            slower += ratio > 1.02
            faster += ratio < 0.98
            if ratio > 1.02 or regions[0] != regions[1]:
                print(f"{ratio:6.3f}  {best[0]:.4f} -> {best[1]:.4f} ms  "
                      f"{'other regions' if regions[0] != regions[1] else 'same regions '}  "
                      f"{'dropped' if tuned['dropped'] else '':7}  {words}", flush=True)
            for c in cache:
                shutil.rmtree(c)
    finally:
        shutil.rmtree(work)
    print(f"{len(a.models) or a.count} {'models' if a.models else 'chains'}: {changed} with other providers, {dropped} dropped, {faster} faster and {slower} slower by more "
          "than 2 %")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
