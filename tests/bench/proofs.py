#!/usr/bin/python3
"""Committed runs: whether all regions hold, and whether `inlay verify-run` finds bits that are flipped in them.
    proofs.py INLAY [--models N | --model FILE...] [--regions N[,N...]] [--flips N] [--seed N] [--verifier COMMAND]

COMMAND: inlay on another architecture, in an emulator, which verifies the runs. Models are those of tests/lock/proof.py and
tests/lock/crossing.py, alternately, or the FILES. For each model and each number of regions all regions are checked; none may
fail. Each flip then changes one bit of a float tensor that leaves a region, chosen at random with its element and bit; the
machine continues the run with it, and writes the proof of that run. `verify-run --region random` checks one region: it has
to find the flip if and only if that is the region that was computed wrongly. Prints how many were found, how many were
expected to be, and the false alarms; the exit code is 1 if a check was wrong."""
import argparse
import json
import math
import os
import pathlib
import random
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lock"))


def commits(args):
    """Makes the proofs one after another; their models and numbers of regions. Models that cannot be committed are named."""
    for number in range(len(args.model) or args.models):
        seed, path, sizes = args.seed * 1000 + number, "m.onnx", ["--dim", "batch?=2", "--dim", "tokens?=5"]
        if args.model:
            path, sizes = args.model[number], []
        elif number % 2:
            crossing(seed)
        else:
            generated(seed)
        for regions in args.regions:
            shutil.rmtree("run.proof", ignore_errors=True)
            done = inlay("run", path, *sizes, "--commit", "run.proof", "--regions", str(regions), "--seed", str(seed), "--json",
                         codes=(0, 2, 3, 4))
            if done.returncode == 0:
                yield path, json.loads(done.stdout)["commit"]["regions"]
            else:
                print(f"{path} in {regions} regions is not committed: {(done.stderr or done.stdout).strip()[-200:]}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("inlay")
    parser.add_argument("--model", nargs="*", default=[], type=os.path.abspath)
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--regions", default=[8], type=lambda text: [int(number) for number in text.split(",")])
    parser.add_argument("--flips", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verifier", type=str.split)
    args = parser.parse_args(sys.argv[1:])
    choose = random.Random(args.seed)
    proofs = checks = found = flips = missed = false_alarms = 0
    expected = variance = 0.
    each = -(-args.flips // ((len(args.model) or args.models) * len(args.regions)))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for path, regions in commits(args):
            wrong, checked = failing(args.verifier, None)
            proofs += 1
            checks += len(checked)
            false_alarms += len(wrong)
            if wrong:
                print(f"{path}: {wrong} of {regions} regions fail without a fault", flush=True)
            right = pathlib.Path("run.proof/proof.json").read_bytes()
            names = leaving() if each > 0 and not wrong else []
            able = [region for region, leave in enumerate(names) if leave]
            for _ in range(each if able else 0):
                region = choose.choice(able)
                plant(region, names[region], choose)
                done = inlay("verify-run", "run.proof", "--json", codes=(0, 1), command=args.verifier)
                check = json.loads(done.stdout)["checked"][0]
                flips += 1
                expected += 1 / regions
                variance += (1 - 1 / regions) / regions
                found += not check["holds"]
                missed += check["holds"] and check["region"] == region
                false_alarms += not check["holds"] and check["region"] != region
                restore(right)
        os.chdir("/")
    print(f"{proofs} proofs, {checks} regions checked; {flips} flips: {found} found by one random region (expected "
          f"{expected:.0f} +- {2 * math.sqrt(variance):.0f}), {missed} missed in the region that was checked, {false_alarms} "
          "false alarms")
    return 1 if missed or false_alarms or proofs == 0 else 0


if __name__ == "__main__":
    from crossing import crossing
    from proof import failing, generated, inlay, leaving, plant, restore
    sys.exit(main())
