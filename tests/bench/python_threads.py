#!/usr/bin/env python3
"""Compares the scaling of Python threads with that of C threads. Runs a model from 1 and from 4 threads, by `inlay
bench --callers` and by the Python package, interleaved, and prints runs per second (maximum of the rounds) and CPU
milliseconds per run (minimum).

    tests/bench/python_threads.py BUILD MODEL [--seconds S] [--rounds N]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]


def work(model, threads, seconds):
    """Runs for some seconds in a separate process; prints runs per second and CPU milliseconds per run."""
    import threading
    import time

    import numpy as np

    import inlay
    session = inlay.Session(model, config=False, intra_threads=1)
    rng = np.random.default_rng(0)
    feeds = {i.name: rng.random([d if isinstance(d, int) else 1 for d in i.shape]).astype(
        {"float": "float32", "double": "float64"}.get(i.dtype, i.dtype)) for i in session.inputs}
    counts, stop = [0] * threads, threading.Event()

    def loop(k):
        with session.context() as context:
            context.run(feeds)
            ready.wait()
            while not stop.is_set():
                context.run(feeds)
                counts[k] += 1

    ready = threading.Barrier(threads + 1)
    workers = [threading.Thread(target=loop, args=(k,)) for k in range(threads)]
    [w.start() for w in workers]
    ready.wait()
    start, used = time.perf_counter(), time.process_time()
    time.sleep(seconds)
    stop.set()
    [w.join() for w in workers]
    took = time.perf_counter() - start
    print(json.dumps([sum(counts) / took, (time.process_time() - used) * 1e3 / max(sum(counts), 1)]))


def by_c(build, model, threads, seconds):
    ran = subprocess.run([build / "bin/inlay", "bench", model, "--json", "--no-config", "--intra-threads=1",
                          f"--callers={threads}", f"--seconds={seconds}"], check=True, capture_output=True, text=True)
    report = json.loads(ran.stdout)
    return report["runs_per_s"], report["cpu_ms"]


def by_python(build, model, threads, seconds):
    env = dict(os.environ, INLAY_LIBRARY=str(build / "lib/libinlay.so.1"), PYTHONPATH=str(TREE / "sdk/bindings/python"))
    ran = subprocess.run(["/usr/bin/python3", __file__, "--work", model, str(threads), str(seconds)], check=True, env=env,
                         capture_output=True, text=True)
    return json.loads(ran.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    a = parser.parse_args()
    seen = {}
    for _ in range(a.rounds):
        for threads in (1, 4):
            for name, measure in (("C", by_c), ("Python", by_python)):
                seen.setdefault((name, threads), []).append(measure(a.build, a.model, threads, a.seconds))
    print("| | runs/s, 1 thread | 4 threads | ratio | CPU ms a run, 1 thread | 4 threads |\n|---|---|---|---|---|---|")
    for name in ("C", "Python"):
        one, four = seen[name, 1], seen[name, 4]
        rates, costs = [max(r for r, _ in s) for s in (one, four)], [min(c for _, c in s) for s in (one, four)]
        print(f"| {name} | {rates[0]:.0f} | {rates[1]:.0f} | {rates[1] / rates[0]:.2f} | {costs[0]:.3f} | {costs[1]:.3f} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    else:
        main()
