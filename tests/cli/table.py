"""Tests each verb of verbs.def by one table: --help and its examples, --json, bad input, Ctrl-C.

  table.py INLAY VERBS_DEF PLUGINS     the executable; host/tools/cli/verbs.def; the folder with inlay-image_decoder.so

Examples are those of --help. Each runs, in a folder with the files that it names, on the first of a few small models
that it fits. Slow examples run only with INLAY_EXAMPLES=all."""
import fcntl
import json
import os
import pathlib
import pty
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save
from PIL import Image

from verb_lines import BEHIND, LONG, PLAIN, stage_keys

INLAY, VERBS_DEF, PLUGINS = (os.path.abspath(a) for a in sys.argv[1:4])
VERBS = [name.replace("_", "-") for name in re.findall(r'^VERB\((\w+),', pathlib.Path(VERBS_DEF).read_text(), re.M)]
ALL = os.environ.get("INLAY_EXAMPLES") == "all"
RNG = np.random.default_rng(3)
TENSOR = helper.make_tensor_value_info
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64

TIMED = ("bench", "doctor", "profile")  # verbs that time a model for --seconds
SLOW = ("tune", "bundle", "plugin-check", "admit")
# Examples that need something missing on this machine or in this folder, with their exit code.
EXPECTED = {
    "inlay cache import fleet.cache": (0, 3),
    "inlay cache merge laptop.cache server.cache -o fleet.cache": (3,),
    "inlay explain model.onnx --if fleet.cache": (0, 3),
    "inlay bundle model.onnx -o model.o --object --target aarch64-linux-gnu": (0, 3),
    "inlay bundle model.onnx -o model.wasm --target wasm32": (0, 3),
    "inlay tune --machine --threads 1,4 --providers reference": (0, 2),
    "inlay providers --retry my_plugin": (3,),
    "inlay plugin-check build/fast_blur.so --with build/blur.so": (0, 1),
    "inlay plugin-check build/mine.so --op 'Conv*' --quick --json": (0, 2),
    "inlay admit build/fast_gelu.so --model bert.onnx -o fast_gelu.trust": (1, 3),
    "inlay run bert.onnx --plugin-dirs build/fast_gelu.so --trust fast_gelu.trust": (3,),
    "inlay bench model.pkg --ladder all --deadline-ms 5 --rate 200": (0, 3),
    "inlay plugin-check --ort-ep /opt/vendor/libvendor_ep.so --certificate vendor.trust": (3,),
    "inlay reduce model.onnx --check 'inlay run' -o small.onnx": (2,),  # the check has to fail, and that model runs
    "inlay reduce model.onnx --check 'inlay run' --text 'wrong shape' -o small.onnx": (2,),
    "inlay test cases/ --match '*conv*' --rtol 1e-5 --verbose": (0, 3),
    "inlay compare a.onnx b.onnx --metric kl --at-least 0.01": (0, 1),
    "inlay compare model.onnx small.onnx --data samples/ --at-least 0.99": (0, 1),
    # model.onnx is another one than in the example that made the proof
    "inlay verify-run run.proof": (0, 1), "inlay verify-run run.proof --region 3": (0, 1, 2),
    "inlay verify-run run.proof --region all --model copy.onnx": (3,),
    "inlay lock --check model.lock": (0, 1),  # compares times
    "inlay diff model.onnx optimized.onnx": (0, 1), "inlay diff a.onnx b.onnx --context 0": (0, 1),
    "inlay diff a.onnx b.onnx --html diff.html": (0, 1),
}


def write(path, content):
    pathlib.Path(path).write_bytes(content if isinstance(content, bytes) else content.encode())


def outputs():
    return [f for f in os.listdir(".") if f.startswith(("out", "inlay-"))]


