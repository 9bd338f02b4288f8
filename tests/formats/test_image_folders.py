"""Folders of models that read images, as Hugging Face publishes them: vision_encoder, embed_tokens and
decoder_model_merged. Small ones with random weights, in the forms of SmolVLM, LLaVA, Gemma 3, PaliGemma, Qwen2-VL and
Qwen2.5-VL; their answers are those of the same models in numpy, which resizes images as Pillow does, after its source."""
import base64
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.error

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

import test_vision
from test_folders import Server, write_text

sys.path.append(os.path.join(test_vision.HERE, "..", "serve", "speech"))
from whisper import HEAD, HEADS, WIDTH, Graph, Model  # noqa: E402

CLI = os.environ["INLAY"]
SIDE, PATCH, MOST = 8, 4, 512  # of the encoder's image; of a patch; positions
LETTERS = [chr(c) for c in range(33, 127)] + ["\u0120", "\u010a"]  # the last two are space and newline
SPECIAL = ["<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"] + [
    f"<row_{i}_col_{j}>" for i in range(1, 5) for j in range(1, 5)] + ["<start_of_image>", "<end_of_image>", "<image_soft_token>",
                                                                       "<|vision_start|>", "<|image_pad|>", "<|vision_end|>", "<bos>"]
WORDS = LETTERS + SPECIAL
ID = {word: i for i, word in enumerate(WORDS)}
END = ID["<end_of_utterance>"]
PARTS = ("{% for m in messages %}{{ m['role'] | capitalize }}{% if m['content'][0]['type'] == 'image' %}:{% else %}: {% endif %}"
         "{% for line in m['content'] %}{% if line['type'] == 'text' %}{{ line['text'] }}{% elif line['type'] == 'image' %}{{ '<image>' }}"
         "{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}")
GEMMA = ("{{ bos_token }}{% for m in messages %}{{ m['role'] }}:{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for p in m['content'] %}"
         "{% if p['type'] == 'image' %}<start_of_image>{% else %}{{ p['text'] }}{% endif %}{% endfor %}{% endif %} {% endfor %}")
QWEN = ("{% for m in messages %}{{ m['role'] }}:{% for p in m['content'] %}{% if p['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
        "{% else %}{{ p['text'] }}{% endif %}{% endfor %} {% endfor %}")
TEXTS = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + ' ' }}{% endfor %}"
IMAGES = {"tiles": (24, 16), "wide": (40, 13), "tall": (9, 31), "small": (8, 8), "grey": (13, 9), "halves": (20, 28)}
# What the template prints for an image, and what is before and after its rows.
MARKS = {"gemma3": ("<start_of_image>", "\n\n<start_of_image>", "<end_of_image>\n\n"), "qwen2_vl": ("<|image_pad|>", "", ""),
         "qwen2_5_vl": ("<|image_pad|>", "", "")}


def lanczos(x):
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


def bicubic(x):
    x, a = np.abs(x), -0.5
    return np.where(x < 1, ((a + 2) * x - (a + 3)) * x * x + 1, np.where(x < 2, (((x - 5) * x + 8) * x - 4) * a, 0))


FILTERS = {1: (lanczos, 3), 2: (lambda x: np.maximum(0, 1 - np.abs(x)), 1), 3: (bicubic, 2)}


def resize_rows(pixels, size, number):
    """Pillow: weights of 22 bits, rounded to bytes."""
    (function, reach), scale = FILTERS[number], len(pixels) / size
    wide, made = max(scale, 1), []
    for i in range(size):
        centre = (i + 0.5) * scale
        first, last = max(0, int(centre - reach * wide + 0.5)), min(len(pixels), int(centre + reach * wide + 0.5))
        weights = function((np.arange(first, last) - centre + 0.5) / wide)
        fixed = weights / weights.sum() * (1 << 22)
        fixed = np.trunc(fixed + np.where(fixed < 0, -0.5, 0.5)).astype(np.int64)
        made.append(np.clip((np.tensordot(fixed, pixels[first:last].astype(np.int64), 1) + (1 << 21)) >> 22, 0, 255))
    return np.stack(made).astype(np.uint8)


