"""inlay extract, compared with the documentation of similar tools: onnx.utils.extract_model, polygraphy surgeon extract.

  extracts.py INLAY

Each part is run, and must compute the same as numpy or as the whole model. Stages of --split run in sequence."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

INLAY = os.path.abspath(sys.argv[1])
PLAIN = ["--no-config", "--cache-dir", "", "--probe", "never", "--intra-threads", "1", "--providers", "reference", "--quiet"]
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
VALUE, NODE = helper.make_tensor_value_info, helper.make_node
RNG = np.random.default_rng(5)


def floats(*dims):
    return RNG.normal(0, 0.5, dims).astype(np.float32)


def inlay(*args, code=0):
    done = subprocess.run([INLAY, *args, "--json"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
    if done.returncode != code:
        raise AssertionError(f"inlay {' '.join(args)}: {done.returncode}\n{done.stdout[-800:]}{done.stderr[-800:]}")
    return json.loads(done.stdout)


def save(path, nodes, inputs, outputs, weights=None, functions=(), opsets=(("", 17),)):
    inits = [numpy_helper.from_array(np.asarray(v), n) for n, v in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, inits)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*o) for o in opsets], ir_version=8, functions=list(functions))
    onnx.save(model, path)


def extract(model, *args, out="part.onnx"):
    """The part, loaded with ONNX's package, after ONNX's checker and `inlay check`."""
    inlay("extract", model, *args, "-o", out, *PLAIN)
    onnx.checker.check_model(out)
    assert inlay("check", out)["findings"] == [], out
    return onnx.load(out)


def run(path, values, *more):
    """The outputs of a run by name; values: arrays by name, of which the inputs of the model are used."""
    shutil.rmtree("in", ignore_errors=True)
    shutil.rmtree("out", ignore_errors=True)
    os.mkdir("in")
    given = []
    for i, name in enumerate(names(onnx.load(path, load_external_data=False).graph.input)):
        np.save(f"in/{i}.npy", values[name])
        given += ["--input", f"{name}=in/{i}.npy"]
    inlay("run", path, *given, "--outputs", "out", *PLAIN, *more)
    return {name[:-4]: np.load("out/" + name) for name in os.listdir("out")}


def names(values):
    return [v.name for v in values]


def shape(value):
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


class Documented(unittest.TestCase):
    """The examples and tests of the two tools."""

    @staticmethod
    def diamond(path):
        pair = [VALUE(n, FLOAT, [1, 2]) for n in ("A0", "A1")]
        save(path, [NODE("Add", ["A0", "A1"], ["B0"]), NODE("Sub", ["A0", "A1"], ["B1"]), NODE("Mul", ["A0", "A1"], ["B2"]),
                    NODE("Add", ["B0", "B1"], ["C0"]), NODE("Sub", ["B1", "B2"], ["C1"]), NODE("Mul", ["C0", "C1"], ["D0"])],
             pair, [VALUE("D0", FLOAT, [1, 2])])

    def test_onnx_utils(self):
        self.diamond("diamond.onnx")
        part = extract("diamond.onnx", "--inputs", "B0,B1,B2", "--outputs", "C0,C1")
        whole = onnx.load("diamond.onnx")
        self.assertEqual((part.ir_version, part.opset_import), (whole.ir_version, whole.opset_import))
        self.assertEqual([n.op_type for n in part.graph.node], ["Add", "Sub"])
        self.assertEqual(list(part.graph.input), [VALUE(n, FLOAT, [1, 2]) for n in ("B0", "B1", "B2")])
        self.assertEqual(list(part.graph.output), [VALUE(n, FLOAT, [1, 2]) for n in ("C0", "C1")])
        b = {n: floats(1, 2) for n in ("B0", "B1", "B2")}
        made = run("part.onnx", b)
        self.assertEqual(made["C0"].tolist(), (b["B0"] + b["B1"]).tolist())
        self.assertEqual(made["C1"].tolist(), (b["B1"] - b["B2"]).tolist())

    def test_outputs_read_by_others(self):
        self.diamond("diamond.onnx")
        part = extract("diamond.onnx", "--outputs", "D0,B1,C0")
        self.assertEqual(names(part.graph.output), ["D0", "B1", "C0"])
        x = {"A0": floats(1, 2), "A1": floats(1, 2)}
        made = run("part.onnx", x)
        self.assertEqual(made["D0"].tolist(), run("diamond.onnx", x)["D0"].tolist())
        self.assertEqual(made["B1"].tolist(), (x["A0"] - x["A1"]).tolist())

    def test_polygraphy_isolates(self):
        """Extracts a * x1 + b from y = x0 + (a * x1 + b); types and shapes are inferred."""
        save("model.onnx", [NODE("Mul", ["a", "x1"], ["mul_out"]), NODE("Add", ["mul_out", "b"], ["add_out"]),
                            NODE("Add", ["x0", "add_out"], ["Y"])],
             [VALUE("x0", FLOAT, [1, 3, 8, 8]), VALUE("x1", FLOAT, [1, 3, 8, 8])], [VALUE("Y", FLOAT, [1, 3, 8, 8])],
             {"a": floats(1, 3, 8, 8), "b": floats(1, 3, 8, 8)})
        part = extract("model.onnx", "--inputs", "x1", "--outputs", "add_out")
        self.assertEqual((names(part.graph.input), names(part.graph.output)), (["x1"], ["add_out"]))
        self.assertEqual(shape(part.graph.output[0]), [1, 3, 8, 8])
        weights = {i.name: numpy_helper.to_array(i) for i in part.graph.initializer}
        self.assertEqual(sorted(weights), ["a", "b"])
        x = floats(1, 3, 8, 8)
        np.testing.assert_allclose(run("part.onnx", {"x1": x})["add_out"], weights["a"] * x + weights["b"], rtol=1e-6)

    def test_polygraphy_identities(self):
        save("two.onnx", [NODE("Identity", ["X"], ["identity_out_0"]), NODE("Identity", ["identity_out_0"], ["identity_out_2"])],
             [VALUE("X", FLOAT, ["B", 2, 1])], [VALUE("identity_out_2", FLOAT, ["B", 2, 1])])
        x = floats(3, 2, 1)
        for args, first, count in ((["--inputs", "X"], "X", 2), (["--inputs", "identity_out_0"], "identity_out_0", 1),
                                   (["--inputs", "identity_out_0", "--outputs", "identity_out_2"], "identity_out_0", 1),
                                   (["--outputs", "identity_out_2"], "X", 2)):
            part = extract("two.onnx", *args)
            self.assertEqual((names(part.graph.input), len(part.graph.node)), ([first], count), args)
            self.assertEqual(shape(part.graph.input[0]), ["B", 2, 1])  # open sizes keep their names
            self.assertEqual(run("part.onnx", {first: x})["identity_out_2"].tolist(), x.tolist())
        inlay("edit", "part.onnx", "--fix-dim", "B=3", "-o", "fixed.onnx")  # --inputs X:[3,2,1]:float32
        self.assertEqual(shape(onnx.load("fixed.onnx").graph.input[0]), [3, 2, 1])


class Cuts(unittest.TestCase):
    def test_shapes_are_inferred(self):
        save("net.onnx", [NODE("Conv", ["x", "w"], ["c"], pads=[1] * 4, strides=[2, 2]), NODE("Relu", ["c"], ["r"]),
                          NODE("Flatten", ["r"], ["f"]), NODE("Shape", ["f"], ["n"])],
             [VALUE("x", FLOAT, ["N", 3, 8, 8])], [VALUE("n", INT64, [2])], {"w": floats(4, 3, 3, 3)})
        part = extract("net.onnx", "--inputs", "c", "--outputs", "f,n")
        self.assertEqual(shape(part.graph.input[0]), ["N", 4, 4, 4])
        self.assertEqual((shape(part.graph.output[0]), shape(part.graph.output[1])), (["N", 64], [2]))
        self.assertEqual(part.graph.output[1].type.tensor_type.elem_type, INT64)
        self.assertEqual(len(part.graph.initializer), 0)

    def test_one_result_of_several(self):
        """A value becomes an input, and another output of the same node is still computed."""
        save("split.onnx", [NODE("Split", ["x"], ["a", "b"], axis=1), NODE("Relu", ["a"], ["r"]), NODE("Sub", ["r", "b"], ["y"])],
             [VALUE("x", FLOAT, ["N", 4])], [VALUE("y", FLOAT, None)], opsets=(("", 13),))
        part = extract("split.onnx", "--inputs", "x,a", "--outputs", "y")
        self.assertEqual(names(part.graph.input), ["x", "a"])
        x, a = floats(2, 4), floats(2, 2)
        np.testing.assert_array_equal(run("part.onnx", {"x": x, "a": a})["y"], np.maximum(a, 0) - x[:, 2:])

    def test_names_repeat(self):
        save("chain.onnx", [NODE("Relu", ["x"], ["a"]), NODE("Neg", ["a"], ["y"])], [VALUE("x", FLOAT, [3])],
             [VALUE("y", FLOAT, [3])])
        part = extract("chain.onnx", "--inputs", "a,a", "--outputs", "y,y*")
        self.assertEqual((names(part.graph.input), names(part.graph.output)), (["a"], ["y"]))

    def test_depth(self):
        chain = [NODE("Relu", ["x"], ["v0"])] + [NODE("Neg", [f"v{i}"], [f"v{i + 1}"], f"neg{i}") for i in range(6)]
        save("chain.onnx", chain, [VALUE("x", FLOAT, [3])], [VALUE("v6", FLOAT, [3])])
        for depth, first, last in ((0, "v3", "v4"), (1, "v2", "v5"), (2, "v1", "v6"), (3, "v0", "v6"), (4, "x", "v6")):
            part = extract("chain.onnx", "--nodes", "neg3", "--depth", str(depth))
            self.assertEqual((names(part.graph.input), names(part.graph.output)), ([first], [last]), depth)

    def test_external_data(self):
        """Only the necessary external data is read, and written into the part or to a file next to it."""
        save("big.onnx", [NODE("MatMul", ["x", "w1"], ["h"]), NODE("MatMul", ["h", "w2"], ["y"])], [VALUE("x", FLOAT, ["N", 64])],
             [VALUE("y", FLOAT, None)], {"w1": floats(64, 96), "w2": floats(96, 32)})
        model, x = onnx.load("big.onnx"), {"x": floats(2, 64)}
        onnx.save_model(model, "big.onnx", save_as_external_data=True, location="big.data", size_threshold=0)
        whole = run("big.onnx", x)["y"]
        inlay("extract", "big.onnx", "--outputs", "h", "-o", "inlined.onnx", *PLAIN)
        self.assertGreater(os.path.getsize("inlined.onnx"), 64 * 96 * 4)
        inlay("extract", "big.onnx", "--inputs", "h", "-o", "beside.onnx", "--external", "beside.data", *PLAIN)
        self.assertLess(os.path.getsize("beside.onnx"), 1000)
        self.assertTrue(96 * 32 * 4 <= os.path.getsize("beside.data") < 96 * 32 * 4 + 4096)
        os.rename("big.data", "gone.data")  # neither needs it any more
        h = run("inlined.onnx", x)
        self.assertEqual(run("beside.onnx", h)["y"].tolist(), whole.tolist())

    def test_functions(self):
        """Functions are kept as functions; those that the part does not call are removed."""
        made = [helper.make_function("my", n, ["p"], ["q"], [NODE(op, ["p"], ["q"])], [helper.make_opsetid("", 17)])
                for n, op in (("inner", "Neg"), ("other", "Exp"))]
        made.append(helper.make_function("my", "outer", ["p"], ["q"], [NODE("inner", ["p"], ["t"], domain="my"), NODE("Abs", ["t"], ["q"])],
                                         [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]))
        save("calls.onnx", [NODE("outer", ["x"], ["a"], domain="my"), NODE("other", ["a"], ["y"], domain="my")],
             [VALUE("x", FLOAT, [4])], [VALUE("y", FLOAT, [4])], functions=made, opsets=(("", 17), ("my", 1)))
        part = extract("calls.onnx", "--outputs", "a")
        self.assertEqual([n.op_type for n in part.graph.node], ["outer"])
        self.assertLessEqual({"outer", "inner"}, {f.name for f in part.functions})
        self.assertEqual(shape(part.graph.output[0]), [4])
        x = floats(4)
        self.assertEqual(run("part.onnx", {"x": x})["a"].tolist(), np.abs(x).tolist())
        part = extract("calls.onnx", "--inputs", "a")
        self.assertEqual([n.op_type for n in part.graph.node], ["other"])


def write_mlp(path):
    nodes = []
    for i in range(5):
        nodes += [NODE("MatMul", ["x" if i == 0 else f"r{i - 1}", f"w{i}"], [f"m{i}"]), NODE("Add", [f"m{i}", f"b{i}"], [f"a{i}"]),
                  NODE("Tanh", [f"a{i}"], ["y" if i == 4 else f"r{i}"])]
    weights = {f"w{i}": floats(16, 16) for i in range(5)} | {f"b{i}": floats(16) for i in range(5)}
    save(path, nodes, [VALUE("x", FLOAT, ["N", 16])], [VALUE("y", FLOAT, None)], weights)
    return {"x": floats(3, 16)}


def write_residual(path):
    """The last stage uses a value of the first one: each stage in between passes it on."""
    nodes = [NODE("Conv", ["x", "w0"], ["c0"], pads=[1] * 4), NODE("Relu", ["c0"], ["r0"]),
             NODE("Conv", ["r0", "w1"], ["c1"], pads=[1] * 4), NODE("Add", ["c1", "c0"], ["s"]), NODE("Relu", ["s"], ["r1"]),
             NODE("GlobalAveragePool", ["r1"], ["p"]), NODE("Flatten", ["p"], ["f"]), NODE("Gemm", ["f", "w2"], ["y"])]
    save(path, nodes, [VALUE("x", FLOAT, [1, 3, 9, 9])], [VALUE("y", FLOAT, None), VALUE("r0", FLOAT, None)],
         {"w0": floats(8, 3, 3, 3), "w1": floats(8, 8, 3, 3), "w2": floats(8, 5)})
    return {"x": floats(1, 3, 9, 9)}


def write_attention(path):
    nodes = [NODE("MatMul", ["x", "wq"], ["q"]), NODE("MatMul", ["x", "wk"], ["k"]), NODE("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
             NODE("MatMul", ["q", "kt"], ["a"]), NODE("Shape", ["x"], ["dims"]), NODE("Softmax", ["a"], ["p"]),
             NODE("MatMul", ["p", "x"], ["o"]), NODE("Reshape", ["o", "dims"], ["y"])]
    save(path, nodes, [VALUE("x", FLOAT, ["B", "L", 8])], [VALUE("y", FLOAT, None)], {"wq": floats(8, 8), "wk": floats(8, 8)})
    return {"x": floats(2, 5, 8)}


def write_recurrent(path):
    nodes = [NODE("Transpose", ["x"], ["t"], perm=[1, 0, 2]), NODE("LSTM", ["t", "w", "r"], ["h", "last", "cell"], hidden_size=6),
             NODE("Squeeze", ["h", "one"], ["s"]), NODE("Split", ["s"], ["s0", "s1"], axis=0), NODE("Mul", ["s0", "s1"], ["m"]),
             NODE("Add", ["last", "cell"], ["y"])]
    save(path, nodes, [VALUE("x", FLOAT, [2, 4, 3])], [VALUE("m", FLOAT, None), VALUE("y", FLOAT, None)],
         {"w": floats(1, 24, 3), "r": floats(1, 24, 6), "one": np.array([1])}, opsets=(("", 13),))
    return {"x": floats(2, 4, 3)}


def write_control(path):
    """A loop over a function, and a branch, whose bodies capture what other stages compute."""
    half = helper.make_function("my", "half", ["p"], ["q"], [NODE("Constant", [], ["c"], value_float=0.5), NODE("Mul", ["p", "c"], ["q"])],
                                [helper.make_opsetid("", 17)])
    body = helper.make_graph([NODE("Identity", ["on"], ["on2"]), NODE("Add", ["h", "a"], ["g"]), NODE("half", ["g"], ["h2"], domain="my")],
                             "body", [VALUE("i", INT64, []), VALUE("on", BOOL, []), VALUE("h", FLOAT, [2, 4])],
                             [VALUE("on2", BOOL, []), VALUE("h2", FLOAT, [2, 4])])
    arms = {k: helper.make_graph([NODE(op, ["l", "a"], [k])], k, [], [VALUE(k, FLOAT, [2, 4])])
            for k, op in (("then_branch", "Add"), ("else_branch", "Sub"))}
    nodes = [NODE("Relu", ["x"], ["a"]), NODE("Loop", ["three", "", "x"], ["l"], body=body), NODE("ReduceSum", ["l"], ["s"], keepdims=0),
             NODE("Greater", ["s", "zero"], ["up"]), NODE("If", ["up"], ["b"], **arms), NODE("Neg", ["b"], ["y"])]
    save(path, nodes, [VALUE("x", FLOAT, [2, 4])], [VALUE("y", FLOAT, None)],
         {"three": np.array(3), "zero": np.array(0, np.float32)}, functions=[half], opsets=(("", 17), ("my", 1)))
    return {"x": floats(2, 4)}


class Incomplete(unittest.TestCase):
    def test_missing_file(self):
        """A model is all of its files, for every verb and for ONNX's package: without one of them no part is extracted, also
        if that part does not read it."""
        save("model.onnx", [NODE("Add", ["x", "a"], ["s"]), NODE("Mul", ["s", "b"], ["y"])], [VALUE("x", FLOAT, [256])],
             [VALUE("y", FLOAT, [256])], {"a": floats(256), "b": floats(256)})
        model = onnx.load("model.onnx")
        for tensor in model.graph.initializer:
            onnx.external_data_helper.set_external_data(tensor, tensor.name + ".bin")
        onnx.save(model, "model.onnx")
        os.rename("b.bin", "elsewhere.bin")
        for part in (["--outputs", "s"], ["--inputs", "s", "--outputs", "y"], ["--nodes", "op:Add"], ["--split", "2"]):
            said = inlay("extract", "model.onnx", *part, "-o", "missing.onnx", *PLAIN, code=3)["error"]
            self.assertRegex(said["text"], "tensor 'b': external file 'b.bin' cannot be opened .* put it into the model's folder")
            self.assertEqual([name for name in os.listdir() if name.startswith("missing")], [])
        os.rename("elsewhere.bin", "b.bin")
        self.assertEqual(names(extract("model.onnx", "--outputs", "s").graph.initializer), ["a"])


class Stages(unittest.TestCase):
    def test_split(self):
        """Four stages read the inputs of the model and the outputs of earlier stages. They compute the same bits as the model
        if no rewrite fuses nodes of two stages."""
        for write in (write_mlp, write_residual, write_attention, write_recurrent, write_control):
            given = write("model.onnx")
            whole = run("model.onnx", given, "--level=0")
            count = len(onnx.load("model.onnx").graph.node)
            files = inlay("extract", "model.onnx", "--split", "4", "-o", "stage.onnx", *PLAIN)
            self.assertEqual(sum(f["nodes"] for f in files), count, write.__name__)
            values = dict(given)
            for file in files:
                self.assertEqual(inlay("check", file["output"])["findings"], [])
                needed = names(onnx.load(file["output"]).graph.input)
                self.assertLessEqual(set(needed), set(values), write.__name__)
                values |= run(file["output"], values, "--level=0")
            for name, value in whole.items():
                self.assertEqual((values[name].dtype, values[name].tobytes()), (value.dtype, value.tobytes()), f"{write.__name__}: {name}")


if __name__ == "__main__":
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            unittest.main(argv=sys.argv[:1] + sys.argv[2:])
        finally:
            os.chdir(before)