def graph_file(path, nodes, inputs, outputs, weights=()):
    inits = [numpy_helper.from_array(np.asarray(v), n) for n, v in weights]
    graph = helper.make_graph(nodes, "g", inputs, outputs, inits)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def network(path, dims, ids=None):
    """A model with the layer names of the examples; ids: a second input of that shape."""
    w = RNG.normal(size=(4, 64)).astype(np.float32), RNG.normal(size=(64, 64)).astype(np.float32)
    name = "image" if ids else "x"
    nodes = [helper.make_node("MatMul", [name, "w1"], ["h"], "/layer1/MatMul"),
             helper.make_node("Softmax", ["h"], ["features"], "/encoder/Softmax"),
             helper.make_node("Relu", ["features"], ["layer3/out"], "layer3/Relu"),
             helper.make_node("MatMul", ["layer3/out", "w2"], ["scores"], "/head/MatMul")]
    inputs, made = [TENSOR(name, FLOAT, dims)], [TENSOR("scores", FLOAT, None)]
    if ids:
        inputs.append(TENSOR("ids", INT64, ids))
        nodes.append(helper.make_node("Gather", ["w1", "ids"], ["rows"]))
        made.append(TENSOR("rows", FLOAT, None))
    graph_file(path, nodes, inputs, made, [("w1", w[0]), ("w2", w[1])])


def large(path, seed):
    """A network that is slow for every verb: many nodes, and weights of 40 MB."""
    rng, x, nodes, weights = np.random.default_rng(seed), "x", [], []
    for i in range(10):
        weights.append((f"w{i}", rng.normal(0, 0.03, (1024, 1024)).astype(np.float32)))
        nodes.append(helper.make_node("MatMul", [x, f"w{i}"], [f"m{i}"]))
        for k in range(200):
            nodes.append(helper.make_node("Sin" if k % 2 else "Tanh", [f"m{i}" if k == 0 else x], [f"t{i}_{k}"]))
            x = f"t{i}_{k}"
    nodes.append(helper.make_node("Relu", [x], ["y"]))
    graph_file(path, nodes, [TENSOR("x", FLOAT, ["N", 1024])], [TENSOR("y", FLOAT, ["N", 1024])], weights)


def stage_pipes():
    line = TENSOR("x", FLOAT, [1, 3, 48, "W"])
    graph_file("ocr.onnx", [helper.make_node("ReduceMean", ["x"], ["m"], axes=[2], keepdims=0),
                            helper.make_node("Transpose", ["m"], ["y"], perm=[0, 2, 1])], [line], [TENSOR("y", FLOAT, None)])
    graph_file("classify.onnx", [helper.make_node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)],
               [TENSOR("x", FLOAT, [1, 3, 224, 224])], [TENSOR("y", FLOAT, [1, 3])])
    graph_file("yolo.onnx", [helper.make_node("ReduceMean", ["x"], ["m"], axes=[1, 2, 3], keepdims=1),
                             helper.make_node("Squeeze", ["m", "one"], ["s"]), helper.make_node("Mul", ["s", "p"], ["y"])],
               [TENSOR("x", FLOAT, [1, 3, 640, 640])], [TENSOR("y", FLOAT, [1, 84, 8400])],
               [("p", RNG.random((1, 84, 8400), np.float32)), ("one", np.array([1]))])
    graph_file("encoder.onnx", [helper.make_node("Relu", ["x"], ["y"])], [TENSOR("x", FLOAT, [1, 80, 3000])],
               [TENSOR("y", FLOAT, None)])
    graph_file("whisper.onnx", [helper.make_node("ArgMax", ["x"], ["y"], axis=1, keepdims=0)], [TENSOR("x", FLOAT, [1, 80, 3000])],
               [TENSOR("y", INT64, None)])
    graph_file("bert.onnx", [helper.make_node("Mul", ["input_ids", "attention_mask"], ["y"])],
               [TENSOR("input_ids", INT64, [1, "L"]), TENSOR("attention_mask", INT64, [1, "L"])], [TENSOR("y", INT64, None)])
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"]
    write("tokenizer.json", json.dumps({"model": {
        "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
        "vocab": {w: i for i, w in enumerate(words)}}}))
    write("keys.txt", "a\nb\n")
    write("labels.txt", "cat\ndog\nbird\n")
    Image.fromarray(RNG.integers(0, 255, (64, 96, 3), np.uint8)).save("picture.jpg")


