"""Prices of single operators compared with times that were recorded on a machine, without measuring anything.

    recorded_rows.py INLAY TIMES                    tests
    recorded_rows.py INLAY TIMES --record N:SEED    measures on this machine, and writes TIMES

TIMES (KIND.rows) has a JSON list per line: an operator as in tests/bench/operator_rows.py, and its microseconds on one
thread. Expected are the times of `inlay explain --on KIND`. The bars are wider than the errors of today's prices
(tests/bench/results.md): they find a price that has become wrong. --record takes the first operators of `operators.py
--drawn N:SEED` that take a microsecond or more, have up to 2^18 elements, and are no convolutions: those are compared
with zen4.txt. Skipped (exit code 77) on CPUs without AVX-512, whose kernels have other prices."""
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
import drawn_rows
import operators
from operator_rows import Row, shape_of

ERROR, OUTSIDE = 0.35, 0.13  # the median of |expected / recorded - 1|; the share of operators outside of 0.5 to 2
MOST = 1 << 18


def expected(inlay, kind, path):
    done = subprocess.run([inlay, "explain", path, "--on", kind, "--intra-threads", "1", "--json", "--quiet",
                           "--cache-dir", ""], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["cost_ns"] / 1000


def measured(inlay, path, inputs):
    command = [inlay, "bench", path, "--json", "--quiet", "--inputs", inputs, "--intra-threads", "1", "--cache-dir", "",
               "--seconds", "0.05"]
    times = [json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(3)]
    return 1000 * min(min(t["min_ms"], t["cpu_ms"]) for t in times)


def record(inlay, path, drawn):
    with open(path, "w", encoding="utf-8") as file:
        for row in drawn_rows.rows(*map(int, drawn.split(":"))):
            if "Conv" in row.op or sum(math.prod(shape_of(text)) for text in row.inputs if text) > MOST:
                continue
            with tempfile.TemporaryDirectory() as folder:
                took = measured(inlay, operators.model_of(row, folder), os.path.join(folder, "in"))
            if took >= 1:
                file.write(json.dumps([row.op, row.inputs, row.outputs, row.opset, row.attributes, float(f"{took:.3g}")]) +
                           "\n")


def main():
    inlay, path = sys.argv[1:3]
    if len(sys.argv) > 3:
        record(inlay, path, sys.argv[4])
        return
    flags = set(open("/proc/cpuinfo", encoding="utf-8").read().split())
    if not {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512cd"} <= flags:
        sys.exit(77)
    kind, ratios = os.path.basename(path).split(".")[0], []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            op, inputs, outputs, opset, attributes, took = json.loads(line)
            with tempfile.TemporaryDirectory() as folder:
                model = operators.model_of(Row(op, op, inputs, outputs, opset=opset, **attributes), folder)
                ratios.append(expected(inlay, kind, model) / took)
            if not 0.5 <= ratios[-1] <= 2:
                print(f"{op} {[text and text[:40] for text in inputs]} {attributes}: recorded {took:.2f} us, expected "
                      f"{ratios[-1] * took:.2f}")
    error, outside = statistics.median(abs(r - 1) for r in ratios), sum(not 0.5 <= r <= 2 for r in ratios)
    print(f"{len(ratios)} operators: error {error:.0%} (median), {outside} outside of 0.5 to 2")
    sys.exit(error > ERROR or outside > OUTSIDE * len(ratios))


if __name__ == "__main__":
    main()
