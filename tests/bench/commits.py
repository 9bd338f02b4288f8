#!/usr/bin/env python3
"""Two commits compared on layers, networks and opening sessions, interleaved; run before merges that touch
providers/cpu.

    commits.py [--match GLOB[,GLOB...]] [--rounds N] [--seconds S] [--isa NAME] [--build DIR] BEFORE [AFTER]
    commits.py BEFORE [AFTER] --models FILE...      with the same options

Builds both commits (AFTER: HEAD by default) below DIR, unless they are built there already, and runs the rows of
commit_rows.py in pairs, in alternating order, N rounds of S seconds each. The time of a layer between others is that
of `inlay profile`. Sessions are opened OPENED times in each round, with files cached by earlier ones; the processor
time of the process that opens the session and runs it once counts, at its least, since other processes only make it
longer. The medians of all rounds are printed. `ratio` is the time of BEFORE / that of AFTER; below 0.97, the exit
status is 1. --list prints the names of the rows.

--models: runs of these files instead, with one and with two threads, on the same random inputs. The column `outputs`
says whether both commits give the same files of outputs (random: two runs of BEFORE differ); the exit status is also 1
if they do not. A file that BEFORE cannot run on random inputs is listed at the end."""
import argparse
import fnmatch
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

from commit_rows import commit_rows

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
LEAST, OPENED = 0.97, 5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="*", metavar="COMMIT")
    parser.add_argument("--match", default="*")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--isa", default="auto")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "commits"))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--models", nargs="+", default=[], metavar="FILE")
    args = parser.parse_args()
    if not args.list and len(args.commits) not in (1, 2):
        parser.error("one or two commits are needed")
    return args


# ----------------------------------------------------------------- commits
def built(args, commit):
    """Builds the commit; returns its name, its program, and the providers to use."""
    name = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "--verify", commit + "^{commit}"],
                          capture_output=True, text=True, check=True).stdout.strip()
    source = os.path.join(os.path.abspath(args.build), name)
    program = os.path.join(source, "build", "release", "bin", "inlay")
    if not os.path.exists(source):
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", source, name], check=True, stdout=sys.stderr)
    # Early commits have the kernels of cpu in provider onednn.
    regions = "cpu" if os.path.isdir(os.path.join(source, "providers", "cpu")) else "onednn"
    if not os.path.exists(program):
        for command in (["cmake", "--preset", "release", "-B", "build/release", "-DINLAY_TESTS=OFF"],
                        ["cmake", "--build", "build/release", "--target", regions, "reference", "inlay_cli"]):
            subprocess.run(command, cwd=source, check=True, stdout=sys.stderr)
    return name, program, regions + ",reference"


def report_of(program, verb, path, flags):
    ran = subprocess.run([program, verb, path, "--json", *flags], capture_output=True, text=True, check=True)
    return json.loads(ran.stdout[ran.stdout.index("{"):])


def processor_time():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def opening_of(program, path, flags):
    """Seconds of processor time of a process that opens a session and runs it once."""
    before = processor_time()
    report_of(program, "bench", path, [*flags, "--warmup", "0", "--runs", "1"])
    return processor_time() - before


def time_of(args, side, row, path, cache):
    """Microseconds of the row in one round."""
    _, program, providers = side
    flags = ["--providers", providers, "--intra-threads", str(row.threads), "--cache-dir", cache, "--isa", args.isa]
    if row.timed == "create":
        return 1e6 * min(opening_of(program, path, flags) for _ in range(OPENED))
    flags += ["--seconds", str(args.seconds)]
    if row.timed == "run":
        return report_of(program, "bench", path, flags)["median_ms"] * 1e3
    steps = report_of(program, "profile", path, flags)["steps"]
    return sum(s["ns"] for s in steps if s["op"] == row.timed and s["leaf"]) / 1e3


# ----------------------------------------------------------------- files
class FileRow:
    """A run of a file; see Row of commit_rows.py."""
    timed = "run"

    def __init__(self, file, threads):
        self.name, self.file, self.threads = f"{file}, {threads} thread{'s' * (threads > 1)}", file, threads

    def write(self, path):
        shutil.copy(self.file, path)


def outputs_of(args, side, row, path, cache):
    """The files of outputs of a run on random inputs, by name; or what stopped it."""
    _, program, providers = side
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run([program, "run", path, "--outputs", folder, "--providers", providers, "--intra-threads",
                              str(row.threads), "--cache-dir", cache, "--isa", args.isa], capture_output=True, text=True)
        if ran.returncode:
            return ran.stderr.strip().split("\n")[-1]
        return {file.name: file.read_bytes() for file in pathlib.Path(folder).iterdir()}


def compared(args, sides, row, path, folder):
    """How the outputs of the two commits compare: same, random, or the reason; None if `row` has no file."""
    if not isinstance(row, FileRow):
        return None
    before, after, again = (outputs_of(args, sides[i], row, path, os.path.join(folder, str(i))) for i in (0, 1, 0))
    if isinstance(before, str):
        return "refused: " + before
    if isinstance(after, str):
        return after
    return "random" if before != again else "same" if before == after else "differ"


# ----------------------------------------------------------------- rows
def main():
    args = arguments()
    rows = [FileRow(file, threads) for file in args.models for threads in (1, 2)] or \
        [r for r in commit_rows() if any(fnmatch.fnmatch(r.name, g) for g in args.match.split(","))]
    if args.list:
        print("\n".join(r.name for r in rows))
        return 0
    sides = [built(args, commit) for commit in [*args.commits, "HEAD"][:2]]
    ratios, refused, differ = [], [], 0
    print(f"| row | {sides[0][0]} us | {sides[1][0]} us | ratio |{' outputs |' * bool(args.models)}")
    print("|---|---|---|---|" + "---|" * bool(args.models))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        for row in rows:
            row.write(path)
            outputs = compared(args, sides, row, path, folder)
            if outputs and outputs.startswith("refused"):
                refused.append(f"{row.name}: {outputs}")
                continue
            differ += outputs not in (None, "same", "random")
            times = ([], [])
            for turn in range(args.rounds):
                for side in ((0, 1), (1, 0))[turn % 2]:
                    times[side].append(time_of(args, sides[side], row, path, os.path.join(folder, str(side))))
            before, after = map(statistics.median, times)
            ratios.append(before / after)
            print(f"| {row.name} | {before:.1f} | {after:.1f} | {before / after:.2f} |" +
                  (f" {outputs} |" if outputs else ""), flush=True)
    slower = sum(ratio < LEAST for ratio in ratios)
    print(f"\n{slower} of {len(ratios)} rows below {LEAST}, geometric mean {statistics.geometric_mean(ratios or [1]):.3f}" +
          (f"; outputs of {differ} differ" if args.models else ""))
    print("".join(f"\n{line}" for line in refused), end="\n" * bool(refused))
    return 1 if slower or differ else 0


if __name__ == "__main__":
    sys.exit(main())
