#!/usr/bin/python3
"""Matrix multiplications with 4-bit and 8-bit weights compared with ONNX Runtime: one row and 128, weights
smaller and larger than the caches.

    nbits.py [--layers 8,48] [--rows 1,128] [--modes exact,fine,byte] [--kinds dq4_block32,...] [--threads 1]
             [--rounds 5] [--seconds 0.5] [--dir DIR] [--inlay FILE] [--peer DIR]

Models are those of nbits_models.py, written below DIR (default build/nbits) if they are missing; --peer is a folder
installed by tests/models/peer/setup.sh. Both engines alternate for some rounds. The minimum of all rounds is printed,
since other load only increases times; `least` is the ratio ONNX Runtime / inlay of these, `pairs` the median over
rounds of the medians' ratio. Create (cold: an empty cache folder; warm: the next session) and peak memory are those
of the largest model of a kind: `file` is its size in MB, peak the peak memory that both programs report."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
KINDS = ("dq4_block32", "dq8_channel", "nbits4", "nbits4_level4", "nbits8")


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--layers", default="8")
    ap.add_argument("--rows", default="1,128")
    ap.add_argument("--modes", default="exact,fine,byte")
    ap.add_argument("--kinds", default=",".join(KINDS))
    ap.add_argument("--threads", default="1")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=0.5)
    ap.add_argument("--dir", default=os.path.join(ROOT, "build", "nbits"))
    ap.add_argument("--inlay", default=os.path.join(ROOT, "build", "release", "bin", "inlay"))
    ap.add_argument("--peer", default=os.path.join(ROOT, "build", "models", "peer"))
    return ap.parse_args()


def run_json(command):
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit("nbits.py: %s: %s" % (command[0], (ran.stderr or ran.stdout).strip().splitlines()[-1]))
    return json.loads(ran.stdout[ran.stdout.index("{"):])


def ours(args, path, rows, mode, threads, cache):
    return run_json([args.inlay, "bench", path, "--json", "--seconds", str(args.seconds), "--intra-threads", threads,
                 "--dim", "rows=" + rows, "--option", "cpu.activations=" + mode, "--cache-dir", cache])


def theirs(args, path, rows, threads):
    return run_json([os.path.join(args.peer, "ort_bench"), os.path.join(args.peer, "libonnxruntime.so.1"), path, "--threads",
                 threads, "--seconds", str(args.seconds), "--dim", "rows=" + rows])


def measure(args, kind, path, rows, threads, work):
    modes = args.modes.split(",")
    for m in modes:
        os.makedirs(os.path.join(work, kind + m), exist_ok=True)  # inlay creates no parent folders
    got = {m: [] for m in modes}
    peer = []
    for turn in range(args.rounds):
        for m in modes if turn % 2 == 0 else modes[::-1]:
            got[m].append(ours(args, path, rows, m, threads, os.path.join(work, kind + m)))
        peer.append(theirs(args, path, rows, threads))
    least = min(p["min_ms"] for p in peer)
    for m in modes:
        own = min(g["min_ms"] for g in got[m])
        pairs = statistics.median(p["median_ms"] / g["median_ms"] for p, g in zip(peer, got[m]))
        print("| %s | %s | %s | %s | %s | %.3f | %.3f | %.2f | %.2f |" % (
            kind, os.path.basename(os.path.dirname(path)), rows, threads, m, own, least, least / own, pairs), flush=True)
    first = got[modes[0]]
    return {"file": os.path.getsize(path) / 1e6, "cold": first[0]["create_ms"],
            "warm": min(g["create_ms"] for g in first[1:] or first), "peak": min(g["peak_mb"] for g in first),
            "peer_create": min(p["create_ms"] for p in peer), "peer_peak": min(p["peak_mb"] for p in peer)}


def main():
    args = arguments()
    memory = []
    print("| model | layers | rows | threads | activations | inlay ms | ONNX Runtime ms | least | pairs |\n|" + "---|" * 9)
    with tempfile.TemporaryDirectory() as work:
        for layers in args.layers.split(","):
            folder = os.path.join(args.dir, layers)
            if not os.path.isdir(folder):
                subprocess.run([sys.executable, os.path.join(HERE, "nbits_models.py"), folder, "--layers", layers], check=True)
            for kind in args.kinds.split(","):
                path = os.path.join(folder, kind + ".onnx")
                for threads in args.threads.split(","):
                    for i, rows in enumerate(args.rows.split(",")):
                        found = measure(args, kind, path, rows, threads, work + "/" + layers + threads + rows)
                        if i == 0 and threads == args.threads.split(",")[0]:
                            memory.append((kind, layers, found))
    print("\n| model | layers | file MB | peak / file | ONNX Runtime | create cold ms | warm | ONNX Runtime |\n|" + "---|" * 8)
    for kind, layers, f in memory:
        print("| %s | %s | %.0f | %.2f | %.2f | %.0f | %.0f | %.0f |" % (
            kind, layers, f["file"], f["peak"] / f["file"], f["peer_peak"] / f["file"], f["cold"], f["warm"],
            f["peer_create"]))


main()
