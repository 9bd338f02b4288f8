#!/usr/bin/python3
"""Tests samples/provider_tvm_ffi with the library of tvm_ffi_kernels.c.

  tvm_ffi.py INLAY PLUGIN LIBRARY
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, save

inlay, plugin, library = map(os.path.abspath, sys.argv[1:4])


def model(name, op, shape):
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"])], "g", [value("x", TensorProto.FLOAT, shape)],
                              [value("y", TensorProto.FLOAT, shape)])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), name)


def run(*words, fails=False, part=""):
    environment = dict(os.environ, INLAY_CACHE_DIR="", XDG_CONFIG_HOME="/nonexistent", INLAY_PROBE="never",
                       INLAY_PLUGIN_DIRS="plugins", INLAY_PROVIDERS="tvm_ffi,reference", INLAY_POLICY="priority")
    done = subprocess.run([inlay, *words], capture_output=True, text=True, check=False, env=environment, timeout=120)
    if (done.returncode != 0) != fails or part not in done.stdout + done.stderr:
        sys.exit(f"inlay {' '.join(words)}: exit code {done.returncode}, and not '{part}'\n"
                 f"{done.stdout}{done.stderr}")
    return done.stdout


def main():
    os.mkdir("plugins")
    shutil.copy(plugin, "plugins/tvm_ffi.so")
    model("softsign.onnx", "Softsign", [3, 5])
    model("mish.onnx", "Mish", [3])
    model("scalar.onnx", "Softsign", [])
    model("deep.onnx", "Softsign", [1] * 7)
    run("run", "softsign.onnx", fails=True, part="name the library in option tvm_ffi.library")
    run("explain", "softsign.onnx", "--option", f"tvm_ffi.library={library}", part="tvm_ffi")
    shutil.copy(library, "plugins/tvm_ffi.kernels")
    for name, shape in (("softsign", [3, 5]), ("scalar", [])):
        x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
        np.save("x.npy", x)
        run("run", f"{name}.onnx", "--input", "x=x.npy", "--outputs", "out")
        y = np.load("out/y.npy")
        if y.shape != x.shape or not np.array_equal(y, x / (np.float32(1) + np.abs(x))):
            sys.exit(f"{name}: {y} for {x}")
    run("explain", "mish.onnx", part="the library has no __tvm_ffi_mish")
    run("run", "deep.onnx", fails=True, part="__tvm_ffi_softsign: seven axes are too many")
    print("a library of kernels runs, and its failures have messages")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
