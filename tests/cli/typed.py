#!/usr/bin/env python3
"""Values as people have them: typed numbers and lists, tables, pictures, arrays of another type; what --expect prints.
Random ones of each form are compared with numpy, and what does not fit is refused with its place.

  typed.py INLAY"""
import csv
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from onnx import TensorProto, helper, save

INLAY = os.path.abspath(sys.argv[1])
NUMPY = {"FLOAT": np.float32, "DOUBLE": np.float64, "FLOAT16": np.float16, "INT8": np.int8, "UINT8": np.uint8,
         "INT32": np.int32, "INT64": np.int64, "UINT64": np.uint64, "BOOL": np.bool_}
TYPES = {name: getattr(TensorProto, name) for name in (*NUMPY, "STRING")}
ENVIRONMENT = dict(os.environ, INLAY_CACHE_DIR="", INLAY_PROBE="never", INLAY_PROVIDERS="reference")


def inlay(*args, code=0):
    done = subprocess.run([INLAY, *map(str, args)], capture_output=True, text=True, env=ENVIRONMENT, check=False)
    if done.returncode != code:
        raise AssertionError(f"exit code {done.returncode}, not {code}: {args}\n{done.stdout}{done.stderr}")
    return done


def model(path, inputs, nodes=None):
    """Each output is an input: its type, and its shape with names for open sizes."""
    nodes = nodes or [helper.make_node("Identity", [name], [name + "_y"]) for name in inputs]
    values = [[helper.make_tensor_value_info(name + end, TYPES[kind], shape) for name, (kind, shape) in inputs.items()]
              for end in ("", "_y")]
    save(helper.make_model(helper.make_graph(nodes, "g", *values), ir_version=8,
                           opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def outputs(path, *args):
    """The arrays that a run writes, by name."""
    with tempfile.TemporaryDirectory() as folder:
        inlay("run", path, *args, "--outputs", folder)
        return {file.stem: np.load(file) for file in pathlib.Path(folder).iterdir()}


def text_of(value):
    return str(value).lower() if isinstance(value, (bool, np.bool_)) else repr(value.item())


class Typed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)
        self.random = random.Random(7)

    def values(self, kind, shape):
        if kind == "BOOL":
            one = lambda: self.random.random() < 0.5
        elif NUMPY[kind](0).dtype.kind == "f":
            one = lambda: self.random.uniform(-9, 9)
        else:
            one = lambda: self.random.randint(np.iinfo(NUMPY[kind]).min, np.iinfo(NUMPY[kind]).max)
        return np.array([one() for _ in range(int(np.prod(shape)))], NUMPY[kind]).reshape(shape)

    def same(self, got, want):
        want = np.asarray(want)
        self.assertEqual(got.shape, want.shape)
        self.assertTrue(np.array_equal(got, want), (got, want))

    def test_lists(self):
        """Lists with and without inner lists, of every type and rank."""
        for kind in NUMPY:
            for shape in ([2], [1, 3], [2, 2], [2, 1, 3]):
                path = model(self.at / "m.onnx", {"x": (kind, ["a", "b", "c"][:len(shape) - 1] + [shape[-1]])})
                want = self.values(kind, shape)
                nested = np.frompyfunc(lambda v: v, 1, 1)(want).tolist()
                text = str(nested).replace("True", "true").replace("False", "false")
                self.same(outputs(path, "--input", f"x={text}")["x_y"], want)
                if len(shape) < 3 or shape[1] == 1:
                    flat = ",".join(text_of(v) for v in want.reshape(-1))
                    self.same(outputs(path, "--input", f"x={flat}")["x_y"].reshape(want.shape), want)
        path = model(self.at / "s.onnx", {"x": ("STRING", ["n", 2])})
        self.same(outputs(path, "--input", 'x=[["a,b","c]"],["\\"","ä"]]')["x_y"], [["a,b", "c]"], ['"', "ä"]])

    def test_dim(self):
        """--dim resolves what the model leaves open."""
        path = model(self.at / "m.onnx", {"x": ("FLOAT", ["n", "m"])})
        self.assertEqual(outputs(path, "--input", "x=1,2,3,4,5,6")["x_y"].shape, (1, 6))
        self.assertEqual(outputs(path, "--input", "x=1,2,3,4,5,6", "--dim", "n=3")["x_y"].shape, (3, 2))
        for words, part in ((("x=1,2,3",), "the values have the shape [1,3] (--dim m=N"), (("x=[[1,2,3]]",), ""),
                            (("x=1,2,3", "--dim", "m=1"), "")):
            with self.subTest(words):
                text = inlay("run", path, "--input", *words).stderr
                self.assertIn(part or "", text)
                self.assertEqual("have the shape" in text, part != "", text)

        deep = model(self.at / "d.onnx", {"x": ("FLOAT", ["n", 1, "h", "w"])})
        rows = self.table("r.csv", [[1, 2, 3, 4, 5, 6]])
        self.assertIn("have the shape [1,1,1,6] (--dim w=N", inlay("run", deep, "--input", f"x={rows}").stderr)
        self.assertNotIn("have the shape", inlay("run", deep, "--input", f"x={rows}", "--dim", "h=2").stderr)

    def test_wrong_lists(self):
        path = model(self.at / "m.onnx", {"x": ("FLOAT", ["n", 2]), "i": ("INT8", [1]), "b": ("BOOL", [1])})
        for argument, part in (("x=1,2,3", "do not fill float[?,2]"), ("x=[[1,2],[3]]", "list of 1 among lists of 2"),
                               ("x=[1,[2]]", "a number where a list is expected"), ("x=[1,2", "not closed"),
                               ("x=[1,,2]", "missing"),
                               ("x=[1,2]]", "text after the list"), ("x=[1,e]", "is not a number"),
                               ("x=1,1e39", "too large"),
                               ("x=[1,0x10]", "is not a number"), ("x=[\"a\",\"b\"]", "is a text"),
                               ("i=128", "out of range"), ("i=1.5", "not an integer"), ("b=2", "neither true nor false"),
                               ("x=1,2,", ".csv file"), ("x=[[1,2,3],[4,5,6]]", "expects float[n,2]")):
            with self.subTest(argument):
                self.assertIn(part, self.refused(path, argument))

    def refused(self, path, *arguments):
        flags = [word for argument in arguments for word in ("--input", argument)]
        done = subprocess.run([INLAY, "run", path, *flags], capture_output=True, text=True, env=ENVIRONMENT)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def table(self, name, rows, head=None, delimiter=","):
        with open(self.at / name, "w", newline="") as stream:
            writer = csv.writer(stream, delimiter=delimiter)
            writer.writerows(([head] if head else []) + rows)
        return self.at / name

    def test_tables(self):
        """With a header and without, by order and by name, with every separator, for rows of any rank."""
        for kind in NUMPY:
            for delimiter in ",;\t":
                for head in (None, ["a", "b", 'c,"d"', "e"]):
                    want = self.values(kind, (3, 4))
                    path = self.table("t.csv", [[text_of(v) for v in row] for row in want], head, delimiter)
                    whole = model(self.at / "m.onnx", {"x": (kind, ["n", 4])})
                    self.same(outputs(whole, "--input", f"x={path}")["x_y"], want)
                    self.same(outputs(whole, "--inputs", path)["x_y"], want)
                    part = model(self.at / "p.onnx", {"x": (kind, ["n", 2])})
                    self.same(outputs(part, "--input", f"x={path}:4,1")["x_y"], want[:, [3, 0]])
                    if head:
                        self.same(outputs(part, "--input", f"x={path}:b,a")["x_y"], want[:, [1, 0]])
                    deep = model(self.at / "d.onnx", {"x": (kind, ["n", 2, 2])})
                    self.same(outputs(deep, "--input", f"x={path}")["x_y"], want.reshape(3, 2, 2))
        several = model(self.at / "several.onnx", {"b": ("FLOAT", ["n"]), "a": ("INT64", ["n", 1])})
        named = self.table("n.csv", [[1, 2.5, 9], [3, 4.5, 9]], ["a", "b", "unused"])
        for table in (named, self.table("o.csv", [[2.5, 1], [4.5, 3]])):
            got = outputs(several, "--inputs", table)
            self.same(got["b_y"], [2.5, 4.5])
            self.same(got["a_y"], [[1], [3]])
        texts = model(self.at / "texts.onnx", {"x": ("STRING", ["n", 1]), "k": ("STRING", ["n", 1])})
        words = self.table("w.csv", [["one\ntwo", "2"], ["", "x"]], ["k", "x"])
        got = outputs(texts, "--inputs", words)
        self.same(got["x_y"], [["2"], ["x"]])
        self.same(got["k_y"], [["one\ntwo"], [""]])

    def test_wrong_tables(self):
        path = model(self.at / "m.onnx", {"x": ("FLOAT", ["n", 2])})
        (self.at / "t.csv").write_text("1,2,3,4\n5,6,7,8\n")
        picture = model(self.at / "p.onnx", {"x": ("FLOAT", ["n", 3, "h", "w"])})
        self.assertIn("2 rows of 4 columns do not fit input 'x' of shape [?,3,?,?], whose first axis counts rows: --dim",
                      self.refused(picture, f"x={self.at / 't.csv'}"))
        for lines, columns, part in (("a,b\n1,2\n3\n", "", "line 3 has 1 cells"),
                                     ("1\n2\n", "", "has 1 columns, but input 'x' of shape [?,2] needs 2"),
                                     ("a,b\n1,\n", "", "line 2, column 2: '' is empty"),
                                     ("1,2,3\n", "", "choose them"), ("a,b,c\n1,2,3\n", ":a,d", "no column 'd'"),
                                     ("a,b\n", "", "is not a number; input 'x' is float; if this line is a header, the"),
                                     ("a,b\n1,\"2\n", "", "quote"),
                                     ("1,x\n2,3\n4,y\n", "", "'y' is not a number"),
                                     ("", "", "has no rows")):
            with self.subTest(lines):
                (self.at / "t.csv").write_text(lines)
                self.assertIn(part, self.refused(path, f"x={self.at / 't.csv'}{columns}"))

    def test_folders(self):
        """A folder in the place of a file of any form, and of the words of a step of `inlay pipe`."""
        path = model(self.at / "m.onnx", {"x": ("FLOAT", [1, 3, 4, 4])})
        for kind, names in (("FLOAT", ("f", "f.csv", "f.npy", "f.npz", "f.pb", "f.png", "f.wav")), ("UINT8", ("f", "f.wav")),
                            ("STRING", ("f", "f.txt"))):
            file = model(self.at / "f.onnx", {"x": (kind, [1, 3, 4, 4] if kind == "FLOAT" else ["n"])})
            for name in names:
                (self.at / name).mkdir(exist_ok=True)
                with self.subTest(kind, name=name):
                    done = subprocess.run([INLAY, "run", file, "--input", f"x={self.at / name}"], capture_output=True,
                                          text=True, env=ENVIRONMENT, check=False)
                    lines = done.stderr.strip().split("\n")
                    self.assertIn(done.returncode, (2, 3), done.stderr)
                    self.assertRegex(lines[-1], r"is a folder|is a directory|not a regular file|expected one \.npy")
        refused = inlay("pipe", path, "--post", f"topk:3:{self.at / 'f.txt'}", "-o", self.at / "p.onnx", code=2).stderr
        self.assertIn("f.txt is a folder: name a file", refused)

    def test_types(self):
        """Arrays of every type for inputs of every type: rounded to floats, equal as integers, or refused with the fix."""
        for kind in NUMPY:
            path = model(self.at / "m.onnx", {"x": (kind, ["n"])})
            for other in NUMPY:
                for values in ([0, 1], [0, 1, 100], [1, -3], [0.5, 1], [0.1], [2**24 + 1], [2**53 + 1], [300]):
                    with np.errstate(all="ignore"):
                        array = np.array(values).astype(NUMPY[other])
                        if other == "BOOL" and values != [0, 1]:
                            continue
                        converted = array.astype(NUMPY[kind])
                    fits = all(a.item() == b.item() for a, b in zip(array, converted)) or (
                        np.issubdtype(NUMPY[kind], np.floating) and np.isfinite(converted).all())
                    np.save(self.at / "x.npy", array)
                    if fits:
                        self.same(outputs(path, "--input", f"x={self.at / 'x.npy'}")["x_y"], converted)
                    else:
                        self.assertIn("array.astype('", self.refused(path, f"x={self.at / 'x.npy'}"))

    def test_expect(self):
        path = model(self.at / "m.onnx", {"x": ("FLOAT", ["n"]), "z": ("FLOAT", ["n"])})
        for values, code, part in (([1, 2], 0, "all outputs are as in"),
                                   ([1, 2.00001], 0, "largest error 1e-05, in 'z_y'"),
                                   ([1, 3], 1, "1 of 2 outputs differ")):
            np.savez(self.at / "want.npz", x_y=np.float32([1, 2]), z_y=np.float32(values))
            line = ["run", path, "--input", "x=1,2", "--input", "z=1,2", "--expect", self.at / "want.npz"]
            self.assertIn(part, inlay(*line, code=code).stdout)

    def test_samples(self):
        """Rows of a table and pictures as the samples of --data."""
        path = model(self.at / "m.onnx", {"x": ("FLOAT", ["n", 2])})
        table = self.table("t.csv", [[i, i + 1] for i in range(9)], ["a", "b"])
        self.assertIn("9 samples", inlay("compare", path, path, "--data", table).stdout)
        self.assertIn("9 samples", inlay("compare", path, path, "--data", f"{table}:b,a").stdout)
        fixed = model(self.at / "f.onnx", {"x": ("FLOAT", [3, 2])})
        self.assertIn("3 samples", inlay("compare", fixed, fixed, "--data", table).stdout)
        single = model(self.at / "s.onnx", {"x": ("FLOAT", [2])})
        self.assertIn("9 samples", inlay("compare", single, single, "--data", table).stdout)

    def picture(self, name, pixels):
        (self.at / name).parent.mkdir(exist_ok=True)
        (self.at / name).write_bytes(b"P6 %d %d 255\n" % (pixels.shape[1], pixels.shape[0]) + pixels.tobytes())
        return self.at / name

    def test_pictures(self):
        """A picture of the size of the input is only normalised; the note says how."""
        if not any("inlay.prepost" in line for line in inlay("providers", "--options").stdout.splitlines()):
            self.skipTest("the plugin prepost is not built")
        pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
        path = self.picture("pictures/a.ppm", pixels)
        planes = pixels.astype(np.float32) / 255
        mean, deviation = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
        for kind, shape, want in (("FLOAT", ["n", 3, 6, 8], ((planes - mean) / deviation).transpose(2, 0, 1)[None]),
                                  ("FLOAT", ["n", 6, 8, 3], ((planes - mean) / deviation)[None]),
                                  ("FLOAT", [3, "h", "w"], ((planes - mean) / deviation).transpose(2, 0, 1)),
                                  ("UINT8", [1, 6, 8, 3], pixels[None])):
            file = model(self.at / "m.onnx", {"x": (kind, shape)})
            done = inlay("run", file, "--input", f"x={path}", "--json", "--values", 999)
            got = json.loads(done.stdout)["outputs"][0]
            self.assertEqual(got["shape"], list(want.shape))
            self.assertTrue(np.allclose(np.array(got["values"]).reshape(want.shape), want, atol=1e-5))
            self.assertIn("prepared by decode:rgb", done.stderr)
            self.assertEqual("in its own size" in done.stderr, "h" in shape)
        self.picture("pictures/b.ppm", pixels[:, ::-1].copy())
        self.assertIn("2 samples", inlay("compare", file, file, "--data", self.at / "pictures").stdout)
        bytes_input = model(self.at / "b.onnx", {"x": ("UINT8", ["bytes"])})
        self.assertIn("2 samples", inlay("compare", bytes_input, bytes_input, "--data", self.at / "pictures").stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
