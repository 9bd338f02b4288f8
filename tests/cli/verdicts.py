#!/usr/bin/env python3
"""Tests that the verdict of `inlay compare` has looked: planted differences of each kind of output and fault exit with
1 or 3, harmless ones with 0.

  verdicts.py INLAY     the executable
"""
import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

INLAY = os.path.abspath(sys.argv[1])
F, I = TensorProto.FLOAT, TensorProto.INT64
ROWS = 40
RNG = np.random.default_rng(5)
W = {n: RNG.standard_normal((6, n)).astype(np.float32) for n in (1, 4, 7)}


class Head:
    """The end of a model: y = MatMul(x, w) + b, and what follows. change(y, node) may insert a fault behind y."""

    def __init__(self, width, nodes, outputs, bias=0.0, spread=1.0):
        self.width, self.nodes, self.outputs, self.bias, self.spread = width, nodes, outputs, bias, spread


# name -> the head; the nodes read "y", the outputs are [name, type].
HEADS = {
    "regression": Head(1, [], [("y", F)], bias=50.0),
    "signed": Head(1, [], [("y", F)]),
    "boxes": Head(4, [], [("y", F)], bias=100.0, spread=10.0),
    "logits": Head(7, [], [("y", F)]),
    "classes": Head(7, [("Softmax", ["y"], ["p"], {})], [("p", F)]),
    "labels": Head(7, [("ArgMax", ["y"], ["l"], {"axis": 1, "keepdims": 0})], [("l", I)]),
    "both": Head(7, [("ArgMax", ["y"], ["l"], {"axis": 1})], [("y", F), ("l", I)]),
    "sigmoid": Head(7, [("Sigmoid", ["y"], ["s"], {})], [("s", F)], bias=-14.0),
    "ids": Head(7, [("Round", ["y"], ["r"], {}), ("Cast", ["r"], ["i"], {"to": I})], [("i", I)], spread=20.0),
    "top": Head(7, [("TopK", ["y", "k"], ["v", "i"], {})], [("v", F), ("i", I)], spread=5.0),
    "sequence": Head(7, [("SequenceConstruct", ["y", "y"], ["q"], {})], [("q", "sequence")]),
}


def write(path, head, fault=None, opset=17, rename=None, drop=None, weight=None):
    """Saves a head. fault(y) returns nodes that make "z" of "y", and constants; then z is what follows reads."""
    w = (W[head.width] if weight is None else weight) * np.float32(head.spread)
    bias = np.full(head.width, head.bias, np.float32)
    constants = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(bias, "b"),
                 numpy_helper.from_array(np.array([3], np.int64), "k")]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["y0"])]
    more, values = fault(head) if fault else ([("Identity", ["y0"], ["y"], {})], {})
    constants += [numpy_helper.from_array(v, n) for n, v in values.items()]
    nodes += [helper.make_node(op, i, o, **a) for op, i, o, a in more + head.nodes]
    outputs = []
    for name, kind in head.outputs:
        if name == drop:
            continue
        if rename and name in rename:
            nodes.append(helper.make_node("Identity", [name], [rename[name]]))
        shown = (rename or {}).get(name, name)
        if kind == "sequence":
            outputs.append(helper.make_tensor_sequence_value_info(shown, F, None))
        else:
            outputs.append(helper.make_tensor_value_info(shown, kind, None))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", F, ["n", 6])], outputs, constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)


def binary(op, value):
    return lambda head: ([(op, ["y0", "c"], ["y"], {})], {"c": np.asarray(value, np.float32)})


def columns(op, value):
    """A fault in the first column alone; an output of one column has no other."""
    def made(head):
        c = np.full(head.width, 1.0 if op == "Mul" else 0.0, np.float32)
        c[0] = value
        return [(op, ["y0", "c"], ["y"], {})], {"c": c}
    return made


def turned(head):
    """The columns in another order."""
    order = np.roll(np.arange(head.width), 1)
    return [("Gather", ["y0", "o"], ["y"], {"axis": 1})], {"o": order.astype(np.int64)}


def round_to(kind):
    return lambda head: ([("Cast", ["y0"], ["h"], {"to": kind}), ("Cast", ["h"], ["y"], {"to": F})], {})


FAULTS = {
    "twice": binary("Mul", 2.0), "half": binary("Mul", 0.5), "negated": binary("Mul", -1.0),
    "zero": binary("Mul", 0.0), "tenth more": binary("Mul", 1.1), "shifted": binary("Add", 3.0),
    "one column": columns("Add", 30.0), "turned": turned,
}
# What a fault does not change: the largest of a row, or an output of one column.
SAME = {("both", "shifted"), ("labels", "twice"), ("labels", "half"), ("labels", "tenth more"), ("labels", "shifted"),
        ("classes", "shifted"), ("classes", "tenth more"), ("regression", "turned"), ("signed", "turned")}
HARMLESS = {
    "the same": None, "16 bits": round_to(TensorProto.FLOAT16), "a millionth": binary("Mul", 1.000001),
    "times and back": lambda head: ([("Mul", ["y0", "c"], ["t"], {}), ("Div", ["t", "c"], ["y"], {})],
                                    {"c": np.float32(3)}),
}
NOT_HARMLESS = {("ids", "16 bits")}  # roundings at half a step


