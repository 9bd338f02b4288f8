#!/usr/bin/env python3
"""Models written by `inlay optimize -o`, at every level, are valid elsewhere: ONNX's checker accepts them fully if it
accepts the original, and nothing in them is unread. `inlay check` reports all faults of a file, not only the first.

  written.py INLAY MODEL|DIR...         every model.onnx below the folders
With PEER_BENCH (ort_bench) and PEER_LIBRARY (libonnxruntime) in the environment ONNX Runtime loads each, too."""
import json
import os
import subprocess
import sys
import tempfile

import onnx
from onnx import TensorProto, helper

INLAY = sys.argv[1]
LEVELS = ("0", "1", "2", "99")
PEER = [os.environ[k] for k in ("PEER_BENCH", "PEER_LIBRARY") if k in os.environ]


def is_valid(path):
    try:  # not by path: onnx before 1.14 then replaces the file by one with inferred shapes
        onnx.checker.check_model(onnx.load(path), full_check=True)
        return ""
    except Exception as e:  # several types
        return str(e).strip().split("\n")[0][:200]


def loads(path):
    if len(PEER) != 2:
        return ""
    done = subprocess.run([*PEER, path, "--seconds", "0", "--warmup", "0"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr + done.stdout).strip()[-200:]


def names_read(graph):
    """The names that the nodes of a graph and of its bodies read, and those of outputs."""
    names = {o.name for o in graph.output}
    for node in graph.node:
        names.update(node.input)
        for a in node.attribute:
            for body in [a.g] * a.HasField("g") + list(a.graphs):
                names |= names_read(body)
    return names


def unread(path):
    graph = onnx.load(path).graph
    left = {i.name for i in graph.initializer} - names_read(graph) - {i.name for i in graph.input}
    return f"nothing reads {sorted(left)[:3]}" if left else ""


def check_written(path, folder):
    if is_valid(path) != "":
        return 0, 0
    was_loaded = loads(path) == ""
    tried = wrong = 0
    for level in LEVELS:
        out = os.path.join(folder, "o.onnx")
        done = subprocess.run([INLAY, "optimize", path, "-o", out, "--level", level], capture_output=True, text=True,
                              env=dict(os.environ, INLAY_CACHE_DIR="", INLAY_PROBE="never"), check=False)
        said = (done.stderr.strip() if done.returncode != 0
                else is_valid(out) or unread(out) or (loads(out) if was_loaded else ""))
        tried += 1
        if said != "":
            wrong += 1
            print(f"FAIL {path}, level {level}: {said}")
    return tried, wrong


def check_faults(folder):
    """Each kind of fault is reported once, with its place, and so are later faults."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])
    nodes = [helper.make_node("Relu", ["nope"], ["a"]), helper.make_node("Foo", ["x"], ["b"]),
             helper.make_node("Relu", ["x"], ["c"], alpha=1.0), helper.make_node("Relu", ["x"], ["a"]),
             helper.make_node("Add", ["x"], ["d"])]
    graph = helper.make_graph(nodes, "g", [x], [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in
                                                ("missing", "d", "gone")])
    path = os.path.join(folder, "bad.onnx")
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
    done = subprocess.run([INLAY, "check", path, "--json"], capture_output=True, text=True, check=False)
    found = [(f["code"], f["path"]) for f in json.loads(done.stdout)["findings"]]
    want = [("name-repeated", "$.graph.node[3]"), ("value-not-made", "$.graph"), ("value-not-made", "$.graph"),
            ("value-not-made", "$.graph.node[0]"), ("operator-unknown", "$.graph.node[1]"),
            ("attribute-unknown", "$.graph.node[2]"), ("input-count", "$.graph.node[4]")]
    if done.returncode != 3 or found != want:
        print(f"FAIL check ended with {done.returncode} and found {found}, expected {want}")
        return 1
    return 0


def main():
    tried = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        wrong += check_faults(folder)
        for root in sys.argv[2:]:
            paths = [root] if root.endswith(".onnx") else sorted(
                os.path.join(d, f) for d, _, files in os.walk(root) for f in files if f == "model.onnx")
            for path in paths:
                one = check_written(path, folder)
                tried += one[0]
                wrong += one[1]
    print(f"{tried} files written, {wrong} wrong")
    return wrong != 0 or tried == 0


sys.exit(main())
