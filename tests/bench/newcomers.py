#!/usr/bin/env python3
"""Checks that a provider which is added makes no model slower: seven plug-ins, each with every model, before and after
`inlay tune`.

    newcomers.py [--inlay FILE] [--samples DIR] [--rounds N] [--seconds S] [--threads N] [--budget S]
                 [--plugins NAME,...] [--markdown FILE] DIR|MODEL.onnx...

Models are those below each DIR (tests/models/export_models.py exports them). The newcomers are the samples skeleton,
oxide, chip, xnnpack and moving_average (it has no operator of these models, so it must change nothing), beside all
installed providers; and openblas and onednn, each beside cpu, while --forbid excludes the other one. The order of the providers
is the default order, in which a newcomer comes after cpu, onednn and openblas. Runs without and with it alternate; a round gives the ratio of the shortest run of either,
because other load only increases times, and a cell is the median ratio of the rounds. A median above the bar is measured
four times as often. Then "!" marks a cell whose lower quartile is above the bar, too, and "?" one whose noise (half the
distance of the quartiles, printed with it) does not permit that conclusion. A cell says "=" where the newcomer changes
no region, so that there is nothing to measure. Before tune the bar is 10 %, after it 3 %; exit status 1: a cell has "!".
The load average of the machine is printed with each model."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEWCOMERS = {  # name: the installed providers that are excluded without it
    "skeleton": [],
    "oxide": [],
    "chip": [],
    "moving_average": [],
    "xnnpack": [],
    "openblas": ["onednn", "openblas"],
    "onednn": ["onednn", "openblas"],
}
BARS = {"before": 1.10, "after": 1.03}


class Failed(Exception):
    pass


def run(inlay, *args):
    done = subprocess.run([inlay, *map(str, args)], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed((done.stderr or done.stdout).strip().splitlines()[-1])
    return done.stdout


def flags_of(a, model, name, cache, with_newcomer):
    flags = [model, "--intra-threads", a.threads, "--cache-dir", cache]
    for excluded in NEWCOMERS[name]:
        if excluded != name or not with_newcomer:
            flags += ["--forbid", excluded]
    if not NEWCOMERS[name] and with_newcomer:
        flags += ["--plugin-dirs", pathlib.Path(a.samples) / f"{name}.so"]
    return flags


def plan_of(a, flags):
    plan = json.loads(run(a.inlay, "partition", *flags, "--json"))
    return [(o["provider"], o["nodes"]) for g in plan["graphs"] for o in g["offers"]]


def compare(a, without, with_newcomer, bar):
    """The ratios of the shortest runs of each round, with the newcomer to without; None: the same regions."""
    if plan_of(a, without) == plan_of(a, with_newcomer):
        return None
    ratios = []
    while len(ratios) < a.rounds or (len(ratios) < 4 * a.rounds and statistics.median(ratios) > bar):
        best = [0, 0]
        for k in (0, 1) if len(ratios) % 2 == 0 else (1, 0):
            result = run(a.inlay, "bench", *(without, with_newcomer)[k], "--seconds", a.seconds, "--json")
            best[k] = json.loads(result)["min_ms"]
        ratios.append(best[1] / best[0])
    return ratios


def text_of(ratios, bar):
    """The text of a comparison, and whether it is above the bar."""
    if ratios is None:
        return "=", False
    middle = statistics.median(ratios)
    if middle <= bar:
        return f"{middle:.2f}", False
    low, _, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.2f}±{(high - low) / 2:.2f} {'!' if low > bar else '?'}", low > bar


def cell(a, model, name, work):
    """The text of one cell, before and after tune, and whether one is above its bar."""
    texts, above = [], False
    untuned, tuned = work / "untuned", [work / f"tuned without {'_'.join(NEWCOMERS[name])}", work / f"tuned with {name}"]
    for stage in ("before", "after"):
        caches = [untuned, untuned] if stage == "before" else tuned
        flags = [flags_of(a, model, name, caches[k], k == 1) for k in (0, 1)]
        for k in (0, 1):
            if not caches[k].exists():
                caches[k].mkdir()
                if stage == "after":
                    run(a.inlay, "tune", *flags[k], "--budget-s", a.budget, "--json")
        text, is_above = text_of(compare(a, *flags, BARS[stage]), BARS[stage])
        texts.append(text)
        above |= is_above
    return " / ".join(texts), above


def models_of(paths):
    for path in map(pathlib.Path, paths):
        if path.is_file():
            yield path.stem, path
            continue
        for file in sorted(path.rglob("model.onnx")):
            yield file.parent.name, file


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inlay", default=str(ROOT / "build/release/bin/inlay"))
    parser.add_argument("--samples", default=str(ROOT / "build/release/samples/plugins"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=20)
    parser.add_argument("--plugins", default=",".join(NEWCOMERS))
    parser.add_argument("--markdown")
    parser.add_argument("models", nargs="+")
    a = parser.parse_args()
    names, rows, worst = a.plugins.split(","), [], 0
    for title, model in models_of(a.models):
        row = [title]
        with tempfile.TemporaryDirectory() as work:
            for name in names:
                try:
                    text, above = cell(a, model, name, pathlib.Path(work))
                    worst |= above
                    row.append(text)
                except Failed as why:
                    print(f"{title}, {name}: {why}", file=sys.stderr)
                    row.append("failed")
                    worst = 1
        row.append(f"{os.getloadavg()[0]:.1f}")
        rows.append("| " + " | ".join(row) + " |")
        print(rows[-1], flush=True)
        if a.markdown:
            head = ["| model | " + " | ".join(names) + " | load |", "|-" * (len(names) + 2) + "|"]
            pathlib.Path(a.markdown).write_text("\n".join(head + rows) + "\n")
    return int(worst)


if __name__ == "__main__":
    sys.exit(main())
