#!/usr/bin/python3
"""A package of several precisions whose runs have a deadline, compared with its most exact variant alone, while other
processes use the CPUs in turns.
    ladder.py INLAY MODEL [--variants fp32,int8] [--data FILE] [--deadline-ms MS] [--rate N]
        [--seconds S] [--threads N]

--data: samples for inlay pack, without which int8 has smaller weights but computes with floats as fast as fp32.
--deadline-ms: by default twice the median of the most exact variant on the idle machine. The load changes every
second: none, one process, two. The variants run in turn, --seconds (60) each. Prints for each the runs, those that were
late, the median and the 99th percentile, and how often each variant ran."""
import argparse
import json
import pathlib
import subprocess
import tempfile
import threading
import time

BURN = "while True: pass"


class Load(threading.Thread):
    """Changes the number of busy processes each second, in the same order for each measurement."""

    def __init__(self):
        super().__init__()
        self.ends = False
        self.start()

    def run(self):
        turn, burning = 0, []
        while not self.ends:
            wanted = (0, 1, 2, 0, 2, 1)[turn % 6]
            while len(burning) > wanted:
                burning.pop().kill()
            while len(burning) < wanted:
                burning.append(subprocess.Popen(["python3", "-c", BURN]))
            time.sleep(1)
            turn += 1
        for process in burning:
            process.kill()


def bench(inlay, model, *words):
    done = subprocess.run([inlay, "bench", model, "--json", *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("inlay")
    parser.add_argument("model")
    parser.add_argument("--variants", default="fp32,int8")
    parser.add_argument("--data")
    parser.add_argument("--deadline-ms", type=float)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", default="1")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as top:
        package = str(pathlib.Path(top) / "model.pkg")
        threads = ["--intra-threads", args.threads]
        data = ["--data", args.data] if args.data else []
        subprocess.run([args.inlay, "pack", args.model, "--variants", args.variants, "-o", package, *data, *threads],
                       check=True, stdout=subprocess.DEVNULL)
        deadline = args.deadline_ms or 2 * bench(args.inlay, package, "--seconds", "3", *threads)["median_ms"]
        print(f"deadline {deadline:.3g} ms, {args.rate:g} requests a second, {args.seconds:g} s each")
        for name, words in (("the most exact variant", []), ("--ladder all", ["--ladder", "all"])):
            load = Load()
            try:
                result = bench(args.inlay, package, *words, *threads, "--deadline-ms", str(deadline), "--rate",
                               str(args.rate), "--seconds", str(args.seconds))
            finally:
                load.ends = True
                load.join()
            late = result["deadline"]["late"]
            ran = ", ".join(f"{v['name']} {100 * v['runs'] / result['runs']:.3g} % (error {v['error']:.2g})"
                            for v in result["deadline"]["variants"])
            print(f"{name}: {result['runs']} runs, {late} late ({100 * late / result['runs']:.4g} %), median "
                  f"{result['median_ms']:.3f} ms, p99 {result['p99_ms']:.3f} ms: {ran}")


if __name__ == "__main__":
    main()