def resize(pixels, height, width, number):
    """First the columns, then the rows."""
    if width != pixels.shape[1]:
        pixels = resize_rows(pixels.transpose(1, 0, 2), width, number).transpose(1, 0, 2)
    return resize_rows(pixels, height, number) if height != len(pixels) else pixels


def pixels_of(name):
    (width, height), grey = IMAGES[name], name == "grey"
    rng = np.random.default_rng(width * 1000 + height)
    pixels = rng.integers(0, 256, (height, width, 1 if grey else 3)) * 0.6 + rng.integers(0, 103, (1, 1, 1 if grey else 3))
    return np.repeat(pixels.astype(np.uint8), 3 if grey else 1, -1)


def file_of(name):
    """As PGM or PPM."""
    pixels, grey = pixels_of(name), name == "grey"
    return b"P%d %d %d 255\n" % (5 if grey else 6, *IMAGES[name]) + pixels[:, :, :1 if grey else 3].tobytes()


class Seeing(Model):
    """kind: model_type; form: preprocessor_config.json."""

    def __init__(self, kind, **form):
        random = np.random.default_rng(6)
        self.kind, self.tiles, self.grid = kind, kind == "smolvlm", kind.startswith("qwen")
        self.mark, *self.around = MARKS.get(kind, ("<image>", "", ""))

        def weights(*shape, scale=1.0):
            return (random.standard_normal(shape) * scale).astype(np.float32)
        self.w = {"words": weights(len(WORDS), WIDTH), "places": weights(MOST, WIDTH, scale=0.3),
                  "patch": weights(3 * PATCH * PATCH, WIDTH, scale=0.5), "su": weights(WIDTH, 4 * WIDTH, scale=0.5), "sd": weights(4 * WIDTH, WIDTH, scale=0.5)}
        for part in "qkvo":
            self.w["s" + part] = weights(WIDTH, WIDTH, scale=1.5 if part in "qk" else 0.8)
        if self.grid:  # positions have three axes, and a patch two frames
            self.w.update(rows=weights(MOST, WIDTH, scale=0.3), columns=weights(MOST, WIDTH, scale=0.3), patch=weights(6 * PATCH * PATCH, WIDTH, scale=0.5))
        self.form = {"do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5, 0.4, 0.3],
                     "image_std": [0.5, 0.25, 0.3]}
        if self.tiles:
            self.form.update(image_processor_type="Idefics3ImageProcessor", size={"longest_edge": 24}, max_image_size={"longest_edge": SIDE},
                             do_image_splitting=True, do_pad=True, resample=1, do_convert_rgb=True)
        elif self.grid:
            self.form.update(image_processor_type="Qwen2VLImageProcessor", patch_size=PATCH, merge_size=2, temporal_patch_size=2, min_pixels=128,
                             max_pixels=512, resample=3)
        elif kind in ("gemma3", "paligemma"):
            self.form.update(image_processor_type="Gemma3ImageProcessor" if kind == "gemma3" else "SiglipImageProcessor",
                             size={"height": SIDE, "width": SIDE}, resample=2, do_pan_and_scan=None)
        else:
            self.form.update(image_processor_type="CLIPImageProcessor", size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE},
                             do_center_crop=True, resample=3)
        self.form.update(form)

    # In numpy.

    def planes(self, pixels):
        """The images that the encoder reads, and how many squares come first in rows and columns."""
        (height, width), number, rows, columns = pixels.shape[:2], self.form["resample"], 0, 0
        size = self.form.get("size")
        if self.grid:
            step = self.form["patch_size"] * self.form["merge_size"]
            h, w, least, most = round(height / step) * step, round(width / step) * step, self.form["min_pixels"], self.form["max_pixels"]
            if h * w > most:
                beta = math.sqrt(height * width / most)
                h, w = (max(step, math.floor(side / beta / step) * step) for side in (height, width))
            elif h * w < least:
                beta = math.sqrt(least / (height * width))
                h, w = (math.ceil(side * beta / step) * step for side in (height, width))
            made = [resize(pixels, h, w, number)]
        elif not self.tiles:
            if "height" in size:
                pixels = resize(pixels, size["height"], size["width"], number)
            else:
                short = size["shortest_edge"]
                pixels = resize(pixels, *((int(short * height / width), short) if width <= height else (short, int(short * width / height))), number)
            if self.form.get("do_center_crop"):
                top, left = (pixels.shape[0] - SIDE) // 2, (pixels.shape[1] - SIDE) // 2
                pixels = pixels[top:top + SIDE, left:left + SIDE]
            made = [pixels]
        else:
            longest = size["longest_edge"]
            if width >= height:
                width, height = longest, int(longest / (width / height))
                height += height % 2
            else:
                height, width = longest, int(longest * (width / height))
                width += width % 2
            pixels, made = resize(pixels, height, width, number), []
            if self.form["do_image_splitting"]:
                ratio = width / height
                if width >= height:
                    width = math.ceil(width / SIDE) * SIDE
                    height = math.ceil(int(width / ratio) / SIDE) * SIDE
                else:
                    height = math.ceil(height / SIDE) * SIDE
                    width = math.ceil(int(height * ratio) / SIDE) * SIDE
                pixels = resize(pixels, height, width, number)
                if height > SIDE or width > SIDE:
                    rows, columns = height // SIDE, width // SIDE
                    made = [pixels[y:y + SIDE, x:x + SIDE] for y in range(0, height, SIDE) for x in range(0, width, SIDE)]
            made.append(resize(pixels, SIDE, SIDE, number))
        planes = np.stack(made).transpose(0, 3, 1, 2).astype(np.float64)
        mean, deviation = (np.array(self.form[key])[:, None, None] for key in ("image_mean", "image_std"))
        return (planes / 255 - mean) / deviation, rows, columns

    def rows_of(self, planes):
        n, side = len(planes), SIDE // PATCH
        if self.grid:
            height, width = (axis // PATCH for axis in planes.shape[2:])
            cut = np.stack([planes[0]] * 2).reshape(2, 3, height // 2, 2, PATCH, width // 2, 2, PATCH)
            cut = cut.transpose(2, 5, 3, 6, 1, 0, 4, 7).reshape(-1, 6 * PATCH * PATCH)
            return np.tanh(cut @ self.get("patch")).reshape(-1, 4, WIDTH).mean(1)[None], (height // 2, width // 2)
        cut = planes.reshape(n, 3, side, PATCH, side, PATCH).transpose(0, 2, 4, 1, 3, 5).reshape(n, side * side, -1)
        return np.tanh(cut @ self.get("patch")), None

    def expand(self, prompt, names):
        """The ids of the prompt, None for each row of an image, the rows, and the positions."""
        ids, rows, places, texts = [], [], [], prompt.split(self.mark)
        place = 0

        def text_places():
            nonlocal place
            while len(places) < len(ids):
                places.append([place] * 3)
                place += 1

        for i, text in enumerate(texts):
            ids += encode(text)
            text_places()
            if i + 1 == len(texts):
                break
            planes, down, across = self.planes(pixels_of(names[i]))
            made, sides = self.rows_of(planes)
            rows += list(made.reshape(-1, WIDTH))
            hole = [None] * made.shape[1]
            if not self.tiles:
                ids += encode(self.around[0])
                text_places()
                ids += hole
                if sides is not None:
                    places += [[place, place + y, place + x] for y in range(sides[0]) for x in range(sides[1])]
                    place += max(sides)
                ids += encode(self.around[1])
                continue
            for r in range(down):
                for c in range(across):
                    ids += encode(f"<fake_token_around_image><row_{r + 1}_col_{c + 1}>") + hole
                ids += encode("\n")
            ids += encode(("\n" if down else "") + "<fake_token_around_image><global-img>") + hole + encode("<fake_token_around_image>")
        text_places()
        return ids, rows, places

    def answer(self, prompt, names, count):
        ids, rows, places = self.expand(prompt, names)
        rows, said = iter(rows), []
        x = np.stack([next(rows) if one is None else self.get("words")[one] for one in ids])
        while len(said) < count:
            at, tables = np.array(places), ("places", "rows", "columns") if self.grid else ("places",)
            logits = self.logits(x + sum(self.get(table)[at[:, i]] for i, table in enumerate(tables)))
            best = np.argsort(logits)[::-1][:2]
            assert logits[best[0]] - logits[best[1]] > 1e-3, "a near tie: choose another seed"
            if best[0] == END:
                break
            said.append(int(best[0]))
            x = np.concatenate([x, self.get("words")[best[:1]]])
            places.append([at.max() + 1] * 3)
        return text_of(said), len(ids)

    def logits(self, x):
        x = x + self.attend("s", self.norm(x), self.norm(x), True)
        x = x + self.gelu(self.norm(x) @ self.get("su")) @ self.get("sd")
        return self.norm(x)[-1] @ self.get("words").T

    # As ONNX.

    def decoder(self):
        g = Graph()
        x = "inputs_embeds"
        for i, table in enumerate(("places", "rows", "columns") if self.grid else ("places",)):
            at = g.add("Gather", ["position_ids", g.const(np.array(i, np.int64))], axis=0) if self.grid else "position_ids"
            x = g.add("Add", [x, g.add("Gather", [table, at])])
        y = g.norm(x)
        key, value = (g.add("Concat", [f"past_key_values.0.{name}", now], axis=2) for name, now in zip(("key", "value"), g.keys("s", y)))
        hidden = g.add("Sub", [g.add("Cast", ["attention_mask"], to=TensorProto.FLOAT), g.const(np.float32(1))])
        hidden = g.add("Unsqueeze", [g.add("Mul", [hidden, g.const(np.float32(1e30))]), g.const(np.array([1, 2], np.int64))])
        x = g.add("Add", [x, g.attend("s", y, key, value, g.add("Add", [g.causal(key, y), hidden]))])
        x = g.add("Add", [x, g.feed(g.norm(x), "s")])
        g.add("MatMul", [g.norm(x), g.add("Transpose", ["words"], perm=[1, 0])], "logits")
        g.add("Identity", [key], "present.0.key")
        g.add("Identity", [value], "present.0.value")
        state = [("key", ["batch_size", HEADS, "past", HEAD]), ("value", ["batch_size", HEADS, "past", HEAD])]
        tokens = ["batch_size", "sequence_length"]
        return g.model([("inputs_embeds", TensorProto.FLOAT, tokens + [WIDTH]), ("attention_mask", TensorProto.INT64, ["batch_size", "total"]),
                        ("position_ids", TensorProto.INT64, [3] * self.grid + tokens)] + [("past_key_values.0." + name, TensorProto.FLOAT, dims) for name, dims in state],
                       [("logits", TensorProto.FLOAT, tokens + [len(WORDS)])] + [("present.0." + name, TensorProto.FLOAT, ["batch_size", HEADS, "total", HEAD])
                                                                                for name, _ in state],
                       self.constants(["words", "places", "sq", "sk", "sv", "so", "su", "sd"] + ["rows", "columns"] * self.grid))

    def embedding(self):
        g = Graph()
        g.add("Gather", ["words", "input_ids"], "inputs_embeds")
        return g.model([("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"])],
                       [("inputs_embeds", TensorProto.FLOAT, ["batch_size", "sequence_length", WIDTH])], self.constants(["words"]))

    def eyes(self):
        g, side = Graph(), SIDE // PATCH
        if self.grid:
            grid = "image_grid_thw" if self.kind == "qwen2_5_vl" else "grid_thw"
            count = g.add("Div", [g.add("ReduceProd", [grid], keepdims=0), g.const(np.array(4, np.int64))])
            shape = g.add("Concat", [g.add("Reshape", [count, g.const(np.array([1], np.int64))]), g.const(np.array([4, WIDTH], np.int64))], axis=0)
            x = g.add("Reshape", [g.add("Tanh", [g.add("MatMul", ["pixel_values", "patch"])]), shape])
            g.add("ReduceMean", [x], "image_features", axes=[1], keepdims=0)
            return g.model([("pixel_values", TensorProto.FLOAT, ["patches", 6 * PATCH * PATCH]), (grid, TensorProto.INT64, ["images", 3])],
                           [("image_features", TensorProto.FLOAT, ["rows", WIDTH])], self.constants(["patch"]))
        x, inputs = "pixel_values", [("pixel_values", TensorProto.FLOAT, (["batch", "n"] if self.tiles else ["n"]) + [3, SIDE, SIDE])]
        if self.tiles:
            inputs.append(("pixel_attention_mask", TensorProto.BOOL, ["batch", "n", SIDE, SIDE]))
            seen = g.add("Cast", [g.add("Unsqueeze", ["pixel_attention_mask", g.const(np.array([2], np.int64))])], to=TensorProto.FLOAT)
            x = g.add("Mul", [x, seen])
        x = g.add("Reshape", [x, g.const(np.array([-1, 3, side, PATCH, side, PATCH], np.int64))])
        x = g.add("Reshape", [g.add("Transpose", [x], perm=[0, 2, 4, 1, 3, 5]), g.const(np.array([-1, side * side, 3 * PATCH * PATCH], np.int64))])
        g.add("Tanh", [g.add("MatMul", [x, "patch"])], "image_features")
        return g.model(inputs, [("image_features", TensorProto.FLOAT, ["images", side * side, WIDTH])], self.constants(["patch"]))

    def save(self, folder, under="onnx", template=None, **config):
        path = os.path.join(folder, under)
        os.makedirs(path, exist_ok=True)
        for name, model in ("decoder_model_merged", self.decoder()), ("embed_tokens", self.embedding()), ("vision_encoder", self.eyes()):
            save(model, os.path.join(path, name + ".onnx"))
        tokens = {"gemma3": {"boi_token_index": ID["<start_of_image>"], "eoi_token_index": ID["<end_of_image>"], "image_token_index": ID["<image_soft_token>"]},
                  "paligemma": {"image_token_index": ID["<image>"]}}.get(self.kind, {"image_token_id": ID[self.mark]})
        write_text(os.path.join(folder, "config.json"), {"model_type": self.kind, **tokens, "eos_token_id": END,
                                                         "text_config": {"max_position_embeddings": MOST}, **config})
        write_text(os.path.join(folder, "preprocessor_config.json"), self.form)
        template = template or {"smolvlm": PARTS, "gemma3": GEMMA, "qwen2_vl": QWEN, "qwen2_5_vl": QWEN, "paligemma": None}.get(self.kind, TEXTS)
        write_text(os.path.join(folder, "tokenizer_config.json"), {"bos_token": "<bos>", **({"chat_template": template} if template else {})})
        write_text(os.path.join(folder, "tokenizer.json"), {
            "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "decoder": {"type": "ByteLevel"},
            "added_tokens": [{"id": ID[word], "content": word, "special": True} for word in SPECIAL],
            "model": {"type": "BPE", "merges": [], "vocab": {word: ID[word] for word in LETTERS}}})


def encode(text):
    ids = []
    while text:
        special = next((word for word in SPECIAL if text.startswith(word)), None)
        ids.append(ID[special or {" ": "\u0120", "\n": "\u010a"}.get(text[0], text[0])])
        text = text[len(special or text[0]):]
    return ids


def text_of(ids):
    return "".join("" if i >= len(LETTERS) else WORDS[i].replace("\u0120", " ").replace("\u010a", "\n") for i in ids)


def prompt_of(kind, parts):
    if kind == "smolvlm":
        begin = "User:" if parts[0] in IMAGES else "User: "
        return begin + "".join("<image>" if one in IMAGES else one for one in parts) + "<end_of_utterance>\nAssistant:"
    images = [one for one in parts if one in IMAGES]
    if kind == "paligemma":
        return "<image>" * len(images) + "<bos>" + "".join(one for one in parts if one not in IMAGES) + "\n"
    if kind == "gemma3":
        return "<bos>user:" + "".join("<start_of_image>" if one in IMAGES else one for one in parts) + " "
    if kind.startswith("qwen"):
        return "user:" + "".join("<|vision_start|><|image_pad|><|vision_end|>" if one in IMAGES else one for one in parts) + " "
    return "user: " + "".join("<image>" if one in IMAGES else one for one in parts) + " "


class ImageFolders(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)

    def path(self, *names):
        return os.path.join(self.root, *names)

    def chat(self, server, name, parts):
        content = [{"type": "image_url", "image_url": {"url": "data:;base64," + base64.b64encode(file_of(one)).decode()}} if one in IMAGES else
                   {"type": "text", "text": one} for one in parts]
        try:
            return server.ask("v1/chat/completions", {"model": name, "temperature": 0, "max_tokens": 12, "messages": [{"role": "user", "content": content}]})
        except urllib.error.HTTPError as error:
            return json.load(error)

    def test_answers(self):
        """Alone, in a folder of versions, and among other models: images of one square and of several, several images, none."""
        models = {"smolvlm": Seeing("smolvlm"), "whole": Seeing("smolvlm", do_image_splitting=False), "llava": Seeing("llava"),
                  "square": Seeing("llava", image_processor_type="SiglipImageProcessorFast", size={"height": SIDE, "width": SIDE}, do_center_crop=False),
                  **{kind: Seeing(kind) for kind in ("gemma3", "paligemma", "qwen2_vl", "qwen2_5_vl")}}
        for name, model in models.items():
            model.save(self.path("models", name), under="onnx" if name != "whole" else "")
        models["smolvlm"].save(self.path("models", "versions", "2"))
        with Server(self.path("models")) as server:
            self.assertEqual([one["id"] for one in server.ask("v1/models")["data"]], sorted([*models, "versions"]))
            said = set()
            for name, model in [*models.items(), ("versions", models["smolvlm"])]:
                for parts in [[one, "what?"] for one in IMAGES] + [["see ", "tall", " and ", "wide"], ["no image"]]:
                    want, count = model.answer(prompt_of(model.kind, parts), [one for one in parts if one in IMAGES], 12)
                    reply = self.chat(server, name, parts)
                    self.assertEqual(reply.get("choices", [{"message": {"content": reply}}])[0]["message"]["content"], want, f"{name} {parts}")
                    self.assertEqual(reply["usage"]["prompt_tokens"], count, f"{name} {parts}")
                    said.add(want)
            self.assertGreater(len(said), 20)
            self.assertIn("the prompt has 2 times", str(self.chat(server, "smolvlm", ["small", "<image>"])))
        for name, model in models.items():
            with open(self.path("tall.ppm"), "wb") as file:
                file.write(file_of("tall"))
            done = subprocess.run([CLI, "chat", self.path("models", name), "--image", self.path("tall.ppm"), "-n", "12", "--temperature", "0",
                                   "--json", "--no-config"], input="what?\n", capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["messages"][-1]["content"],
                             model.answer(prompt_of(model.kind, ["tall", "what?"]), ["tall"], 12)[0])

    def test_refused(self):
        """What is not understood is refused by name when the model is loaded; the others are served."""
        Seeing("llava").save(self.path("models", "good"))
        cases = {"kind": ({"model_type": "gemma3n"}, {}, "model_type 'gemma3n' reads images in a way that is not supported"),
                 "processor": ({}, {"image_processor_type": "PixtralImageProcessor"}, "image_processor_type 'PixtralImageProcessor' is not"),
                 "step": ({}, {"do_sharpen": True}, "do_sharpen is not supported"), "pad": ({}, {"do_pad": True}, "do_pad is not supported"),
                 "size": ({}, {"size": {"max_pixels": 5}}, "size has neither"), "crop": ({}, {"crop_size": 9}, "crop_size is larger than size"),
                 "mean": ({}, {"image_mean": [0, 1]}, "image_mean has no number"), "deviation": ({}, {"image_std": 0}, "image_std has no number"),
                 "filter": ({}, {"resample": 6}, "resample is not a filter"), "side": ({}, {"size": {"shortest_edge": 0}}, "size.shortest_edge is not a whole number")}
        for name, (config, form, _) in cases.items():
            Seeing("llava", **form).save(self.path("models", name), **config)
        for name, file, change, words in (
                ("input", "vision_encoder", lambda graph: graph.input.append(helper.make_tensor_value_info("image_grid_thw", TensorProto.INT64, ["n", 3])),
                 "input 'image_grid_thw' is not supplied"),
                ("width", "vision_encoder", lambda graph: graph.initializer[0].CopyFrom(
                    numpy_helper.from_array(np.zeros((3 * PATCH * PATCH, 5), np.float32), "patch")), "rows have 5 numbers, those of the language model 16"),
                ("embedding", "embed_tokens", lambda graph: graph.input.append(helper.make_tensor_value_info("speaker", TensorProto.INT64, ["n"])),
                 "embed_tokens.onnx: input 'speaker' is not supplied"),
                ("half", "decoder_model_merged", lambda graph: setattr(graph.input[0].type.tensor_type, "elem_type", TensorProto.FLOAT16),
                 "no input 'inputs_embeds' of float32")):
            model = Seeing("llava")
            model.save(self.path("models", name))
            made = {"vision_encoder": model.eyes, "embed_tokens": model.embedding, "decoder_model_merged": model.decoder}[file]()
            change(made.graph)
            if name == "width":
                made.graph.output[0].type.tensor_type.shape.dim[2].dim_value = 5
            save(made, self.path("models", name, "onnx", file + ".onnx"))
            cases[name] = ({}, {}, words)
        for name, form, words in (("least", {"min_pixels": 600}, "min_pixels is larger than max_pixels"), ("patch", {"patch_size": 0}, "patch_size is not a whole number from 1"),
                                  ("form", {"image_processor_type": "SiglipImageProcessor", "size": 8}, "image_processor_type is not supported for model_type 'qwen2_vl'"),
                                  ("axes", {}, "position_ids has not the axes that model_type 'qwen2_vl' needs"), ("grid", {}, None)):
            Seeing("qwen2_vl", **form).save(self.path("models", name))
            if name == "axes":
                save(Seeing("llava").decoder(), self.path("models", name, "onnx", "decoder_model_merged.onnx"))
            if words is not None:
                cases[name] = ({}, {}, words)
        os.makedirs(self.path("models", "lost"))
        shutil.copytree(self.path("models", "good"), self.path("models", "lost"), dirs_exist_ok=True)
        os.remove(self.path("models", "lost", "preprocessor_config.json"))
        cases["lost"] = ({}, {}, "it has no preprocessor_config.json")
        with Server(self.path("models")) as server:
            for name, (_, _, words) in cases.items():
                self.assertRegex(server.log, f"model '{name}'.*" + words)
            self.assertIn("choices", self.chat(server, "good", ["small", "what?"]))
            self.assertIn("the image:", str(self.answer(server, "good", b"ABC")))
            self.assertIn("more than 200 times", str(self.answer(server, "grid", b"P5 402 2 255\n" + bytes(804))))
            self.assertIn("choices", self.answer(server, "grid", b"P5 1 1 255\n\0"))

    def answer(self, server, model, image):
        try:
            return server.ask("v1/chat/completions", {"model": model, "max_tokens": 2, "messages": [{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:;base64," + base64.b64encode(image).decode()}}]}]})
        except urllib.error.HTTPError as error:
            return json.load(error)


if __name__ == "__main__":
    unittest.main()
