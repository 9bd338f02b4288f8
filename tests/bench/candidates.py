#!/usr/bin/python3
"""Candidates for `inlay admit`, half of them faulty: whether a faulty one is admitted, and whether a model becomes slower.
    candidates.py INLAY FOLDER [--candidates N] [--only sound|faulty] [--seconds S] [--seed N]

FOLDER: with candidate.so and rival.so of tests/check, a fast or slow Softsign without or with one fault of candidate.c.
Each candidate is offered for three models: Softsign of 9,000 elements, of 40,000, and of both sizes. Each model then runs
for --seconds (0.5) with the certificate and without it, in turns, and the CPU time of a run is compared, which depends
less on other work than the time. A line for each candidate; the exit code is 1 if a faulty one was admitted, or if a
model with a certificate takes more than 1.03 times as much."""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

from onnx import TensorProto, helper, save

FEW, MANY, RIVAL = 9000, 40000, 20
SLACK = 1.03  # of two measurements
TURNS = 5


def write_models():
    def write(name, counts):
        nodes, inputs, outputs = [], [], []
        for i, count in enumerate(counts):
            inputs.append(helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [count]))
            outputs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, [count]))
            nodes += [helper.make_node("Softsign", [f"x{i}"], [f"a{i}"]), helper.make_node("Abs", [f"a{i}"], [f"b{i}"]),
                      helper.make_node("Softsign", [f"b{i}"], [f"y{i}"])]
        graph = helper.make_graph(nodes, "g", inputs, outputs)
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), name)
        return name
    return [write("few.onnx", [FEW]), write("many.onnx", [MANY]), write("both.onnx", [FEW, MANY])]


def candidates(rng, count):
    """Names of candidates: repeats for few and for many elements, and of every second one a fault."""
    source = (pathlib.Path(__file__).parents[1] / "check/candidate.c").read_text(encoding="utf-8")
    faults = sorted(set(re.findall(r'has\("(\w+)"\)', source)))
    rng.shuffle(faults)
    for i in range(count):
        speeds = [rng.choice([1, 4, 10, 16, 19, 20, 21, 25, 60, 200]) for _ in range(2)]
        if i % 2:
            yield f"candidate_{rng.choice([1, 4])}_{rng.choice([1, 4])}_{faults[i // 2 % len(faults)]}"
        else:
            yield f"candidate_{speeds[0]}_{speeds[1]}"


def inlay(program, *words, codes=(0,)):
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=600)
    if done.returncode not in codes:
        sys.exit(f"inlay {' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def ratio(program, model, plain, certified, seconds):
    """The CPU time of the model with the certificate, relative to that without: the least of the turns."""
    times = {plain: [], certified: []}
    for _ in range(TURNS):
        for options in times:
            result = inlay(program, "bench", model, "--json", "--seconds", str(seconds / TURNS), *options)
            times[options].append(result["cpu_ms"])
    return min(times[certified]) / min(times[plain])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("inlay")
    parser.add_argument("folder")
    parser.add_argument("--candidates", type=int, default=60)
    parser.add_argument("--only", choices=["sound", "faulty"])
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    program, folder = os.path.abspath(args.inlay), os.path.abspath(args.folder)
    bad, admitted, worst = 0, {True: 0, False: 0}, 0
    with tempfile.TemporaryDirectory() as top:
        os.chdir(top)
        os.environ.update(INLAY_PROVIDERS="candidate?,rival,reference",
                          INLAY_INTRA_THREADS="1", INLAY_PROBE="never", INLAY_PLUGIN_DIRS=f"{folder}/rival.so",
                          INLAY_FORBID="op:Softsign=reference", XDG_CONFIG_HOME=f"{top}/none")
        models = write_models()
        for name in candidates(random.Random(args.seed), args.candidates):
            faulty = name.count("_") > 2
            if args.only == ("sound" if faulty else "faulty"):
                continue
            shutil.copy(f"{folder}/candidate.so", f"{name}.so")
            # the files are equal, so measurements of one would be taken for the others'
            os.environ["INLAY_CACHE_DIR"] = f"{top}/cache of {name}"
            result = inlay(program, "admit", f"{top}/{name}.so", *(w for m in models for w in ("--model", m)), "-o",
                           f"{name}.trust", "--quick", "--budget-s", "0.5", "--seconds", "0.3", "--json", codes=(0, 1))
            line = "admitted" if result["admitted"] else result["failure"][:90] or "not faster"
            if result["admitted"]:
                admitted[faulty] += 1
                options = ("--plugin-dirs", f"{top}/{name}.so:{folder}/rival.so", "--trust", f"{name}.trust")
                ratios = [ratio(program, model, (), options, args.seconds) for model in models]
                worst = max(worst, *ratios)
                bad += faulty or max(ratios) > SLACK
                line += ": " + ", ".join(f"{m[:-5]} {r:.2f}" for m, r in zip(models, ratios))
            print(f"{name:32} {line}", flush=True)
    print(f"{args.candidates} candidates, {args.candidates // 2} of them faulty: {admitted[False]} sound and "
          f"{admitted[True]} faulty admitted; the largest CPU time with a certificate, relative to that without: {worst:.2f}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
