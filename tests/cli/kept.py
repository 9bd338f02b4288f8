#!/usr/bin/env python3
"""Tests that no verb changes a file that it reads: each flag that names an output, with each input under each of its
names. The files keep their bytes, the exit code is not 0, and the message names the file.

  kept.py INLAY VERBS_DEF     the executable; host/tools/cli/verbs.def
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from files import INLAY, PLUGIN, WRITERS
from verb_lines import stage_keys

VERSIONS = ("optimize", "quantize", "edit", "doctor", "pipe")  # -o may be MODEL
DATA = "model.onnx --mode static --data {} --samples 2"
LINES = {  # verb -> rest of the line without outputs, and the inputs that it reads
    "optimize": ("model.onnx", ["model.onnx", "w.data"]),
    "quantize": ("model.onnx", ["model.onnx", "w.data"]),
    "edit": ("model.onnx --set-metadata a=b", ["model.onnx", "w.data"]),
    "doctor": ("model.onnx --fix --seconds 0", ["model.onnx", "w.data"]),
    "pipe": ("model.onnx --post softmax", ["model.onnx", "w.data"]),
    "extract": ("model.onnx --outputs y", ["model.onnx", "w.data"]),
    "reduce": ("model.onnx --check false", ["model.onnx", "w.data"]),
    "bundle": ("model.onnx", ["model.onnx", "w.data"]),
    "lock": ("model.onnx --no-time --data data.npz", ["model.onnx", "w.data", "data.npz"]),
    "sign": ("model.onnx --key key.pem", ["model.onnx", "w.data", "key.pem"]),
    "partition": ("model.onnx", ["model.onnx", "w.data"]),
    "explain": ("model.onnx", ["model.onnx", "w.data"]),
    "profile": ("model.onnx --runs 2 --no-peak --input x=x.npy", ["model.onnx", "w.data", "x.npy"]),
    "inspect": ("model.onnx", ["model.onnx", "w.data"]),
    "diff": ("model.onnx other.onnx", ["model.onnx", "w.data", "other.onnx"]),
    "bench": ("open.onnx --sweep batch=1 --seconds 0.02", ["open.onnx", "w.data"]),
    "cache": ("merge one.cache", ["one.cache"]),
    "plugin-check": ("plugin.so --with with.so --data data --model model.onnx --option reference.x=x.npy --quick "
                     "--group file", ["plugin.so", "with.so", "data/0.npz", "x.npy", "model.onnx", "w.data"]),
}
SESSIONS = ("optimize", "quantize", "bundle", "lock", "partition", "explain", "profile", "bench")  # with --config
EXTERNAL = ("optimize", "quantize", "edit", "doctor", "extract", "pipe", "reduce")


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def save_model(path, batch):
    """A model whose weights are in w.data, where exporters put them."""
    w = numpy_helper.from_array(np.arange(4096, dtype=np.float32).reshape(64, 64), "w")
    raw = w.raw_data
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [batch, 64]) for n in "xy"]
    w.ClearField("raw_data")
    w.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "w.data"), ("offset", "0"), ("length", str(len(raw)))):
        entry = w.external_data.add()
        entry.key, entry.value = key, value
    graph = helper.make_graph(nodes, "g", io[:1], io[1:], [w])
    pathlib.Path("w.data").write_bytes(raw)
    pathlib.Path(path).write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                                                     ir_version=8).SerializeToString())


class Kept(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp()
        os.chdir(self.top)
        save_model("model.onnx", 1)
        save_model("other.onnx", 1)
        save_model("open.onnx", "batch")
        stage_keys()
        shutil.copy(PLUGIN, "plugin.so")
        shutil.copy(PLUGIN, "with.so")
        x = np.ones((1, 64), np.float32)
        np.save("x.npy", x)
        np.savez("data.npz", x=x)
        os.mkdir("data")
        for i in range(2):
            np.savez(f"data/{i}.npz", x=x)
        os.mkdir("named")
        np.save("named/x.npy", x)
        one = b'{"inlay":"","cpu":"","order":"little","files":[]}\n'
        pathlib.Path("one.cache").write_bytes(
            f"{f'inlay-cache 1 {hashlib.sha256(one).hexdigest()} {len(one) - 1}':<127}\n".encode() + one)
        pathlib.Path("settings.yaml").write_text("inlay:\n  intra_threads: 1\n")
        self.environment = dict(os.environ, INLAY_CACHE_DIR="", INLAY_PROVIDERS="reference", HOME=self.top,
                                XDG_CONFIG_HOME=self.top + "/none", TMPDIR=self.top)
        self.environment.pop("INLAY_ISA", None)

    def tearDown(self):
        os.chdir("/")
        shutil.rmtree(self.top)

    def run_line(self, line):
        return subprocess.run([INLAY] + line, env=self.environment, timeout=300, check=False, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL)

    def files(self):
        return {str(p): digest(p) for p in sorted(pathlib.Path(".").rglob("*")) if p.is_file() and p.parts[0] != ".cache"}

    def names_of(self, path, suffix=""):
        """Yields the names of a file: its own, and links that exist for the time of the loop's body."""
        yield "direct", path
        yield "relative", "data/../" + path
        yield "absolute", os.path.join(self.top, path)
        for kind, make in (("hard", os.link), ("symbolic", os.symlink),
                           ("chain", lambda a, b: (os.symlink(a, "step"), os.symlink("step", b)))):
            link = "link" + suffix
            make(path, link)
            yield kind, link
            for name in (link, "step"):
                if os.path.lexists(name):
                    os.unlink(name)

    def refused(self, line, name, path):
        """path: the output, as the line names it."""
        before = self.files()
        done = self.run_line(line)
        self.assertNotEqual(done.returncode, 0, line)
        self.assertIn(path, done.stderr, line)
        self.assertEqual(self.files(), before, f"{line}: {name} was changed, or something was left")

    def test_every_output(self):
        """No output is an input."""
        self.assertEqual({verb for verb, _ in WRITERS}, set(LINES), "a verb with an output needs a row of LINES")
        for verb, flag in WRITERS:
            words, inputs = LINES[verb]
            more = {"--save": " --errors --samples 1"}.get(flag, "") if verb == "explain" else ""
            if (verb, flag) in (("quantize", "--front"), ("quantize", "--stats")):
                words, inputs = DATA.format("data") + " -o q.onnx", inputs + ["data/0.npz", "data/1.npz"]
            if (verb, flag) == ("cache", ""):
                continue  # export reads the cache folder, whose files have other names
            for path in inputs + (["settings.yaml"] if verb in SESSIONS else []):
                for kind, name in self.names_of(path, ".html" if flag == "--graph" else ""):
                    if path == "model.onnx" and verb in VERSIONS and flag == "-o" and kind != "hard":
                        continue  # see test_versions
                    if flag == "--graph" and kind in ("direct", "relative", "absolute"):
                        continue  # the extension is refused
                    with self.subTest(verb=verb, flag=flag, input=path, kind=kind):
                        config = ["--config", "settings.yaml"] if path == "settings.yaml" else []
                        self.refused([verb, *(words + more).split(), *config, flag, name], path, name)

    def test_external(self):
        """--external does not name a file of the input; -o is another file."""
        for verb in EXTERNAL:
            for path in ("w.data", "model.onnx"):
                for kind, name in self.names_of(path):
                    if "/" in name:
                        continue  # it is a plain name
                    with self.subTest(verb=verb, input=path, kind=kind):
                        self.refused([verb, *LINES[verb][0].split(), "-o", "new.onnx", "--external", name], path, name)
        self.refused("extract model.onnx --split 2 -o w.data --external w.data".split(), "w.data", "w.data")

    def test_versions(self):
        """-o may be MODEL, and --external then its file: both are replaced, and work."""
        for verb in VERSIONS:
            for external in (None, "w.data"):
                for kind, name in self.names_of("model.onnx"):
                    if kind == "hard":
                        continue
                    with self.subTest(verb=verb, external=external, kind=kind):
                        words = LINES[verb][0].split()
                        done = self.run_line([verb, *words, "-o", name] + (["--external", external] if external else []))
                        self.assertEqual(done.returncode, 0, done.stderr)
                        self.assertEqual(self.run_line(["run", "model.onnx"]).returncode, 0)
                        save_model("model.onnx", 1)

    def test_two_outputs(self):
        for line in ("profile model.onnx --runs 1 --no-peak --trace out --html ./out",
                     "optimize model.onnx -o out --external out",
                     "bench open.onnx --sweep batch=1 --seconds 0.02 --csv out --html out",
                     "quantize model.onnx --data data -o out --stats out"):
            with self.subTest(line=line):
                self.refused(line.split(), "out", "out")

    def test_data(self):
        """Samples, and outputs into the folder of the inputs."""
        for verb in ("quantize", "lock"):
            for data, path in (("data", "data/0.npz"), ("data", "data/1.npz"), ("data.npz", "data.npz"),
                               ("named", "named/x.npy")):
                for kind, name in self.names_of(path):
                    with self.subTest(verb=verb, data=data, kind=kind):
                        more = ["--mode", "static"] if verb == "quantize" else ["--no-time"]
                        self.refused([verb, "model.onnx", *more, "--data", data, "-o", name], path, name)
        save_as = helper.make_model  # a model whose output has the name of its input's file
        node = helper.make_node("Identity", ["x"], ["x_"])
        io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 64]) for n in ("x", "x_")]
        save(save_as(helper.make_graph([node], "g", io[:1], io[1:]), ir_version=8,
                     opset_imports=[helper.make_opsetid("", 17)]), "same.onnx")
        os.rename("named/x.npy", "named/x_.npy")
        self.refused("run same.onnx --input x=named/x_.npy --outputs named".split(), "named/x_.npy", "named/x_.npy")


if __name__ == "__main__":
    unittest.main(argv=["kept.py"])
