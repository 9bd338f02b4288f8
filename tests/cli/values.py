#!/usr/bin/env python3
"""Maps, sequences, optionals and sparse tensors on the command line: random, from .npz and .pb, written and read again.

  values.py INLAY"""
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

INLAY = sys.argv[1]
FOLDER = tempfile.TemporaryDirectory()
failed = 0


def path(name):
    return os.path.join(FOLDER.name, name)


def expect(good, what, text=""):
    global failed
    if not good:
        failed += 1
        print(f"FAIL {what}: {text}")


def save(nodes, inputs, outputs, weights=(), file="m.onnx"):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17),
                                                                   helper.make_opsetid("ai.onnx.ml", 3)]), path(file))


def run(*args, code=0):
    done = subprocess.run([INLAY, "run", path("m.onnx"), "--values", "100", *args], capture_output=True, text=True,
                          env=dict(os.environ, INLAY_CACHE_DIR="", INLAY_PROBE="never"), check=False)
    expect(done.returncode == code, " ".join(args), f"ended with {done.returncode}: {done.stderr}")
    return done.stdout + done.stderr


def value(name, fill):
    v = onnx.ValueInfoProto()
    v.name = name
    fill(v.type)
    return v


def map_type(t, key, element):
    t.map_type.key_type = key
    t.map_type.value_type.tensor_type.elem_type = element


def sparse_type(t, dims):
    t.sparse_tensor_type.elem_type = TensorProto.FLOAT
    for d in dims:
        t.sparse_tensor_type.shape.dim.add().dim_value = d


