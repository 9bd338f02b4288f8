#!/usr/bin/python3
"""Checks that outputs are bitwise equal on any number of threads, or on any CPU.

  same_bits.py [--models all|npm|NAME|FILE.onnx,...] [--threads 1,2,3,4] [--dir DIR] [--inlay FILE] [--nodes]
               [--option NAME=VALUE]... [--isa avx512,avx2,baseline [--emulated COMMAND]] [--bundles TARGET,...]

Runs each model with each number of threads and default settings, and compares the bytes of all outputs with those of
the first number. A session uses at most one thread per CPU of the process; on a machine with fewer CPUs a small
preloaded library reports more. Models are those of compare.py: exported below DIR (default build/models) if they are
missing, or files. With --isa each model runs with --reproducible cpu on each of these levels, with the first number of
threads, and then on the others with the first level; libm's code is that of the level, too. --emulated is the command of
an inlay for another architecture, for instance build/arm64/inlay of tests/cross.sh. --bundles makes programs of
`inlay bundle` for each of these targets, for instance x86_64-linux-gnu,wasm32, which compares them with a session. --nodes prints, for models that differ, the different regions and kernels of `inlay explain
--kernels`. The exit code is 1 if a model differs."""
import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "models"))
import check_models as models  # noqa: E402
import compare  # noqa: E402


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--models", default="all")
    ap.add_argument("--threads", default="1,2,3,4")
    ap.add_argument("--dir", default=os.path.join(ROOT, "build", "models"))
    ap.add_argument("--inlay", default=os.path.join(ROOT, "build", "release", "bin", "inlay"))
    ap.add_argument("--isa", default="")
    ap.add_argument("--emulated", default="")
    ap.add_argument("--bundles", default="")
    ap.add_argument("--nodes", action="store_true")
    ap.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    args = ap.parse_args()
    args.batch = 1
    return args


# Features that glibc's libm does not see below AVX2 and below AVX-512.
HIDDEN = {"baseline": "-AVX2,-FMA,-FMA4,-AVX,-AVX512F", "avx2": "-AVX512F"}


class Variant:
    """How a model is run: on a number of threads, on a level, and by which program."""

    def __init__(self, args, threads, isa="", inlay=""):
        self.name = f"{inlay or isa}, {threads} threads" if args.isa else f"{threads} threads"
        self.inlay = inlay or args.inlay
        self.options = ["--cache-dir=", f"--intra-threads={threads}"]
        self.options += [w for o in args.option for w in ("--option", o)]
        self.options += ["--reproducible=cpu"] if args.isa else []
        self.options += [f"--isa={isa}"] if isa else []
        self.tunables = f"glibc.cpu.hwcaps={HIDDEN[isa]}" if isa in HIDDEN else ""

    def prepare(self):
        """Sets what processes started from now on see."""
        os.environ["GLIBC_TUNABLES"] = self.tunables


def list_variants(args):
    threads = [int(t) for t in args.threads.split(",")]
    if not args.isa:
        return [Variant(args, t) for t in threads]
    levels = args.isa.split(",")
    others = [Variant(args, threads[0], inlay=args.emulated)] if args.emulated else []
    return ([Variant(args, threads[0], isa) for isa in levels] +
            [Variant(args, t, levels[0]) for t in threads[1:]] + others)


SHIM = """#define _GNU_SOURCE
#include <sched.h>
int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    (void)pid;
    CPU_ZERO_S(bytes, set);
    for (int i = 0; i < %d; i++)
        CPU_SET_S(i, bytes, set);
    return 0;
}
"""


def pretend_cpus(count, folder):
    """Makes processes started from now on see this number of CPUs."""
    if count <= len(os.sched_getaffinity(0)):
        return
    source, library = os.path.join(folder, "cpus.c"), os.path.join(folder, "cpus.so")
    with open(source, "w", encoding="ascii") as f:
        f.write(SHIM % count)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    os.environ["LD_PRELOAD"] = library


