"""Matrix multiplications with weights that have 1x16 blocks of zeros, or two zeros in each four (2:4), compared with dense
weights:

    sparse.py INLAY [--sizes 1024x1024,768x3072] [--rounds 7]

For each size, pattern (50 and 80 % of the blocks; 2:4) and number of rows (1, 128): microseconds per run with dense weights, with zeros in a dense initializer, and with a sparse initializer, and the
speed-up of the last two. One thread; interleaved runs, minimum time. Needs python3-onnx.
"""
import argparse
import json
import os
import subprocess
import tempfile

import numpy
import onnx
from onnx import helper, numpy_helper


def write(path, weights, rows, sparse):
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [rows, weights.shape[0]])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [rows, weights.shape[1]])
    dense, kept = [], []
    if sparse:
        places = numpy.flatnonzero(weights).astype(numpy.int64)
        kept = [helper.make_sparse_tensor(numpy_helper.from_array(weights.ravel()[places], "w"),
                                          numpy_helper.from_array(places, "places"), weights.shape)]
    else:
        dense = [numpy_helper.from_array(weights, "w")]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], dense,
                              sparse_initializer=kept)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def least_ns(inlay, path):
    out = subprocess.run([inlay, "bench", path, "--no-config", "--cache-dir", "", "--intra-threads", "1", "--json",
                          "--seconds", "0.3"], check=True, capture_output=True, text=True).stdout
    return json.loads(out)["min_ms"] * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inlay")
    parser.add_argument("--sizes", default="1024x1024,768x3072,3072x768")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    dice = numpy.random.RandomState(1)
    print("| k x n | rows | zeros | dense | zeros in it | sparse initializer | times as fast |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for size in args.sizes.split(","):
            k, n = map(int, size.split("x"))
            full = dice.randn(k, n).astype(numpy.float32)
            for pattern in ("50%", "80%", "2:4"):
                if pattern == "2:4": # of each four along k, the two largest stay
                    order = numpy.argsort(numpy.abs(full.reshape(k // 4, 4, n)), axis=1)
                    weights = (full.reshape(k // 4, 4, n) * (numpy.argsort(order, axis=1) >= 2)).reshape(k, n)
                else:
                    blocks = dice.rand(k, (n + 15) // 16) >= float(pattern[:-1]) / 100
                    weights = full * numpy.repeat(blocks, 16, 1)[:, :n]
                for rows in (1, 128):
                    paths = [os.path.join(folder, f"{i}.onnx") for i in range(3)]
                    write(paths[0], full, rows, False)
                    write(paths[1], weights, rows, False)
                    write(paths[2], weights, rows, True)
                    least = [1e18] * 3
                    for _ in range(args.rounds):
                        for i, path in enumerate(paths):
                            least[i] = min(least[i], least_ns(args.inlay, path))
                    print(f"| {size} | {rows} | {pattern} | " + " | ".join(f"{t / 1000:.1f} us" for t in least) +
                          f" | {least[0] / least[1]:.2f}, {least[0] / least[2]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