def stage():
    """The files that examples name, and the variants of model.onnx."""
    os.makedirs("variants")
    network("variants/open.onnx", ["batch", "N", 4])
    network("variants/batch.onnx", ["batch", 4])
    network("variants/fixed.onnx", [2, 4])
    network("variants/image.onnx", ["batch", 4], ids=["batch", 128])
    graph_file("variants/rows.onnx", [helper.make_node("MatMul", ["x", "w1"], ["h"]), helper.make_node("Cast", ["h"], ["i"], to=INT64),
                                      helper.make_node("Mod", ["i", "four"], ["k"]), helper.make_node("Gather", ["w1", "k"], ["y"])],
               [TENSOR("x", FLOAT, [2, 4])], [TENSOR("y", FLOAT, None)],
               [("w1", RNG.normal(size=(4, 64)).astype(np.float32)), ("four", np.array([4]))])
    network("a.onnx", [2, 4])
    network("b.onnx", [2, 4])
    network("optimized.onnx", [2, 4])
    graph_file("decoder.onnx", [helper.make_node("Relu", ["a"], ["c"]), helper.make_node("Neg", ["b"], ["d"])],
               [TENSOR("a", FLOAT, ["past", 4]), TENSOR("b", FLOAT, ["total"])], [TENSOR("c", FLOAT, None), TENSOR("d", FLOAT, None)])
    graph_file("vad.onnx", [helper.make_node("Cast", ["sr"], ["r"], to=FLOAT), helper.make_node("Div", ["input", "r"], ["y"])],
               [TENSOR("input", FLOAT, ["n", "samples"]), TENSOR("sr", INT64, [])], [TENSOR("y", FLOAT, None)])
    stage_pipes()
    for folder in ("case", "cases", "data", "samples", "build", "onnx/test_one/test_data_set_0"):
        os.makedirs(folder)
    np.save("cat.npy", np.ones((1, 4), np.float32))
    write("rows.csv", "a,b,c,d\n1,2,3,4\n")
    np.save("case/image.npy", np.ones((1, 4), np.float32))
    np.save("case/ids.npy", np.ones((1, 128), np.int64))
    for folder in ("data", "samples"):
        np.save(folder + "/x.npy", RNG.normal(size=(2, 4)).astype(np.float32))
    np.savez("samples.npz", x=RNG.normal(size=(2, 4)).astype(np.float32))
    shutil.copy("variants/fixed.onnx", "onnx/test_one/model.onnx")
    x = numpy_helper.from_array(np.ones((2, 4), np.float32), "x").SerializeToString()
    write("onnx/test_one/test_data_set_0/input_0.pb", x)
    for name in ("mine", "blur", "fast_blur"):
        shutil.copy(os.path.join(PLUGINS, "inlay-image_decoder.so"), "build/" + name + ".so")
    write("inlay.yaml", "policy: cost\n")
    os.makedirs("models")
    network("models/model.onnx", [2, 4])
    stage_keys()
    write("differs.sh", "#!/bin/sh\nexit 1\n")
    os.chmod("differs.sh", 0o755)


def run(arguments, seconds=300):
    return subprocess.run([INLAY] + arguments, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=seconds)


def examples(verb):
    text = subprocess.run([INLAY, verb, "--help"], capture_output=True, text=True,
                          env={**os.environ, "COLUMNS": "500"}).stdout
    lines = text.partition("Examples:\n")[2].split("\n\n")[0].split("\n")
    return [re.split(r"\s{2,}(?:#|or )", line.strip())[0] for line in lines if line.startswith("  inlay")]


def with_short_timing(line):
    """The example with shorter timing: no number is compared, and waiting took most of the time of this test."""
    if ALL:
        return line
    if "--seconds" in line:
        return re.sub(r"--seconds [1-9]\d*", "--seconds 0.1", line)
    return re.sub(f"^inlay ({'|'.join(TIMED)}) (?!--list)", r"inlay \1 --seconds 0.1 ", line)


