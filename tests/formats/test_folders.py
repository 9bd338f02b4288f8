"""Folders of models as Hugging Face publishes them: which file `inlay run`, `inlay serve` and the samples take, and
what they refuse."""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

import numpy as np
from onnx import TensorProto, helper, load, numpy_helper, save

import test_gguf
import test_vision

sys.path.append(os.path.join(test_gguf.HERE, "..", "serve", "speech"))
import whisper  # noqa: E402

CLI, SERVE, GENERATE, WRITE_MODELS = (os.environ.get(name) for name in ("INLAY", "INLAY_SERVE", "GENERATE",
                                                                        "WRITE_MODELS"))


def write(path, number=0.0):
    """A model whose output is this number, which says which file was taken."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    nodes = [helper.make_node("Constant", [], ["c"], value_floats=[number]), helper.make_node("Sub", ["x", "x"], ["0"]),
             helper.make_node("Add", ["0", "c"], ["y"])]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    save(helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)],
                           ir_version=8), path)


def write_text(path, value):
    with open(path, "w", encoding="utf-8") as file:
        file.write(value if isinstance(value, str) else json.dumps(value))


class Server:
    def __init__(self, *args):
        self.process = subprocess.Popen([SERVE, *args, "--no-config", "--port", "0", "--grpc-port", "-1"],
                                        stderr=subprocess.PIPE, text=True)
        self.log = ""
        for line in self.process.stderr:
            self.log += line
            if "ready" in line:
                break
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.log)
        self.port = int(found.group(1)) if found else 0
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def ask(self, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{path}",
                                         None if body is None else json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    def send_sound(self, path, **fields):
        mark, samples = "8d3f", bytes(32000)  # a second of silence
        file = (b"RIFF" + struct.pack("<I", 36 + len(samples)) + b"WAVEfmt \x10\0\0\0" +
                struct.pack("<HHIIHH", 1, 1, 16000, 32000, 2, 16) + b"data" + struct.pack("<I", len(samples)) + samples)
        body = b"".join(f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields.items())
        body += f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'.encode() + file + f"\r\n--{mark}--\r\n".encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{path}", body, {"Content-Type": f"multipart/form-data; boundary={mark}"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    def figure(self, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as reply:
            return float(re.search(rf"^{name} (\S+)", reply.read().decode(), re.MULTILINE).group(1))

    def number(self, model):
        x = {"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}
        return self.ask(f"v2/models/{model}/infer", {"inputs": [x]})["outputs"][0]["data"][0]


class Folders(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)

    def path(self, *names):
        return os.path.join(self.root, *names)

    def folder(self, files, name="published", config=True):
        for number, file in enumerate(files):
            write(self.path(name, file + ".onnx"), float(number + 1))
        if config:
            write_text(self.path(name, "config.json"), {"model_type": "toy"})
        return self.path(name)

    def run_model(self, *args):
        return subprocess.run([CLI, "run", *args, "--json", "--no-config"], capture_output=True, text=True,
                              check=False)

    def number(self, *args):
        made = self.run_model(*args)
        self.assertEqual(made.returncode, 0, made.stderr)
        return json.loads(made.stdout)["outputs"][0]["values"][0]

    def refused(self, code, words, *args):
        made = self.run_model(*args)
        self.assertEqual(made.returncode, code)
        self.assertRegex(made.stderr, words)
        self.assertEqual(len(made.stderr.splitlines()), 1)

    def test_variants(self):
        """Each name of transformers.js, and any other end; without one the most accurate weights."""
        ends = ["", "_fp16", "_quantized", "_int8", "_uint8", "_q4", "_q4f16", "_bnb4", "_O4", "_qint8_avx512_vnni"]
        folder = self.folder([f"onnx/model{end}" for end in ends])
        for number, end in enumerate(ends):
            self.assertEqual(self.number(folder, "--variant", end[1:] or "fp32"), number + 1)
        self.assertEqual(self.number(folder + "/", "--variant", "q8"), 3)
        self.assertEqual(self.number(folder), 1)
        os.remove(self.path("published", "onnx", "model.onnx"))
        self.assertEqual(self.number(folder), 2)
        for end in ("fp16", "quantized", "int8", "uint8"):
            os.remove(self.path("published", "onnx", f"model_{end}.onnx"))
        self.assertEqual(self.number(folder), 6)
        for end in ("q4", "q4f16", "bnb4"):
            os.remove(self.path("published", "onnx", f"model_{end}.onnx"))
        self.refused(2, "name a variant of model: .*O4", folder)
        self.refused(3, "no variant 'q4' of model; it has: .*qint8_avx512_vnni", folder, "--variant", "q4")
        self.refused(3, "no variant", folder, "--variant", "../onnx/model")

    def test_size(self):
        """Weights that do not fit are left: their file is sparse, and larger than any memory."""
        folder = self.folder(["onnx/model", "onnx/model_q4"])
        with open(self.path("published", "onnx", "model.onnx_data"), "wb") as file:
            file.truncate(1 << 42)
        self.assertEqual(self.number(folder), 2)
        with open(self.path("published", "onnx", "model_q4.onnx_data"), "wb") as file:
            file.truncate(1 << 43)
        self.assertEqual(self.number(folder), 1)  # the smallest

    def rank(self, server, **more):
        return server.ask("v1/rerank", {"model": "ranks", "query": test_gguf.TEXTS[0], "documents": test_gguf.EMBEDDED, **more})

    def test_ranks(self):
        """Models that read two texts together rank documents: those of llama.cpp in GGUF, whose scores gguf_tokens.json has,
        and those of ONNX, whose second text has the token type 1."""
        with open(test_gguf.TOKENS, encoding="utf-8") as file:
            wanted = json.load(file)
        for name, make in test_gguf.RANKERS.items():
            want = wanted["rank " + name]
            os.makedirs(self.path(name, "ranks", "1"))
            with open(self.path(name, "ranks", "1", "model.gguf"), "wb") as file:
                file.write(make())
            with Server(self.path(name)) as server:
                reply = self.rank(server)
                self.assertEqual(reply["usage"]["prompt_tokens"], want["tokens"], name)
                found = reply["results"]
                self.assertEqual([one["document"]["text"] for one in found], [test_gguf.EMBEDDED[one["index"]] for one in found])
                self.assertEqual([one["relevance_score"] for one in found], sorted((one["relevance_score"] for one in found), reverse=True))
                scores = {one["index"]: one["relevance_score"] for one in found}
                for i, score in enumerate(want["scores"]):
                    self.assertAlmostEqual(scores[i], score, delta=2e-3, msg=name)
                self.assertEqual(self.rank(server, top_n=2)["results"], found[:2])
                pair = server.ask("v1/score", {"model": "ranks", "text_1": test_gguf.TEXTS[0], "text_2": test_gguf.EMBEDDED[1:]})["data"]
                self.assertEqual([one["score"] for one in pair], [scores[i] for i in range(1, len(scores))])
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    server.ask("v1/embeddings", {"model": "ranks", "input": "a"})
                self.assertIn("reads two texts together", refused.exception.read().decode())

    def test_ranks_onnx(self):
        ids, types, logits = (helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in (
            ("input_ids", TensorProto.INT64, ["n", "m"]), ("token_type_ids", TensorProto.INT64, ["n", "m"]), ("logits", TensorProto.FLOAT, ["n", 1])))
        nodes = [helper.make_node("Mul", ["input_ids", "token_type_ids"], ["second"]), helper.make_node("Constant", [], ["one"], value_ints=[1]),
                 helper.make_node("ReduceSum", ["second", "one"], ["sum"]), helper.make_node("Cast", ["sum"], ["logits"], to=TensorProto.FLOAT)]
        graph = helper.make_graph(nodes, "g", [ids, types], [logits])
        os.makedirs(self.path("ranks", "1"))
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.path("ranks", "1", "model.onnx"))
        words = {"type": "WordLevel", "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 5, "b": 7}, "unk_token": "[UNK]"}
        template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "c"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "s"}}],
                    "pair": [{"SpecialToken": {"id": "c"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "s"}}, {"Sequence": {"id": "B"}},
                             {"SpecialToken": {"id": "s"}}], "special_tokens": {"c": {"ids": [1]}, "s": {"ids": [2]}}}
        split = {"type": "WhitespaceSplit"}
        for post, want in ((template, [16, 7]), ({"type": "BertProcessing", "cls": ["[CLS]", 1], "sep": ["[SEP]", 2]}, [16, 7]),
                           ({"type": "RobertaProcessing", "cls": ["[CLS]", 1], "sep": ["[SEP]", 2]}, [16, 7]),
                           (dict(template, pair=None), "post_processor has no list 'pair'")):
            write_text(self.path("ranks", "1", "tokenizer.json"), {"model": words, "pre_tokenizer": split, "post_processor": post})
            with Server(self.root) as server:
                body = {"model": "ranks", "query": "a a", "documents": ["a", "b b"]}
                if isinstance(want, list):
                    self.assertEqual([one["relevance_score"] for one in server.ask("v1/rerank", body)["results"]], want)
                    continue
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    server.ask("v1/rerank", body)
                self.assertIn(want, refused.exception.read().decode())

    def test_parts(self):
        folder = self.folder(["onnx/encoder_model", "onnx/decoder_model", "onnx/decoder_model_merged",
                              "onnx/decoder_with_past_model", "onnx/encoder_model_q4"])
        self.refused(2, "several models, decoder_model_merged, encoder_model: name the file of one; an encoder and its "
                        "decoder are two models, whose texts are not generated", folder)
        folder = self.folder(["onnx/decoder_model", "onnx/decoder_model_merged"], "decoder")
        self.assertEqual(self.number(folder), 2)
        folder = self.folder(["model_merged", "decoder_model"], "merged")
        self.assertEqual(self.number(folder), 1)
        folder = self.folder(["onnx/model", "onnx/text_model", "onnx/vision_model"], "clip")
        self.assertEqual(self.number(folder), 1)
        folder = self.folder(["model_q4", "model"], "flat")
        self.assertEqual(self.number(folder, "--variant", "q4"), 1)

    def test_other_verbs(self):
        folder = self.folder(["onnx/model", "onnx/model_q4"])
        for verb, more in (("inspect", []), ("bench", ["--seconds", "0.01"]), ("explain", [])):
            made = subprocess.run([CLI, verb, folder, "--variant", "q4", *more], capture_output=True, text=True, check=False)
            self.assertEqual(made.returncode, 0, made.stderr)
        made = subprocess.run([CLI, "inspect", folder, "--variant", "q4"], capture_output=True, text=True, check=True)
        self.assertIn("onnx/model_q4.onnx", made.stdout)

    def test_refused(self):
        os.makedirs(self.path("empty"))
        self.folder([], "empty")
        self.refused(3, "empty has no .onnx file", self.path("empty"))
        self.refused(3, "is a directory without the config.json", self.folder(["onnx/model"], "other", config=False))
        write(self.path("a.onnx"))
        self.refused(2, "--variant q4: .*a.onnx is not a folder", self.path("a.onnx"), "--variant", "q4")

    def test_served(self):
        """A folder by itself and folders among other models; each part is a model."""
        self.folder(["onnx/model", "onnx/model_q4"], "models/whole")
        self.folder(["onnx/encoder_model", "onnx/decoder_model_merged", "onnx/encoder_model_q4",
                     "onnx/decoder_model_merged_q4"], "models/pair")
        self.folder(["onnx/model"], "models/unnamed", config=False)
        write(self.path("models", "file.onnx"), 9.0)
        write(self.path("models", "versions", "3", "model.onnx"), 8.0)
        write_text(self.path("models", "versions", "config.json"), {})
        with Server(self.path("models")) as server:
            self.assertEqual(sorted((m["name"], m["version"]) for m in server.ask("v2/repository/index", {})),
                             [("file", "1"), ("pair.decoder_model_merged", "1"), ("pair.encoder_model", "1"),
                              ("versions", "3"), ("whole", "1")])
            self.assertEqual([server.number(name) for name in ("whole", "pair.encoder_model", "file", "versions")],
                             [1, 1, 9, 8])
        shutil.rmtree(self.path("models", "versions"))
        with Server(self.path("models"), "--variant", "q4") as server:
            self.assertEqual([server.number(name) for name in ("whole", "pair.encoder_model",
                                                               "pair.decoder_model_merged")], [2, 3, 4])
        for more, name in (([], "whole"), (["--model-name", "other"], "other")):
            with Server(self.path("models", "whole") + "/", *more) as server:
                self.assertEqual(server.number(name), 1)
        with Server(self.path("models", "whole"), "--variant", "q2") as server:
            self.assertRegex(server.log, "no variant 'q2' of model; it has: ")

    def test_no_texts(self):
        """A model that cannot generate texts is refused with its file and what is missing."""
        tokens = ("input_ids", TensorProto.INT64, ["batch", "sequence"])
        mask = ("attention_mask", TensorProto.INT64, ["batch", "total"])
        pair = ("encoder_hidden_states", TensorProto.FLOAT, ["batch", "source", 4])
        branch = ("use_cache_branch", TensorProto.BOOL, [1])
        tokenizer = {"normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
                     "decoder": {"type": "ByteLevel"}, "added_tokens": [],
                     "model": {"type": "BPE", "merges": [], "vocab": {chr(code): code for code in range(33, 127)}}}
        cases = {"pair": ([tokens, pair], True, "'encoder_hidden_states' of decoder_model_merged.onnx comes from the"),
                 "merged": ([tokens, mask, branch], True, "decoder_model_merged.onnx is a merged decoder, whose"),
                 "sound": ([mask], True, "decoder_model_merged.onnx has no input 'input_ids'"),
                 "other": ([tokens, ("speaker", TensorProto.INT64, ["batch"])], True, "'speaker' of decoder_model"),
                 "bare": ([tokens], False, "no tokenizer.json in the folder of decoder_model_merged.onnx"),
                 "stateless": ([tokens], True, "not a decoder with states")}
        for name, (inputs, has_tokenizer, _) in cases.items():
            folder = self.path("models", name)
            os.makedirs(os.path.join(folder, "onnx"))
            nodes = [helper.make_node("Cast", [inputs[0][0]], ["logits"], to=TensorProto.FLOAT)] + [
                helper.make_node("Identity", [one[0]], [f"{one[0]}.copy"]) for one in inputs[1:]]
            outputs = [("logits", TensorProto.FLOAT, inputs[0][2])] + [(f"{n}.copy", t, d) for n, t, d in inputs[1:]]
            graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(*one) for one in inputs],
                                      [helper.make_tensor_value_info(*one) for one in outputs])
            save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
                 os.path.join(folder, "onnx", "decoder_model_merged.onnx"))
            write_text(os.path.join(folder, "config.json"), {})
            if has_tokenizer:
                write_text(os.path.join(folder, "tokenizer.json"), tokenizer)
        with Server(self.path("models")) as server:
            for name, (_, _, words) in cases.items():
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    server.ask("v1/completions", {"model": name, "prompt": "a"})
                self.assertIn(words, json.load(refused.exception)["error"]["message"])

    def test_purposes(self):
        """A request without a model, or with another name, has the only model for its purpose: what models are for is
        known from their files before they are loaded. The first model takes the memory at the start."""
        words = {"normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "decoder": {"type": "ByteLevel"},
                 "added_tokens": [], "model": {"type": "BPE", "merges": [], "vocab": {chr(code): code for code in range(33, 127)}}}
        tokens = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["n", "m"])
        pair = helper.make_tensor_value_info("encoder_hidden_states", TensorProto.FLOAT, ["n", "k", 4])
        for kind in "gguf", "onnx":
            os.makedirs(self.path(kind))
            ballast = np.zeros(1 << 20, np.float32)
            x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [len(ballast)]) for name in "xy")
            graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [numpy_helper.from_array(ballast, "w")])
            save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.path(kind, "ballast.onnx"))
            with Server(self.path(kind)) as server:
                budget = str(int(server.figure("inlay_models_bytes")) + 64)
            whisper.Model(3).save(self.path(kind, "speech"), "merged")
            for name, inputs, classes in ("classes", [tokens], 3), ("encoded", [tokens, pair], 1):
                os.makedirs(self.path(kind, name, "1"))
                nodes = [helper.make_node("Cast", ["input_ids"], ["logits"], to=TensorProto.FLOAT)] + [
                    helper.make_node("Identity", [one.name], ["copy"]) for one in inputs[1:]]
                outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", classes])] + [
                    helper.make_tensor_value_info("copy", TensorProto.FLOAT, ["n", "k", 4]) for _ in inputs[1:]]
                save(helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), ir_version=8,
                                       opset_imports=[helper.make_opsetid("", 17)]), self.path(kind, name, "1", "model.onnx"))
                write_text(self.path(kind, name, "tokenizer.json"), words)
            if kind == "gguf":
                for name, made in (("text", test_gguf.make("llama", "F32")[0]), ("vectors", test_gguf.EMBEDDERS["bert"]()),
                                   ("eyes", test_vision.vision("clip")), ("mute", test_gguf.make("llama", "F32", [("tokenizer.ggml.model", "none")])[0])):
                    with open(self.path(kind, name + ".gguf"), "wb") as file:
                        file.write(made)
            else:
                for one in "count", "vectors":
                    os.makedirs(self.path("made", one, "1"))
                for more in "texts", "decoders":
                    subprocess.run([WRITE_MODELS, self.path("made"), more], check=True)
                shutil.move(self.path("made", "counted.onnx"), self.path("made", "count", "1", "model.onnx"))
                for name, one in ("text", "count"), ("vectors", "vectors"):
                    shutil.move(self.path("made", one), self.path(kind, name))
                    write_text(self.path(kind, name, "tokenizer.json"), words)
            with Server(self.path(kind), "--models-memory", budget) as server:
                def named(**more):
                    made = server.ask("v1/completions", {"prompt": "a", "max_tokens": 1, **more})["model"]
                    self.assertEqual(server.ask("v1/embeddings", {"input": "a", **more})["model"], "vectors")
                    self.assertEqual(server.send_sound("v1/audio/transcriptions", **more)["usage"]["seconds"], 1)
                    return made

                index = server.ask("v2/repository/index", {})
                self.assertEqual([one["name"] for one in index if one["state"] == "READY"], ["ballast"])
                self.assertEqual([one["id"] for one in server.ask("v1/models")["data"]], ["speech", "text", "vectors"])
                for more in {}, {"model": "gpt"}:
                    self.assertEqual(named(**more), "text")
                self.assertEqual(server.ask("props")["model_alias"], "text")
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    server.ask("tokenize", {"content": "a"})  # two have tokens
                self.assertEqual(refused.exception.code, 404)

    def test_generation_config(self):
        """The choice of tokens that generation_config.json states, unless the request does."""
        folder = self.path("texts")
        os.makedirs(os.path.join(folder, "onnx"))
        subprocess.run([WRITE_MODELS, self.root, "decoders"], check=True)
        shutil.copy(self.path("counted.onnx"), os.path.join(folder, "onnx", "model.onnx"))
        write_text(os.path.join(folder, "config.json"), {})
        write_text(os.path.join(folder, "tokenizer.json"),
                   {"normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
                    "decoder": {"type": "ByteLevel"}, "added_tokens": [],
                    "model": {"type": "BPE", "merges": [], "vocab": {chr(code): code for code in range(33, 127)}}})

        def replies(config, **more):
            write_text(os.path.join(folder, "generation_config.json"), config)
            with Server(folder) as server:
                return [server.ask("v1/completions", {"model": "texts", "prompt": "xyz", "max_tokens": 24, "seed": seed,
                                                      **more}) for seed in range(4)]

        def texts(config, **more):
            return [reply["choices"][0]["text"] for reply in replies(config, **more)]

        def lengths(config, **more):
            """Numbers of tokens, without the end token, and why the texts ended."""
            return {(reply["usage"]["completion_tokens"] - 1, reply["choices"][0]["finish_reason"])
                    for reply in replies(config, temperature=0, **more)}

        greedy = texts({}, temperature=0)
        self.assertEqual(len(set(greedy)), 1)
        self.assertGreater(len(set(texts({}))), 1)
        for config in ({"do_sample": False}, {"temperature": 0}, {"top_k": 1}, {"top_p": 0.0001}, {"min_p": 1}):
            self.assertEqual(texts(config), greedy, config)
        self.assertGreater(len(set(texts({"do_sample": False}, temperature=1))), 1)
        self.assertNotEqual(texts({"repetition_penalty": 50, "do_sample": False}), greedy)
        # letters are the tokens from their code on
        suppressed = [ord(letter) for letter in set(greedy[0])]
        self.assertFalse(set(greedy[0]) & set(texts({"suppress_tokens": suppressed}, temperature=0)[0]))
        # rules.c has the definitions
        first, other = ord(greedy[0][0]), ord("!")
        for config, other_text in (({"begin_suppress_tokens": [first]}, True),
                                   ({"bad_words_ids": [[first]]}, True),
                                   ({"sequence_bias": [[[first], -100.0]]}, True),
                                   ({"no_repeat_ngram_size": 1}, len(set(greedy[0])) < len(greedy[0])),
                                   ({"encoder_no_repeat_ngram_size": 5, "encoder_repetition_penalty": 1}, False),
                                   ({"num_beams": 1, "guidance_scale": None, "max_length": 20, "use_cache": True}, False)):
            self.assertEqual(texts(config, temperature=0) != greedy, other_text, config)
        self.assertEqual(texts({"typical_p": 0.0001}), texts({"typical_p": 0.0001}, temperature=1))
        self.assertEqual(texts({"epsilon_cutoff": 0.9999}), greedy)
        self.assertEqual(texts({"stop_strings": [greedy[0][2]]}, temperature=0)[0], greedy[0][:greedy[0].index(greedy[0][2])])
        # an end token is chosen once the file allows it, and at the end if it forces it
        ends = {"eos_token_id": other, "sequence_bias": [[[other], 1000.0]]}
        for config, length in (({}, 0), ({"min_new_tokens": 5}, 5), ({"min_length": 5}, 2)):
            self.assertEqual(lengths({**ends, **config}), {(length, "stop")}, config)
        self.assertEqual(lengths({**ends, "min_new_tokens": 5}, min_tokens=2), {(2, "stop")})
        self.assertEqual(lengths({"eos_token_id": other}), {(23, "length")})
        self.assertEqual(lengths({"eos_token_id": other, "forced_eos_token_id": other}), {(23, "stop")})
        self.assertEqual(lengths({"eos_token_id": other, "exponential_decay_length_penalty": [3, 1e6]}), {(4, "stop")})
        for config, line in (({"suppress_tokens": 3}, "suppress_tokens is not a list of tokens"),
                             ({"num_beams": 4}, "num_beams: only 1 is supported; remove it"),
                             ({"guidance_scale": 1.5}, "guidance_scale: only 1 is supported; remove it"),
                             ({"watermarking_config": {"greenlist_ratio": 0.5}}, "watermarking_config is not supported; remove it"),
                             ({"bad_words_ids": [[]]}, "bad_words_ids is not a list of lists of tokens"),
                             ({"sequence_bias": {"1": 2}}, "sequence_bias is not a list of pairs of a list of tokens and a number"),
                             ({"no_repeat_ngram_size": 1.5}, "no_repeat_ngram_size is not a whole number from 0"),
                             ({"top_q": 1, "mirror": "x", "do_sample": True}, "not known, and without effect: 'top_q', 'mirror'"),
                             ([1], "line 1: not an object")):
            write_text(os.path.join(folder, "generation_config.json"), config)
            with Server(folder) as server:
                self.assertIn("generation_config.json: " + line, server.log)
        with open(os.path.join(folder, "generation_config.json"), "w") as file:
            file.write('{"top_p": 1,')
        with Server(folder) as server:
            self.assertIn("generation_config.json: line 1:", server.log)
        write_text(os.path.join(folder, "generation_config.json"), {"top_p": 3})
        with Server(folder) as server:
            self.assertIn("generation_config.json: top_p is not a number from 0 to 1", server.log)
        if GENERATE:
            write_text(os.path.join(folder, "generation_config.json"), {"eos_token_id": [2]})
            made = [subprocess.run([GENERATE, model, "--tokens", "8", "xyz"], capture_output=True, text=True,
                                   check=True).stdout for model in (folder, os.path.join(folder, "onnx", "model.onnx"))]
            self.assertEqual(made[0], made[1])
            self.assertTrue(made[0].strip() and greedy[0].startswith(made[0].strip()))
        # decoders of onnx-community have the number of the last tokens with logits as an input
        model = load(self.path("counted.onnx"))
        product = next(node for node in model.graph.node if node.output[0] == "logits")
        model.graph.input.append(helper.make_tensor_value_info("num_logits_to_keep", TensorProto.INT64, []))
        model.graph.initializer.extend(numpy_helper.from_array(np.array([value], np.int64), name)
                                       for name, value in (("first_axis", 0), ("token_axis", 1), ("no_end", 2 ** 62)))
        model.graph.node.extend([helper.make_node("Neg", ["num_logits_to_keep"], ["less"]),
                                 helper.make_node("Unsqueeze", ["less", "first_axis"], ["first"]),
                                 helper.make_node("Slice", [product.input[0], "first", "no_end", "token_axis"], ["kept"])])
        product.input[0] = "kept"
        model.graph.node.remove(product)
        model.graph.node.append(product)
        save(model, os.path.join(folder, "onnx", "model.onnx"))
        self.assertEqual(texts({}, temperature=0), greedy)

    def test_gguf_chats(self):
        """A file without a chat template gets ChatML, and the server says so. Texts end with tokens that llama.cpp
        knows by their text. A model whose tokenizer is not known is no model for texts."""
        template = "{% for m in messages %}{{ m.content }}{% endfor %}"
        os.makedirs(self.path("models"))
        for name, more in (("plain", []), ("own", [("tokenizer.chat_template", template)]),
                           ("other", [("tokenizer.ggml.model", "t5")]),
                           ("mute", [("tokenizer.ggml.model", "no_vocab")])):
            with open(self.path(f"models/{name}.gguf"), "wb") as file:
                file.write(test_gguf.make("llama", "F32", more)[0])
        end = "<|end|>"  # a control token of the file, which no key names
        with open(self.path("models/ends.gguf"), "wb") as file:
            data, count = test_gguf.make("llama", "F32", [("tokenizer.ggml.eos_token_id", 5)])
            file.write(data)
        with Server(self.path("models")) as server:
            self.assertIn("model 'plain': the file has no chat template; chats have the form ChatML", server.log)
            self.assertNotIn("model 'own': the file has no chat", server.log)
            self.assertIn("model 'mute', version 1: not a model for texts: mute.gguf has no tokenizer (tokenizer.ggml.model "
                          "is no_vocab)", server.log)
            chat = {"messages": [{"role": "user", "content": "the"}], "max_tokens": 4, "temperature": 0}
            for name, text in (("plain", "<|im_start|>user\nthe<|im_end|>\n<|im_start|>assistant\n"), ("own", "the")):
                made = server.ask("v1/chat/completions", {"model": name, **chat})
                tokens = server.ask("tokenize", {"model": name, "prompt": text, "add_special_tokens": False})["tokens"]
                self.assertEqual(made["usage"]["prompt_tokens"], len(tokens), name)
            made = server.ask("v1/completions", {"model": "ends", "prompt": "the", "max_tokens": 3, "temperature": 0,
                                                 "logit_bias": {str(count - 2): 100}})
            self.assertEqual(made["choices"][0]["finish_reason"], "stop", end)
            with self.assertRaises(urllib.error.HTTPError) as refused:
                server.ask("v1/completions", {"model": "other", "prompt": "the"})
            self.assertIn("the tokenizer of other.gguf is of the kind 't5'", refused.exception.read().decode())

    def test_gguf_folders(self):
        """Folders with model.gguf, a draft model and adapters in GGUF. The draft model guesses tokens and does not change
        them. Texts with an adapter, and with DRY, are those of llama-server."""
        with open(test_gguf.TOKENS, encoding="utf-8") as file:
            wanted = json.load(file)["llama server"]
        data = test_gguf.make("llama", "F32")[0]
        for path, made in (("plain/model", data), ("a/1/model", data), ("a/1/draft/model",
                           test_gguf.make("llama", "F32", [(".rope.freq_base", 20000.0)])[0]),
                           ("a/adapters/one/adapter_model", test_gguf.server_adapter())):
            os.makedirs(self.path("models", os.path.dirname(path)), exist_ok=True)
            with open(self.path("models", path + ".gguf"), "wb") as file:
                file.write(made)
        with Server(self.path("models"), "--draft-tokens", "4") as server:
            for (name, more), texts in zip(test_gguf.SERVED.items(), wanted):
                for text, want in zip(test_gguf.TEXTS, texts):
                    for model in ("a", "plain") if name != "lora" else ("a:one",):
                        made = server.ask("completion", {"model": model, "prompt": text, "n_predict": 24, "temperature": 0,
                                                         **more})
                        parts = [re.sub("\ufffd+", "\ufffd", one) for one in (made["content"], want)]  # of characters
                        self.assertEqual(*parts, f"{model} {name} {text!r}")
            figures = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics").read().decode()
            for kind in "read", "right":
                count = re.search(f'inlay_guessed_tokens_total{{model="a",[^}}]*kind="{kind}"}} (\\d+)', figures)
                self.assertGreater(int(count.group(1)), 0, kind)

    def test_gguf_parts(self):
        """The parts of a split file are one model, in a folder and alone. Texts of a model with attention sinks that
        share runs are those of each alone."""
        data = test_gguf.make("gpt-oss", "MXFP4")[0]
        os.makedirs(self.path("models"))
        for i, part in enumerate(test_gguf.split(data, 3)):
            with open(self.path(f"models/a-{i + 1:05}-of-00003.gguf"), "wb") as file:
                file.write(part)
        with Server(self.path("models")) as server, Server(self.path("models/a-00002-of-00003.gguf")) as alone:
            for one in server, alone:
                self.assertEqual([model["id"] for model in one.ask("v1/models")["data"]], ["a"])
            ask = {"model": "a", "max_tokens": 6, "temperature": 0, "logprobs": 1}
            texts = ["the and 12", "a", "in the inner", "and"]
            made = server.ask("v1/completions", {"prompt": texts, **ask})["choices"]
            for text, choice in zip(texts, made):
                other = alone.ask("v1/completions", {"prompt": text, **ask})["choices"][0]
                self.assertEqual(choice["logprobs"]["tokens"], other["logprobs"]["tokens"], text)

    def test_saved_gguf(self):
        """Models saved from a GGUF file have operators of ONNX and com.microsoft only, and the same outputs. Scales
        of quantized embeddings are not quantized."""
        for arch, kind in (("llama", "Q4_0"), ("qwen2", "Q4_K"), ("gemma", "F16"), ("mixtral", "Q5_1")):
            source, saved = self.path("m.gguf"), self.path("m.onnx")
            with open(source, "wb") as file:
                file.write(test_gguf.make(arch, kind)[0])
            for verb, *args in (["optimize"], ["extract", "--outputs", "logits"], ["edit", "--set-metadata", "a=b"],
                                ["doctor", "--fix"], ["quantize", "--weights", "8"]):
                if verb == "quantize" and arch != "qwen2":
                    continue
                done = subprocess.run([CLI, verb, source, *args, "-o", saved], capture_output=True, text=True,
                                      check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                model = load(saved)
                self.assertLessEqual({node.domain for node in model.graph.node}, {"", "com.microsoft"})
                self.assertLessEqual({opset.domain for opset in model.opset_import}, {"", "com.microsoft"})
            alike = subprocess.run([CLI, "compare", source, saved, "--metric", "cosine", "--at-least", "0.9999"],
                                   capture_output=True, text=True, check=False)
            self.assertEqual(alike.returncode, 0, alike.stdout + alike.stderr)


if __name__ == "__main__":
    unittest.main()
