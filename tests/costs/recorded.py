"""Prices compared with times that were recorded on a machine, without measuring anything.

    recorded.py INLAY TIMES

TIMES (zen4.txt) has a line per layer. Expected are the times of `inlay explain --on zen4` on one thread. The bars are
wider than the errors of today's prices (tests/bench/results.md): they find a price that has become wrong. Skipped
(exit code 77) on CPUs without AVX-512, whose kernels have other prices, and without onednn or openblas."""
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
import predict
from predictions import Model, weights

ERROR, MEAN_REGRET, WORST_REGRET = 0.15, 1.03, 1.45
PROVIDERS = ("cpu", "onednn", "openblas")


def layer_of(name):
    """The layer that predict.py gives this name."""
    op, sizes = name.split()[0], [int(n) for n in re.findall(r"\d+", name.split(" ", 1)[1])]
    if op == "Gemm":
        rows, depth, columns = sizes
        return Model(name, op, [[rows, depth], weights(columns, depth), weights(columns)], transB=1)
    if op == "Conv":
        channels, side, _, filters, kernel, _, group, stride = sizes
        return Model(name, op, [[1, channels, side, side], weights(filters, channels // group, kernel, kernel)],
                     kernel_shape=[kernel, kernel], pads=[kernel // 2] * 4, strides=[stride, stride], group=group)
    if op.endswith("Pool"):
        return Model(name, op, [[1, *sizes]], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    if op == "quantized":
        return predict.quantized(Sizes(sizes))
    return predict.elementwise(Sizes(sizes, op))


class Sizes:
    """Stands for the generator of random numbers: gives these sizes, and this operator."""

    def __init__(self, sizes, op=None):
        self.sizes, self.op = [math.log(size) for size in sizes], op

    def uniform(self, _low, _high):
        return self.sizes.pop(0)

    def choice(self, _list):
        return self.op


def main():
    inlay, path = sys.argv[1:]
    errors, regrets = [], []
    flags = set(open("/proc/cpuinfo", encoding="utf-8").read().split())
    if not {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512cd"} <= flags:
        sys.exit(77)
    # the recorded times are those of OpenBLAS's kernels for AVX-512
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    with tempfile.TemporaryDirectory() as folder, open(path, encoding="utf-8") as lines:
        model = os.path.join(folder, "model.onnx")
        for line in lines:
            if line.startswith("#"):
                continue
            name, *times = [cell.strip() for cell in line.split("|")]
            measured = dict(zip(PROVIDERS, map(float, times)))
            layer_of(name).write(model)
            done = subprocess.run([inlay, "explain", model, "--on", "zen4", "--intra-threads", "1", "--json",
                                   "--cache-dir", "", "--providers", "cpu,onednn?,openblas?,reference"],
                                  capture_output=True, text=True, check=True, env=environment)
            told = json.loads(done.stdout)
            names = [provider["name"] for provider in told["providers"]]
            if not set(PROVIDERS) <= set(names):
                sys.exit(77)
            used = [provider["name"] for provider in told["providers"] if provider["nodes"] > 0]
            took = measured.get(used[0], max(measured.values()))  # reference alone is at most as slow
            errors.append(abs(told["cost_ns"] / 1000 / took - 1))
            regrets.append(took / min(measured.values()))
            if errors[-1] > 0.3 or regrets[-1] > 1.1:
                print(f"{name}: {'+'.join(used)}, expected {told['cost_ns'] / 1000:.2f}, recorded {measured}")
    mean = math.exp(statistics.mean(map(math.log, regrets)))
    print(f"{len(errors)} layers: error {statistics.median(errors):.0%} (median), regret {mean:.3f} (mean) "
          f"{max(regrets):.2f} (worst)")
    sys.exit(statistics.median(errors) > ERROR or mean > MEAN_REGRET or max(regrets) > WORST_REGRET)


if __name__ == "__main__":
    main()
