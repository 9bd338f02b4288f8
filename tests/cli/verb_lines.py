"""Arguments of each verb for the tests of all verbs (table.py, files.py): a new verb needs a row of PLAIN."""
import base64

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

# Arguments of a plain run, and of a run slow enough to be interrupted (None: every run is too fast).
PLAIN = {
    "run": "model.onnx", "test": "onnx/test_one", "bench": "model.onnx --runs 2", "serve": None,
    "inspect": "model.onnx", "check": "model.onnx", "doctor": "model.onnx --seconds 0", "optimize": "model.onnx -o out.onnx",
    "edit": "model.onnx --set-metadata a=b -o out.onnx", "diff": "model.onnx model.onnx",
    "extract": "model.onnx --outputs features -o out.onnx", "bundle": None, "pipe": "classify.onnx --post softmax -o out.onnx",
    "reduce": "model.onnx --check false -o out.onnx",
    "sign": "model.onnx --key key.pem", "verify": None, "verify-run": None, "pack": None, "admit": None,
    "tune": "model.onnx --budget-s 0.1", "quantize": "model.onnx -o out.onnx", "compare": "model.onnx model.onnx",
    "lock": "model.onnx -o out.lock --no-time", "bisect": "model.onnx", "profile": "model.onnx --runs 2 --no-peak", "explain": "model.onnx",
    "advise": "model.onnx --deadline-ms 1000 --on zen4 --threads 1", "partition": "model.onnx", "config": "", "cache": "", "providers": "", "plugin-check": None,
    "generate": None, "chat": None, "tokenize": None, "transcribe": None,
}
LONG = {
    "bench": "model.onnx --seconds 60", "doctor": "model.onnx --seconds 60", "profile": "model.onnx --runs 4000 --seconds 60 --no-peak",
    "explain": "model.onnx --measure --seconds 60", "reduce": "model.onnx --check 'sleep 1; false' -o out.onnx",
    "compare": "model.onnx model.onnx --metric 'custom:sleep 1; echo 1 #' --samples 60",
    "test": "onnx",
    "run": "large.onnx", "optimize": "large.onnx -o out.onnx", "edit": "large.onnx --set-metadata a=b -o out.onnx",
    "diff": "large.onnx other.onnx", "extract": "large.onnx --split 8 -o out.onnx",
    "bundle": "large.onnx -o out", "pipe": "large.onnx --post softmax -o out.onnx", "tune": "large.onnx",
    "quantize": "large.onnx -o out.onnx", "lock": "large.onnx -o out.lock", "bisect": "large.onnx", "partition": "large.onnx",
    "advise": "large.onnx --deadline-ms 1000", "plugin-check": "build/blur.so",
}
# Verbs that read a model, and the arguments after it.
BEHIND = {"advise": "--deadline-ms 1000 --on zen4", "generate": "--prompt x", "tokenize": "--text x",
          "extract": "--outputs y -o out.onnx", "edit": "--set-metadata a=b -o out.onnx", "bundle": "-o out",
          "pipe": "--post softmax -o out.onnx", "reduce": "--check false -o out.onnx", "quantize": "-o out.onnx", "lock": "-o out.lock",
          "optimize": "-o out.onnx", "doctor": "--seconds 0", "compare": "@", "diff": "@", "serve": None, "transcribe": None, "test": "",
          "sign": "--key key.pem", "verify": "--key key.pem", "verify-run": None, "pack": "--variants fp32 -o out.pkg", "admit": None, "plugin-check": "", "config": None, "cache": None, "providers": None}


def save_model(path, output):
    """Saves a model of one layer, x [1, 16] to `output` [1, 16]."""
    w = numpy_helper.from_array(np.ones((16, 16), np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], [output])]
    io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 16]) for n in ("x", output)]
    graph = helper.make_graph(nodes, "g", io[:1], io[1:], [w])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def stage_keys():
    """The keys that the lines above name: key.pem and pub.pem, of the first test of RFC 8032."""
    seed = "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="
    public = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
    for name, kind, begin, key in (("key.pem", "PRIVATE", "302e020100300506032b657004220420", seed),
                                   ("pub.pem", "PUBLIC", "302a300506032b6570032100", public)):
        text = base64.b64encode(bytes.fromhex(begin) + base64.b64decode(key)).decode()
        with open(name, "w", encoding="ascii") as f:
            f.write(f"-----BEGIN {kind} KEY-----\n{text}\n-----END {kind} KEY-----\n")