def tensor(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def check_maps():
    save([helper.make_node("DictVectorizer", ["m"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b", "c"])],
         [value("m", lambda t: map_type(t, TensorProto.STRING, TensorProto.FLOAT))], [tensor("y", TensorProto.FLOAT, None)])
    expect("float[1, 3]" in run(), "a made-up map")
    np.savez(path("m.npz"), keys=np.array(["c", "z", "a"]), values=np.array([1.5, 2, 3], np.float32))
    expect("= 3 0 1.5" in run("--input", "m=" + path("m.npz")), "a map from .npz")
    m = onnx.MapProto()
    m.key_type = TensorProto.STRING
    m.string_keys.extend([b"b", b"a"])
    m.values.elem_type = onnx.SequenceProto.TENSOR
    for x in (4, 5):
        m.values.tensor_values.append(numpy_helper.from_array(np.array([x], np.float32)))
    with open(path("m.pb"), "wb") as f:
        f.write(m.SerializeToString())
    expect("= 5 4 0" in run("--input", "m=" + path("m.pb")), "a map from .pb")
    np.savez(path("m.npz"), keys=np.array(["c", "z"]), values=np.array([1], np.float32))
    expect("a map has two items" in run("--input", "m=" + path("m.npz"), code=2), "a map with too few values")

    save([helper.make_node("CastMap", ["m"], ["y"], domain="ai.onnx.ml", map_form="SPARSE", max_map=4)],
         [value("m", lambda t: map_type(t, TensorProto.INT64, TensorProto.FLOAT))], [tensor("y", TensorProto.FLOAT, None)])
    np.savez(path("m.npz"), keys=np.array([3, 1]), values=np.array([7, -2], np.float32))
    expect("= 0 -2 0 7" in run("--input", "m=" + path("m.npz")), "CastMap")

    z = value("z", lambda t: map_type(t.sequence_type.elem_type, TensorProto.INT64, TensorProto.FLOAT))
    save([helper.make_node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[10, 20])],
         [tensor("x", TensorProto.FLOAT, ["n", 2])], [z])
    np.save(path("x.npy"), np.array([[1, 2], [3, 4]], np.float32))
    text = run("--input", "x=" + path("x.npy"), "--outputs", path("out"))
    expect("sequence(2)" in text and "map(2)" in text, "a sequence of maps", text)
    with open(path("out/z.1.pb"), "rb") as f:
        m.ParseFromString(f.read())
    expect(list(m.keys) == [10, 20] and [float(numpy_helper.to_array(v)[0]) for v in m.values.tensor_values] == [3, 4],
           "a map as .pb")


def check_lists():
    seq = value("s", lambda t: setattr(t.sequence_type.elem_type.tensor_type, "elem_type", TensorProto.FLOAT))
    out = value("y", lambda t: setattr(t.sequence_type.elem_type.tensor_type, "elem_type", TensorProto.FLOAT))
    save([helper.make_node("SequenceInsert", ["s", "x"], ["y"])], [seq, tensor("x", TensorProto.FLOAT, [2])], [out])
    s = onnx.SequenceProto()
    s.elem_type = onnx.SequenceProto.TENSOR
    s.tensor_values.append(numpy_helper.from_array(np.array([[1, 2, 3]], np.float32)))
    with open(path("s.pb"), "wb") as f:
        f.write(s.SerializeToString())
    text = run("--input", "s=" + path("s.pb"), "--outputs", path("list"))
    expect("sequence(2)" in text, "a sequence from .pb", text)
    expect(np.load(path("list/y.0.npy")).tolist() == [[1, 2, 3]], "the items of a sequence")


def check_sparse():
    for opset_dims in ([3, 4],):
        save([helper.make_node("Mul", ["s", "s"], ["y"])], [value("s", lambda t: sparse_type(t, opset_dims))],
             [value("y", lambda t: sparse_type(t, opset_dims))])
    want = np.zeros((3, 4), np.float32)
    want[0, 1], want[2, 0], want[2, 3] = 1, 4, 9
    line = "= " + " ".join(f"{x:g}" for x in want.ravel())
    expect("float[3, 4]" in run(), "a generated sparse input")
    data = np.array([1, 2, 3], np.float32)
    kinds = {
        "csr": dict(data=data, indices=np.array([1, 0, 3], np.int32), indptr=np.array([0, 1, 1, 3], np.int32),
                    shape=np.array([3, 4]), format=np.array(b"csr")),
        "csc": dict(data=data[[1, 0, 2]], indices=np.array([2, 0, 2], np.int32), indptr=np.array([0, 1, 2, 2, 3], np.int32),
                    shape=np.array([3, 4]), format=np.array(b"csc")),
        "coo": dict(data=data, row=np.array([0, 2, 2], np.int32), col=np.array([1, 0, 3], np.int32), shape=np.array([3, 4]),
                    format=np.array(b"coo")),
        "places": dict(values=data, indices=np.array([[0, 1], [2, 0], [2, 3]]), shape=np.array([3, 4])),
        "positions": dict(values=data, indices=np.array([1, 8, 11]), shape=np.array([3, 4])),
        "dense": dict(s=np.sqrt(want)),
    }
    for name, arrays in kinds.items():
        np.savez(path(name + ".npz"), **arrays)
        text = run("--input", "s=" + path(name + ".npz"), "--outputs", path("sparse"))
        expect(line in text, name, text)
    sparse = onnx.SparseTensorProto()
    with open(path("sparse/y.pb"), "rb") as f:
        sparse.ParseFromString(f.read())
    expect(list(sparse.dims) == [3, 4] and numpy_helper.to_array(sparse.values).tolist() == [1, 4, 9] and
           numpy_helper.to_array(sparse.indices).tolist() == [[0, 1], [2, 0], [2, 3]], "a sparse tensor as .pb")
    os.rename(path("sparse/y.pb"), path("sparse/s.pb"))
    text = run("--inputs", path("sparse"))
    expect("= 0 1 0 0 0 0 0 0 16 0 0 81" in text, "a sparse tensor from .pb", text)
    np.savez(path("y.npz"), values=np.array([1, 4, 9], np.float32), indices=np.array([1, 8, 11]), shape=np.array([3, 4]))
    run("--input", "s=" + path("csr.npz"), "--expect", FOLDER.name)
    np.savez(path("y.npz"), values=np.array([1, 4, 8], np.float32), indices=np.array([1, 8, 11]), shape=np.array([3, 4]))
    run("--input", "s=" + path("csr.npz"), "--expect", FOLDER.name, code=1)
    np.savez(path("bad.npz"), values=data, indices=np.array([1, 8, 12]), shape=np.array([3, 4]))
    expect("index 2 of a sparse tensor is out of range" in run("--input", "s=" + path("bad.npz"), code=2), "an index out of range")
    np.savez(path("bad.npz"), a=data, b=data)
    expect("expected data, indices" in run("--input", "s=" + path("bad.npz"), code=2), "an archive of other arrays")

    # The writer of models keeps the type.
    subprocess.run([INLAY, "optimize", path("m.onnx"), "-o", path("o.onnx")], capture_output=True, check=True)
    kept = onnx.load(path("o.onnx")).graph
    expect(kept.input[0].type.HasField("sparse_tensor_type") and kept.output[0].type.HasField("sparse_tensor_type"),
           "optimize keeps sparse types")


def check_archives():
    """--inputs and --expect take one archive with an array for each name."""
    two = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("a/b", "c")]
    save([helper.make_node("Sub", ["a/b", "c"], ["y"])], two, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    np.savez(path("in.npz"), a_b=np.array([5, 7], np.float32), c=np.array([1, 2], np.float32))
    np.savez(path("out.npz"), y=np.array([4, 5], np.float32))
    expect("= 4 5" in run("--inputs", path("in.npz"), "--expect", path("out.npz")), "an archive of inputs")
    np.savez(path("out.npz"), y=np.array([4, 6], np.float32))
    run("--inputs", path("in.npz"), "--expect", path("out.npz"), code=1)
    np.save(path("one.npy"), np.array([4, 5], np.float32))
    expect("every element is equal" in run("--inputs", path("in.npz"), "--expect", path("one.npy")), "an only output")
    np.save(path("one.npy"), np.array([4, 6], np.float32))
    run("--inputs", path("in.npz"), "--expect", path("one.npy"), code=1)
    expect("none.npy: No such file" in run("--inputs", path("in.npz"), "--expect", path("none.npy"), code=3), "no file")
    np.savez(path("less.npz"), c=np.array([1, 2], np.float32))
    expect("input 'a/b': no array with that name in" in run("--inputs", path("less.npz"), code=3), "an array is missing")
    np.savez(path("less.npz"), a_b=np.array([5, 0.1]), c=np.array([1, 2], np.float32))
    expect("= 4 -1.9" in run("--inputs", path("less.npz")), "doubles are rounded, as numbers in texts")
    np.savez(path("less.npz"), a_b=np.array([5, 1e39]), c=np.array([1, 2], np.float32))
    expect("has type double, but input 'a/b' is float, in which element 1, 1e+39, is too large" in run("--inputs", path("less.npz"), code=2), "another type")
    for flag in "--inputs", "--expect":
        expect(f"{flag} {path('m.onnx')}: expected a folder, or a .npz" in run(flag, path("m.onnx"), code=2), flag)
    save([helper.make_node("Split", ["c"], ["y", "z"])], two[1:],
         [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in ("y", "z")])
    expect("one.npy: the model has 2 outputs; give a folder" in run("--expect", path("one.npy"), code=2), "two outputs")


def check_tolerance():
    """--expect chooses its tolerance by the type of the expected value; --rtol and --atol override it."""
    halves = [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [2])]
    save([helper.make_node("Identity", ["x"], ["y"])], halves, [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [2])])
    np.savez(path("in.npz"), x=np.array([1, 2], np.float16))
    np.savez(path("out.npz"), y=np.array([1 + 2**-9, 2], np.float16))
    run("--inputs", path("in.npz"), "--expect", path("out.npz"))
    run("--inputs", path("in.npz"), "--expect", path("out.npz"), "--rtol", "1e-3", "--atol", "0", code=1)
    np.savez(path("out.npz"), y=np.array([1 + 2**-6, 2], np.float16))
    expect("tolerance" in run("--inputs", path("in.npz"), "--expect", path("out.npz"), code=1), "the tolerance is named")


def check_modules():
    """profile sums times by module, messages name line and module, and optimize --no-metadata drops the metadata."""
    def traced(op, inputs, output, module, line):
        made = helper.make_node(op, inputs, [output], name=output)
        for key, value in (("pkg.torch.onnx.stack_trace", f'File "/a/model.py", line {line}, in forward'),
                           ("pkg.torch.onnx.name_scopes", str(["", "net", module, op]))):
            entry = b"\x0a" + bytes([len(key)]) + key.encode() + b"\x12" + bytes([len(value)]) + value.encode()
            made.MergeFromString(b"\x4a" + bytes([len(entry)]) + entry)  # metadata_props, which old packages lack
        return made

    def traces(file):
        with open(file, "rb") as opened:
            return opened.read().count(b"pkg.torch.onnx.")
    # Two kernels that no provider fuses, so that each has a row of its own.
    nodes = [traced("MatMul", ["x", "x"], "a", "net.layers.0", 11), traced("TopK", ["a", "k"], "b", "net.head", 12)]
    nodes[1].output.append("i")
    square = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 8])]
    outputs = [helper.make_tensor_value_info("b", TensorProto.FLOAT, [8, 2]),
               helper.make_tensor_value_info("i", TensorProto.INT64, [8, 2])]
    save(nodes, square, outputs, [numpy_helper.from_array(np.array([2]), "k")])
    model, small = path("m.onnx"), path("small.onnx")

    def inlay(*arguments):
        return subprocess.run([INLAY, *arguments, "--no-config"], capture_output=True, text=True, check=True).stdout
    text = inlay("profile", model, "--runs", "2", "--no-peak", "--providers", "reference")
    expect("\nmodule " in text and "\nnet.layers.0 " in text and "\nnet.head " in text, "modules of a profile: " + text)
    steps = json.loads(inlay("profile", model, "--runs", "2", "--no-peak", "--json", "--providers", "reference"))["steps"]
    expect({step.get("module") for step in steps} >= {"net.layers.0", "net.head"}, "modules as JSON")
    explained = inlay("explain", model, "--json", "--providers", "reference")
    expect('"source": "model.py:11, net.layers.0"' in explained or '"source":"model.py:11, net.layers.0"' in explained,
           "sources in explain: " + explained[:600])
    text = inlay("explain", model, "--providers", "reference")
    expect("\nmodules, most expensive first" in text and "\nnet.head " in text, "modules in explain: " + text)
    # Exporters that store no modules put them into the names of nodes.
    nodes = [helper.make_node("MatMul", ["x", "x"], ["a"], name="/net/layers.0/MatMul"),
             helper.make_node("TopK", ["a", "k"], ["b", "i"], name="/net/head/TopK")]
    save(nodes, square, outputs, [numpy_helper.from_array(np.array([2]), "k")], "named.onnx")
    text = inlay("profile", path("named.onnx"), "--runs", "2", "--no-peak", "--providers", "reference")
    expect("\n/net/layers.0 " in text and "\n/net/head " in text, "modules in names, profile: " + text)
    text = inlay("explain", path("named.onnx"), "--providers", "reference")
    expect("\n/net/layers.0 " in text and "\n/net/head " in text, "modules in names, explain: " + text)
    # Of many modules, the deepest level that fits a table; --all shows every module.
    names = [f"/net/block.{i // 3}/part.{i % 3}/Add" for i in range(60)]
    nodes = [helper.make_node("MatMul", [f"v{i}", "x"], [f"v{i + 1}"], name=n) for i, n in enumerate(names)]
    save(nodes, [helper.make_tensor_value_info("v0", TensorProto.FLOAT, [8, 8]), *square],
         [helper.make_tensor_value_info("v60", TensorProto.FLOAT, [8, 8])], file="deep.onnx")
    for arguments in (("profile", "--runs", "2", "--no-peak"), ("explain",)):
        text = inlay(*arguments, path("deep.onnx"), "--providers", "cpu,reference", "--level", "0")
        rows = re.findall(r"^/net\S*", text[text.index("\nmodule"):].split("\n\n")[0], re.M)
        expect(sorted(rows) == sorted(f"/net/block.{i}" for i in range(20)), f"modules of a level: {rows}")
    text = inlay("explain", "--all", path("deep.onnx"), "--providers", "reference", "--level", "0")
    expect(all(f"\n{n[:-4]} " in text for n in names), "every module")
    inlay("optimize", model, "-o", small)
    expect(traces(small) == 4, "optimize keeps metadata")
    inlay("optimize", model, "-o", small, "--no-metadata")
    expect(traces(small) == 0, "optimize --no-metadata")


check_modules()
check_tolerance()
check_maps()
check_lists()
check_archives()
check_sparse()
print("all as expected" if failed == 0 else f"{failed} failed")
sys.exit(failed != 0)
