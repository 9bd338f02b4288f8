#!/usr/bin/env python3
"""test_vision.py - vision parts of language models (mmproj files): the rows of images are those of llama.cpp, which
gguf_vision.json has, and the answers of a model that reads images are its answers.

test_vision.py --make ROOT asks llama.cpp, by hand: ROOT is as for test_gguf.py. llama.cpp looks activations up in tables
of 16-bit floats, which limits how near the rows can be."""
import base64
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
import zlib

import numpy as np

import test_gguf as files

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = os.path.join(HERE, "gguf_vision.json")
SIDE, PATCH, WIDTH = 28, 7, 64  # of the encoder's image; of a row
# name: class, activation, bias of patches, norm before the layers, exchanged names of the network, type
KINDS = {"clip": (True, "quick", False, True, False, "F32"), "siglip": (False, "gelu", True, False, False, "F32"),
         "older": (True, "quick", False, True, True, "F16"), "silu": (False, "silu", True, True, False, "F32"),
         "idefics3": (False, "gelu", True, False, False, "F32"), "idefics3 halves": (False, "gelu", True, False, False, "F16"),
         "gemma3": (False, "gelu", True, False, False, "F32"), "gemma3 halves": (False, "gelu", True, False, False, "F16"),
         "qwen2vl": (False, "quick", False, False, False, "F32"), "qwen2.5vl": (False, "silu", False, False, False, "F32"),
         "qwen2.5vl halves": (False, "silu", False, False, False, "F16"),
         "internvl": (True, "gelu", True, False, False, "F32"), "pixtral": (False, "silu", False, True, False, "F32"),
         "pixtral halves": (False, "silu", False, True, False, "F16"), "mistral3": (False, "gelu", False, True, False, "F32"),
         "qwen3vl": (False, "gelu", True, False, False, "F32"), "qwen3vl halves": (False, "gelu", True, False, False, "F16"),
         "qwen35": (False, "gelu", True, False, False, "F32")}
NAMES = {"internvl": "internvl", "pixtral": "pixtral", "mistral3": "pixtral", "gemma3": "gemma3", "idefics3": "idefics3",
         "qwen2vl": "qwen2vl_merger", "qwen2.5vl": "qwen2.5vl_merger", "qwen3vl": "qwen3vl_merger", "qwen35": "qwen3vl_merger"}
STACK = 2  # layers of the vision part of Qwen3-VL that make a part of the rows each
# Another value of each key, and what a refusal says if it names a tensor of another shape, or one that is not read, instead.
VALUES = {".has_vision_encoder": False, ".has_audio_encoder": True, ".projector_type": "ldp", ".vision.projector_type": "ldp",
          ".use_gelu": True, ".use_silu": True, ".vision.image_size": 27, ".vision.patch_size": 5, ".vision.image_mean": [0.1, 0.2, 0.9],
          ".vision.image_std": [0.9, 0.5, 0.1], ".vision.image_grid_pinpoints": [56, 28], ".vision.feature_layer": [1],
          ".vision.embedding_length": 16, ".vision.feed_forward_length": 40, ".vision.attention.head_count": 4,
          ".vision.block_count": 2, ".vision.attention.layer_norm_epsilon": 0.5, ".vision.projector.scale_factor": 2,
          ".vision.spatial_merge_size": 4, ".vision.n_wa_pattern": 3, ".vision.preproc_image_size": 56,
          ".vision.preproc_min_tiles": 2, ".vision.preproc_max_tiles": 4}
TENSORS = {".vision.patch_size": "'v.patch_embd.weight'", ".vision.embedding_length": "'v.patch_embd.weight'",
           ".vision.feed_forward_length": r"'v\.blk\.0\.ffn_\w+\.weight'", ".vision.block_count": r"'v\.blk\.[23]\.",
           ".vision.projector.scale_factor": r"'mm\.model\.(fc|mlp\.0)\.weight'", ".vision.spatial_merge_size": r"'mm\.(patch_merger|input_norm)\.weight'"}
TOGETHER = ({".projector_type": None, ".vision.projector_type": "mlp"}, {".use_gelu": True, ".use_silu": True},
            {".use_gelu": None, ".use_silu": None}, {".vision.image_mean": [0.1, 0.2, 0.9, 0.5]}, {".vision.image_mean": []},
            {".vision.image_grid_pinpoints": []}, {".vision.feature_layer": []}, {".vision.block_count": 4},
            {".vision.image_crop_resolution": 14}, {".vision.mm_patch_merge_type": "spatial_unpad"}, {".has_llava_projector": False})