def bounded(line, seconds=int(os.environ.get("INLAY_EXAMPLE_SECONDS", "600"))):
    """Runs a shell command; after the time limit, kills it with its children and returns 124."""
    with subprocess.Popen(["sh", "-c", line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True) as process:
        try:
            out, err = process.communicate(timeout=seconds)
            return subprocess.CompletedProcess(line, process.returncode, out, err)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return subprocess.CompletedProcess(line, 124, out, err + f"more than {seconds} s")


class Table(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.before, cls.folder = os.getcwd(), tempfile.TemporaryDirectory()
        os.chdir(cls.folder.name)
        os.environ.update(TMPDIR=cls.folder.name, XDG_CONFIG_HOME=cls.folder.name, XDG_CACHE_HOME=cls.folder.name,
                          PATH=os.path.dirname(INLAY) + ":" + os.environ["PATH"])
        stage()

    @classmethod
    def tearDownClass(cls):
        os.chdir(cls.before)
        cls.folder.cleanup()

    def setUp(self):
        for name in outputs():
            os.remove(name) if os.path.isfile(name) else shutil.rmtree(name)

    def try_example(self, line):
        """Returns the first good exit code, or else the last one, and the output."""
        good = EXPECTED.get(line, (0,))
        for variant in ("fixed", "batch", "open", "rows", "image"):
            shutil.copy(f"variants/{variant}.onnx", "model.onnx")
            if "small.onnx" in line and "-o small.onnx" not in line:
                shutil.copy("model.onnx", "small.onnx")
            done = bounded(with_short_timing(line))
            if done.returncode in good or done.returncode == 124:
                return done, done.returncode in good
        return done, False

    def test_examples(self):
        shutil.copy("variants/image.onnx", "model.onnx")
        self.assertEqual(run(["run", "model.onnx", "--inputs", "case", "--outputs", "case"]).returncode, 0)
        built = {p["name"] for p in json.loads(run(["providers", "--json"]).stdout)["providers"]}
        absent = {"onednn", "openblas", "vulkan"} - built
        failed = []
        for verb in VERBS:
            lines = examples(verb)
            self.assertTrue(lines, f"{verb} has no examples")
            if verb in ("generate", "chat", "tokenize", "transcribe"):  # run with a model by tests/texts/chat.sh and serve_speech
                continue
            if verb == "serve" or (verb in SLOW and not ALL):
                lines = [l for l in lines if l == "inlay serve --help" or (verb == "tune" and "--" not in l)]
            for line in lines:
                needed = re.search(r"(/usr|/opt)\S*", line)
                if needed and (not os.path.exists(needed.group()) or not ALL):
                    continue
                if absent.intersection(re.findall(r"\w+", line)):
                    continue
                done, good = self.try_example(line)
                if not good:
                    failed.append(f"{line}\n  ended with {done.returncode}: {done.stderr[-600:]}{done.stdout[-200:]}")
        self.assertFalse(failed, "\n".join(failed))

    def test_help(self):
        for verb in VERBS:
            done = run([verb, "--help"])
            self.assertEqual((done.returncode, done.stderr), (0, ""), verb)
            self.assertIn("Usage: inlay " + verb, done.stdout)
            lines = done.stdout.split("\n")
            self.assertLessEqual(len(lines) - 1, 40, f"{verb} --help has too many lines")
            self.assertLessEqual(max(map(len, lines)), 80, f"{verb} --help has a line that is too wide")
            if "Options:" in lines:
                self.assertLess(lines.index("Examples:"), lines.index("Options:"), verb)

    def test_help_all(self):
        own = {verb: set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", run([verb, "--help"]).stdout, re.M)) for verb in VERBS}
        session = {"--providers", "--plugin-dirs", "--option", "--no-config"}
        for verb in VERBS:
            done = run([verb, "--help-all"])
            if verb == "serve" and not os.path.exists(INLAY + "-serve"):
                continue
            self.assertEqual((done.returncode, done.stderr), (0, ""), verb)
            self.assertLessEqual(max(map(len, done.stdout.split("\n"))), 80, f"{verb} --help-all has a line that is too wide")
            flags = set(re.findall(r"^ +(?:-., )?(--[a-z-]+)", done.stdout, re.M))
            self.assertLessEqual(own[verb], flags, verb)
            if re.search("session options such as", run([verb, "--help"]).stdout):
                self.assertLessEqual(session, flags, verb)

    def test_words_of_other_tools(self):
        """Each answer of elsewhere.def names verbs and options that exist. Each word is answered by one line, and each
        option in the answer is one of the verb that was called, or of the verb that the answer names."""
        folder = os.path.join(os.path.dirname(VERBS_DEF), "../../shared/elsewhere.def")
        with open(folder, encoding="utf-8") as file:
            rows = re.findall(r'^ELSEWHERE\(((?:"[^"]*"\s*)+),\s*"(.*)"\)', file.read(), re.M)
        self.assertGreater(len(rows), 60)
        verbs = [verb for verb in VERBS if verb != "serve" or os.path.exists(INLAY + "-serve")]
        flags = {verb: set(re.findall(r"(?m)^ +(?:-\w, )?(--[a-z-]+)", run([verb, "--help-all"]).stdout)) for verb in verbs}
        for words, answer in rows:
            verb = re.match("inlay ([a-z-]+)", answer)
            self.assertIn(verb[1] if verb else "run", [*VERBS, "--version"])
            for word in re.findall(r"[^\s\"]+", words):
                self.assertNotIn(word, VERBS)
        words = sorted({word for row in rows for word in re.findall(r"-[^\s\"]+", row[0])})
        answers = {answer for _, answer in rows}
        for i, word in enumerate(words):
            for verb in {"serve", verbs[i % len(verbs)]} & set(verbs):
                begun = {flag for flag in flags[verb] if flag.startswith(word)}
                done = run([verb, word, "no_such_file"])
                if word.startswith("--") and len(begun) == 1 or not word.startswith("--") and "unknown" not in done.stderr:
                    continue  # an option of this verb, or the beginning of one
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), f"{verb} {word}")
                told = re.search("; try (.*)\n", done.stderr)
                if told is None:  # no row has an option of this verb
                    continue
                self.assertIn(told[1], answers)
                other = re.match("inlay ([a-z-]+)", told[1])
                for flag in re.findall(r"--[a-z-]+", told[1].split(", or ")[0]):
                    if told[1] != "inlay --version" and (other is None or other[1] in flags):
                        self.assertIn(flag, flags[other[1] if other else verb], f"{verb} {word}: {done.stderr}")

    def test_help_wraps_at_columns(self):
        for columns in (60, 200):
            done = subprocess.run([INLAY, "quantize", "--help"], capture_output=True, text=True,
                                  env={**os.environ, "COLUMNS": str(columns)})
            widest = max(len(l) for l in done.stdout.split("\n") if not l.startswith("  inlay"))
            self.assertTrue(columns - 30 < widest <= columns, f"{widest} of {columns} columns")

    def test_mistyped(self):
        for verb in VERBS:
            if verb == "serve":
                continue
            for wrong, right in (("--qiuet", "--quiet"), ("--verbos-e", "--verbose"), ("--hlep", "--help")):
                done = run([verb, wrong])
                self.assertEqual((done.returncode, done.stdout), (2, ""), verb)
                self.assertEqual(done.stderr, f"inlay {verb}: unknown option '{wrong}'; did you mean '{right}'?\n")

    def test_assumed_sizes(self):
        """One note for all inputs, and the same sizes in every verb: a decoder's mask covers the past and the new ones."""
        past = [TENSOR(f"past.{i}", FLOAT, ["batch", 2, "past_sequence_length", 4]) for i in range(8)]
        mask = TENSOR("mask", FLOAT, ["batch", 1, "sequence_length", "total_sequence_length"])
        new = TENSOR("new", FLOAT, ["batch", 2, "sequence_length", 4])
        nodes, made = [], []
        for i in range(8):
            nodes += [helper.make_node("Concat", [f"past.{i}", "new"], [f"all.{i}"], axis=2),
                      helper.make_node("Transpose", [f"all.{i}"], [f"turned.{i}"], perm=[0, 1, 3, 2]),
                      helper.make_node("MatMul", ["new", f"turned.{i}"], [f"scores.{i}"]),
                      helper.make_node("Add", [f"scores.{i}", "mask"], [f"masked.{i}"])]
            made.append(TENSOR(f"masked.{i}", FLOAT, None))
        graph_file("past.onnx", nodes, [new, mask] + past, made)
        sizes = "assumed sizes: batch=1, sequence_length=64, total_sequence_length=128, past_sequence_length=64 ("
        for verb, rest in (("run", []), ("bench", ["--runs", "1"]), ("profile", ["--runs", "1", "--no-peak"])):
            done = run([verb, "past.onnx", "--cache-dir", ""] + rest)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr, f"inlay {verb}: {sizes}--dim NAME=N)\n")
        done = run(["explain", "past.onnx", "--cache-dir", ""])
        self.assertIn(sizes, " ".join(done.stdout.split()))

    def test_shares_of_a_profile(self):
        """The shares of operators and of the time outside kernels add up to the run."""
        shutil.copy("variants/fixed.onnx", "model.onnx")
        done = run(["profile", "model.onnx", "--runs", "5", "--no-peak", "--intra-threads", "1"])
        table = done.stdout.split("\n\n")[1].split("\n")[1:]
        shares = [float(re.search(r"([0-9.]+)%", line).group(1)) for line in table]
        self.assertIn("(outside kernels)", table[-1])
        self.assertAlmostEqual(sum(shares), 100, delta=0.1 * len(shares))

    def test_metric_of_few_samples(self):
        rng = np.random.default_rng(5)
        classifier = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Softmax", ["m"], ["y"])]
        for name in ("one.onnx", "two.onnx"):
            weights = [("w", rng.normal(size=(4, 6)).astype(np.float32))]
            graph_file(name, classifier, [TENSOR("x", FLOAT, [1, 4])], [TENSOR("y", FLOAT, [1, 6])], weights)
        for count, metric in ((2, "top1"), (30, "top1")):  # the kind of verdict is that of the output
            done = json.loads(run(["compare", "one.onnx", "two.onnx", "--samples", str(count), "--json"]).stdout)
            self.assertEqual(done["outputs"][0]["metric"], metric, count)
        done = json.loads(run(["compare", "one.onnx", "two.onnx", "--samples", "2", "--metric", "cosine", "--json"]).stdout)
        self.assertEqual(done["outputs"][0]["metric"], "cosine")  # as asked

    def test_sweep_without_a_winner(self):
        network("model.onnx", ["N", 4])
        done = run(["bench", "model.onnx", "--sweep", "N=1/2/4", "--seconds", "0.02"])
        lines = [line.split() for line in done.stdout.split("\n")[1:4]]
        marked = [line for line in lines if "best" in line]
        self.assertEqual(len(marked), 0 if "no point is clearly better than" in done.stdout else 1, done.stdout)
        report = json.loads(run(["bench", "model.onnx", "--sweep", "N=1/2/4", "--seconds", "0.02", "--json"]).stdout)
        others = [p for p in report["points"] if p["N"] != report["best"]["N"] and p["high"] >= report["best"]["low"]]
        self.assertEqual(report["as_good"], len(others))

    def test_tune_says_what_it_timed(self):
        shutil.copy("variants/fixed.onnx", "model.onnx")
        done = run(["tune", "model.onnx", "--budget-s", "2", "--cache-dir", "tuned"])
        timed = re.search(r"^timed +(\d+) of (\d+) kernels, of \d+ offers, and (\d+) assignments? in whole runs",
                          done.stdout, re.M)
        rest = re.search(r"^not timed +(\d+) kernels known before, (\d+) that could not be run", done.stdout, re.M)
        beyond = re.search(r"(\d+) kernels beyond --budget-s 2$", done.stdout, re.M)
        counted = int(timed.group(1)) + sum(map(int, rest.groups())) + (int(beyond.group(1)) if beyond else 0)
        self.assertEqual(counted, int(timed.group(2)), done.stdout)

    def wide_model(self):
        """model.onnx with long names, and small.onnx, the same with 8-bit weights."""
        rng, x, nodes, weights = np.random.default_rng(4), "image", [], []
        for i in range(6):
            weights.append((f"model.encoder.layers.{i}.attention.query.weight", rng.normal(size=(64, 64)).astype(np.float32)))
            nodes.append(helper.make_node("MatMul", [x, weights[-1][0]], [f"m{i}"],
                                          f"/model/encoder/layers.{i}/attention/query/MatMul"))
            nodes.append(helper.make_node("Relu", [f"m{i}"], [f"r{i}"], f"/model/encoder/layers.{i}/activation/Relu"))
            x = f"r{i}"
        graph_file("model.onnx", nodes, [TENSOR("image", FLOAT, ["batch_size", 64])], [TENSOR(x, FLOAT, None)], weights)
        self.assertEqual(run(["quantize", "model.onnx", "-o", "small.onnx", "--weights", "8"]).returncode, 0)

    WIDE = {
        "run": [""], "test": ["onnx"], "bench": ["--runs 2", "--sweep batch_size=1/2 --seconds 0.02"],
        "inspect": ["", "--nodes"], "check": [""], "doctor": ["--seconds 0.1"], "optimize": ["-o out.onnx --explain", "--list"],
        "edit": ["--set-metadata a=b -o out.onnx"], "diff": ["small.onnx"], "extract": ["--split 3 -o out.onnx"],
        "pipe": ["--steps"], "reduce": ["--check ./differs.sh -o out.onnx"], "sign": [], "verify": [], "verify-run": [], "pack": [], "tune": ["--budget-s 1"],
        "quantize": ["--weights 4 -o out.onnx --samples 2"], "compare": ["small.onnx --samples 2 --layers"],
        "lock": ["-o out.lock --no-time"], "bisect": [""], "profile": ["--runs 2 --no-peak"], "config": [""], "cache": [""], "partition": [""],
        "explain": ["", "--all", "--kernels", "--node op:MatMul", "--what-if op:MatMul=reference"],
        "advise": ["--deadline-ms 1000", "--deadline-ms 1000 --on zen4,amx --all --price zen4=1"],
        "providers": ["", "--options", "--operators", "--kernels"],
        # These have no tables, or need minutes; `plugin-check` prints lines as they come.
        "bundle": [], "serve": [], "plugin-check": [], "admit": [], "generate": [], "chat": [], "tokenize": [],
        "transcribe": [],
    }

    def test_lines_fit_80_columns(self):
        self.assertEqual(set(self.WIDE), set(VERBS))
        self.wide_model()
        for verb, lines in self.WIDE.items():
            for line in lines:
                words = shlex.split(line)
                if verb not in ("test", "pipe", "config", "cache", "providers") and "--list" not in words:
                    words.insert(0, "model.onnx")
                done = subprocess.run([INLAY, verb] + words, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                      env={**os.environ, "COLUMNS": "80"}, timeout=300)
                self.assertIn(done.returncode, (0, 1), f"{verb} {line}: {done.stderr[-400:]}")
                for text in done.stdout.split("\n"):
                    self.assertTrue(len(text) <= 80 or " " not in text.strip(), f"{verb} {line}: {len(text)} columns:\n{text}")
                self.setUp()

    def test_names_are_whole_in_a_pipe(self):
        self.wide_model()
        self.assertIn("/model/encoder/layers.3/attention/query/MatMul", run(["inspect", "model.onnx", "--nodes"]).stdout)

    def test_providers_fit_a_page(self):
        done = subprocess.run([INLAY, "providers", "--plugin-dirs", ""], capture_output=True, text=True,
                              env={**os.environ, "COLUMNS": "80"})
        self.assertLessEqual(done.stdout.count("\n"), 40)

    def in_a_terminal(self, line, stream="stdout", **environment):
        """What a terminal of 72 columns shows of the verb's standard output, or of its standard error."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 72, 0, 0))
        env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: slave}
        with subprocess.Popen([INLAY] + line, stdin=subprocess.DEVNULL, **streams,
                              env={**env, "TERM": "xterm", **environment}) as process:
            os.close(slave)
            shown = b""
            while True:
                try:
                    piece = os.read(master, 4096)
                except OSError:  # Linux reports the end as EIO
                    break
                if not piece:
                    break
                shown += piece
            process.wait(60)
        os.close(master)
        return shown.decode().replace("\r\n", "\n")

    def test_messages_fit_the_terminal(self):
        """A long message is one line in a pipe, and wrapped at words on a terminal."""
        self.wide_model()
        line = ["run", "model.onnx", "--providers", "nosuch", "--plugin-dirs", "/nonexistent/" + "long/" * 4, "--quiet"]
        one = run(line).stderr
        self.assertEqual(one.count("\n"), 1)
        self.assertGreater(len(one), 80)
        shown = self.in_a_terminal(line, "stderr", NO_COLOR="1")
        self.assertGreater(shown.count("\n"), 1)
        self.assertLessEqual(max(map(len, shown.split("\n"))), 72)
        self.assertEqual(shown.split(), one.split())

    def test_terminal(self):
        self.wide_model()
        line = ["profile", "model.onnx", "--runs", "2", "--no-peak"]
        shown = self.in_a_terminal(line)
        self.assertIn("\033[1m", shown)
        plain = re.sub("\033\\[[0-9]*m", "", shown)
        self.assertLessEqual(max(map(len, plain.split("\n"))), 72)
        self.assertIn("..", plain)
        for without in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            shown = self.in_a_terminal(line, **without)
            self.assertNotIn("\033", shown)
            self.assertLessEqual(max(map(len, shown.split("\n"))), 72)
        self.assertNotIn("\033", run(line).stdout)

    def test_json(self):
        shutil.copy("variants/fixed.onnx", "model.onnx")
        for verb, line in PLAIN.items():
            if line is None:
                continue
            done = run([verb] + shlex.split(line) + ["--json"])
            self.assertIn(done.returncode, (0, 1), f"{verb}: {done.stderr[-400:]}")
            json.loads(done.stdout)  # exactly one value
            self.assertNotIn("\r", done.stderr, f"{verb} draws a bar where there is no terminal")
        self.assertEqual(set(PLAIN), set(VERBS), "verbs.def and the table of plain runs differ")

    def test_bad_input(self):
        write("text.onnx", "no model\n")
        for verb in VERBS:
            done = run([verb, "--no-such-flag"])
            self.assertEqual(done.returncode, 2, verb)
            behind = BEHIND.get(verb, "")
            if behind is None:
                continue
            for name in ("none.onnx", "text.onnx"):
                line = [verb, name] + (shlex.split(behind) if behind != "@" else [name])
                done = run(line)
                # A doctor's finding is its result.
                errors = [l for l in (done.stderr or (done.stdout if verb == "doctor" else "")).split("\n") if l]
                self.assertIn(done.returncode, (1, 2, 3), f"{verb} {name}")
                self.assertTrue(len(errors) == 1 and name.split(".")[0] in errors[0] or verb == "plugin-check",
                                f"{verb} {name}: {done.stderr[:400]}")
                self.assertFalse(outputs(), f"{verb} left something behind")
                if verb != "plugin-check":
                    self.assertIn("error", json.loads(run(line + ["--json"]).stdout), verb)

    def test_no_case_matches(self):
        done = run(["test", "onnx", "--match", "none*"])
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("test cases matches 'none*'", done.stderr)

    def test_cancel(self):
        network("model.onnx", [30000, 4])
        large("large.onnx", 1)
        large("other.onnx", 2)
        for i in range(400):  # a folder that is slow to read
            shutil.copytree("onnx/test_one", f"onnx/test_{i}", dirs_exist_ok=True)
        for verb, line in LONG.items():
            for pause in (0.2, 0.05, 0.01, 0, 0, 0):  # a fast machine may finish before SIGINT arrives
                code, out, err = self.interrupted([verb] + shlex.split(line) + ["--json"], pause)
                if code == 130:
                    break
                self.setUp()  # removes its output
            self.assertEqual(code, 130, f"{verb}: {out[:300]} {err[:300]}")
            self.assertFalse(outputs(), f"{verb} left something behind")

    def interrupted(self, line, pause):
        """Sends SIGINT `pause` seconds after the run installs its handler; returns the exit code."""
        done = subprocess.Popen([INLAY] + line, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                stdin=subprocess.DEVNULL, text=True, start_new_session=True)
        until = time.monotonic() + 60
        while done.poll() is None and time.monotonic() < until:
            try:
                status = pathlib.Path(f"/proc/{done.pid}/status").read_text()
            except OSError:
                break
            if int(re.search(r"SigCgt:\s*(\w+)", status).group(1), 16) & 2:
                break
            time.sleep(0.002)
        time.sleep(pause)
        if done.poll() is None:
            os.killpg(done.pid, signal.SIGINT)
        out, err = done.communicate(timeout=120)
        return done.returncode, out, err


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
