#!/usr/bin/env python3
"""Every verb with every session option: as a flag, by --option, in a settings file and in the environment. A flag that
the verb does not read is refused by name; files and the environment apply to all verbs.

  options.py INLAY VERBS_DEF     the executable; host/tools/cli/verbs.def"""
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
from onnx import external_data_helper, load, numpy_helper, save

from verb_lines import PLAIN, save_model, stage_keys

INLAY, VERBS_DEF = (os.path.abspath(a) for a in sys.argv[1:3])
VERBS = [name.replace("_", "-") for name in re.findall(r"^VERB\((\w+),", pathlib.Path(VERBS_DEF).read_text(), re.M)]
# Values with an effect on the verbs that create no session: what the message has.
EFFECTS = [("model-limits", f"{name}={number}", f"model_limits {name} ({number})")
           for name, number in (("depth", 1), ("nodes", 1), ("values", 1), ("tensor_bytes", 8), ("parsed_bytes", 8))]
EFFECTS += [("plugin-dirs", "none", "none"), ("external-dir", "none", "none")]
CHECKING = {"check": "external.onnx", "edit": "external.onnx --set-metadata a=b -o out.onnx",
            "pipe": "external.onnx --post softmax -o out.onnx", "reduce": "external.onnx --check false -o out.onnx",
            "extract": "external.onnx --outputs y -o out.onnx", "doctor": "external.onnx --seconds 0"}


def flags_of(verb):
    """The session options that a verb lists, without the three that name other sources."""
    text = subprocess.run([INLAY, verb, "--help-all"], capture_output=True, text=True, check=False).stdout
    part = re.split(r"(?m)^(?:Session|Its session) options .*", text)
    names = re.findall(r"(?m)^ {1,8}--([a-z-]+)", part[1]) if len(part) > 1 else []
    return [name for name in names if name not in ("option", "config", "no-config")]