class Verdicts(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp()
        os.chdir(self.top)
        np.savez("rows.npz", x=RNG.standard_normal((ROWS, 6)).astype(np.float32))
        np.savez("few.npz", x=RNG.standard_normal((3, 6)).astype(np.float32))
        self.environment = dict(os.environ, INLAY_CACHE_DIR="", INLAY_PROVIDERS="reference", HOME=self.top)

    def tearDown(self):
        os.chdir("/")
        shutil.rmtree(self.top)

    def compare(self, *more, data="rows.npz"):
        line = [INLAY, "compare", "a.onnx", "b.onnx", "--at-least", "0.99", "--data", data, *more]
        return subprocess.run(line, env=self.environment, capture_output=True, text=True, check=False, timeout=120)

    def differs(self, what, done):
        self.assertIn(done.returncode, (1, 3), f"missed: {what}\n{done.stdout}{done.stderr}")
        self.assertTrue(done.stderr.strip(), what)

    def test_planted(self):
        count = 0
        for name, head in HEADS.items():
            write("a.onnx", head)
            for fault, how in FAULTS.items():
                if (name, fault) in SAME:
                    continue
                with self.subTest(head=name, fault=fault):
                    count += 1
                    write("b.onnx", head, how)
                    self.differs((name, fault), self.compare(data="few.npz" if count % 3 == 0 else "rows.npz"))
        self.assertGreaterEqual(count, 60)

    def test_harmless(self):
        count = 0
        for name, head in HEADS.items():
            write("a.onnx", head)
            for fault, how in HARMLESS.items():
                if (name, fault) in NOT_HARMLESS:
                    continue
                with self.subTest(head=name, change=fault):
                    count += 1
                    write("b.onnx", head, how)
                    done = self.compare(data="few.npz" if count % 3 == 0 else "rows.npz")
                    self.assertEqual(done.returncode, 0, f"false: {name}, {fault}\n{done.stdout}{done.stderr}")
        self.assertGreaterEqual(count, 30)

    def test_outputs(self):
        """An output of one model alone is named, with or without a bound; other names in the same order are matched."""
        write("a.onnx", HEADS["both"])
        write("b.onnx", HEADS["both"], drop="l")
        done = self.compare()
        self.differs("dropped", done)
        self.assertIn("output 'l': only A has this output", done.stderr)
        os.rename("a.onnx", "c.onnx")
        os.rename("b.onnx", "a.onnx")
        os.rename("c.onnx", "b.onnx")
        self.assertIn("output 'l': only B has this output", self.compare("--json").stdout)
        write("a.onnx", HEADS["classes"])
        write("b.onnx", HEADS["classes"], rename={"p": "other"})
        self.assertEqual(self.compare().returncode, 0)

    def test_samples(self):
        """A sample of large values does not hide another; the kind of verdict is that of the output."""
        write("a.onnx", HEADS["boxes"])
        write("b.onnx", HEADS["boxes"], columns("Add", 20.0))
        x = np.full((2, 6), 0.01, np.float32)
        x[1] *= 1e7
        np.savez("scale.npz", x=x)
        self.differs("scale", self.compare(data="scale.npz"))
        for head, metric in (("classes", "top1"), ("labels", "equal"), ("both", "top1"), ("regression", "relative"),
                             ("logits", "relative"), ("boxes", "relative"), ("sigmoid", "relative")):
            write("a.onnx", HEADS[head])
            write("b.onnx", HEADS[head])
            for data in ("few.npz", "rows.npz"):
                self.assertIn(f'"metric": "{metric}"', self.compare("--json", data=data).stdout, (head, data))

    def lock(self, *words):
        return subprocess.run([INLAY, "lock", *words, "--no-time"], env=self.environment, capture_output=True, text=True,
                              check=False, timeout=120)

    def test_locks(self):
        """inlay lock --check: each sample has its own scale, and a shortened record is refused."""
        write("a.onnx", HEADS["boxes"])
        write("b.onnx", HEADS["boxes"], columns("Add", 0.5))
        x = np.full((2, 6), 0.01, np.float32)
        x[1] *= 1e7
        np.savez("scale.npz", x=x)
        done = self.lock("a.onnx", "--data", "scale.npz", "-o", "r.lock")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.lock("--check", "r.lock").returncode, 0)
        done = self.lock("--check", "r.lock", "b.onnx")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        with open("r.lock", encoding="utf-8") as f:
            record = json.load(f)
        for change in (lambda r: r.update(outputs=[]), lambda r: r.update(inputs=[]),
                       lambda r: r["outputs"][0].update(sha256=[]), lambda r: r["outputs"][0]["sha256"].pop(),
                       lambda r: r["outputs"][0]["values"].pop()):
            other = copy.deepcopy(record)
            change(other)
            with open("short.lock", "w", encoding="utf-8") as f:
                json.dump(other, f)
            done = self.lock("--check", "short.lock")
            self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
            self.assertIn("short.lock", done.stderr)

    def test_metrics(self):
        write("a.onnx", HEADS["regression"])
        write("b.onnx", HEADS["regression"], binary("Mul", 1.02))
        self.differs("relative", self.compare("--metric", "relative"))
        self.assertEqual(self.compare("--metric", "cosine").returncode, 0)  # as asked
        self.differs("top1 of one column", self.compare("--metric", "top1"))
        write("a.onnx", HEADS["sigmoid"])
        write("b.onnx", HEADS["sigmoid"])
        self.differs("no element above 0.5", self.compare("--metric", "iou"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