def outputs(folder):
    return {name: np.load(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}


def differing(want, got):
    """Describes outputs whose bytes differ."""
    said = []
    for name, a in want.items():
        b = got.get(name)
        if b is None or a.shape != b.shape or a.dtype != b.dtype:
            said.append(f"{name}: another shape")
        elif a.tobytes() != b.tobytes():
            other = int((a.view(f"V{a.itemsize}") != b.view(f"V{b.itemsize}")).sum()) if a.ndim else 1
            said.append(f"{name}: {other} of {a.size}")
    return said


def kernels(variant, path, sizes):
    """`inlay explain --kernels` without its times, which depend on the number of threads."""
    dims = [f"--dim={name}={size}" for name, size in sizes.items()]
    variant.prepare()
    ran = subprocess.run([variant.inlay, "explain", path, "--kernels", *variant.options, *dims],
                         capture_output=True, text=True, check=False)
    return [re.sub(r"[\d.]+ (ns|us|ms|s)\b", "TIME", re.sub(r" +", " ", line)) for line in ran.stdout.splitlines()]


def bundle(args, target, path, sizes, folder):
    """Makes a program, which runs on random inputs; returns what differs from a session, or ""."""
    os.environ["GLIBC_TUNABLES"] = ""
    file = os.path.join(folder, "model.wasm" if target == "wasm32" else "model")
    dims = [f"--dim={name}={size}" for name, size in sizes.items()]
    ran = subprocess.run([args.inlay, "bundle", path, "-o", file, "--target", target, "--reproducible=cpu", "--quiet",
                          "--json", *dims], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        return ran.stderr.strip()
    made = json.loads(ran.stdout)
    return "" if made["same"] else f"differs by {made['difference']:.1e}" if made["tried"] else "was not run"


def check(args, name, path, variants):
    """Prints a line; returns whether all outputs are equal."""
    with tempfile.TemporaryDirectory() as tmp:
        feeds, want, said = os.path.join(tmp, "in"), None, []
        os.mkdir(feeds)
        sizes = compare.prepare_inputs(args, path, feeds)
        for i, variant in enumerate(variants):
            out = os.path.join(tmp, f"out{i}")
            variant.prepare()
            wrong = models.run(variant.inlay, path, feeds, out, variant.options)
            if wrong:
                print(f"FAIL   {name}, {variant.name}: {wrong}", flush=True)
                return False
            got = outputs(out)
            want = want or got
            said += [f"{variant.name}: {d}" for d in differing(want, got)]
        for target in filter(None, args.bundles.split(",")):
            wrong = bundle(args, target, path, sizes, tmp)
            said += [f"program for {target}: {wrong}"] if wrong else []
        print(f"{'other ' if said else 'same  '} {name}{': ' if said else ''}{'; '.join(said[:4])}", flush=True)
        if said and args.nodes:
            first = kernels(variants[0], path, sizes)
            for variant in variants[1:]:
                lines = difflib.unified_diff(first, kernels(variant, path, sizes), n=0, lineterm="")
                print("\n".join(f"    {variant.name}: {line}" for line in list(lines)[2:] if not line.startswith("@@")))
        return not said


def main():
    args = arguments()
    variants = list_variants(args)
    same = total = 0
    with tempfile.TemporaryDirectory() as tmp:
        found = [compare.find_model(args, listed) for listed in compare.list_models(args)]
        pretend_cpus(max(int(t) for t in args.threads.split(",")), tmp)
        for name, path, _ in found:
            total += 1
            same += check(args, name, path, variants)
    print(f"{same} of {total} models: the same bits with {args.threads} threads" + (f" on {args.isa}" if args.isa else "") +
          (f" in programs for {args.bundles}" if args.bundles else ""))
    return 0 if same == total else 1


if __name__ == "__main__":
    sys.exit(main())