class Options(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        save_model("model.onnx", "features")
        shutil.copy("model.onnx", "classify.onnx")
        model = load("model.onnx")
        model.graph.output[0].name = model.graph.node[1].output[0] = "y"
        os.mkdir("weights")
        external_data_helper.convert_model_to_external_data(model, location="w.bin", size_threshold=0)
        save(model, "weights/external.onnx")
        os.rename("weights/external.onnx", "external.onnx")
        os.makedirs("onnx/test_one/test_data_set_0")
        shutil.copy("model.onnx", "onnx/test_one/model.onnx")
        pathlib.Path("onnx/test_one/test_data_set_0/input_0.pb").write_bytes(
            numpy_helper.from_array(np.ones((1, 16), np.float32), "x").SerializeToString())
        stage_keys()
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("INLAY_")}
        self.environment |= {"HOME": folder.name, "TMPDIR": folder.name, "XDG_CACHE_HOME": folder.name + "/cache",
                             "XDG_CONFIG_HOME": folder.name + "/none"}
        self.all = flags_of("run")
        self.assertGreater(len(self.all), 60)
        shown = json.loads(self.inlay("config", "--json").stdout)
        self.defaults = {row["name"].replace("_", "-"): row["value"] for row in shown["settings"]}
        self.assertEqual(set(self.defaults), set(self.all))

    def inlay(self, *line, **environment):
        for name in os.listdir("."):
            if name.startswith("out"):
                os.remove(name)
        return subprocess.run([INLAY, *line], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env=self.environment | environment, check=False, timeout=300)

    def test_flags(self):
        """Each flag that a verb does not list is refused, also by --option, and nothing is written."""
        for verb in VERBS:
            if verb == "serve":
                continue
            own, line = flags_of(verb), (PLAIN[verb] or "model.onnx").split()
            text = subprocess.run([INLAY, verb, "--help-all"], capture_output=True, text=True, check=False).stdout
            verbs_own = set(re.findall(r"(?m)^ +(?:-\w, )?--([a-z-]+)", text)) - set(own)
            for name in set(self.all) - set(own) - verbs_own:
                value = self.defaults[name]
                for words in ([f"--{name}={value}"], ["--option", f"{name.replace('-', '_')}={value}"] if own else None):
                    if words is None:
                        continue
                    with self.subTest(verb=verb, words=words):
                        done = self.inlay(verb, *line, *words)
                        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
                        self.assertIn(words[0].split("=")[0], done.stderr)
                        self.assertIn(name if not own else name.replace("-", "_"), done.stderr)
                        self.assertFalse(os.path.exists("out.onnx"))
            if own and "providers" not in own and verb != "providers":
                done = self.inlay(verb, *line, "--option", "cpu.isa=auto")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("cpu.isa", done.stderr)

    def test_default_values(self):
        """What a verb lists is accepted; files and the environment may set every option for every verb."""
        lines = "".join(f"{name.replace('-', '_')}: {json.dumps(value)}\n" for name, value in self.defaults.items() if value)
        pathlib.Path("all.yaml").write_text(lines)
        variables = {f"INLAY_{name.replace('-', '_').upper()}": value for name, value in self.defaults.items() if value}
        for verb, plain in PLAIN.items():
            if plain is None or verb in ("tune", "bisect", "quantize", "lock"):  # slow, and with all options
                continue
            line = [verb, *plain.split()]
            good = self.inlay(*line)
            own = flags_of(verb)
            for words in ([f"--{name}={self.defaults[name]}" for name in own if self.defaults[name]],
                          ["--config", "all.yaml"] if own else []):
                done = self.inlay(*line, *words)
                self.assertEqual(done.returncode, good.returncode, f"{verb} {words}: {done.stderr}")
            done = self.inlay(*line, **variables)
            self.assertEqual(done.returncode, good.returncode, f"{verb} with variables: {done.stderr}")

    def test_modes(self):
        """Modes of a verb that read no session option."""
        for line, mode in (("optimize --list", "--list"), ("doctor --list", "--list"),
                           ("explain --from a.json --html out.html", "--from"), ("profile --from a.json --html out.html", "--from")):
            for flag, name in (("--providers=cpu", "providers"), ("--model-limits=nodes=9", "model_limits"), ("--option=cpu.isa=auto", "cpu.isa")):
                done = self.inlay(*line.split(), flag)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn(f": option {name} has no effect with {mode}\n", done.stderr)
        self.assertEqual(self.inlay("optimize", "--list", INLAY_PROVIDERS="cpu").returncode, 0)

    def test_effects(self):
        """The options of a model's file have the same effect on every verb that loads it."""
        for verb, line in CHECKING.items():
            words = [verb, *line.split()]
            done = self.inlay(*words)
            self.assertNotEqual(done.returncode, 0, f"{verb} found the weights")
            self.assertIn("w.bin", done.stderr + done.stdout)
            done = self.inlay(*words, "--external-dir", "weights")
            self.assertIn(done.returncode, (0, 1) if verb == "doctor" else (0,), f"{verb}: {done.stderr}")
            self.assertNotIn("w.bin", done.stderr + done.stdout, verb)
            for name, value, part in EFFECTS:
                flags = [f"--{name}={value}"] + ([] if name == "external-dir" else ["--external-dir=weights"])
                with self.subTest(verb=verb, flags=flags):
                    done = self.inlay(*words, *flags)
                    self.assertNotEqual(done.returncode, 0, done.stdout)
                    self.assertIn(part, done.stderr + done.stdout)

    def test_printed_commands(self):
        """The verbs and options of each command that a message names exist."""
        top, found = pathlib.Path(VERBS_DEF).parents[3], 0
        texts = {verb: self.inlay(verb, "--help-all").stdout for verb in VERBS}
        for path in [*top.glob("host/**/*.c"), *top.glob("providers/**/*.c"), *top.glob("host/**/*.def")]:
            for literals in re.findall(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', path.read_text()):
                message = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', literals))
                for command in re.findall(r"[`'(]inlay ([a-z-]+ ?[^`'()]*)[`')]", message):
                    verb, _, rest = command.partition(" ")
                    with self.subTest(file=path.name, command=command):
                        self.assertIn(verb, [*VERBS, "help"])
                        for flag in set(re.findall(r"(?<!\S)--[a-z-]+", rest)) - {"--help", "--help-all"}:
                            self.assertRegex(texts[verb], rf"(?m)^ +(?:-\w, )?{flag}\b|^  .*{flag}\b")
                    found += 1
        self.assertGreater(found, 40)

    def test_doctor_refuses_wrong_options(self):
        for flag in ("--providers=none", "--pin=*=none", "--option=none.x=1", "--plan=none"):
            done = self.inlay("doctor", "model.onnx", "--seconds", "0", flag)
            self.assertNotEqual(done.returncode, 0, flag)
            self.assertIn("none", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
