"""Checks `inlay bench --sweep`. For each model: the best batch of a sweep compared with the best of all batches, and
how often the interval of the best contains a second measurement.

  sweep.py INLAY [MODEL...] [--most 32] [--repeats 20] [--seconds 0.5]

MODEL has a symbolic first axis; without MODEL, five small networks are created. Other load on the machine widens
intervals (the column `noisy`), and a measurement minutes later may still be outside."""
import argparse
import json
import os
import statistics
import subprocess
import tempfile


def made(folder):
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper, save

    rng = np.random.default_rng(1)

    def write(name, nodes, shape, weights):
        inits = [numpy_helper.from_array(rng.normal(0, 0.05, s).astype(np.float32), n) for n, s in weights]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch"] + shape)],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], inits)
        path = os.path.join(folder, name)
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return path

    dense = []
    for i in range(4):
        dense += [helper.make_node("MatMul", ["x" if i == 0 else f"r{i - 1}", f"w{i}"], [f"h{i}"]),
                  helper.make_node("Relu", [f"h{i}"], ["y" if i == 3 else f"r{i}"])]
    conv = [helper.make_node("Conv", ["x", "w0"], ["a"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Conv", ["b", "w1"], ["c"], kernel_shape=[3, 3], pads=[1] * 4),
            helper.make_node("GlobalAveragePool", ["c"], ["y"])]
    block = [helper.make_node("LayerNormalization", ["x", "one", "zero"], ["n"]),
             helper.make_node("MatMul", ["n", "w0"], ["h"]), helper.make_node("Sigmoid", ["h"], ["s"]),
             helper.make_node("Mul", ["h", "s"], ["g"]), helper.make_node("MatMul", ["g", "w1"], ["d"]),
             helper.make_node("Add", ["x", "d"], ["y"])]
    look = [helper.make_node("MatMul", ["x", "wq"], ["q"]), helper.make_node("MatMul", ["x", "wk"], ["k"]),
            helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]), helper.make_node("MatMul", ["q", "kt"], ["a"]),
            helper.make_node("Softmax", ["a"], ["p"]), helper.make_node("MatMul", ["p", "x"], ["y"])]
    mobile = [helper.make_node("Conv", ["x", "w0"], ["a"], kernel_shape=[1, 1]), helper.make_node("Relu", ["a"], ["b"]),
              helper.make_node("Conv", ["b", "w1"], ["c"], kernel_shape=[3, 3], pads=[1] * 4, group=64),
              helper.make_node("Relu", ["c"], ["d"]), helper.make_node("Conv", ["d", "w2"], ["e"], kernel_shape=[1, 1]),
              helper.make_node("Add", ["x", "e"], ["y"])]
    return [write("block.onnx", block, [16, 128], [("one", 128), ("zero", 128), ("w0", (128, 512)), ("w1", (512, 128))]),
            write("attention.onnx", look, [32, 64], [("wq", (64, 64)), ("wk", (64, 64))]),
            write("mobile.onnx", mobile, [16, 28, 28], [("w0", (64, 16, 1, 1)), ("w1", (64, 1, 3, 3)), ("w2", (16, 64, 1, 1))]),
            write("mlp.onnx", dense, [256], [(f"w{i}", (256, 256)) for i in range(4)]),
            write("conv.onnx", conv, [3, 32, 32], [("w0", (16, 3, 3, 3)), ("w1", (32, 16, 3, 3))])]


def sweep(args, model, what):
    done = subprocess.run([args.inlay, "bench", model, "--no-config", "--cache-dir", "", "--intra-threads", "1", "--quiet",
                           "--sweep", what, "--seconds", str(args.seconds), "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{model}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def loss_of(args, model, one, other):
    """Returns the relative loss of throughput with batch `one` compared with the other, measured interleaved."""
    if one == other:
        return 0.0
    rates = {p["batch"]: p["items_per_s"] for p in sweep(args, model, f"batch={one}/{other}")["points"]}
    return 1 - rates[one] / rates[other]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("inlay")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--most", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'model':16} {'best':>5} {'of all':>6} {'loss':>8} {'contained':>9} {'noisy':>5} {'width':>7}")
        for model in args.models or made(folder):
            every = {p["batch"]: p for p in sweep(args, model, f"batch=1..{args.most}+1")["points"] if not p["skipped"]}
            top = max(every.values(), key=lambda p: p["items_per_s"])
            contained, noisy, widths, chosen = 0, 0, [], []
            for _ in range(args.repeats):
                best = sweep(args, model, f"batch=1..{args.most}")["best"]
                again = sweep(args, model, f"batch={best['batch']}")["best"]
                contained += best["low"] <= again["items_per_s"] <= best["high"]
                noisy += best["noisy"]
                widths.append((best["high"] - best["low"]) / 2 / best["items_per_s"])
                chosen.append(best["batch"])
            losses = [loss_of(args, model, statistics.mode(chosen), top["batch"]) for _ in range(5)]
            print(f"{os.path.basename(model):16} {statistics.mode(chosen):5} {top['batch']:6} "
                  f"{100 * statistics.median(losses):7.1f}% {contained:5}/{args.repeats:<3} {noisy:5} "
                  f"{100 * statistics.median(widths):6.1f}%", flush=True)


if __name__ == "__main__":
    main()
