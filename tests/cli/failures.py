#!/usr/bin/env python3
"""Every verb with every kind of mistake on its command line and in the files that it reads: one line on stderr that names
the mistake, the exit code of its kind, with --json one value on stdout, and nothing left in any folder.

  failures.py INLAY VERBS_DEF     the executable; host/tools/cli/verbs.def"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from verb_lines import BEHIND, PLAIN, save_model, stage_keys

INLAY, VERBS_DEF = (os.path.abspath(a) for a in sys.argv[1:3])
VERBS = [name.replace("_", "-") for name in re.findall(r"^VERB\((\w+),", pathlib.Path(VERBS_DEF).read_text(), re.M)]
VERBS.remove("serve")  # another program
ROOT = os.geteuid() == 0
QUICK = {"tune": "--budget-s 0.1", "bench": "--runs 2", "profile": "--runs 2 --no-peak", "lock": "-o out.lock --no-time"}


class Failures(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        os.chmod(".", 0o777)
        os.mkdir("tmp")
        save_model("model.onnx", "features")
        stage_keys()
        self.environment = dict(os.environ, TMPDIR=folder.name + "/tmp", HOME=folder.name, INLAY_CACHE_DIR="",
                                XDG_CONFIG_HOME=folder.name + "/none")
        self.before = self.names()

    def names(self):
        return sorted(os.listdir(".")) + os.listdir("tmp")

    def inlay(self, *line, obeys_modes=False):
        line = [INLAY, *line]
        if obeys_modes and ROOT:  # file modes do not apply to root
            line = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] + line
        return subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=self.environment,
                              check=False, timeout=300)

    def fails(self, verb, *words, codes=(2,), part="", finds=False, **how):
        """finds: the message is a finding of `doctor` or `check`, and so a result."""
        for json_too in ((), ("--json",)):
            done = self.inlay(verb, *json_too, *words, **how)
            what = f"inlay {verb} {' '.join(json_too + words)}: {done.returncode}, {done.stderr!r}, {done.stdout[:300]!r}"
            self.assertIn(done.returncode, codes, what)
            if json_too:
                value = json.loads(done.stdout)
                self.assertTrue(value["error"]["text"], what)
                continue
            lines = (done.stderr or done.stdout if finds else done.stderr).rstrip("\n").split("\n")
            self.assertEqual(len(lines), 1, what)
            self.assertTrue(finds or (done.stdout == "" and lines[0].startswith(f"inlay {verb}: ")), what)
            self.assertIn(part, lines[0], what)
        self.assertEqual(self.names(), self.before, what)

    def test_command_lines(self):
        for verb in VERBS:
            text = self.inlay(verb, "--help-all").stdout
            line = PLAIN[verb] if PLAIN[verb] is not None else "model.onnx"
            with self.subTest(verb=verb):
                self.fails(verb, "--no-such-flag", part="--no-such-flag")
                self.fails(verb, "-Z", part="-Z")
                self.fails(verb, "--quiet=1", part="--quiet")
                self.fails(verb, *line.split(), "too", "many", "words", codes=(2,) if verb != "test" else (2, 3), part="")
                own = re.split(r"(?m)^Common options:", text)[0]
                for letter, flag, value in re.findall(r"(?m)^ +(?:-(\w), )?--([a-z-]+)=(\S+)", own):
                    words = line.split()
                    self.fails(verb, *words, f"--{flag}", part=f"--{flag}")
                    if letter:
                        self.fails(verb, *words, f"-{letter}", part=f"--{flag}")
                    if re.fullmatch("[NS]", value):
                        self.fails(verb, *words, f"--{flag}=x", part=f"--{flag}")
                        self.fails(verb, *words, f"--{flag}=-1", part=f"--{flag}")
                        self.fails(verb, *words, f"--{flag}=", part=f"--{flag}")
            if re.search(r"Usage: .*(MODEL|A B|PLUGIN)", text) and "[MODEL]" not in text:
                self.fails(verb)

    def test_files(self):
        model = pathlib.Path("model.onnx").read_bytes()
        os.mkdir("folder.onnx")
        pathlib.Path("empty.onnx").touch()
        pathlib.Path("closed.onnx").write_bytes(model)
        os.chmod("closed.onnx", 0)
        pathlib.Path("text.onnx").write_text("no model\n")
        os.symlink("loop.onnx", "loop.onnx")
        cut = [f"cut{i}.onnx" for i in range(1, 8)]
        for i, name in enumerate(cut, 1):
            pathlib.Path(name).write_bytes(model[: len(model) * i // 8])
        self.before = self.names()
        for verb in VERBS:
            behind = BEHIND.get(verb, "")
            if behind is None or verb == "plugin-check":
                continue
            for name in ("none.onnx", "folder.onnx", "empty.onnx", "closed.onnx", "text.onnx", "loop.onnx", *cut):
                words = [name] + (behind.split() if behind != "@" else [name])
                with self.subTest(verb=verb, name=name):
                    if verb == "sign" and name in ("text.onnx", "empty.onnx", *cut):
                        continue  # signs any file
                    self.fails(verb, *words, codes=(3,), part=name.split(".")[0], finds=verb in ("doctor", "check"),
                               obeys_modes=True)


    def strange(self):
        """Models that are valid, but unusual, or that have one fault."""
        value, node, weights = helper.make_tensor_value_info, helper.make_node, np.ones((16, 16), np.float32)
        rows = {
            "open": ([node("MatMul", ["x", "w"], ["features"])], [1, 16], {"w": weights}),
            "custom": ([node("Foo", ["x"], ["features"], domain="my.ops")], [1], {}),
            "integer": ([node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), node("MatMulInteger", ["q", "w", "z"], ["i"]),
                         node("Cast", ["i"], ["f"], to=1), node("Mul", ["f", "s"], ["features"])],
                        [4, 16], {"w": weights.astype(np.int8)}),
            "empty": ([node("Add", ["x", "w"], ["features"])], [0], {"w": np.float32([1])}),
        }
        for name, (nodes, dims, constants) in rows.items():
            graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, dims)],
                                      [value("features", TensorProto.FLOAT, None)],
                                      [numpy_helper.from_array(v, k) for k, v in constants.items()])
            opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
            save(helper.make_model(graph, opset_imports=opsets, ir_version=8), name + ".onnx")
            yield name + ".onnx"

    def test_activations_of_decoders(self):
        """A decoder that quantizes activations by one scale is named, unless an option says how they are computed."""
        value, node = helper.make_tensor_value_info, helper.make_node
        nodes = [node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), node("MatMulInteger", ["q", "w", "z"], ["i"]),
                 node("Cast", ["i"], ["f"], to=1), node("Mul", ["f", "s"], ["m"]), node("Add", ["m", "past_key_values.0.key"], ["y"])]
        for state in "past_key_values.0.key", "b":
            nodes[-1].input[1] = state
            graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [4, 16]), value(state, TensorProto.FLOAT, [16])],
                                      [value("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(np.ones((16, 16), np.int8), "w")])
            save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "decoder.onnx")
            for more in (), ("--dynamic-activations", "floats"):
                done = self.inlay("run", "decoder.onnx", *more)
                self.assertEqual((done.returncode, "set the option dynamic_activations to floats" in done.stderr),
                                 (0, state != "b" and not more), done.stderr)

    def test_sizes_that_never_fit(self):
        """Several open axes, none of whose sizes fit the model: the inputs stay small, and the last error is reported."""
        value = helper.make_tensor_value_info
        for names in "nchw", "nsscb":
            graph = helper.make_graph([helper.make_node("Reshape", ["x", "to"], ["y"])], "g",
                                      [value("x", TensorProto.FLOAT, list(names)), value("z", TensorProto.FLOAT, ["t", names[1]])],
                                      [value("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(np.array([7, 11]), "to")])
            save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "open.onnx")
            done = self.inlay("doctor", "open.onnx")
            self.assertIn("Reshape node 'Reshape#0': 1 elements do not fill a shape of 77", done.stderr)

    def test_flags_of_messages(self):
        """A message names no flag that its verb lacks, for inputs that cannot be random, or whose sizes are assumed."""
        node, inputs = helper.make_node, []
        for name, op, dtype, dims in (("picture", "ImageDecoder", TensorProto.UINT8, ["n"]), ("open", "Relu", TensorProto.FLOAT, None),
                                      ("unnamed", "Relu", TensorProto.FLOAT, [None, 4])):
            graph = helper.make_graph([node(op, ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", dtype, dims)],
                                      [helper.make_tensor_value_info("y", dtype, None)])
            save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8), name + ".onnx")
            inputs.append(name + ".onnx")
        named = set()
        for verb in VERBS:
            behind = QUICK.get(verb, BEHIND.get(verb, ""))
            if behind is None or verb in ("plugin-check", "bundle"):
                continue
            flags = re.findall(r"--[a-z-]+", self.inlay(verb, "--help-all").stdout)
            for name in inputs:
                for more in ("", "--errors") if verb == "explain" else ("",):
                    done = self.inlay(verb, name, *(behind.split() if behind != "@" else [name]), *more.split())
                    for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", re.sub(r"inlay [a-z]+ [^`')]*", "", done.stderr)):
                        self.assertIn(flag, flags, f"inlay {verb} {name} {behind} {more}: {done.stderr}")
                        named.add(flag)
        self.assertLessEqual({"--input", "--data"}, named)

    def test_strange_models(self):
        """No verb crashes, and the commands that they print can be typed."""
        commands = {}
        for name in self.strange():
            for verb in VERBS:
                behind = QUICK.get(verb, BEHIND.get(verb, ""))
                if behind is None or verb in ("plugin-check", "bundle"):
                    continue
                done = self.inlay(verb, name, *(behind.split() if behind != "@" else [name]))
                self.assertIn(done.returncode, range(5), f"inlay {verb} {name} {behind}: {done.stderr}")
                for command in re.findall(r"[`'(]inlay ([a-z-]+ ?[^`'()A-Z]*)[`')]", done.stdout + done.stderr):
                    commands[command] = (verb, name)
        for command, origin in commands.items():
            if " " in command or command == "providers":
                done = self.inlay(*command.split())
                self.assertEqual(done.returncode, 0, f"{command} (of {origin}): {done.stderr}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
