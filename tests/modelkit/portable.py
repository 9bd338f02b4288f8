#!/usr/bin/env python3
"""Files of `inlay optimize -o` are valid, and load wherever the original loads.

  portable.py INLAY [--peer DIR] [--every N] FOLDER...

Optimises every Nth model.onnx and *.onnx below the FOLDERs, and models of its own, and checks the result with ONNX's
checker if that accepts the original. Types without an element type, and QLinearConv of types that ONNX Runtime 1.30
lacks, are looked for in any file. With --peer, or INLAY_PEER
in the environment, the folder that tests/models/peer/setup.sh made: what loads in ONNX Runtime must load there once it
is optimised."""
import argparse
import itertools
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F, info = TensorProto.FLOAT, helper.make_tensor_value_info


def save(path, nodes, inputs, outputs, opset, constants=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in constants])
    with open(path, "wb") as file:
        file.write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
                   .SerializeToString())
    return path


def own_models(folder):
    """(path, flags) of models that once became files that others do not load."""
    x, y = info("x", F, [3, 2]), info("y", F, [3, 2])
    node = helper.make_node
    body = helper.make_graph(
        [node("SequenceAt", ["s", "i"], ["r"]), node("Mul", ["r", "r"], ["q"]), node("SequenceInsert", ["t", "q"], ["t2"]),
         node("Identity", ["go"], ["go2"])], "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), helper.make_empty_tensor_value_info("t")],
        [info("go2", TensorProto.BOOL, []), helper.make_empty_tensor_value_info("t2")])
    yield save(f"{folder}/untyped_sequence.onnx", [
        node("SplitToSequence", ["x"], ["s"], axis=0, keepdims=1), node("SequenceEmpty", [], ["none"], dtype=F),
        node("Loop", ["n", "", "none"], ["all"], body=body),
        node("ConcatFromSequence", ["all"], ["y"], axis=0)], [x], [y], 16, [("n", np.array(3, np.int64))]), []
    for opset in (17, 24, 25):
        yield save(f"{folder}/silu_{opset}.onnx", [node("Sigmoid", ["x"], ["s"]), node("Mul", ["x", "s"], ["y"])], [x], [y],
                   opset), []
        yield save(f"{folder}/scaled_silu_{opset}.onnx", [
            node("Mul", ["x", "c"], ["a"]), node("Sigmoid", ["a"], ["s"]), node("Mul", ["x", "s"], ["y"])], [x], [y], opset,
            [("c", np.array(1.702, np.float32))]), []
    for dtype in (TensorProto.FLOAT16, TensorProto.DOUBLE):
        ends = [info("x", dtype, [3, 2])], [info("y", dtype, [3, 2])]
        scale = np.ones(2, np.float16 if dtype == TensorProto.FLOAT16 else np.float64)
        for form in ("none", "tanh"):
            yield save(f"{folder}/gelu_{form}_{dtype}.onnx", [node("Gelu", ["x"], ["y"], approximate=form)], *ends, 20), [
                "--opset", "17"]
        yield save(f"{folder}/norm_{dtype}.onnx", [node("LayerNormalization", ["x", "w"], ["y"])], *ends, 17,
                   [("w", scale)]), ["--opset", "13"]
    zero = {"u": np.uint8(128), "s": np.int8(0)}
    for types in itertools.product("us", repeat=3):  # of input, weights and output
        zeros = [zero[t] for t in types]
        yield save(f"{folder}/conv_{''.join(types)}.onnx", [
            node("QuantizeLinear", ["x", "s", "z0"], ["a"]), node("DequantizeLinear", ["a", "s", "z0"], ["b"]),
            node("DequantizeLinear", ["w", "s", "z1"], ["v"]), node("Conv", ["b", "v"], ["c"]),
            node("QuantizeLinear", ["c", "s", "z2"], ["d"]), node("DequantizeLinear", ["d", "s", "z2"], ["y"])],
            [info("x", F, [1, 2, 4, 4])], [info("y", F, [1, 2, 2, 2])], 13,
            [("s", np.array(.1, np.float32)), ("w", np.arange(36).reshape(2, 2, 3, 3).astype(zeros[1].dtype)),
             *((f"z{i}", np.array(z)) for i, z in enumerate(zeros))]), []


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    return done.returncode, (done.stderr + done.stdout).strip()[-300:]


def types_of(graph):
    """The types of all values in a graph and its bodies."""
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if value.HasField("type"):
            yield value.name, value.type
    for node in graph.node:
        for attribute in node.attribute:
            for body in [attribute.g, *attribute.graphs]:
                yield from types_of(body)


def has_no_element(kind):
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        return getattr(kind, which).elem_type == 0
    return which in ("sequence_type", "optional_type") and has_no_element(getattr(kind, which).elem_type)


def foreign_convs(graph):
    """Names of QLinearConv nodes whose zero points have types together that ONNX Runtime lacks."""
    types = {t.name: t.data_type for t in graph.initializer}
    known = [(TensorProto.UINT8, w, TensorProto.UINT8) for w in (TensorProto.UINT8, TensorProto.INT8)]
    known.append((TensorProto.INT8,) * 3)
    for node in graph.node:
        if node.op_type == "QLinearConv" and all(node.input[i] in types for i in (2, 5, 7)) and \
                tuple(types[node.input[i]] for i in (2, 5, 7)) not in known:
            yield node.name


def is_valid(path):
    try:
        onnx.checker.check_model(path)
        return None
    except Exception as error:  # the checker raises several types
        return str(error).strip().split("\n")[0]


def peer_refuses(peer, path):
    code, said = run(f"{peer}/ort_bench", f"{peer}/libonnxruntime.so.1", path, "--threads", "1", "--seconds", "0",
                     "--warmup", "0", "--level", "0")
    return said if code != 0 else None


def wrong_with(args, path, flags, out):
    code, said = run(args.inlay, "optimize", path, "-o", out, "--quiet", *flags)
    if code != 0:
        return f"inlay optimize ended with {code}: {said}" if flags else None  # a model that inlay does not support
    graph = onnx.load(out, load_external_data=False).graph
    untyped = [name for name, kind in types_of(graph) if has_no_element(kind)]
    if untyped:
        return f"{untyped} have types without an element type"
    foreign = list(foreign_convs(graph))
    if foreign and not list(foreign_convs(onnx.load(path, load_external_data=False).graph)):
        return f"{foreign} are QLinearConv of types that ONNX Runtime lacks"
    found = is_valid(out)
    if found and not is_valid(path):
        return f"onnx.checker: {found}"
    if args.peer and not peer_refuses(args.peer, path):
        found = peer_refuses(args.peer, out)
        if found:
            return f"ONNX Runtime: {found}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inlay")
    parser.add_argument("--peer", default=os.environ.get("INLAY_PEER"))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("folders", nargs="*")
    args = parser.parse_intermixed_args()
    wrong = tried = 0
    with tempfile.TemporaryDirectory() as folder:
        found = sorted(os.path.join(where, name) for top in args.folders for where, _, names in os.walk(top)
                       for name in names if name.endswith(".onnx"))
        for path, flags in [*own_models(folder), *((p, []) for p in found[::args.every])]:
            tried += 1
            what = wrong_with(args, path, flags, f"{folder}/out.onnx")
            if what:
                wrong += 1
                print(f"{path}: {what}", flush=True)
    print(f"{tried} models, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
