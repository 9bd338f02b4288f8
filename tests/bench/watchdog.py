#!/usr/bin/env python3
"""Cost of option watchdog: `inlay bench` with and without it, alternately, in new processes.

  watchdog.py INLAY MODEL... [--rate 1%] [--rounds 5] [--seconds 6] [-- FLAG...]

Prints, for each model, the medians over the rounds of the median run (with the least run) and of the CPU time of a run,
with both settings, and their ratios."""
import argparse
import json
import statistics
import subprocess
import sys


def bench(args, model, rate):
    command = [args.inlay, "bench", model, "--json", "--quiet", "--no-config", "--seconds", str(args.seconds),
               "--watchdog", rate, "--watchdog-dir", "", *args.flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def main():
    given = sys.argv[1:]
    cut = given.index("--") if "--" in given else len(given)
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("inlay")
    flags.add_argument("models", nargs="+")
    flags.add_argument("--rate", default="1%")
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--seconds", type=float, default=6)
    args = flags.parse_args(given[:cut])
    args.flags = given[cut + 1:]
    for model in args.models:
        rows = {"0": [], args.rate: []}
        for _ in range(args.rounds):
            for rate, list_ in rows.items():
                list_.append(bench(args, model, rate))
        print(model)
        for field, unit in ("median_ms", "ms"), ("min_ms", "ms"), ("cpu_ms", "ms"):
            off, on = (statistics.median(row[field] for row in rows[rate]) for rate in ("0", args.rate))
            print(f"  {field:10} {off:10.4f} {unit} without, {on:10.4f} {unit} with watchdog {args.rate}: {on / off:.4f}")


main()
