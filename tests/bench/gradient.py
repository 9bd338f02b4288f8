#!/usr/bin/env python3
"""The gradient of networks by operator Gradient of ai.onnx.preview.training, compared with torch's autograd.

    gradient.py INLAY [--threads N] [--rounds N]

INLAY is build/release/bin/inlay; needs python3-onnx and python3-torch. Each network computes the derivatives of its
loss by all of its weights. `inlay optimize --level 0` writes the operators that compute them, which `inlay bench` runs;
torch runs the same network forwards and backwards. Prints the largest difference relative to the largest derivative,
and CPU milliseconds of a step, medians of interleaved rounds."""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

PREVIEW = "ai.onnx.preview.training"


def network(kind, rng):
    """Returns input shapes by name, weights among them, and the nodes that compute `loss`."""
    if kind == "mlp":
        shapes = {"x": (64, 784), "w0": (784, 512), "b0": (512,), "w1": (512, 512), "b1": (512,), "w2": (512, 10)}
        nodes = [("MatMul", "x w0", "p0"), ("Add", "p0 b0", "s0"), ("Relu", "s0", "r0"),
                 ("MatMul", "r0 w1", "p1"), ("Add", "p1 b1", "s1"), ("Relu", "s1", "r1"), ("MatMul", "r1 w2", "out")]
    else:
        shapes = {"x": (128, 256), "wq": (256, 256), "wk": (256, 256), "wv": (256, 256), "wo": (256, 256)}
        nodes = [("MatMul", "x wq", "q"), ("MatMul", "x wk", "k"), ("MatMul", "x wv", "v"), ("Transpose", "k", "t"),
                 ("MatMul", "q t", "scores"), ("Softmax", "scores", "weights"), ("MatMul", "weights v", "mixed"),
                 ("MatMul", "mixed wo", "out")]
    nodes += [("Mul", "out out", "squares"), ("ReduceMean", "squares", "loss")]
    values = {name: (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
              for name, shape in shapes.items()}
    return values, nodes


def write_model(path, values, nodes):
    weights = [name for name in values if name != "x"]
    graph = [helper.make_node(op, inputs.split(), [output], **({"keepdims": 0} if op == "ReduceMean" else {}))
             for op, inputs, output in nodes]
    graph.append(helper.make_node("Gradient", weights + ["x"], [f"d_{name}" for name in weights], domain=PREVIEW,
                                  xs=weights, zs=["x"], y="loss"))
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in values.items()]
    out = [helper.make_tensor_value_info(f"d_{name}", TensorProto.FLOAT, values[name].shape) for name in weights]
    model = helper.make_model(helper.make_graph(graph, "steps", info, out),
                              opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(PREVIEW, 1)])
    model.ir_version = 8
    onnx.save(model, path)


def torch_step(values, nodes):
    tensors = {name: torch.tensor(value, requires_grad=name != "x") for name, value in values.items()}
    functions = {"MatMul": torch.matmul, "Add": torch.add, "Mul": torch.mul, "Relu": torch.relu,
                 "ReduceMean": torch.mean, "Transpose": lambda a: a.T, "Softmax": lambda a: torch.softmax(a, -1)}

    def step():
        made = dict(tensors)
        for op, inputs, output in nodes:
            made[output] = functions[op](*(made[name] for name in inputs.split()))
        return torch.autograd.grad(made["loss"], [tensors[name] for name in values if name != "x"])
    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inlay")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rng = np.random.default_rng(5)
    common = ["--no-config", "--intra-threads", str(args.threads)]
    print("| network | largest difference | inlay, CPU ms | torch, CPU ms | ratio |\n|---|---|---|---|---|")
    for kind in ("mlp", "attention"):
        values, nodes = network(kind, rng)
        step = torch_step(values, nodes)
        with tempfile.TemporaryDirectory() as folder:
            model, plain = os.path.join(folder, "model.onnx"), os.path.join(folder, "plain.onnx")
            write_model(model, values, nodes)
            subprocess.run([args.inlay, "optimize", model, "--level", "0", "-o", plain], check=True,
                           stdout=subprocess.DEVNULL)
            inputs = []
            for name, value in values.items():
                np.save(os.path.join(folder, name + ".npy"), value)
                inputs += ["--input", f"{name}={folder}/{name}.npy"]
            subprocess.run([args.inlay, "run", plain, "--outputs", os.path.join(folder, "out"), *common, *inputs],
                           check=True, stdout=subprocess.DEVNULL)
            worst = 0.0
            for want, name in zip(step(), (name for name in values if name != "x")):
                got = np.load(os.path.join(folder, "out", f"d_{name}.npy"))
                worst = max(worst, float(np.abs(got - want.numpy()).max() / want.abs().max()))
            ours, theirs = [], []
            for _ in range(args.rounds):
                report = subprocess.run([args.inlay, "bench", plain, "--json", "--seconds", "1", *common, *inputs],
                                        check=True, capture_output=True, text=True).stdout
                ours.append(json.loads(report)["cpu_ms"])
                start, steps = time.process_time(), 0
                while time.process_time() - start < 1:
                    step()
                    steps += 1
                theirs.append((time.process_time() - start) / steps * 1e3)
        mine, peer = statistics.median(ours), statistics.median(theirs)
        print(f"| {kind} | {worst:.1e} | {mine:.3g} | {peer:.3g} | {peer / mine:.2f} |", flush=True)


if __name__ == "__main__":
    main()
