#!/usr/bin/env python3
"""Writes the page of this machine's kind of CPU; see machine.sh."""
import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
ROOFS = ("operations per ns with registers of 16, 32 and 64 bytes", "bytes per ns from each level of cache, and of a copy in the third",
         "bytes per ns from memory: one core, all cores, pages of 4 KB", "ns of a parallel loop",
         "operations per ns of tiles on bytes and on bfloat16", "KiB of the second and the third level")
FELL = 0.9  # of the ratio on the last page: single rows vary by up to 10 %


def arguments():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--match", default="*")
    ap.add_argument("--models", default="all")
    ap.add_argument("--threads", default="1,2")
    ap.add_argument("--rounds", type=int, default=2)
    ap.add_argument("--seconds", type=float, default=0.03)
    ap.add_argument("--inlay", default=os.path.join(ROOT, "build", "release", "bin", "inlay"))
    ap.add_argument("--page", help="default: machines/KIND.md beside this file")
    return ap.parse_args()


# ----------------------------------------------------------------- measuring
def record_of(inlay):
    """The row of core_kind.def that `inlay tune --machine --record` prints."""
    return subprocess.run([inlay, "tune", "--machine", "--record", "--quiet"], capture_output=True, text=True,
                          check=True).stdout.strip()


def rows_of(script, args, *flags):
    """The JSON that a benchmark writes, also where outputs differ and it fails; its table goes to the terminal."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.json")
        ran = subprocess.run([sys.executable if script.endswith(".py") else "bash", os.path.join(HERE, script), "--json", path,
                              "--inlay", args.inlay, "--rounds", str(args.rounds), "--seconds", str(args.seconds), *flags],
                             check=False)
        if not os.path.exists(path):
            sys.exit(f"{script} failed with status {ran.returncode}")
        with open(path) as f:
            return json.load(f)


def measure(args):
    """{row: {threads: (microseconds, ratio)}}, and the rows whose outputs differ."""
    made, differ = {}, []
    for threads in args.threads.split(","):
        if args.match != "none":
            for row in rows_of("operators.py", args, "--match", args.match, "--threads", threads):
                if not all(isinstance(row.get(e), dict) for e in ("inlay", "ort")):
                    continue  # one of them does not run it
                own, peer = (row[e]["min_ms"] for e in ("inlay", "ort"))
                made.setdefault(row["row"], {})[threads] = (own * 1e3, peer / own)
                if row["agree"] != "yes":
                    differ.append(f"{row['row']}: {row['agree']}")
        if args.models != "none":
            for row in rows_of("compare.sh", args, "--peer", "ort", "--models", args.models, "--threads", threads):
                name, own, peer = network(row)
                if own and peer:
                    made.setdefault("network " + name, {})[threads] = (own * 1e3, peer / own)
                if isinstance(row["difference"], str) or (row["difference"] or 0) > 1:
                    differ.append(f"network {name}: {row['difference']}")
    return made, differ


def network(row):
    """Name and milliseconds of both engines of a row of compare.py."""
    times = {e: row["engines"][e]["median_ms"] for e in ("inlay", "ort") if isinstance(row["engines"].get(e), dict)}
    return row["model"], times.get("inlay"), times.get("ort")


# ----------------------------------------------------------------- the page
class Page:
    """An earlier page: its rows and roofs, the lines that say when they were measured, and the section on outputs that
    differ, of which all lines but those of the list are written by hand."""

    def __init__(self, path):
        self.rows, self.roofs, self.measured, self.judged, self.differ = {}, [], [], [], []
        threads, section = [], ""
        for line in open(path) if os.path.exists(path) else []:
            section = line[3:].strip() if line.startswith("## ") else section
            if line.startswith("Measured "):
                self.measured.append(line.strip())
            if section == "Outputs differ" and not line.startswith("## "):
                (self.differ if line.startswith("- ") else self.judged).append(line.strip().removeprefix("- "))
            cells = [c.strip() for c in line.strip().strip("|").split("|")]
            if cells[0] in ROOFS:
                self.roofs.append(line.strip())
            if cells[0] == "row":
                threads = [c.split()[0] for c in cells[1::2]]
            elif threads and len(cells) == 1 + 2 * len(threads) and not cells[0].startswith("--"):
                self.rows[cells[0]] = {t: (float(cells[1 + 2 * i]), float(cells[2 + 2 * i]))
                                       for i, t in enumerate(threads) if cells[1 + 2 * i]}


def mean(rows, threads, networks):
    ratios = [r[threads][1] for name, r in rows.items() if threads in r and name.startswith("network ") == networks]
    return f"{np.exp(np.mean(np.log(ratios))):.2f} of {len(ratios)}" if ratios else "none"


def counted(threads):
    return "1 thread" if threads == "1" else f"{threads} threads"


def named(rows):
    """The names of a few rows; of more, their number."""
    networks = sum(name.startswith("network ") for name in rows)
    counts = [f"{n} {kind}" for n, kind in ((len(rows) - networks, "operators"), (networks, "networks")) if n]
    return ", ".join(rows) if len(rows) <= 5 else " and ".join(counts)


def merge(old, rows, differ, args):
    """Rows of the earlier page that this run left out stay, and those of other numbers of threads. Then its roofs stay,
    too, and its first lines, of which the earlier page's are the first. Returns the rows, differences and first lines."""
    measured = args.threads.split(",")
    left_out = {name for name in old.rows if name not in rows and
                (args.models != "all" if name.startswith("network ") else args.match != "*")}
    merged = {name: {**{t: pair for t, pair in old.rows.get(name, {}).items() if name in left_out or t not in measured},
                     **rows.get(name, {})} for name in {**old.rows, **rows}}
    merged = {name: row for name, row in merged.items() if row}
    how = (f"on {datetime.date.today()} by `tests/bench/machine.sh` on {os.cpu_count()} processors; load at the end "
           f"{os.getloadavg()[1]:.1f}")
    if merged.keys() == rows.keys() and not any(row.keys() - set(measured) for row in merged.values()):
        return rows, differ, ["Measured " + how + "."]
    which = "all rows" if rows.keys() >= merged.keys() else named(rows)
    differ = [line for line in old.differ if line.split(": ")[0] not in rows] + differ
    return merged, differ, [*old.measured, f"Measured again {how}, {' and '.join(map(counted, measured))}: {which}."]


