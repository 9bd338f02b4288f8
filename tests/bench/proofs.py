#!/usr/bin/python3
"""Bits that are flipped in committed runs, and whether `inlay verify-run` finds them.
    proofs.py INLAY LIBRARY [--flips N] [--models N] [--regions N] [--seed N] [--verifier COMMAND]

LIBRARY: libinlay.so.1; COMMAND: inlay on another architecture, in an emulator, which verifies the runs. Models are those
of tests/lock/proof.py. Each flip changes one bit of a tensor that leaves a region, chosen at random with its element and
bit; the machine goes on computing from there, and writes the proof of that run. `verify-run --region random` then checks
one region: it has to find the flip if and only if that is the region that was computed wrongly. Prints how many were
found, how many were expected to be, and the false alarms; the exit code is 1 if a check was wrong."""
import argparse
import json
import math
import os
import pathlib
import random
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lock"), str(HERE.parents[1] / "sdk/bindings/python")]


class Run:
    """A committed run of a generated model, and sessions of its regions."""

    def __init__(self, seed, regions):
        generated(seed)
        self.seed, self.regions = seed, regions
        inlay("run", "m.onnx", "--dim", "batch=2", "--commit", "run.proof", "--regions", str(regions), "--seed", str(seed))
        inlay("extract", "m.onnx", "--split", str(regions), "-o", "stage.onnx")
        self.proof = json.loads(pathlib.Path("run.proof/proof.json").read_text(encoding="utf-8"))
        self.values = {name: np.load(f"run.proof/{tensor['sha256']}.npy")
                       for name, tensor in self.proof["tensors"].items()}
        self.stages = [library.Session(f"stage.{region}.onnx", reproducible="cpu") for region in range(regions)]

    def flip(self, choose):
        """Flips a bit, and computes the later regions from there. The region, and all tensors."""
        region = choose.randrange(self.regions)
        names = [n for n in self.stages[region].output_names if self.values.get(n, np.zeros(0)).dtype == np.float32]
        if not names:
            return self.flip(choose)
        values, name = dict(self.values), choose.choice(names)
        changed = values[name].copy()
        word = changed.reshape(-1).view(np.uint32)
        word[choose.randrange(word.size)] ^= np.uint32(1 << choose.randrange(32))
        if np.array_equal(changed, values[name], equal_nan=True) and not (changed == 0).any():
            return self.flip(choose)  # a bit of a NaN
        values[name] = changed
        for later in range(region + 1, self.regions):
            stage = self.stages[later]
            values |= stage.run({n: values[n] for n in stage.input_names if n in values})
        return region, {n: values[n] for n in self.proof["tensors"]}

    def commit(self, values):
        """Writes the proof of these tensors; the files that it adds."""
        proof, added = json.loads(json.dumps(self.proof)), []
        for name, tensor in proof["tensors"].items():
            tensor["sha256"] = digest(values[name])
            path = pathlib.Path(f"run.proof/{tensor['sha256']}.npy")
            if not path.exists():
                np.save(path, values[name])
                added.append(path)
        write_proof(proof)
        return added


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("inlay")
    parser.add_argument("library")
    parser.add_argument("--flips", type=int, default=10000)
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--regions", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verifier")
    args = parser.parse_args()
    verifier = args.verifier.split() if args.verifier else None
    choose = random.Random(args.seed)
    found = flips = missed = false_alarms = 0
    for model in range(args.models):
        run = Run(args.seed * 1000 + model, args.regions)
        for _ in range(args.flips // args.models):
            region, values = run.flip(choose)
            added = run.commit(values)
            done = inlay("verify-run", "run.proof", "--json", codes=(0, 1), command=verifier)
            checked = json.loads(done.stdout)["checked"][0]
            flips += 1
            found += not checked["holds"]
            missed += checked["holds"] and checked["region"] == region
            false_alarms += not checked["holds"] and checked["region"] != region
            for path in added:
                path.unlink()
    share = 1 / args.regions
    print(f"{flips} flips in {args.models} models of {args.regions} regions: {found} found by one random region "
          f"({100 * found / flips:.2f} %; expected {flips * share:.0f} +- {2 * math.sqrt(flips * share * (1 - share)):.0f}), "
          f"{missed} missed in the region that was checked, {false_alarms} false alarms")
    return 1 if missed or false_alarms else 0


if __name__ == "__main__":
    os.environ["INLAY_LIBRARY"] = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else ""
    import numpy as np
    import inlay as library
    from proof import digest, generated, inlay, write_proof
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        code = main()
    sys.exit(code)