CASES = [{key: value} for key in VALUES for value in (None, VALUES[key])] + list(TOGETHER)
# qwen2vl has no windows unless the key says so; windows of larger patches have 4 of them.
GRID_CASES = [("qwen2.5vl", {key: value}) for key, values in (
    (".vision.n_wa_pattern", (None, 0, 3)), (".vision.spatial_merge_size", (None, 2, 4)), (".vision.image_size", (None, 56)),
    (".use_silu", (False,)), (".vision.attention.head_count", (4, 1)), (".vision.attention.layer_norm_epsilon", (0.5,)),
    (".vision.block_count", (2,))) for value in values] + [(kind, {key: value}) for kind in ("pixtral", "mistral3") for key, values in (
    (".vision.spatial_merge_size", (None, 1, 2, 4)), (".vision.image_size", (56,)), (".use_gelu", (False,)), (".use_silu", (False,)),
    (".vision.attention.head_count", (4,)), (".vision.attention.layer_norm_epsilon", (0.5,)), (".vision.patch_size", (15,)),
    (".vision.n_wa_pattern", (2,))) for value in values] + [("qwen3vl", {key: value}) for key, values in (
    (".vision.spatial_merge_size", (None, 2, 4)), (".vision.image_size", (56,)), (".use_gelu", (False,)), (".vision.n_wa_pattern", (2,)),
    (".vision.attention.head_count", (4,)), (".vision.attention.layer_norm_epsilon", (0.5,)), (".vision.patch_size", (15,))) for value in values] + [("qwen2vl", {".vision.n_wa_pattern": 2}), ("qwen2vl", {".use_gelu": True})]
TILE_CASES = [{".vision.projector.scale_factor": value} for value in (None, 1, 2, 4, 3)] + [
    {".vision.preproc_image_size": value} for value in (None, 28, 50, 112)] + [{".vision.patch_size": 9}, {".vision.block_count": 2}]
SIZE_CASES = [{key: value} for key, values in ((".vision.projector.scale_factor", (None, 1, 2, 4, 3)), (".vision.preproc_min_tiles", (1, 2, 13, 0)),
              (".vision.preproc_max_tiles", (1, 4, 12, 256, 257)), (".vision.patch_size", (9,)), (".vision.block_count", (2,)),
              (".vision.attention.layer_norm_epsilon", (0.5,)), (".vision.preproc_image_size", (56,))) for value in values] + [
    {".vision.preproc_min_tiles": 2, ".vision.preproc_max_tiles": 3}, {".vision.preproc_min_tiles": 3, ".vision.preproc_max_tiles": 2}]
GEMMA_CASES = [{".vision.projector.scale_factor": value} for value in (None, 1, 2, 3)] + [{".vision.block_count": 2}]
ALL_CASES = [("clip", more) for more in CASES] + [("gemma3", more) for more in GEMMA_CASES] + [
    ("idefics3", more) for more in TILE_CASES] + [("internvl", more) for more in SIZE_CASES] + GRID_CASES
# Language models, their vision parts, and the texts around an image.
LANGUAGES = {"llama": ("clip", "", ""), "gemma3": ("gemma3", "<start_of_image>", "<end_of_image>"),
             "qwen2vl": ("qwen2.5vl", "<|vision_start|>", "<|vision_end|>"), "qwen2": ("internvl", "<img>", "</img>"),
             "mistral3": ("mistral3", "", "[IMG_END]"), "qwen3vl": ("qwen3vl", "<|vision_start|>", "<|vision_end|>"),
             "qwen3vlmoe": ("qwen3vl", "<|vision_start|>", "<|vision_end|>"), "qwen35": ("qwen35", "<|vision_start|>", "<|vision_end|>")}
IMAGES = {"square": (SIDE, SIDE), "wide": (61, 23), "tall": (9, 40), "grey": (SIDE, SIDE)}
# Of encoders of any size, whose windows have 8 x 8 patches of 14 pixels: parts of windows at both edges, and one window.
GRID_IMAGES = {**IMAGES, "windows": (260, 150), "window": (112, 112), "odd": (131, 371), "fraction": (95, 64)}
# At limits: the least number of rows, one row of patches, more rows than Pixtral has, and more tiles than InternVL has.
LIMITS = {"dot": (1, 1), "line": (600, 2), "large": (700, 600)}
ALL_IMAGES = {**GRID_IMAGES, **LIMITS}