def page_of(record, cpu, made, differ, old, args):
    rows, differ, measured = merge(old, made, differ, args)
    threads = sorted({t for row in rows.values() for t in row} | set(args.threads.split(",")), key=int)
    fields = re.findall(r"\{([^{}]*)\}|,\s*(\d+)\s*,\s*\{", record.strip().split("\n")[-1])
    roofs = [f"| {name} | {(a or b).strip()} |" for name, (a, b) in zip(ROOFS, fields)]
    out = [f"# {cpu}", "",
           *measured, "", "Minimum of the rounds; ratio: time of ONNX Runtime 1.30 / inlay's.", "",
           "| roof | |", "|---|---|", *(old.roofs if len(measured) > 1 else roofs), "",
           "| geometric mean of ratios | " + " | ".join(map(counted, threads)) + " |",
           "|---" * (1 + len(threads)) + "|",
           "| single operators | " + " | ".join(mean(rows, t, False) for t in threads) + " |",
           "| networks | " + " | ".join(mean(rows, t, True) for t in threads) + " |", "", "## Below 1.0", ""]
    for t in threads:
        low = sorted((r[t][1], name) for name, r in rows.items() if t in r and r[t][1] < 0.995)
        out += [f"{counted(t)}: " + (", ".join(f"{name} {ratio:.2f}" for ratio, name in low) or "none") + ".", ""]
    out += ["## Fell since the last page", ""]
    fell = [f"{name} ({counted(t)}): {old.rows[name][t][1]:.2f} to {r[t][1]:.2f}" for name, r in sorted(made.items())
            for t in threads if t in r and t in old.rows.get(name, {}) and r[t][1] < FELL * old.rows[name][t][1]]
    out += [f"Of {len(made)} rows: " + ("; ".join(fell) or "none") + "." if old.rows else "There is no earlier page.", ""]
    if differ or any(old.judged):
        judged = "\n".join(old.judged).strip()
        out += ["## Outputs differ", "", *([judged, ""] if judged else []), *(f"- {line}" for line in differ), ""]
    out += ["## Rows", "", "| row | " + " | ".join(f"{counted(t)}, us | ratio" for t in threads) + " |",
            "|---" * (1 + 2 * len(threads)) + "|"]
    for name, r in rows.items():
        out.append(f"| {name} | " + " | ".join(f"{r[t][0]:.4g} | {r[t][1]:.2f}" if t in r else " | " for t in threads) + " |")
    return "\n".join(out) + "\n"


def main():
    args = arguments()
    record = record_of(args.inlay)
    cpu = record[record.index("/* ") + 3:].split(", 20")[0]  # `AMD EPYC (family 25, model 17)`
    page = args.page or os.path.join(HERE, "machines", re.sub(r"[^a-z0-9]+", "-", cpu.lower()).strip("-") + ".md")
    rows, differ = measure(args)
    text = page_of(record, cpu, rows, differ, Page(page), args)
    os.makedirs(os.path.dirname(os.path.abspath(page)), exist_ok=True)
    with open(page, "w") as f:
        f.write(text)
    print(f"written: {page}")


if __name__ == "__main__":
    main()