def vision(kind, more=(), width=WIDTH):
    """A small vision part with random weights; width: of its rows."""
    has_class, activation, biased, normed, exchanged, floats = KINDS[kind]
    rng, size, hidden, layers, model = np.random.default_rng(11), 32, 48, 3, files.Writer("clip", {}, more)
    name, gemma, qwen = kind.split()[0], kind.startswith("gemma3"), kind.startswith("qwen")
    tiles, sizes, lines = name == "idefics3", name == "internvl", NAMES.get(name) == "pixtral"
    rms, patch, stack = lines or name == "qwen2.5vl", 14 if qwen or lines else PATCH, NAMES.get(name) == "qwen3vl_merger"
    for key, value in ((".has_vision_encoder", True), (".projector_type", NAMES.get(name, "mlp")), (".use_gelu", activation == "gelu"),
                       (".use_silu", activation == "silu"), (".vision.image_size", SIDE), (".vision.patch_size", patch),
                       (".vision.embedding_length", size), (".vision.feed_forward_length", hidden),
                       (".vision.projection_dim", width), (".vision.block_count", layers),
                       (".vision.attention.head_count", 2), (".vision.attention.layer_norm_epsilon", 1e-5),
                       (".vision.image_mean", [0.48, 0.46, 0.41]), (".vision.image_std", [0.27, 0.26, 0.28])):
        model.add(key, value)
    if gemma or tiles or sizes:
        model.add(".vision.projector.scale_factor", 2)
    if name == "mistral3":
        model.add(".vision.spatial_merge_size", 2)
    if tiles:
        model.add(".vision.preproc_image_size", 84)
    if name == "qwen2.5vl":
        model.add(".vision.n_wa_pattern", 2)

    def add(name, *shape, around=0.0, scale=None):
        kind = floats if name.endswith("weight") and len(shape) > 1 and "position" not in name else "F32"
        scale = scale or (0.3 if len(shape) == 1 else 2 / np.sqrt(np.prod(shape[1:])))
        data = around + rng.integers(-1000, 1001, shape) / 1000 * scale
        model.tensor(name, shape, kind, data.astype(np.float16 if kind == "F16" else np.float32).tobytes())

    def norm(name, size=size):
        add(name + ".weight", size, around=1.0)
        if not rms:
            add(name + ".bias", size)

    def linear(name, rows, columns, scale=None):
        add(name + ".weight", rows, columns, scale=scale)
        if not lines:
            add(name + ".bias", rows)

    add("v.patch_embd.weight", size, 3, patch, patch)
    if qwen:
        add("v.patch_embd.weight.1", size, 3, patch, patch)
    if not lines and (stack or not qwen):
        add("v.position_embd.weight", (6 if stack else SIDE // PATCH) ** 2 + has_class, size, scale=0.5)
    if has_class:
        add("v.class_embd", size)
    if biased:
        add("v.patch_embd.bias", size)
    if normed:
        norm("v.pre_ln")
    if not lines:
        norm("v.post_ln")
    for layer in range(layers):
        p = f"v.blk.{layer}."
        norm(p + "ln1")
        norm(p + "ln2")
        for part in ("qkv", "out") if stack else ("q", "k", "v", "out"):
            linear(f"{p}attn_{part}", 3 * size if part == "qkv" else size, size)
        if name == "qwen3vl" and layer < STACK:
            norm(f"v.deepstack.{layer}.norm", 4 * size)
            linear(f"v.deepstack.{layer}.fc1", 4 * size, 4 * size)
            linear(f"v.deepstack.{layer}.fc2", width, 4 * size)
        if rms:
            linear(p + "ffn_gate", hidden, size)
        if sizes:
            add(p + "ls1.weight", size)
            add(p + "ls2.weight", size)
        linear(p + ("ffn_down" if exchanged else "ffn_up"), hidden, size)
        linear(p + ("ffn_up" if exchanged else "ffn_down"), size, hidden)
    if gemma:
        add("mm.input_projection.weight", size, width)
        add("mm.soft_emb_norm.weight", size, around=1.0)
        return model.bytes()
    if tiles:
        add("mm.model.fc.weight", width, 4 * size)
        return model.bytes()
    if sizes:
        norm("mm.model.mlp.0", 4 * size)
        linear("mm.model.mlp.1", width, 4 * size)
        linear("mm.model.mlp.3", width, width)
        return model.bytes()
    if lines:
        add("v.token_embd.img_break", width)
    if name == "mistral3":
        add("mm.input_norm.weight", size, around=1.0)
        add("mm.patch_merger.weight", size, 4 * size)
    if lines:  # its input has no norm, and llama.cpp's table of GELU the more errors the larger the numbers are
        linear("mm.1", width, size, 0.05)
    else:
        linear("mm.0", width, 4 * size if qwen else size)
    linear("mm.2", width, width)
    return model.bytes()


def png(width, height, grey=False):
    """An image of smooth colours and some noise."""
    rng = np.random.default_rng(width * 1000 + height)
    y, x = np.mgrid[0:height, 0:width]
    pixels = np.stack([x * 200 / width, y * 200 / height, (x + y) * 100 / (width + height)], -1)
    pixels = (pixels + rng.integers(0, 55, pixels.shape)).astype(np.uint8)
    pixels = pixels[:, :, :1] if grey else pixels

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0 if grey else 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def image(name):
    return png(*ALL_IMAGES[name], grey=name == "grey")


def images_of(kind):
    return GRID_IMAGES if takes_any_size(kind) else IMAGES


def takes_any_size(kind):
    return kind.startswith("qwen") or kind.split()[0] in ("internvl", "pixtral", "mistral3")


def image_of(kind):
    """The image that keys are tried with."""
    return "windows" if takes_any_size(kind) else "wide"


def with_keys(more, kind="clip"):
    """A vision part with other values of keys. An empty array has items of the type of llama.cpp's files."""
    return vision(kind, [(key, ([], 6 if "image_mean" in key else 5), 9) if value == [] else (key, value) for key, value in more.items()])


def case_name(more, kind):
    return ("keys " if kind == "clip" else f"keys of {kind} ") + json.dumps(more)


def expect_rows(test, rows, want):
    """Of tiles, llama.cpp says the rows of each."""
    parts = want.get("parts")
    test.assertEqual(list(rows.shape), want["shape"] if parts is None else [want["shape"][0] * len(parts), want["shape"][1]])
    for part, values in zip(np.split(rows, len(parts or [0])), parts or [want["values"]]):
        np.testing.assert_allclose(some(part), values, atol=3e-3)


def some(rows):
    return np.concatenate([rows[0][:16], rows[0][-16:], [rows.mean(), rows.std(), rows.min(), rows.max()]])


class Vision(unittest.TestCase):
    open = files.Gguf.open

    def test_keys(self):
        """Each key absent and at another value: the rows are those of llama.cpp, or the refusal names it. What llama.cpp
        refuses is refused."""
        import inlay
        from test_gguf_keys import table
        with open(ROWS, encoding="utf-8") as f:
            wanted = json.load(f)
        self.assertEqual(sorted(VALUES), sorted(row[0] for row in table() if row[2] == "VISION"))
        obeyed, refused = set(), set()
        for kind, more in ALL_CASES:
            name = case_name(more, kind)
            want = wanted[name]
            words = "|".join([re.escape(key) for key in more] + [TENSORS[key] for key in more if key in TENSORS])
            with self.subTest(name):
                try:
                    with self.open(with_keys(more, kind)) as session:
                        rows = session.run({"image": np.frombuffer(image(image_of(kind)), np.uint8)})["image_rows"]
                except inlay.InlayError as error:
                    self.assertRegex(str(error), words)
                    if list(more.values()) == [None]:
                        self.assertNotRegex(str(error), "out of range|another value")
                    refused |= set(more)
                    continue
                self.assertIsNotNone(want, "llama.cpp refuses it")
                expect_rows(self, rows, want)
                if want != wanted[case_name({}, kind)]:
                    obeyed |= set(more)
        self.assertEqual(set(VALUES) - obeyed - refused, {".vision.projector_type"})

    def test_rows(self):
        with open(ROWS, encoding="utf-8") as f:
            wanted = json.load(f)
        for kind in KINDS:
            with self.open(vision(kind)) as session:
                for name in {**images_of(kind), **(LIMITS if takes_any_size(kind) else {})}:
                    rows = session.run({"image": np.frombuffer(image(name), np.uint8)})["image_rows"]
                    want = wanted[f"{kind} {name}"]
                    with self.subTest(f"{kind} {name}"):
                        expect_rows(self, rows, want)

    def test_answers(self):
        """A model with option image_rows continues an image and a text as llama.cpp does."""
        with open(ROWS, encoding="utf-8") as f:
            wanted = json.load(f)
        for arch, (kind, *_) in LANGUAGES.items():
            data, _ = language(arch)
            with self.open(data) as plain, self.open(data, image_rows=1) as session, self.open(vision(kind)) as encoder:
                self.assertFalse([i.name for i in plain.inputs if i.name.startswith("image")])
                first, begin, end, text = wanted["text " + arch]
                np.testing.assert_array_equal(files.logits_of(session, first + text), files.logits_of(plain, first + text))
                for name in images_of(kind):
                    made = encoder.run({"image": np.frombuffer(image(name), np.uint8)})
                    rows = made["image_rows"]
                    places, shifts, later = [-1 - i for i in range(len(rows))], {}, {}
                    if "image_grid" in made:  # what positions differ by: a time, a row and a column
                        down, across = made["image_grid"]
                        self.assertEqual(down * across, len(rows))
                        shifts = {"image_shifts": np.array([[-i, i // across - i, i % across - i] for i in range(len(rows))])}
                        later = {"image_shifts": np.full((1, 3), max(down, across) - len(rows))}
                    want = wanted[f"answer {arch} {name}"]
                    self.assertEqual(files.greedy(session, end + text, len(want), more=later, before=[
                        (first + begin, {}), (places, {"image_rows": rows, **shifts})]), want, f"{arch} {name}")
            if arch == "llama":  # in one run, too
                tokens, want = first + places + text, want[0]
                with self.open(data, image_rows=1) as session:
                    self.assertEqual(files.logits_of(session, tokens, image_rows=rows)[0, -1].argmax(), want)

    def test_refused(self):
        """What is not understood is refused by its name."""
        import inlay
        for more, words in (((".projector_type", "ldp"), "another value than 'mlp'.*'gemma3'.*clip.projector_type"),
                            ((".projector_type", None), "clip.projector_type"), ((".has_vision_encoder", False), "has_vision_encoder"),
                            ((".has_audio_encoder", True), "has_audio_encoder"), ((".vision.image_grid_pinpoints", [336, 672]), "tiles.*pinpoints"),
                            ((".vision.feature_layer", [1, 2]), "feature_layer"), ((".vision.image_size", 0), "image_size"),
                            ((".vision.patch_size", 9), "v.patch_embd.weight"), ((".vision.image_size", 35), "v.position_embd.weight"),
                            ((".vision.image_mean", [0.5]), "image_mean"), ((".vision.image_std", [0.5, 0.0, 0.5]), "image_std"),
                            ((".vision.attention.head_count", 3), "head_count"), ((".vision.n_wa_pattern", 4), "n_wa_pattern"),
                            ((".use_silu", True), None), ((".vision.embedding_length", 48), "v.position_embd|v.class_embd|v.patch_embd"),
                            ((".vision.feed_forward_length", 40), "ffn")):
            if words is None:
                self.open(vision("clip", [more])).close()
                continue
            with self.assertRaisesRegex(inlay.InlayError, words, msg=str(more)):
                self.open(vision("clip", [more]))
        for name in ("adapter", "cogvlm", "gemma3nv", "gemma4v", "glm4v", "glm_edge", "granite4_vision", "janus_pro", "kimivl",
                     "ldpv2", "lfm2", "lightonocr", "llama4", "minicpmv", "phi4", "resampler", "ultravox", "youtuvl"):
            with self.assertRaisesRegex(inlay.InlayError, "projector_type"):
                self.open(vision("clip", [(".projector_type", name)]))
        with self.open(vision("clip")) as session, self.assertRaises(inlay.InlayError):
            session.run({"image": np.frombuffer(b"no image", np.uint8)})

    def test_chat(self):
        """inlay chat answers with images, and refuses those that it cannot read."""
        with open(ROWS, encoding="utf-8") as f:
            wanted = json.load(f)
        with tempfile.TemporaryDirectory() as folder:
            def write(name, content):
                with open(os.path.join(folder, name), "wb") as f:
                    f.write(content)
                return os.path.join(folder, name)

            def chat(*flags, lines="the inner\n"):
                return subprocess.run([os.environ["INLAY"], "chat", model, "-n", "10", "--temperature", "0", "--json", *flags], input=lines,
                                      capture_output=True, text=True, check=False, cwd=folder)

            for arch, (kind, *_) in reversed(LANGUAGES.items()):
                model, parts = write("model.gguf", language(arch)[0]), write("mmproj.gguf", vision(kind))
                for name in ("square", "tall", "windows")[:3 if kind.startswith("qwen") else 2]:
                    done = chat("--vision", parts, "--image", write(name + ".png", image(name)))
                    self.assertEqual(done.returncode, 0, done.stderr)
                    both = json.loads(done.stdout)["messages"][-1]["content"], wanted[f"said {arch} {name}"].replace("\0", "\u2400")
                    self.assertEqual(*(re.sub("\ufffd+", "\ufffd", one) for one in both))  # of characters that are cut short
            model, parts = write("model.gguf", tiled_language()[0]), write("mmproj.gguf", vision("idefics3"))
            for name in IMAGES:
                done = chat("--vision", parts, "--image", write(name + ".png", image(name)))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(json.loads(done.stdout)["messages"][-1]["content"], wanted[f"said tiles {name}"][0], name)
            model, parts = write("model.gguf", language()[0]), write("mmproj.gguf", vision("clip"))
            both = [chat("--vision", parts, "--image", "square.png", "--image", "tall.png", lines=lines) for lines in ("the inner\n", "a\nb\n")]
            self.assertEqual([done.returncode for done in both], [0, 0], both[1].stderr)
            for flags, words in ((("--image", "square.png"), "without a vision part"),
                                 (("--vision", parts, "--image", write("bad.png", b"bad")), "the image:"),
                                 (("--vision", model, "--image", "square.png"), "no vision part"),
                                 (("--vision", write("gemma.gguf", vision("gemma3")), "--image", "square.png"), "another kind of model"),
                                 (("--vision", write("wide.gguf", vision("clip", width=32)), "--image", "square.png"), "32 numbers.*64"),
                                 (("--vision", parts, "--image", "square.png", "--system", "<__image__>"), "2 times the text")):
                done = chat(*flags)
                self.assertNotEqual(done.returncode, 0, flags)
                self.assertRegex(done.stderr, words)

    @unittest.skipUnless(os.environ.get("INLAY_SERVE"), "inlay-serve is not built")
    def test_server(self):
        """The server takes images in the messages of each protocol, and keeps them apart."""
        from test_folders import Server
        with open(ROWS, encoding="utf-8") as f:
            wanted = json.load(f)
        with tempfile.TemporaryDirectory() as folder:
            for name, data in (("see/1", language()[0]), ("see/vision", vision("clip")), ("blind/1", language()[0])):
                os.makedirs(os.path.join(folder, name))
                with open(os.path.join(folder, name, "model.gguf"), "wb") as f:
                    f.write(data)
            with Server(folder) as server:
                def said(path, **body):
                    try:
                        return server.ask(path, {"model": "see", "temperature": 0, "max_tokens": 10, **body})
                    except urllib.error.HTTPError as error:
                        return json.load(error)

                def chat(content, **more):
                    return said("v1/chat/completions", messages=[{"role": "user", "content": content}], **more)

                def part(address):
                    return {"type": "image_url", "image_url": {"url": address}}

                text = {"type": "text", "text": "the inner"}
                codes = {name: base64.b64encode(image(name)).decode() for name in IMAGES}
                for name in ("square", "tall", "wide", "square", "grey", "tall"):
                    code, want = codes[name], wanted[f"said llama {name}"]
                    reply = chat([part("data:image/png;base64," + code), text])
                    self.assertEqual(reply["choices"][0]["message"]["content"], want, name)
                    self.assertEqual(reply["usage"]["prompt_tokens"], 16 + sum(map(len, wanted["text llama"])))
                    reply = said("v1/messages", messages=[{"role": "user", "content": [{"type": "image", "source": {
                        "type": "base64", "media_type": "image/png", "data": code}}, text]}])
                    self.assertEqual(reply.get("content", [{"text": reply}])[0]["text"], want)
                    reply = server.ask("api/chat", {"model": "see", "stream": False, "options": {"temperature": 0, "num_predict": 10},
                                                    "messages": [{"role": "user", "content": "the inner", "images": [code]}]})
                    self.assertEqual(reply["message"]["content"], want)
                    reply = said("v1/responses", max_tokens=None, max_output_tokens=10, input=[{"role": "user", "content": [
                        {"type": "input_image", "image_url": "data:;base64," + code}, {"type": "input_text", "text": "the inner"}]}])
                    self.assertEqual(reply["output"][0]["content"][0]["text"], want)
                both = [chat([part("data:;base64," + codes[one]), part("data:;base64," + codes[two]), text])["choices"][0]["message"]["content"]
                        for one, two in (("square", "tall"), ("tall", "square"), ("square", "tall"))]
                self.assertEqual(both[0], both[2])
                self.assertNotEqual(both[0], both[1])
                good = part("data:;base64," + codes["square"])
                for reply, words in ((chat([part("http://127.0.0.1/cat.png"), text]), "data URI.*not fetched"),
                                     (chat([part("data:image/png,abc"), text]), "base64"), (chat([part("data:;base64,****")]), "not in base64"),
                                     (chat([part("data:;base64,QUJD"), text]), "the image:"), (chat([good] * 65), "more than 64 images"),
                                     (chat([good, {"type": "text", "text": "<__image__>"}]), "2 times the text"),
                                     (chat([good] * 8), "context"), (chat([{"type": "input_audio", "input_audio": {}}]), "input_audio"),
                                     (chat([good, text], prompt_logprobs=1), "prompt_logprobs"), (chat([good, text], model="blind"), "texts only")):
                    self.assertRegex(json.dumps(reply.get("error")), words)

            # Files and rows count in max_inflight_bytes, beside the body of another request that is not complete.
            body, held = {"model": "see", "max_tokens": 2, "messages": [{"role": "user", "content": [good, text]}]}, 5000
            most = held + len(json.dumps(body)) + len(image("square")) // 2
            part_of_body = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % held + b" " * (held - 1)
            with Server(folder, "--max-inflight-bytes", str(most)) as server:
                server.ask("v1/chat/completions", body)  # alone, it may exceed the limit
                for _ in range(100):
                    with socket.create_connection(("127.0.0.1", server.port)) as other:
                        other.sendall(part_of_body)
                        time.sleep(0.05)
                        try:
                            server.ask("v1/chat/completions", body)  # the other body has not arrived
                        except urllib.error.HTTPError as error:
                            self.assertEqual(error.code, 429)
                            self.assertIn("max_inflight_bytes", json.load(error)["error"]["message"])
                            break
                else:
                    self.fail("the image was not refused")
                body["messages"][0]["content"] = [text]
                server.ask("v1/chat/completions", body)


def language(arch="llama"):
    """A language model whose chats are the texts of the messages, behind the token that begins texts if there is one."""
    begin = "" if arch.startswith("qwen") else "{{ bos_token }}"
    more = [("tokenizer.chat_template", begin + "{% for m in messages %}{{ m['content'] }}{% endfor %}")]
    if arch.startswith("qwen3vl"):  # of heads of 32
        more += [(".rope.dimension_sections", [6, 5, 5, 0]), (".n_deepstack_layers", STACK)]
    return files.make(arch, "F32", more, sizes=files.small(arch, "F32")._replace(layers=STACK + 1) if arch.startswith("qwen3vl") else None)


def tiled_language():
    """One whose vocabulary has the tokens around tiles."""
    merges = ["t h", "th e", "i n", "\u010a \u010a"]
    special = ["<fake_token_around_image>", "<global-img>"] + [f"<row_{i}_col_{j}>" for i in range(1, 5) for j in range(1, 5)] + ["<|b|>", "<|e|>"]
    tokens = files.byte_signs() + [one.replace(" ", "") for one in merges] + special
    more = [("tokenizer.ggml.tokens", tokens), ("tokenizer.ggml.merges", merges),
            ("tokenizer.ggml.token_type", [1] * (len(tokens) - len(special)) + [3] * len(special)),
            ("tokenizer.ggml.bos_token_id", len(tokens) - 2), ("tokenizer.ggml.eos_token_id", len(tokens) - 1),
            ("tokenizer.chat_template", "{{ bos_token }}{% for m in messages %}{{ m['content'] }}{% endfor %}")]
    return files.make("llama", "F32", more, sizes=files.Sizes(64, 4, 2, 16, 64, 1, words=len(tokens) - 269))


def record_tiles(root, made):
    for file, data in (("float.gguf", tiled_language()[0]), ("mmproj.gguf", vision("idefics3"))):
        with open(os.path.join(root, "tmp", file), "wb") as f:
            f.write(data)
    with files.peer(root, "--mmproj", "/tmp/mmproj.gguf"):
        with urllib.request.urlopen(f"http://127.0.0.1:{files.PORT}/props") as reply:
            mark = json.load(reply)["media_marker"]
        for name in IMAGES:
            prompt = {"prompt_string": mark + "the inner", "multimodal_data": [base64.b64encode(image(name)).decode()]}
            answer = files.ask(files.PORT, "completion", prompt=prompt, n_predict=10, temperature=0, cache_prompt=False)
            made[f"said tiles {name}"] = [answer["content"], answer["tokens_evaluated"]]


def record_answers(root, made, arch, kind, marks):
    """Asks for the tokens after each image. marks: texts that llama.cpp puts around it."""
    for file, data in (("float.gguf", language(arch)[0]), ("mmproj.gguf", vision(kind))):
        with open(os.path.join(root, "tmp", file), "wb") as f:
            f.write(data)
    with files.peer(root, "--mmproj", "/tmp/mmproj.gguf"):
        with urllib.request.urlopen(f"http://127.0.0.1:{files.PORT}/props") as reply:
            mark = json.load(reply)["media_marker"]
        for name in images_of(kind):
            prompt = {"prompt_string": mark + "the inner", "multimodal_data": [base64.b64encode(image(name)).decode()]}
            answer = files.ask(files.PORT, "completion", prompt=prompt, n_predict=10, temperature=0, return_tokens=True, cache_prompt=False)
            made[f"answer {arch} {name}"], made[f"said {arch} {name}"] = answer["tokens"], answer["content"]
        made["text " + arch] = [files.ask(files.PORT, "tokenize", content=content, add_special=i == 0, parse_special=True)["tokens"]
                                for i, content in enumerate(("", *marks, "the inner"))]


def rows_of_peer(root, data, name):
    """The rows of llama.cpp; None: it refuses the vision part, three times, because its log may be cut short at its end."""
    tiles = b"idefics3" in data
    language_model = tiled_language() if tiles else language("qwen3vl") if b"v.deepstack." in data else files.make("llama", "F32")
    for file, content in (("float.gguf", language_model[0]), ("mmproj.gguf", data), ("image.png", image(name))):
        with open(os.path.join(root, "tmp", file), "wb") as f:
            f.write(content)
    number, shape = r"-?\d+\.\d+", []
    for _ in range(3):
        done = subprocess.run(["chroot", root, "env", "MTMD_DEBUG_EMBEDDINGS=1", "llama-mtmd-cli", "-m", "/tmp/float.gguf", "--mmproj",
                               "/tmp/mmproj.gguf", "--image", "/tmp/image.png", "-p", "a", "-n", "1", "-t", "1", "-c", "2048", "--no-warmup",
                               "--chat-template", "chatml", "-fa", "off", "-v"],
                              capture_output=True, text=True, errors="replace", check=False)
        out = re.sub(r"\d+\.\d+\.\d+\.\d+ I ", "", done.stdout + done.stderr)
        shape = shape or re.findall(r"Shape: \[(\d+), (\d+)\]", out)
        if shape:
            break
    else:
        return None
    lines = [re.findall(number, line) for line in re.findall(r"16 values\):(.*)", out)]
    stats = re.findall(rf"Stats: mean=({number}), std=({number}), min=({number}), max=({number})", out)
    parts = [[float(v) for v in sum(lines[2 * i:2 * i + 2], []) + list(one)] for i, one in enumerate(stats)]
    if tiles:  # of each tile; its log may be cut short at its end
        return {"shape": [int(shape[0][1]), int(shape[0][0])], "parts": parts}
    if b"internvl" in data:  # of the first tile; how many numbers all have is said elsewhere
        rows = int(re.findall(r"encoding batch with \d+ entries and total (\d+) tokens", out)[-1])
        return {"shape": [rows, int(shape[-1][0])], "values": parts[-1]}
    return {"shape": [int(shape[-1][1]), int(shape[-1][0])], "values": parts[-1]}


def record(root):
    """Adds what the file lacks."""
    with open(ROWS, encoding="utf-8") as f:
        made = json.load(f)
    for arch, (kind, *marks) in LANGUAGES.items():
        if "text " + arch not in made:
            record_answers(root, made, arch, kind, marks)
    if "said tiles wide" not in made:
        record_tiles(root, made)
    for kind in KINDS:
        for name in {**images_of(kind), **(LIMITS if takes_any_size(kind) else {})}:
            if f"{kind} {name}" not in made:
                made[f"{kind} {name}"] = rows_of_peer(root, vision(kind), name)
    for kind, more in [(kind, {}) for kind in ("clip", *NAMES)] + ALL_CASES:
        if case_name(more, kind) not in made:
            made[case_name(more, kind)] = rows_of_peer(root, with_keys(more, kind), image_of(kind))
    with open(ROWS, "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in made.items()) + "\n}\n")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--make":
        record(sys.argv[2])
    else:
        unittest.main()
