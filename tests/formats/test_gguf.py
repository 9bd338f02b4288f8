#!/usr/bin/env python3
"""test_gguf.py - models in GGUF: the greedy tokens, the logarithms of their probabilities and the tokens of texts are those
of llama.cpp, which gguf_tokens.json has, for each architecture and each type of weights.

test_gguf.py --make ROOT [ARCH...] adds the cases that the file lacks, or asks again for those of these architectures, by
hand: ROOT is a Debian (sid) with llama.cpp-tools and python3-gguf. Quantized files are given to llama.cpp with their
weights as F32, because it rounds activations to 8 bits in products.
test_gguf.py --seed PATH writes the file of tests/fuzz/corpus/model that has the types of weights in FLOATED, but for GRIDS."""
import contextlib
import json
import multiprocessing
import os
import struct
import subprocess
import sys
import tempfile
import time
import typing
import unittest
import urllib.request
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENS = os.path.join(HERE, "gguf_tokens.json")
SPLITTERS = os.path.join(HERE, "gguf_splitters.json")
# type: number, elements of a block, bytes of a block, and where its float16 factors are
TYPES = {"F32": (0, 1, 4, ()), "F16": (1, 1, 2, ()), "BF16": (30, 1, 2, ()), "Q4_0": (2, 32, 18, (0,)),
         "Q4_1": (3, 32, 20, (0, 2)), "Q5_0": (6, 32, 22, (0,)), "Q5_1": (7, 32, 24, (0, 2)), "Q8_0": (8, 32, 34,
             (0,)),
         "Q4_K": (12, 256, 144, (0, 2)), "Q5_K": (13, 256, 176, (0, 2)), "Q6_K": (14, 256, 210, (208,))}
RANGE = {"Q4_0": 8, "Q4_1": 16, "Q5_0": 16, "Q5_1": 32, "Q8_0": 128, "Q4_K": 500, "Q5_K": 1000, "Q6_K": 2000}
CASES = [(arch, "F32") for arch in ("llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi3", "granite")] + [
    ("llama", kind) for kind in TYPES if kind != "F32"] + [("qwen2", "Q4_K"), ("phi3", "Q8_0"), ("gemma", "Q6_K")]
MIXTURES = ("mixtral", "qwen2moe", "qwen3moe", "granitemoe", "qwen3vlmoe", "gpt-oss")  # mixtral: of the architecture llama
CASES += [(arch, "F32") for arch in MIXTURES + ("minicpm",)] + [
    ("mixtral", kind) for kind in TYPES if kind != "F32"] + [("qwen2moe", "Q8_0"), ("qwen3moe", "Q4_K_M")]
CASES += [(arch, "F32") for arch in ("qwen2vl", "qwen3vl", "qwen3vlmoe", "smollm3", "seed_oss", "glm4", "olmo2", "olmo3",
                                     "exaone4", "exaone4-32b", "gpt-oss")]  # olmo3: olmo2 with windows
DELTA = ("qwen3next", "qwen35", "qwen35moe")  # each other layer has the gated delta rule
LATENT = ("deepseek2", "deepseek2-lite")  # lite: as older files of V2 Lite
MAMBA = ("granitehybrid", "granitehybrid-dense")
COHERE = ("command-r", "cohere2")
PARALLEL = ("falcon-h1", "falcon-h1-plain")  # each layer has a state beside its attention; plain: without a norm
GAPS = ("lfm2", "lfm2moe") + MAMBA  # some layers have a short convolution, or a state, instead of attention
MIXTURES += ("qwen3next", "qwen35moe", "lfm2moe", "granitehybrid", "llama4") + LATENT
CASES += [(arch, "F32") for arch in DELTA + LATENT + GAPS + PARALLEL + COHERE + ("mistral3", "llama4", "gemma3n")] + [("gemma3n", "Q8_0")] + [(arch, "Q8_0") for arch in LATENT] + [
    ("qwen35", "Q8_0"), ("qwen35moe", "Q4_0")]
# Types that are also compared with their floats, made here.
FLOATED = {"Q2_K": (10, 256, 84, (80, 82)), "Q3_K": (11, 256, 110, (108,)), "IQ4_NL": (20, 32, 18, (0,)),
           "IQ4_XS": (23, 256, 136, (0,)), "TQ1_0": (34, 256, 54, (52,)), "TQ2_0": (35, 256, 66, (64,)),
           "MXFP4": (39, 32, 17, ()), "NVFP4": (40, 64, 36, ())}
# Types whose codes are rows of a table.
GRIDS = {"IQ2_XXS": (16, 256, 66, (0,)), "IQ2_XS": (17, 256, 74, (0,)), "IQ2_S": (22, 256, 82, (0,)), "IQ3_XXS": (18, 256, 98, (0,)),
         "IQ3_S": (21, 256, 110, (0,)), "IQ1_S": (19, 256, 50, (0,)), "IQ1_M": (29, 256, 56, ())}
FLOATED.update(GRIDS)
TYPES.update(FLOATED)
CASES += [("llama", kind) for kind in FLOATED] + [("gemma2", "Q3_K"), ("qwen3moe", "Q2_K"), ("qwen3moe", "MXFP4"),
                                                   ("gpt-oss", "MXFP4"), ("mixtral", "IQ2_XS"), ("qwen3moe", "IQ3_S")]
# Types that are not supported.
OTHERS = {9: "Q8_1", 15: "Q8_K", 24: "I8", 41: "Q1_0", 99: "unknown"}
RANGE.update({"Q2_K": 50, "Q3_K": 128, "IQ4_NL": 127, "IQ4_XS": 4000, "TQ1_0": 1, "TQ2_0": 1,
              "IQ2_XXS": 80, "IQ2_XS": 80, "IQ2_S": 80, "IQ3_XXS": 250, "IQ3_S": 250, "IQ1_S": 10, "IQ1_M": 10})
MEAN = {"Q2_K": 1.5, "Q4_K": 8, "Q5_K": 16}  # of the codes, for minimums that make that of the weights about 0
# Types with packs that are smaller than codes of whole bytes with floats for scales, and their size as a multiple of that
# of the file.
PACKED = (("llama", "IQ4_NL", 1.15), ("llama", "MXFP4", 1.2), ("mixtral", "MXFP4", 1.2), ("llama", "IQ4_XS", 1.05),
          ("llama", "Q2_K", 1.4), ("llama", "Q3_K", 1.4), ("llama", "Q4_K", 1.2), ("llama", "Q5_K", 1.1),
          ("llama", "Q6_K", 1.1), ("llama", "Q5_0", 1.2), ("mixtral", "Q6_K", 1.1), ("qwen3moe", "Q4_K_M", 1.2))
PROMPTS, NEW_TOKENS, LOGITS, PART = 4, 10, 12, 1024
PORT = 21651  # of llama.cpp's server, when tokens are recorded
TEXTS = ["The inner thing and the outer 1234.", "  two  spaces\n\nline", "h\u00e9llo \u4e2d\u6587 don't I'LL", "a",
         "<|user|>hi<|end|> the", " \u2581 the and"]


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}


class Writer:
    """Keys and tensors of a GGUF file. others: data of tensors by name, in place of theirs. more: values of keys, or of
    keys with the number of a type, in place of theirs; None: the file lacks the key."""

    def __init__(self, arch, others, more=()):
        self.values, self.tensors, self.data, self.others = [], [], bytearray(), others
        self.arch = {"mixtral": "llama", "olmo3": "olmo2", "exaone4-32b": "exaone4", "deepseek2-lite": "deepseek2",
                     "granitehybrid-dense": "granitehybrid", "falcon-h1-plain": "falcon-h1"}.get(arch, arch)
        self.more = {one[0]: one[1:] for one in more}
        self.add("general.architecture", self.arch)

    def add(self, key, value, kind=None):
        if key in self.more:
            value, kind = (*self.more.pop(key), None)[:2]
        if value is None:
            return
        self.values.append(self.entry(key, value, kind))

    def entry(self, key, value, kind=None):
        """The name of a key, and its bytes in the file."""
        number = {bool: 7, int: 4, float: 6, str: 8, list: 9, tuple: 9}[type(value)] if kind is None else kind
        key = self.arch + key if key[0] == "." else key
        return key, text(key) + struct.pack("<I", number) + self.value(value, number)

    def value(self, value, number):
        """An array is a list, or its values and the number of their type."""
        if number == 9:
            items, item = value if isinstance(value, tuple) else (value, {bool: 7, int: 5, float: 6, str: 8}[type(value[0])])
            return struct.pack("<IQ", item, len(items)) + b"".join(self.value(v, item) for v in items)
        return text(value) if number == 8 else struct.pack(NUMBERS[number], value)

    def tensor(self, name, shape, kind, data, offset=None):
        """kind: a type's name or number."""
        self.data += b"\0" * (-len(self.data) % 32)
        self.tensors.append(text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1]) +
                            struct.pack("<IQ", TYPES[kind][0] if kind in TYPES else kind,
                                        len(self.data) if offset is None else offset))
        self.data += self.others.get(name, data)

    def bytes(self, more=()):
        """The file. more: as for a new writer, without changing this one."""
        for key in list(self.more):
            self.add(key, None)
        values = self.values
        for key, value, *kind in more:
            name, made = self.entry(key, 0 if value is None else value, *kind)
            places = [i for i, (known, _) in enumerate(values) if known == name]
            replaced = [] if value is None else [(name, made)]
            at = places[0] if places else len(values)
            values = values[:at] + replaced + values[at + len(places):]
        head = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(values)) + b"".join(
            [made for _, made in values] + self.tensors)
        return head + b"\0" * (-len(head) % 32) + bytes(self.data)


def split(data, parts):
    """The files in which llama-gguf-split splits a file."""
    count, values = struct.unpack_from("<QQ", data, 8)
    at, tensors = 24, []

    def text_at(at):
        size, = struct.unpack_from("<Q", data, at)
        return data[at + 8:at + 8 + size], at + 8 + size

    def skip(kind, at):
        if kind == 8:
            return text_at(at)[1]
        if kind != 9:
            return at + struct.calcsize(NUMBERS[kind])
        item, items = struct.unpack_from("<IQ", data, at)
        at += 12
        for _ in range(items):
            at = skip(item, at)
        return at

    for _ in range(values):
        at = text_at(at)[1]
        at = skip(struct.unpack_from("<I", data, at)[0], at + 4)
    head = data[24:at]
    for _ in range(count):
        begin, at = at, text_at(at)[1]
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 4
        tensors.append((data[begin:at], struct.unpack_from("<Q", data, at)[0]))
        at += 8
    base, ends, made = at + -at % 32, [t[1] for t in tensors[1:]] + [None], []
    for i in range(parts):
        mine = list(range(count * i // parts, count * (i + 1) // parts))
        keys = [text("split.no") + struct.pack("<IH", 2, i), text("split.count") + struct.pack("<IH", 2, parts),
                text("split.tensors.count") + struct.pack("<Ii", 5, count)]
        table, body = b"", b""
        for k in mine:
            table += tensors[k][0] + struct.pack("<Q", len(body))
            one = data[base + tensors[k][1]:None if ends[k] is None else base + ends[k]]
            body += one + b"\0" * (-len(one) % 32)
        file = b"GGUF" + struct.pack("<IQQ", 3, len(mine), len(keys) + (values if i == 0 else 0)) + (
            head if i == 0 else b"") + b"".join(keys) + table
        made.append(file + b"\0" * (-len(file) % 32) + body)
    return made


def matrix(rng, rows, columns, kind, scale):
    """Random weights in blocks of the type; of a quantized type any bytes, with factors of the right size."""
    _, elements, size, factors = TYPES[kind]
    if elements == 1:
        made = (rng.integers(-1000, 1001, (rows, columns)) / 1000 * 1.7 * scale).astype(np.float32)
        return (made.view(np.uint32) >> 16).astype(np.uint16).tobytes() if kind == "BF16" else (
            made.astype(np.float16) if kind == "F16" else made).tobytes()
    blocks = rng.integers(0, 256, (rows * columns // elements, size), dtype=np.uint8)
    for place, at in enumerate(factors):
        factor = (rng.integers(500, 1001, len(blocks)) / 1000 * 2 * scale / RANGE[kind]).astype(np.float16)
        if place == 1 and kind in ("Q4_1", "Q5_1"):  # the least value is negative
            factor = (-factor * np.float16(RANGE[kind] / 2)).astype(np.float16)
        elif place == 1:
            factor = (factor * np.float16(MEAN[kind])).astype(np.float16)
        blocks[:, at:at + 2] = factor.view(np.uint8).reshape(-1, 2)
    if kind == "TQ2_0":  # no code 3
        blocks[:, :64] &= ~((blocks[:, :64] >> 1 & blocks[:, :64] & 0x55) << 1)
    if kind == "IQ1_M":  # a quarter of the factor in each of four words
        factor = (rng.integers(500, 1001, len(blocks)) / 1000 * 2 * scale / RANGE[kind]).astype(np.float16).view(np.uint16)
        for i in range(4):
            blocks[:, 49 + 2 * i] = (blocks[:, 49 + 2 * i] & 15) | ((factor >> 4 * i & 15) << 4)
    if kind == "MXFP4":
        blocks[:, 0] = 127 + round(np.log2(scale)) - rng.integers(1, 4, len(blocks))
    if kind == "NVFP4":
        blocks[:, :4] = (7 + round(np.log2(scale)) - rng.integers(1, 4, (len(blocks), 4)) << 3) + rng.integers(0, 8, (len(blocks), 4))
    return blocks.tobytes()


def unpacked(kind, data):
    """All elements of the blocks, as the reference provider unpacks them."""
    import inlay
    from onnx import TensorProto, helper, numpy_helper
    number, elements, size, _ = TYPES[kind]
    group = 16 if kind in ("IQ2_XS", "IQ2_S", "IQ1_M") else 32
    node = helper.make_node("UnpackBlocks", ["b"], ["codes", "scales"], domain="ai.inlay", type=number, columns=elements, bits=8,
                            block_size=group)
    blocks = np.frombuffer(data, np.uint8).reshape(-1, 1, size)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("b", TensorProto.UINT8, blocks.shape)],
                              [helper.ValueInfoProto(name=name) for name in node.output])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.inlay", 1)]
    with inlay.Session(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), ["reference"],
                       config=False) as session:
        made = session.run({"b": blocks})
    return (made["codes"].reshape(-1, group).astype(np.float32) - 128) * made["scales"].reshape(-1, 1)


def floats_of(kind, data):
    """All elements of the blocks, dequantized, in the order of the file."""
    if kind in GRIDS:
        return unpacked(kind, data)
    _, elements, size, factors = TYPES[kind]
    b = np.frombuffer(data, np.uint8).reshape(-1, size)
    f = [b[:, at:at + 2].copy().view(np.float16).astype(np.float64) for at in factors]
    iq4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113])
    fp4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    out = np.empty((len(b), elements))
    for i in range(elements):
        group, lane = i // 16, i % 32
        if kind in ("IQ4_NL", "MXFP4"):
            code = b[:, size - 16 + i % 16] >> (4 * (i // 16)) & 15
            out[:, i] = iq4[code] * f[0][:, 0] if kind == "IQ4_NL" else fp4[code] * np.exp2(b[:, 0].astype(float) - 127)
        elif kind == "NVFP4":
            code, factor = b[:, 4 + 8 * group + i % 8] >> (4 * (i // 8 % 2)) & 15, b[:, group].astype(float)
            out[:, i] = fp4[code] * np.where(factor < 8, factor / 512, np.exp2(factor // 8 - 7) * (1 + factor % 8 / 8))
        elif kind == "IQ4_XS":
            part = i // 32
            code = b[:, 8 + 16 * part + lane % 16] >> (4 * (lane // 16)) & 15
            high = b[:, 2:4].copy().view(np.uint16)[:, 0] >> (2 * part) & 3
            six = (b[:, 4 + part // 2] >> (4 * (part % 2)) & 15) + 16 * high.astype(int)
            out[:, i] = iq4[code] * (six - 32) * f[0][:, 0]
        elif kind == "TQ1_0":
            at, digit = (lane, i // 32) if i < 160 else (32 + i % 16, (i - 160) // 16) if i < 240 else (
                48 + i % 4, (i - 240) // 4)
            fraction = b[:, at].astype(int) * 3 ** digit % 256
            out[:, i] = (fraction * 3 // 256 - 1) * f[0][:, 0]
        else:
            begin = {"Q2_K": 16, "Q3_K": 32, "TQ2_0": 0}[kind]
            code = (b[:, begin + i // 128 * 32 + lane] >> (2 * (i % 128 // 32)) & 3).astype(int)
            if kind == "TQ2_0":
                out[:, i] = (code - 1) * f[0][:, 0]
            elif kind == "Q2_K":
                out[:, i] = (b[:, group] & 15) * f[0][:, 0] * code - (b[:, group] >> 4) * f[1][:, 0]
            else:
                code -= 4 * (1 - (b[:, lane] >> (i // 32) & 1).astype(int))
                six = (b[:, 96 + group % 8] >> (4 * (group // 8)) & 15) + 16 * (
                    b[:, 104 + group % 4] >> (2 * (group // 4)) & 3).astype(int)
                out[:, i] = (six - 32) * f[0][:, 0] * code
    return out.astype(np.float32)


def grid_blocks(kind):
    return matrix(np.random.default_rng(8), 1024, 256, kind, 1.0)


def vocabulary(model, arch, more):
    """Adds the tokenizer, with `more` tokens that occur in no text; returns the number of tokens."""
    unused = [f"w{i}." for i in range(more)]
    if arch.startswith("gemma") or arch in ("phi3", "minicpm"):  # SentencePiece
        tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + ["\u2581"] + [
            chr(c) for c in range(33, 127)] + ["th", "the", "\u2581the", "in", "er", "\u2581a", "an", "and",
                                               "\u2581and"] + unused
        scores = [0.0] * 259 + [-1000.0 - i if len(t) == 1 else 400.0 - i for i, t in enumerate(tokens[259:])]
        model.add("tokenizer.ggml.model", "llama")
        model.add("tokenizer.ggml.tokens", tokens)
        model.add("tokenizer.ggml.scores", scores)
        model.add("tokenizer.ggml.token_type", [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259))
        first, last = 1, 2
    else:
        printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
        others = iter(range(256, 512))
        tokens = [chr(b) if b in printable else chr(next(others)) for b in range(256)]
        pairs = [("t", "h"), ("th", "e"), ("\u0120", "the"), ("i", "n"), ("e", "r"), ("\u0120", "a"), ("a", "n"),
                 ("an", "d"), ("\u0120", "and"), ("1", "2")]
        tokens += [a + b for a, b in pairs] + unused + ["<|begin|>", "<|end|>", "<|user|>"]
        model.add("tokenizer.ggml.model", "gpt2")
        model.add("tokenizer.ggml.pre", {"llama": "llama-bpe", "mixtral": "llama-bpe", "granite": "refact",
                                           "granitemoe": "refact", "granitehybrid": "refact", "mistral3": "llama-bpe", "llama4": "llama4", "command-r": "command-r", "cohere2": "command-r",
                                           "falcon-h1": "falcon-h1"}.get(arch, "qwen2"))
        model.add("tokenizer.ggml.tokens", tokens)
        model.add("tokenizer.ggml.token_type", [1] * (len(tokens) - 3) + [3] * 3)
        model.add("tokenizer.ggml.merges", [" ".join(pair) for pair in pairs])
        first, last = len(tokens) - 3, len(tokens) - 2
    model.add("tokenizer.ggml.bos_token_id", first)
    model.add("tokenizer.ggml.eos_token_id", last)
    return len(tokens)


def byte_signs():
    """The characters that stand for bytes."""
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    others = iter(range(256, 512))
    return [chr(b) if b in printable else chr(next(others)) for b in range(256)]


# Keys of files whose special tokens drop white space beside them, and their special tokens.
STRIPPING = {"phi-3": ("gpt-2", [("general.name", "A Phi-3 model")], ["</s>", "<unk>", "<s>", "<|endoftext|>"]),
             "mask": ("jina-v2-code", [], ["<mask>"]), "other": ("gpt-2", [], ["</s>", "<unk>", "<mask>"])}


def splitting(name, merges, more=(), special=()):
    """A small model with the pre-tokenizer of that name and these merges, and the id of its last token, <|u|>. more: other
    keys; special: other special tokens."""
    if name == "whitespace":  # its tokens have characters
        back = {sign: b for b, sign in enumerate(byte_signs())}

        def characters(sign):
            return bytes(back[c] for c in sign).decode(errors="replace")
        merges = [" ".join(map(characters, one.split(" "))) for one in merges]
        merges = [one for one in merges if "\ufffd" not in one and len(one.split()) == 2]
        tokens = sorted(set("".join(merges)) - {" "}) + [chr(c) for c in range(33, 500) if chr(c).isprintable()]
    else:
        tokens = byte_signs()
    special = [*special, "<|b|>", "<|e|>", "<|u|>"]
    tokens = list(dict.fromkeys(tokens + [one.replace(" ", "") for one in merges])) + special
    more = [("tokenizer.ggml.tokens", tokens), ("tokenizer.ggml.merges", merges),
            ("tokenizer.ggml.token_type", [1] * (len(tokens) - len(special)) + [3] * len(special)), ("tokenizer.ggml.pre", name),
            ("tokenizer.ggml.bos_token_id", len(tokens) - 3), ("tokenizer.ggml.eos_token_id", len(tokens) - 2),
            ("tokenizer.ggml.seperator_token_id", len(tokens) - 2), *more]
    if name == "whitespace":
        more.append(("tokenizer.ggml.model", name))
    words = len(tokens) - 269  # beyond those of vocabulary()
    return make("llama", "F32", more, sizes=Sizes(64, 4, 2, 16, 64, 1, words=words))[0], len(tokens) - 1


def tokenizer_of(data, expressions=None):
    """A session that makes the ids of a text by the tokenizer of a GGUF file; texts are split by the expressions, if there
    are any, sequentially."""
    import inlay
    from onnx import TensorProto, helper
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        with open(path, "wb") as f:
            f.write(data)
        with inlay.Session(path, config=False) as session:
            tokenizer = session.model.metadata["tokenizer.json"]
    if expressions is not None:
        tokenizer = json.loads(tokenizer)
        tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": one}, "behavior": "Isolated"} for one in expressions] + [
                {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]}
        tokenizer = json.dumps(tokenizer)
    node = helper.make_node("Tokenize", ["text"], ["ids"], domain="inlay.prepost", model=tokenizer)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("text", TensorProto.STRING, [None])],
                              [helper.ValueInfoProto(name="ids")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("inlay.prepost", 1)]
    return inlay.Session(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString(), config=False)


class Sizes(typing.NamedTuple):
    """Sizes of a model; words: tokens beyond those of the tests."""
    width: int
    heads: int
    keys: int
    size: int  # of a head
    hidden: int
    layers: int
    context: int = 128
    words: int = 0


def small(arch, kind):
    width = 256 if TYPES[kind][1] == 256 else 64
    if arch == "exaone4-32b":  # those of 64 layers have windows
        return Sizes(32, 2, 1, 16, 32, 64)
    if arch == "deepseek2":
        return Sizes(width, 4, 1, 40, 2 * width, 3)
    if arch == "gemma3n":  # those after the 20th layer have no keys of their own
        return Sizes(64, 4, 2, 16, 128, 22)
    if arch == "deepseek2-lite":  # llama.cpp knows it by the number of layers
        return Sizes(32, 4, 4, 24, 64, 27)
    return Sizes(width, 4, 2, width // 4, 2 * width, {"gemma3": 7, "gemma-embedding": 7, "smollm3": 5, "olmo3": 5, "cohere2": 5, "llama4": 4}.get(arch, 4 if arch in DELTA + GAPS else 2))


def make(*form, **more):
    """The file of write_model(), and its number of tokens."""
    model, count = write_model(*form, **more)
    return model.bytes(), count


def write_model(arch, kind, more=(), sizes=None, others=None, floats=False, alike=False):
    """A model with random weights, by default a small one; more: further keys with values; others: bytes of tensors by
    name, in place of random ones. Q4_K_M: some weights are Q6_K. floats: F32 instead of blocks. alike: the weights of
    each layer are those of the first, moved by a block for each layer, because random numbers take most of the time."""
    mixed, kind = kind == "Q4_K_M", "Q4_K" if kind == "Q4_K_M" else kind
    width, heads, keys, size, hidden, layers, context, words = sizes or small(arch, kind)
    rng, model = np.random.default_rng(7), Writer(arch, others or {}, more)
    size *= 2 if arch in DELTA + ("qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe", "seed_oss", "gpt-oss") else 1
    norms_after = arch in ("olmo2", "olmo3", "exaone4", "exaone4-32b")
    experts, expert_hidden = (6, hidden if arch == "mixtral" else width) if arch in MIXTURES else (0, 0)
    for key, value in ((".context_length", context), (".embedding_length", width), (".block_count", layers),
                       (".feed_forward_length", expert_hidden if arch in ("granitemoe", "granitehybrid") else hidden),
                       (".attention.head_count", heads),
                       (".attention.head_count_kv", [0, keys, keys, 0] if arch in GAPS else keys),
                       (f".attention.layer_norm_{'' if arch in COHERE else 'rms_'}epsilon", 1e-6),
                       (".rope.dimension_count", 8 if arch in LATENT else size // (2 if arch in DELTA + ("glm4",) else 1)),
                       (".rope.freq_base", 500.0 if arch == "gemma3n" else 10000.0)):
        model.add(key, value)
    if arch in DELTA + ("qwen3", "qwen3moe", "gemma", "gemma2", "gemma3", "gemma3n", "gemma-embedding", "qwen3vl", "qwen3vlmoe", "seed_oss", "gpt-oss"):
        model.add(".attention.key_length", size)
        model.add(".attention.value_length", size)
    if experts:
        model.add(".expert_count", experts)
        model.add(".expert_used_count", 1 if arch == "llama4" else 2)
    if arch == "llama4":
        model.add(".interleave_moe_layer_step", 2)
    if "vl" in arch or arch in DELTA:
        model.add(".rope.dimension_sections", [size // 4, size // 8, size // 8, 0] if "vl" in arch else [3, 3, 2, 0])
    if arch in DELTA:
        for key, value in (("conv_kernel", 4), ("inner_size", 64), ("state_size", 16), ("time_step_rank", 4), ("group_count", 2)):
            model.add(f".ssm.{key}", value)
        model.add(".full_attention_interval", 2)
    if arch in LATENT:
        lite = arch != "deepseek2"
        for key, value in ((".attention.kv_lora_rank", 32), (".attention.key_length", 24 if lite else 40), (".leading_dense_block_count", 1),
                           (".attention.value_length", 16 if lite else 32), (".expert_shared_count", 2 if lite else 1),
                           (".expert_weights_scale", 1.0 if lite else 1.5), (".vocab_size", 269), (".rope.scaling.type", "yarn"),
                           (".rope.scaling.factor", 4.0), (".rope.scaling.original_context_length", 8),
                           (".rope.scaling.yarn_log_multiplier", 0.05)):
            model.add(key, value)
        for key, value in () if lite else ((".attention.q_lora_rank", 32), (".attention.key_length_mla", 40), (".attention.value_length_mla", 16),
                                           (".expert_weights_norm", True), (".expert_gating_func", 2)):
            model.add(key, value)
    if arch in MAMBA + PARALLEL:
        for key, value in (("conv_kernel", 4), ("inner_size", 96 if arch in PARALLEL else 2 * width), ("state_size", 16), ("time_step_rank", 8), ("group_count", 2)):
            model.add(f".ssm.{key}", value)
    elif arch in GAPS:
        model.add(".shortconv.l_cache", 3)
    if arch == "lfm2moe":
        model.add(".leading_dense_block_count", 2)
        model.add(".expert_gating_func", 2)
    if arch == "mistral3":
        for key, value in (("type", "yarn"), ("factor", 4.0), ("original_context_length", 8), ("yarn_log_multiplier", 0.5)):
            model.add(f".rope.scaling.{key}", value)
        model.add(".attention.temperature_scale", 0.25)
    if arch in ("olmo3", "gpt-oss"):
        model.add(".rope.scaling.type", "yarn")
        model.add(".rope.scaling.factor", 4.0)
        model.add(".rope.scaling.original_context_length", 32)
    if experts and arch in DELTA + ("qwen2moe", "qwen3moe", "qwen3vlmoe", "gpt-oss", "lfm2moe", "llama4") + LATENT:
        model.add(".expert_feed_forward_length", expert_hidden)
    if experts and arch in DELTA + ("qwen2moe", "granitehybrid"):
        model.add(".expert_shared_feed_forward_length", hidden)
    if arch in ("granite", "granitemoe", "minicpm") + MAMBA:
        for key, value in ((".residual_scale", 0.5), (".embedding_scale", 2.0), (".attention.scale", 0.2),
                           (".logit_scale", 0.5)):
            if arch != "minicpm" or key != ".attention.scale":
                model.add(key, value)
    if arch in COHERE:
        model.add(".logit_scale", 0.5)
    if arch in ("cohere2", "phi3", "gemma2", "gemma3", "gemma3n", "gemma-embedding", "olmo3", "exaone4-32b", "gpt-oss"):
        model.add(".attention.sliding_window", 8)
    if arch == "gemma2":
        model.add(".attn_logit_softcapping", 5.0)
        model.add(".final_logit_softcapping", 1.0)
    count, first = vocabulary(model, arch, words), {}

    def weights(name, rows, columns, scale=1.0, stacked=0):
        one = "Q6_K" if mixed and "down" in name else kind if "gate_inp" not in name else "F32"
        part = name.split(".", 2)[2] if alike and name.startswith("blk.") else name
        if part in first:
            moved = int(name.split(".")[1]) * TYPES[one][2]
            data = first[part][moved:] + first[part][:moved]
        else:
            data = first[part] = matrix(rng, rows * (stacked or 1), columns, one, scale / np.sqrt(columns))
        if floats and one in FLOATED:
            data, one = floats_of(one, data).tobytes(), "F32"
        model.tensor(name, ((stacked,) if stacked else ()) + (rows, columns), one, data)

    def vector(name, length, around=1.0):
        model.tensor(name, (length,), "F32", (around + rng.integers(-100, 101,
            length) / 1000).astype(np.float32).tobytes())

    # Gemma's embeddings are also its output: small ones, so that the layers decide, too.
    weights("token_embd.weight", count, width, np.sqrt(width) * (0.02 if arch.startswith("gemma") else 1))
    if arch == "gemma3n":
        weights("per_layer_token_embd.weight", count, 256 * layers, 1.0)
        weights("per_layer_model_proj.weight", 256 * layers, width)
        vector("per_layer_proj_norm.weight", 256)
        for part in ("proj", "unembd_proj"):
            weights(f"altup_{part}.weight", width, width, stacked=3)
    for layer in range(layers):
        p = f"blk.{layer}."
        if arch == "gemma3n":
            for part, rows, columns in (("inp_gate", 256, width), ("proj", width, 256), ("altup_correct_coef", 4, 4), ("altup_predict_coef", 16, 4),
                                        ("altup_router", 4, width), ("laurel_l", 64, width), ("laurel_r", width, 64)):
                model.tensor(f"{p}{part}.weight", (rows, columns), "F32", matrix(rng, rows, columns, "F32", 1 / np.sqrt(columns)))
            for part in ("post_norm", "altup_correct_scale", "altup_router_norm", "laurel_post_norm"):
                vector(f"{p}{part}.weight", width, 0.25 if part == "post_norm" else 1.0)
        if not norms_after:
            vector(p + "attn_norm.weight", width)
        if not norms_after and arch not in COHERE:
            vector(p + ("post_attention_norm.weight" if arch in DELTA + ("seed_oss", "gpt-oss") else "ffn_norm" if arch in PARALLEL else "ffn_norm.weight"), width)
        recurrent = (arch in DELTA and layer % 2 == 0) or (arch in GAPS and layer in (0, 3))
        if (recurrent and arch in MAMBA) or arch in PARALLEL:
            inner = 96 if arch in PARALLEL else 2 * width
            weights(p + "ssm_in.weight", 2 * inner + 64 + 8, width)
            model.tensor(p + "ssm_conv1d.weight", (inner + 64, 4), "F32", matrix(rng, inner + 64, 4, "F32", 1.0))
            vector(p + "ssm_conv1d.bias", inner + 64, 0.0)
            vector(p + "ssm_dt.bias", 8, 0.5)
            for part, around in (("a", -0.5), ("d", 1.0)):
                model.tensor(p + "ssm_" + part, (8, 1), "F32", (around + rng.integers(-100, 101, 8) / 400).astype(np.float32).tobytes())
            if arch != "falcon-h1-plain":
                model.tensor(p + "ssm_norm.weight", (2, inner // 2), "F32", (1 + rng.integers(-100, 101, inner) / 400).astype(np.float32).tobytes())
            weights(p + "ssm_out.weight", width, inner)
        if recurrent and arch in ("lfm2", "lfm2moe"):
            weights(p + "shortconv.in_proj.weight", 3 * width, width)
            model.tensor(p + "shortconv.conv.weight", (width, 3), "F32", matrix(rng, width, 3, "F32", 1.0))
            weights(p + "shortconv.out_proj.weight", width, width)
        elif recurrent and arch in DELTA:
            weights(p + "attn_qkv.weight", 128, width)
            for part, n in (("attn_gate", 64),) + ((("ssm_ba", 8),) if arch == "qwen3next" else (("ssm_alpha", 4), ("ssm_beta", 4))):
                weights(f"{p}{part}.weight", n, width)
            model.tensor(p + "ssm_conv1d.weight", (128, 4), "F32", matrix(rng, 128, 4, "F32", 1.0))
            for part, n, around in (("dt.bias", 4, 0.5), ("a", 4, -0.5), ("norm.weight", 16, 1.0)):
                vector(p + "ssm_" + part, n, around)
            weights(p + "ssm_out.weight", width, 64)
        elif arch in LATENT:
            for part, rows, columns, heads_of in (("kv_a_mqa", 40, width, 0),) + (
                    (("q", 96, width, 0), ("kv_b", 128, 32, 0)) if arch == "deepseek2-lite" else
                    (("q_a", 32, width, 0), ("q_b", 160, 32, 0), ("k_b", 32, 32, 4), ("v_b", 16, 32, 4))):
                weights(f"{p}attn_{part}.weight", rows, columns, stacked=heads_of)
            if arch == "deepseek2":
                vector(p + "attn_q_a_norm.weight", 32)
            vector(p + "attn_kv_a_norm.weight", 32)
            weights(p + "attn_output.weight", width, 64)
        elif arch == "phi3":
            weights(p + "attn_qkv.weight", (heads + 2 * keys) * size, width)
        elif not recurrent:
            for part, n in (("q", heads), ("k", keys), ("v", keys)):
                weights(p + f"attn_{part}.weight", n * size * (2 if arch in DELTA and part == "q" else 1), width)
                if arch in ("qwen2", "qwen2moe", "qwen2vl", "seed_oss", "glm4", "gpt-oss"):
                    vector(p + f"attn_{part}.bias", n * size, 0.0)
        if arch in ("gemma2", "gemma3", "gemma3n", "gemma-embedding", "glm4") or norms_after:
            vector(p + "post_attention_norm.weight", width)
            vector(p + "post_ffw_norm.weight", width, 0.25 if arch == "gemma3n" else 1.0)  # its GELU would be amplified by 22 layers
        if (arch in DELTA + ("qwen3", "qwen3moe", "gemma3", "gemma3n", "gemma-embedding", "qwen3vl", "qwen3vlmoe", "lfm2", "lfm2moe") or norms_after) and not recurrent:
            whole = "olmo" in arch
            vector(p + "attn_q_norm.weight", heads * size if whole else size)
            vector(p + "attn_k_norm.weight", keys * size if whole else size)
        if not recurrent and arch not in LATENT:
            weights(p + "attn_output.weight", width, heads * size)
        dense = (arch in LATENT and layer == 0) or (arch == "lfm2moe" and layer < 2) or (arch == "llama4" and layer % 2 == 0)
        if experts and not dense:
            weights(p + "ffn_gate_inp.weight", experts, width, 3.0)
            weights(p + "ffn_gate_exps.weight", expert_hidden, width, stacked=experts)
            weights(p + "ffn_up_exps.weight", expert_hidden, width, stacked=experts)
            weights(p + "ffn_down_exps.weight", width, expert_hidden, stacked=experts)
        if arch == "gpt-oss":
            vector(p + "attn_sinks.weight", heads, 1.0)
            vector(p + "attn_output.bias", width, 0.0)
            vector(p + "ffn_gate_inp.bias", experts, 0.0)
            for part, n in (("gate", expert_hidden), ("up", expert_hidden), ("down", width)):
                model.tensor(p + f"ffn_{part}_exps.bias", (experts, n), "F32",
                             (rng.integers(-100, 101, experts * n) / 100).astype(np.float32).tobytes())
        if experts and arch in DELTA + ("qwen2moe", "granitehybrid"):
            if arch != "granitehybrid":
                vector(p + "ffn_gate_inp_shexp.weight", width, 0.0)
            weights(p + "ffn_gate_shexp.weight", hidden, width)
            weights(p + "ffn_up_shexp.weight", hidden, width)
            weights(p + "ffn_down_shexp.weight", width, hidden)
        if arch == "llama4" and not dense:
            for part in ("gate", "up", "down"):
                weights(f"{p}ffn_{part}_shexp.weight", expert_hidden if part != "down" else width, width if part != "down" else expert_hidden)
        if arch == "lfm2moe" and not dense:
            vector(p + "exp_probs_b.bias", experts, 0.0)
        if arch in LATENT and not dense:
            shared = width * (1 if arch == "deepseek2" else 2)
            if arch == "deepseek2":
                vector(p + "exp_probs_b.bias", experts, 0.0)
            for part, rows, columns in (("gate", shared, width), ("up", shared, width), ("down", width, shared)):
                weights(f"{p}ffn_{part}_shexp.weight", rows, columns)
        if experts and not dense:
            continue
        if arch in ("phi3", "glm4"):
            weights(p + "ffn_up.weight", 2 * hidden, width)
        else:
            weights(p + "ffn_gate.weight", hidden, width)
            weights(p + "ffn_up.weight", hidden, width)
        weights(p + "ffn_down.weight", width, hidden)
    vector("token_embd_norm.weight" if "lfm2" in arch else "output_norm.weight", width)
    if arch == "gemma-embedding" and ".dense_2_feat_out" in (one[0] for one in more):
        weights("dense_2.weight", 96, width)
        weights("dense_3.weight", width, 96)
    if not arch.startswith("gemma") and arch not in COHERE:
        weights("output.weight", count, width)
    if (".pooling_type", 4) in more:
        weights("cls.output.weight", 2, width)
    return model, count


WORDS = ("[PAD] [UNK] [CLS] [SEP] [MASK] the \u2581the \u2581inner \u2581th \u2581in ner ing \u2581a \u2581an d \u2581hello \u2581world \u2581! \u2581. "
         "\u2581, \u2581\u4e2d \u2581\u6587 \u2581cafe s \u2581be").split()


def encoder(arch, more=(), parts=(), labels=()):
    """A small encoder with random weights and a WordPiece tokenizer. parts: "norms" of queries and keys, or "joined" weights of
    gates, as some files of jina-bert-v2 have; labels: rows of the weights that compare two texts, cls and cls.output."""
    width, heads, hidden, layers, rng = (48, 6, 48, 2, np.random.default_rng(9)) if arch == "jina-bert-v2" else (32, 2, 48, 2, np.random.default_rng(9))
    fused, gated, biased = arch in ("nomic-bert", "jina-bert-v3"), arch in ("nomic-bert", "jina-bert-v2"), arch != "nomic-bert"
    words = WORDS + [f"\u2581{chr(c)}" for c in range(97, 123)] + [chr(c) for c in range(97, 123)]
    words = dict(one[:2] for one in more).get("tokenizer.ggml.tokens") or list(dict.fromkeys(words))
    model = Writer(arch, {}, more)
    for key, value in ((".context_length", 64), (".embedding_length", width), (".block_count", layers),
                       (".feed_forward_length", hidden), (".attention.head_count", heads), (".attention.causal", False),
                       (".attention.layer_norm_epsilon", 1e-6), (".pooling_type", 1), (".rope.freq_base", 1000.0),
                       ("tokenizer.ggml.model", "bert"), ("tokenizer.ggml.tokens", words),
                       ("tokenizer.ggml.token_type", [3] * 5 + [1] * (len(words) - 5)),
                       ("tokenizer.ggml.token_type_count", 2), ("tokenizer.ggml.bos_token_id", 2),
                       ("tokenizer.ggml.seperator_token_id", 3), ("tokenizer.ggml.unknown_token_id", 1),
                       ("tokenizer.ggml.padding_token_id", 0), ("tokenizer.ggml.mask_token_id", 4)):
        if arch in ("nomic-bert", "jina-bert-v3") or key != ".rope.freq_base":
            model.add(key, value)

    def both(name, *shape, around=0.0):
        scale = 0.3 if len(shape) == 1 else 2 / np.sqrt(shape[-1])
        model.tensor(name, shape, "F32", (around + rng.integers(-1000, 1001, shape) / 1000 * scale).astype(np.float32).tobytes())

    def norm(name):
        both(name + ".weight", width, around=1.0)
        both(name + ".bias", width)

    both("token_embd.weight", len(words), width)
    both("token_types.weight", 2, width)
    if arch == "bert":
        both("position_embd.weight", 64, width)
    norm("token_embd_norm")
    for layer in range(layers):
        p = f"blk.{layer}."
        for part in ("qkv",) if fused else "qkv":
            both(f"{p}attn_{part}.weight", len(part) * width, width)
            if biased:
                both(f"{p}attn_{part}.bias", len(part) * width)
        both(p + "attn_output.weight", width, width)
        norm(p + "attn_output_norm")
        joined = "joined" in parts
        for part, rows, columns in (("up", hidden * (2 if joined else 1), width), ("down", width, hidden)):
            both(f"{p}ffn_{part}.weight", rows, columns)
            if biased and not (gated and part == "up"):
                both(f"{p}ffn_{part}.bias", rows)
        if biased:
            both(p + "attn_output.bias", width)
        if gated and not joined:
            both(p + "ffn_gate.weight", hidden, width)
        if "norms" in parts:
            for part in ("attn_q_norm", "attn_k_norm", "attn_norm_2"):
                norm(p + part)
        norm(p + "layer_output_norm")
    for name, rows in zip(("cls", "cls.output"), labels):
        if rows > 0:
            both(name + ".weight", rows, width)
            both(name + ".bias", rows)
    return model.bytes()


def pieces(arch="bert", more=(), labels=()):
    """The same encoder with a vocabulary of SentencePiece's unigrams."""
    words = ["<pad>", "<unk>", "<s>", "</s>"] + WORDS[5:] + ["\u2581", "two", "spa", "ces"] + [chr(c) for c in range(97, 123)]
    words = list(dict.fromkeys(words))
    keys = {"model": "t5", "tokens": words, "scores": [0.0] * 4 + [-1.0 - i / 8 for i in range(len(words) - 4)],
            "token_type": [3, 2, 3, 3] + [1] * (len(words) - 4), "seperator_token_id": None, "eos_token_id": 3, "add_bos_token": True,
            "add_eos_token": True, "add_space_prefix": True, "remove_extra_whitespaces": True}
    return encoder(arch, [("tokenizer.ggml." + key, value) for key, value in keys.items()] + list(more), labels=labels)


EMBEDDERS = {"bert": lambda: encoder("bert"), "nomic-bert": lambda: encoder("nomic-bert"),
             "bert cased": lambda: encoder("bert", [("tokenizer.ggml.normalizer.lowercase", False)]),
             "bert accents": lambda: encoder("bert", [("tokenizer.ggml.normalizer.strip_accents", False)]),
             "bert cls": lambda: encoder("bert", [(".pooling_type", 2)]),
             "qwen3": lambda: make("qwen3", "F32", [(".pooling_type", 3)])[0],
             "bert pieces": lambda: pieces(), "jina-bert-v2": lambda: encoder("jina-bert-v2"),
             "jina-bert-v2 norms": lambda: encoder("jina-bert-v2", parts=("norms",)),
             "jina-bert-v2 joined": lambda: encoder("jina-bert-v2", parts=("joined",)), "jina-bert-v3": lambda: encoder("jina-bert-v3"),
             "jina-bert-v3 pieces": lambda: pieces("jina-bert-v3"),
             "gemma-embedding": lambda: make("gemma-embedding", "F32", [(".pooling_type", 1)])[0],
             "gemma-embedding dense": lambda: make("gemma-embedding", "F32", [
                 (".pooling_type", 1), (".dense_2_feat_in", 64), (".dense_2_feat_out", 96), (".dense_3_feat_in", 96),
                 (".dense_3_feat_out", 64), (".rope.freq_base_swa", 100.0), (".attention.sliding_window_pattern", 2)])[0]}
# Models that say how well a document matches a query.
RANKS = [(".pooling_type", 4)]
QWEN_RANKS = RANKS + [(".classifier.output_labels", ["yes", "no"]), ("tokenizer.chat_template.rerank", "<|user|>{query}<|end|>{document} {query}")]
RANKERS = {"bert": lambda: encoder("bert", RANKS + [("tokenizer.ggml.add_eos_token", True), ("tokenizer.ggml.add_sep_token", False)], labels=(32, 1)),
           "jina-bert-v2": lambda: encoder("jina-bert-v2", RANKS + [("tokenizer.ggml.add_eos_token", True), ("tokenizer.ggml.add_sep_token", False)],
                                           labels=(1,)),
           "pieces": lambda: pieces("bert", RANKS + [("tokenizer.ggml.add_sep_token", True), ("tokenizer.ggml.seperator_token_id", 3)], labels=(32, 1)),
           "output alone": lambda: encoder("bert", RANKS + [("tokenizer.ggml.add_eos_token", True), ("tokenizer.ggml.add_sep_token", False)], labels=(0, 1)),
           "qwen3": lambda: make("qwen3", "F32", QWEN_RANKS)[0]}
# Parameters of llama-server's /completion, and with "lora" the adapter.
SERVED = {"greedy": {}, "dry": {"dry_multiplier": 1.5, "dry_base": 1.75, "dry_allowed_length": 1, "dry_penalty_last_n": 64},
          "breakers": {"dry_multiplier": 1.5, "dry_allowed_length": 1, "dry_penalty_last_n": 64, "dry_sequence_breakers": ["t"]},
          "lora": {}}
EMBEDDED = ["The inner thing", "hello, world! caf\u00e9s \u4e2d\u6587 xyz", "a", "  two  spaces and the inner "]


def seed():
    """A small model of one layer whose weights have all types of FLOATED, without a tokenizer."""
    rng, model, words, width, heads, hidden = np.random.default_rng(7), Writer("llama", {}), 3, 256, 16, 32
    for key, value in ((".context_length", 8), (".embedding_length", width), (".block_count", 1),
                       (".feed_forward_length", hidden), (".attention.head_count", heads),
                       (".attention.head_count_kv", 1), (".attention.key_length", 2), (".attention.value_length", 2),
                       (".attention.layer_norm_rms_epsilon", 1e-6), (".rope.dimension_count", 2)):
        model.add(key, value)
    for name, rows, columns, kind in (
            ("token_embd", words, width, "Q2_K"), ("blk.0.attn_q", 2 * heads, width, "Q3_K"),
            ("blk.0.attn_k", 2, width, "IQ4_XS"), ("blk.0.attn_v", 2, width, "TQ1_0"),
            ("blk.0.attn_output", width, 2 * heads, "IQ4_NL"), ("blk.0.ffn_gate", hidden, width, "TQ1_0"),
            ("blk.0.ffn_up", hidden, width, "TQ2_0"), ("blk.0.ffn_down", width, hidden, "MXFP4")):
        model.tensor(name + ".weight", (rows, columns), kind, matrix(rng, rows, columns, kind, 1 / np.sqrt(columns)))
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        model.tensor(name + ".weight", (width,), "F32", np.ones(width, np.float32).tobytes())
    return model.bytes()


def prompts(count):
    rng = np.random.default_rng(3)
    return [[int(t) for t in rng.integers(3, count - 3, rng.integers(2, 20))] for _ in range(PROMPTS)]


def no_states(session):
    """States of a text that has no tokens so far."""
    return {i.name: np.zeros([1] + [n if isinstance(n, int) and n > 0 else 0 for n in i.shape[1:]], np.float32)
            for i in session.inputs if i.name.startswith("past")}


def logits_of(session, prompt, **more):
    """The logits of a prompt."""
    feeds = no_states(session)
    ids = np.array([prompt], np.int64)
    return session.run({"input_ids": ids, "attention_mask": np.ones_like(ids), **feeds, **more})["logits"]


def write_adapter(folder, factors, rank):
    """Writes a LoRA adapter as PEFT does; factors: A [rank, columns] and B [rows, rank] by module."""
    head, data = {}, b""
    for module, pair in factors.items():
        for letter, one in zip("AB", pair):
            head[f"base_model.model.{module}.lora_{letter}.weight"] = {
                "dtype": "F32", "shape": one.shape, "data_offsets": [len(data), len(data) + one.nbytes]}
            data += one.tobytes()
    text_of_head = json.dumps(head).encode()
    with open(os.path.join(folder, "adapter_model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text_of_head)) + text_of_head + data)
    with open(os.path.join(folder, "adapter_config.json"), "w", encoding="utf-8") as f:
        json.dump({"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank}, f)


def gguf_adapter(arch, factors, alpha, kind="lora"):
    """A LoRA adapter as llama.cpp's converter writes it; factors: A and B by tensor, in the order of the file's rows."""
    model = Writer(arch, {})
    for key, value in (("general.type", "adapter"), ("adapter.type", kind), ("adapter.lora.alpha", float(alpha))):
        model.add(key, value)
    for name, pair in factors.items():
        for letter, one in zip("ab", pair):
            model.tensor(f"{name}.weight.lora_{letter}", one.shape, "F32", one.astype(np.float32).tobytes())
    return model.bytes()


def server_adapter():
    """An adapter for the small llama."""
    rng = np.random.default_rng(5)
    return gguf_adapter("llama", {f"blk.{layer}.{part}": (rng.standard_normal((4, 64)), rng.standard_normal((rows, 4)) / 4)
                                  for layer in range(2) for part, rows in (("attn_q", 64), ("ffn_up", 128))}, 4)


def greedy(session, prompt, count, rows=None, before=(), more=None):
    """The tokens that follow the prompt; rows: a list that gets the logits of each. before: what earlier runs read, tokens
    and further inputs. more: further inputs of the others."""
    past = no_states(session)
    made, total, parts = [], 0, [*before, (prompt, more or {})]
    while len(made) < count:
        ids, feeds = parts.pop(0)
        total += len(ids)
        out = session.run({"input_ids": np.array([ids], np.int64), "attention_mask": np.ones((1, total), np.int64),
                           **past, **feeds})
        past = {name: out[name.replace("past_key_values", "present")] for name in past}
        if parts:
            continue
        made.append(int(out["logits"][0, -1].argmax()))
        parts = [(made[-1:], more or {})]
        if rows is not None:
            rows.append(out["logits"][0, -1].astype(np.float64))
    return made


def some_tokens(count):
    """Tokens whose probabilities are compared."""
    return np.linspace(0, count - 1, LOGITS).astype(int)


def logarithms(logits):
    """Those of the probabilities of some_tokens()."""
    return (logits - np.logaddexp.reduce(logits))[some_tokens(len(logits))]


def long_text():
    """A small Llama 4, and a prompt longer than its chunks."""
    data, count = make("llama4", "F32", [(".context_length", 16384)])
    return data, [int(t) for t in np.random.default_rng(4).integers(3, count - 3, 8200)]


class Gguf(unittest.TestCase):
    def open(self, data, **options):
        import inlay
        with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
            file.write(data)
            file.flush()
            return inlay.Session(file.name, config=False, **options)

    def test_tokens(self):
        with open(TOKENS, encoding="utf-8") as f:
            wanted = json.load(f)
        for arch, kind in CASES:
            with self.subTest(arch=arch, kind=kind):
                data, count = make(arch, kind)
                one = wanted[f"{arch} {kind}"]
                with self.open(data) as session:
                    for i, (prompt, want) in enumerate(zip(prompts(count), one["tokens"])):
                        rows = []
                        self.assertEqual(greedy(session, prompt, len(want), rows), want)
                        if kind == "F32":
                            np.testing.assert_allclose(logarithms(rows[-1]), one["logits"][i], rtol=0, atol=2e-3)

    def test_chunks(self):
        """Most layers of Llama 4 see chunks of 8192 tokens, and the others scale their queries from there on."""
        with open(TOKENS, encoding="utf-8") as f:
            wanted = json.load(f)["llama4 long"]
        data, prompt = long_text()
        before = [(prompt[i:i + PART], {}) for i in range(0, len(prompt) - PART, PART)]
        rows = []
        with self.open(data) as session:
            self.assertEqual(greedy(session, prompt[len(before) * PART:], len(wanted["tokens"]), rows, before), wanted["tokens"])
        np.testing.assert_allclose(logarithms(rows[-1]), wanted["logits"], rtol=0, atol=2e-3)

    def test_last_logits(self):
        """With option last_logits, the logits of the last tokens alone are those of a run that computes all."""
        for arch in ("llama", "gemma2", "granite"):
            data, count = make(arch, "Q4_0")
            prompt = np.array([prompts(count)[0]])
            feeds = {"input_ids": prompt, "attention_mask": np.ones_like(prompt)}
            with self.open(data) as plain, self.open(data, last_logits=1) as session:
                for value in plain.inputs:
                    if value.name not in feeds:
                        feeds[value.name] = np.zeros((1, value.shape[1], 0, value.shape[3]), np.float32)
                logits = plain.run(feeds)["logits"]
                for last in (1, 3):
                    made = session.run(dict(feeds, last_logits=np.zeros(last, np.int64)))["logits"]
                    self.assertEqual(made.shape, (1, last, count), arch)
                    np.testing.assert_allclose(made, logits[:, -last:], rtol=1e-4, atol=1e-4, err_msg=arch)

    def test_memory_limit(self):
        """With 3/4 of the file's size as limit, tokens are the same. Blocks and float16 elements are read in the regions of
        their products, and those of experts on demand."""
        for arch, kind, sizes, reader in (("llama", "Q4_0", Sizes(512, 4, 2, 128, 2048, 16), "MatMulNBits"),
                                          ("mixtral", "Q6_K", Sizes(256, 4, 2, 64, 512, 12), "QMoE"),
                                          ("mixtral", "F16", Sizes(256, 4, 2, 64, 512, 6), "MoE")):
            data, count = make(arch, kind, sizes=sizes, alike=True)
            prompt = prompts(count)[0][:4]  # weights leave 1/8 of the limit to runs
            with tempfile.TemporaryDirectory() as folder:
                options = {"cache_dir": folder, "cache_max_bytes": 1 << 30}
                with self.open(data, **options) as plain, self.open(
                        data, memory_limit=f"host={len(data) * 3 // 4}", **options) as limited:
                    self.assertEqual(greedy(limited, prompt, 4), greedy(plain, prompt, 4), arch)
                    explained = limited.explain(all=True).json
            nodes = explained["main"]["nodes"]
            makers = {value: node for node in nodes for value in node["outputs"]}
            found = 0
            for node in nodes:
                for maker in (makers.get(value) for value in node["inputs"] if node["op"] == reader):
                    if maker is not None and maker["op"] in ("UnpackBlocks", "Cast") and "weight" in maker["name"]:
                        self.assertEqual(maker["region"], node["region"], f"{arch} {kind}: {maker['name']}")
                        found += 1
            self.assertGreaterEqual(found, 3 * sizes.layers, f"{arch} {kind}")
            if arch == "mixtral":
                self.assertGreater(explained["weights"]["table_bytes"], len(data) // 2, kind)

    def test_memory(self):
        """Weights of float16 are read in the file, but for CPUs with AMX, which packs them for matrix tiles. Quantized
        weights are in memory once, as the provider packs them."""
        def anonymous():
            with open("/proc/self/status", encoding="utf-8") as status:
                return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) << 10
        with open("/proc/cpuinfo", encoding="utf-8") as facts:
            halves = 2.5 if "amx_bf16" in facts.read() else 0.25
        for arch, kind, layers, most in (("llama", "F16", 8, halves), ("llama", "Q4_0", 16, 1.5),
                                         ("mixtral", "Q8_0", 3, 1.5)):
            data, count = make(arch, kind, sizes=Sizes(512, 4, 2, 128, 2048, layers), alike=True)
            before = anonymous()
            with self.open(data) as session:
                greedy(session, prompts(count)[0], 2)
                self.assertLess(anonymous() - before, len(data) * most, f"{arch} {kind}")
                with open("/proc/self/maps", encoding="utf-8") as maps:
                    mappings = [line.split()[2] for line in maps if ".gguf" in line]
                self.assertEqual(mappings.count("00000000"), 1)  # of the begin of the file

    def test_peak(self):
        """A table of embeddings in blocks stays in the file, and of other matrices few pages are in memory while they
        are packed: the matrix of the output is 0.4 of these files."""
        code = ("import inlay, resource, sys; session = inlay.Session(sys.argv[1], config=False);"
                "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)")
        for kind in ("Q8_0", "Q4_0", "Q4_K"):
            peaks, sizes = [], []
            for words in (0, 60000):
                with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
                    # in a process of its own: one inherits the peak of the process that starts it
                    maker = multiprocessing.get_context("fork").Process(target=lambda: file.write(
                        make("llama", kind, sizes=Sizes(512, 4, 2, 128, 1024, 2, words=words))[0]) and file.flush())
                    maker.start()
                    maker.join()
                    sizes.append(os.path.getsize(file.name))
                    peaks.append(int(subprocess.run([sys.executable, "-c", code, file.name], check=True, text=True,
                                                    stdout=subprocess.PIPE).stdout))
            self.assertGreater(sizes[1] - sizes[0], 30 << 20)
            self.assertLess(peaks[1] - peaks[0], 0.8 * (sizes[1] - sizes[0]), kind)

    def test_blocks(self):
        """Results are the same, or with minima nearly so, if blocks are read from the file and if constants are made
        from them: by other providers, by placement rules that separate blocks and products, from a file in memory, in a
        new version."""
        import inlay
        norm = {"output_norm.weight": np.linspace(-2, 2, 256, dtype=np.float32)}
        for arch, kind in (("llama", "Q4_K"), ("mixtral", "Q6_K"), ("mixtral", "Q5_0"), ("qwen3moe", "Q4_K_M")):
            data, count = make(arch, kind, sizes=Sizes(256, 4, 2, 64, 512, 2))
            feeds = {"input_ids": np.array([prompts(count)[0]])}
            feeds["attention_mask"] = np.ones_like(feeds["input_ids"])
            exact = {"provider_options": {"cpu": {"activations": "exact"}}}
            with self.open(data, **exact) as session, inlay.Session(data, config=False, **exact) as made, \
                    self.open(data, providers=["reference"]) as reference, \
                    self.open(data, pin=f"op:{'QMoE' if arch != 'llama' else 'MatMulNBits'}=reference") as apart, \
                    self.open(data, pin="op:UnpackBlocks=reference") as unpacked:
                for value in session.inputs:
                    if value.name not in feeds:
                        feeds[value.name] = np.zeros((1, value.shape[1], 0, value.shape[3]), np.float32)
                logits = session.run(feeds)["logits"]
                # only codes have zero points, quotients that are rounded, where blocks have minima
                error = 1e-4 if kind.startswith("Q4_K") else 0
                np.testing.assert_allclose(made.run(feeds)["logits"], logits, rtol=0, atol=error, err_msg=kind)
                for other in (reference, apart, unpacked):
                    np.testing.assert_allclose(other.run(feeds)["logits"], logits, rtol=1e-3, atol=1e-3, err_msg=kind)
                session.update(norm)
                made.update(norm)
                np.testing.assert_allclose(made.run(feeds)["logits"], session.run(feeds)["logits"], rtol=0, atol=error,
                                           err_msg=kind)

    def test_packs(self):
        """Packs in the cache folder are little larger than the file, and tokens are the same if they come from there."""
        for arch, kind, most in PACKED:
            data, count = make(arch, kind, sizes=Sizes(512, 4, 2, 128, 1024, 2))
            with tempfile.TemporaryDirectory() as folder:
                options = {"cache_dir": folder, "cache_max_bytes": 1 << 30}
                tokens = []
                for _ in range(2):
                    with self.open(data, **options) as session:
                        tokens.append([greedy(session, prompt, 4) for prompt in prompts(count)])
                packs = sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(folder)
                            for name in names if name.endswith(".packs"))
                self.assertGreater(packs, len(data) / 2, f"{arch} {kind}")
                self.assertLess(packs, len(data) * most, f"{arch} {kind}")
                self.assertEqual(tokens[0], tokens[1], f"{arch} {kind}")

    def test_floats(self):
        """Logits are those of the same model with the elements of its blocks as floats: blocks that stay in the file,
        constants made from a file in memory, and provider reference."""
        import inlay
        exact = {"provider_options": {"cpu": {"activations": "exact"}}}
        for arch, kind in [("llama", kind) for kind in FLOATED] + [("mixtral", kind) for kind in ("MXFP4", "TQ2_0")]:
            data, count = make(arch, kind)
            feeds = {"input_ids": np.array([prompts(count)[0]])}
            feeds["attention_mask"] = np.ones_like(feeds["input_ids"])
            with self.open(make(arch, kind, floats=True)[0]) as plain, self.open(data, **exact) as session, \
                    inlay.Session(data, config=False, **exact) as memory, \
                    self.open(data, providers=["reference"]) as reference:
                for value in plain.inputs:
                    if value.name not in feeds:
                        feeds[value.name] = np.zeros((1, value.shape[1], 0, value.shape[3]), np.float32)
                want = plain.run(feeds)["logits"]
                self.assertGreater(np.ptp(want), 0.5, kind)
                for other in (session, memory, reference):
                    np.testing.assert_allclose(other.run(feeds)["logits"], want, rtol=1e-3, atol=1e-3 * np.ptp(want),
                                               err_msg=f"{arch} {kind}")

    def test_grids(self):
        """The elements of blocks with all rows of the tables are those of gguf-py."""
        with open(TOKENS, encoding="utf-8") as f:
            wanted = json.load(f)["grids"]
        self.assertEqual({kind: zlib.crc32(unpacked(kind, grid_blocks(kind)).tobytes()) for kind in GRIDS}, wanted)

    def test_sizes_of_blocks(self):
        """Blocks whose size does not match their type, codes or columns are refused by each provider."""
        import inlay
        from onnx import TensorProto, helper, numpy_helper
        right = {"bytes": 18, "type": 2, "columns": 64, "bits": 4, "block_size": 32}
        rows = [right, dict(right, block_size=16), dict(right, bits=8)] + [
            dict(right, **wrong) for wrong in ({"bytes": 17}, {"type": 3}, {"type": 99}, {"columns": 96}, {"columns": 0},
                                               {"block_size": 64}, {"block_size": 48}, {"bits": 2})]
        for place, row in enumerate(rows):
            sizes = {name: value for name, value in row.items() if name != "bytes"}
            blocks = np.zeros((4, 2, row["bytes"]), np.uint8)
            node = helper.make_node("UnpackBlocks", ["b"], ["codes", "scales"], domain="ai.inlay", **sizes)
            product = helper.make_node("MatMulNBits", ["x", "codes", "scales"], ["y"], domain="com.microsoft", K=64, N=4,
                                       bits=row["bits"], block_size=row["block_size"])
            graph = helper.make_graph([node, product], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT,
                                                                                           [1, 64])],
                                      [helper.ValueInfoProto(name="y")], [numpy_helper.from_array(blocks, "b")])
            opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1),
                      helper.make_opsetid("ai.inlay", 1)]
            model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
            for providers in (None, ["reference"]):
                try:
                    with inlay.Session(model, providers, config=False) as session:
                        runs = session.run({"x": np.ones((1, 64), np.float32)})["y"].shape == (1, 4)
                except inlay.InlayError:
                    runs = False
                self.assertEqual(runs, place < 3, row)

    def test_update(self):
        """Weights are replaced by the names of the file: in floats, in blocks, a table that is the output, too, and a
        matrix so large that it is packed from the file."""
        import inlay
        rng, large = np.random.default_rng(5), Sizes(512, 8, 2, 64, 1024, 2)
        for arch, kind, name, *sizes in (("llama", "F32", "blk.1.attn_q.weight"), ("llama", "F32", "blk.0.ffn_down.weight", large),
                                 ("gemma", "F16", "token_embd.weight"),
                                 ("qwen2", "Q4_K", "blk.0.ffn_down.weight"), ("llama", "Q8_0", "output.weight"),
                                 ("qwen3moe", "Q8_0", "blk.0.ffn_up_exps.weight"), ("mixtral", "F32",
                                                                                   "blk.0.ffn_gate_exps.weight")):
            one = sizes[0] if sizes else small(arch, kind)
            data, count = make(arch, kind, sizes=one)
            shape = {"blk.1.attn_q.weight": (one.width, one.width), "blk.0.ffn_down.weight": (one.width, one.hidden),
                     "blk.0.ffn_up_exps.weight": (6, one.width, one.width),
                     "blk.0.ffn_gate_exps.weight": (6, one.hidden, one.width)}.get(name, (count, one.width))
            _, elements, size, _ = TYPES[kind]
            made = matrix(rng, int(np.prod(shape[:-1])), shape[-1], kind, 0.1)
            value = np.frombuffer(made, np.uint8).reshape(*shape[:-1], -1, size) if elements > 1 else np.frombuffer(
                made, np.float32 if kind == "F32" else np.float16).reshape(shape)
            prompt = prompts(count)[0]
            with self.open(make(arch, kind, sizes=one, others={name: made})[0]) as changed:
                wanted = logits_of(changed, prompt)
            with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
                file.write(data)
                file.flush()
                with inlay.Session(file.name, config=False) as session:
                    self.assertFalse(np.array_equal(logits_of(session, prompt), wanted))
                    session.update({name: value})
                    np.testing.assert_array_equal(logits_of(session, prompt), wanted, f"{arch} {kind}")
                    for wrong, given, words in ((name, np.zeros((3, 3), np.float32), f"'{name}' is .*the value is"),
                                                ("blk.0.attn_qkv.weight", value, "no initializer 'blk.0.attn_qkv")):
                        with self.assertRaisesRegex(inlay.InlayError, words):
                            session.update({wrong: given})

    def test_update_with_limit(self):
        """Weights that runs read from the disk are replaced by the same names."""
        import inlay
        sizes, name = Sizes(512, 4, 2, 128, 2048, 12), "blk.0.ffn_down.weight"
        data, count = make("llama", "Q4_K", sizes=sizes, alike=True)
        made = matrix(np.random.default_rng(5), sizes.width, sizes.hidden, "Q4_K", 0.1)
        value = {name: np.frombuffer(made, np.uint8).reshape(sizes.width, -1, TYPES["Q4_K"][2])}
        prompt = prompts(count)[0][:4]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.gguf")
            with open(path, "wb") as file:
                file.write(data)
            options = {"cache_dir": folder, "cache_max_bytes": 1 << 30, "config": False}
            with inlay.Session(path, **options) as plain, inlay.Session(
                    path, memory_limit=f"host={len(data) * 5 // 4}", **options) as limited:
                before = logits_of(plain, prompt)
                for session in (plain, limited):
                    session.update(value)
                self.assertGreater(limited.explain().json["weights"]["read_bytes"], 0)
                np.testing.assert_array_equal(logits_of(limited, prompt), logits_of(plain, prompt))
                self.assertFalse(np.array_equal(logits_of(plain, prompt), before))

    def test_adapters(self):
        """LoRA adapters of PEFT find the products by the modules that Transformers has. Rows of queries and keys that the
        file has in another order are put in this order; adapters in GGUF have it."""
        import inlay
        rank, rng = 3, np.random.default_rng(6)
        modules = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_output": "self_attn.o_proj",
                   "ffn_gate": "mlp.gate_proj", "ffn_down": "mlp.down_proj"}
        for arch in ("llama", "granite", "qwen2", "gemma"):
            one, factors, others, own = small(arch, "F32"), {}, {}, {}
            count = make(arch, "F32")[1]
            kv = one.keys * one.size
            shapes = {"attn_q": (one.width, one.width), "attn_k": (kv, one.width), "attn_output": (one.width,
                one.width), "ffn_gate": (one.hidden, one.width), "ffn_down": (one.width, one.hidden)}
            for part, (rows, columns) in shapes.items():
                pair = [rng.standard_normal(size).astype(np.float32) / 8 for size in ((rank, columns), (rows, rank))]
                factors["model.layers.1." + modules[part]] = pair
                second = pair[1]
                if arch in ("llama", "granite") and part in ("attn_q", "attn_k"):
                    second = second.reshape(-1, 2, one.size // 2, rank).swapaxes(1, 2).reshape(rows, rank)
                own[f"blk.1.{part}"] = pair[0], second
                change = 2 * second @ pair[0]
                weights = matrix(rng, rows, columns, "F32", 1 / np.sqrt(columns))
                others[f"blk.1.{part}.weight"] = weights, (np.frombuffer(weights, np.float32) + change.ravel()).tobytes()
            data = make(arch, "F32", others={name: pair[0] for name, pair in others.items()})[0]
            merged = make(arch, "F32", others={name: pair[1] for name, pair in others.items()})[0]
            prompt = prompts(count)[0]
            with tempfile.TemporaryDirectory() as folder:
                write_adapter(folder, factors, rank)
                native = os.path.join(folder, "own.gguf")
                with open(native, "wb") as f:
                    f.write(gguf_adapter(arch, own, 2 * rank))
                with self.open(data, adapter=[f"one={folder}", f"two={native}"]) as session, self.open(
                        data) as plain, self.open(merged) as changed:
                    for number, other in ((0, changed), (1, changed), (-1, plain)):
                        np.testing.assert_allclose(logits_of(session, prompt, adapter=np.array([number])),
                                                   logits_of(other, prompt), rtol=1e-3, atol=1e-3, err_msg=arch)
                with self.open(make(arch, "Q8_0")[0], adapter=f"one={folder}") as session:
                    self.assertFalse(np.array_equal(logits_of(session, prompt, adapter=np.array([0])),
                                                    logits_of(session, prompt, adapter=np.array([-1]))))
                with self.assertRaisesRegex(inlay.InlayError, "layers.1.self_attn.q_proj.*no matrix multiplication"):
                    self.open(make("phi3", "F32")[0], adapter=f"one={folder}")

    def test_refused_adapters(self):
        """What an adapter in GGUF has that is not supported is named."""
        import inlay
        data, pair = make("llama", "F32")[0], (np.zeros((2, 64)), np.zeros((64, 2)))
        good = gguf_adapter("llama", {"blk.0.attn_q": pair}, 1)
        for made, words in ((data, "of no adapter, by general.type"), (good.replace(b"lora_b", b"lora_c"), "neither lora_a nor"),
                            (gguf_adapter("llama", {"blk.0.attn_q": pair}, 1, "dora"), "another kind of adapter than lora"),
                            (gguf_adapter("llama", {"blk.0.attn_norm": pair}, 1), "attn_norm.*adapters cannot change this weight"),
                            (gguf_adapter("llama", {"blk.7.attn_q": pair}, 1), "layers.7.*no matrix multiplication"),
                            (gguf_adapter("llama", {"blk.0.attn_q": (pair[0], np.zeros((64, 3)))}, 1), "but the other factor states 2 for it"),
                            (good.replace(b"adapter.lora.alpha", b"adapter.lora.alphx"), "lacks the number adapter.lora.alpha"),
                            (good[:-4], "cut short")):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "a.gguf")
                with open(path, "wb") as f:
                    f.write(made)
                with self.assertRaisesRegex(inlay.InlayError, f"a.gguf.*{words}"):
                    self.open(data, adapter=f"one={path}")
        with self.assertRaisesRegex(inlay.InlayError, "lacks the key 'llama.block_count'"):
            self.open(good)

    def test_bytes(self):
        """Without a file, weights of floats are copied."""
        import inlay
        data, count = make("llama", "F16")
        with self.open(data) as file, inlay.Session(data, config=False) as memory:
            for prompt in prompts(count):
                self.assertEqual(greedy(memory, prompt, 4), greedy(file, prompt, 4))

    def test_texts(self):
        import inlay
        from onnx import TensorProto, helper
        with open(TOKENS, encoding="utf-8") as f:
            wanted = json.load(f)
        for arch in ("llama", "qwen2", "granite", "phi3"):
            with self.open(make(arch, "F32")[0]) as session:
                node = helper.make_node("Tokenize", ["text"], ["ids"], domain="inlay.prepost",
                                        model=session.model.metadata["tokenizer.json"])
            graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("text", TensorProto.STRING, [None])],
                                      [helper.ValueInfoProto(name="ids")])
            opsets = [helper.make_opsetid("", 17), helper.make_opsetid("inlay.prepost", 1)]
            with inlay.Session(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString(),
                               config=False) as tokenizer:
                for one, want in zip(TEXTS, wanted[f"{arch} F32"]["texts"]):
                    self.assertEqual(tokenizer.run({"text": np.array([one], object)})["ids"][0].tolist(), want, one)

    def test_embeddings(self):
        """Embeddings of texts are those of llama.cpp; texts of different lengths share a run."""
        with open(TOKENS, encoding="utf-8") as f:
            wanted = json.load(f)
        pools = {"mean_tokens": lambda rows: rows.mean(0), "cls_token": lambda rows: rows[0], "lasttoken": lambda rows: rows[-1]}
        for name, make_one in EMBEDDERS.items():
            data, want = make_one(), wanted[name]
            with tokenizer_of(data) as tokens:
                ids = [tokens.run({"text": np.array([t], object)})["ids"][0].tolist() for t in EMBEDDED]
            self.assertEqual(ids, want["texts"], name)
            most = max(map(len, ids))
            feeds = {"input_ids": np.array([one + [0] * (most - len(one)) for one in ids]),
                     "attention_mask": np.array([[1] * len(one) + [0] * (most - len(one)) for one in ids])}
            with self.open(data) as session:
                kind, = json.loads(session.model.metadata["1_Pooling/config.json"])
                rows, = session.run(feeds).values()
            for one, row, goal in zip(ids, rows, want["embeddings"]):
                got = pools[kind.removeprefix("pooling_mode_")](row[:len(one)]) if row.ndim > 1 else row
                np.testing.assert_allclose(got / np.linalg.norm(got), goal, atol=2e-3, err_msg=name)
        for more, words in (((".pooling_type", 4), "lacks the tensor 'cls.weight'"), ((".pooling_type", 5), "pools embeddings.*pooling_type"),
                            ((".attention.causal", True), "causal"),
                            ((".attention.head_count", 3), "head_count")):
            import inlay
            with self.assertRaisesRegex(inlay.InlayError, words):
                self.open(encoder("bert", [more]))
        with self.assertRaisesRegex(inlay.InlayError, "compares texts, which is not supported.*pooling_type"):
            self.open(make("llama", "F32", RANKS)[0])

    def test_splitters(self):
        """The ids of texts in 23 scripts are those of llama.cpp for each pre-tokenizer, except those of gpt-4o, tekken,
        tiny_aya and kimi-k2, and spaces of Han texts of deepseek-llm, which are the model's own. A name that is not known is refused with the tokenizer."""
        import inlay
        with open(SPLITTERS, encoding="utf-8") as f:
            wanted = json.load(f)

        def tokenizer(name):
            return tokenizer_of(splitting(name, wanted["merges"])[0])

        for name, ids in wanted["ids"].items():
            with tokenizer(name) as session:
                for one, want in zip(wanted["texts"], ids):
                    if name == "deepseek-llm" and "\u3000" in one:  # llama.cpp replaces it before it is compared with classes
                        continue
                    self.assertEqual(session.run({"text": np.array([one], object)})["ids"][0].tolist(), want,
                                     f"{name}: {one!r}")
        for name in ("gpt-4o", "tekken", "tiny_aya", "kimi-k2", "mellum2", "granite-docling"):
            tokenizer(name).close()
        for name in ("gpt", "qwen2 gpt-2", "gemma4"):
            with self.assertRaisesRegex(inlay.InlayError, f"by the rule '{name}', which is not supported"):
                tokenizer(name)

    def test_stripping(self):
        """White space beside special tokens is dropped as by llama.cpp."""
        with open(SPLITTERS, encoding="utf-8") as f:
            wanted = json.load(f)
        for kind, (name, more, special) in STRIPPING.items():
            with tokenizer_of(splitting(name, wanted["merges"], more, special)[0]) as session:
                for one, want in zip(wanted["marked"], wanted["stripped"][kind], strict=True):
                    self.assertEqual(session.run({"text": np.array([one], object)})["ids"][0].tolist(), want, f"{kind}: {one!r}")
        self.assertEqual(len({json.dumps(ids) for ids in wanted["stripped"].values()}), len(STRIPPING))

    def test_refused(self):
        """What is not understood is named."""
        import inlay
        data = make("llama", "F32")[0]
        for old, new, words in ((b"llama", b"lxama", "lxama"), (b"blk.0.attn_norm.weight", b"blk.0.attn_nxrm.weight",
            "attn_norm"),
                                (b"llama.rope.freq_base", b"llama.rope.freq_bxse", "freq_bxse"),
                                (b"output_norm.weight", b"output_nxrm.weight", "output_norm")):
            with self.assertRaisesRegex(inlay.InlayError, words):
                self.open(data.replace(old, new, 1) if old != b"llama" else data.replace(old, new))
        with self.assertRaisesRegex(inlay.InlayError, "cut short"):
            self.open(data[:-1000])
        for key in ("bos", "eos", "unknown", "eot"):  # an id that no vocabulary has is none
            with self.open(make("phi3", "F32", [(f"tokenizer.ggml.{key}_token_id", (1 << 32) - 1)])[0]) as session:
                self.assertIn("tokenizer.json", session.model.metadata)
            with self.assertRaisesRegex(inlay.InlayError, f"outside of the vocabulary for the key .*{key}_token_id"):
                self.open(make("phi3", "F32", [(f"tokenizer.ggml.{key}_token_id", 1000000)])[0])
        for arch in ("llama", None):  # the other parts have no architecture
            with self.assertRaisesRegex(inlay.InlayError, "is one of 4 parts of a split GGUF file; its name must end with"):
                self.open(make("llama", "F32", [("split.count", 4, 2), ("general.architecture", arch)])[0])
        self.open(make("llama", "F32", [("split.count", 1, 2)])[0]).close()
        with self.assertRaisesRegex(inlay.InlayError, "more tokens than rows of 'token_embd.weight'"):
            self.open(make("llama", "F32", [("tokenizer.ggml.tokens", [f"t{i}" for i in range(400)])])[0])

        with self.open(seed()) as session:
            self.assertEqual(logits_of(session, [0, 1, 2]).shape, (1, 3, 3))
        with self.assertRaisesRegex(inlay.InlayError, "axes|cut short|damaged"):
            self.open(data[:4] + struct.pack("<IQQ", 3, 1 << 40, 1) + data[24:])

    def test_split(self):
        """A split file is opened by the name of any part. What is missing or of another file is named."""
        import inlay
        for kind in ("F32", "Q4_0"):
            data, count = make("llama", kind)
            prompt = prompts(count)[0]
            with self.open(data) as session:
                want = greedy(session, prompt, 3)
            with tempfile.TemporaryDirectory() as folder:
                names = [os.path.join(folder, f"a-{i + 1:05}-of-00003.gguf") for i in range(3)]
                parts = split(data, 3)
                for name, part in zip(names, parts):
                    with open(name, "wb") as f:
                        f.write(part)
                for name in names:
                    with inlay.Session(name, config=False) as session:
                        self.assertEqual(greedy(session, prompt, 3), want)
                        self.assertIn("tokenizer.json", session.model.metadata)
                total = text("split.tensors.count") + struct.pack("<I", 5)
                other = parts[1].replace(total + data[8:12], total + struct.pack("<i", 1))
                for changed, words in ((other, "its part 'a-00002-of-00003.gguf' is of another model"),
                                       (parts[0], "its part 'a-00002-of-00003.gguf' is part 1 of 3 by split.no"),
                                       (parts[1][:-2000], "its part 'a-00002-of-00003.gguf' .* cut short"),
                                       (b"onnx", "needs its part 'a-00002-of-00003.gguf', which is no GGUF file"),
                                       (data, "its part 'a-00002-of-00003.gguf' is part 1 of 1"),
                                       (None, "a-00002-of-00003.gguf")):
                    os.remove(names[1])
                    if changed is not None:
                        with open(names[1], "wb") as f:
                            f.write(changed)
                    with self.assertRaisesRegex(inlay.InlayError, words):
                        inlay.Session(names[0], config=False)
                    if changed is None:
                        break

    def test_unknown_tokenizer(self):
        """A model runs without its tokenizer. Token types may have any type of whole numbers."""
        data, count = make("llama", "F32")
        prompt = prompts(count)[0]
        with self.open(data) as session:
            want, types = greedy(session, prompt, 2), session.model.metadata["tokenizer.json"]
        with self.open(data.replace(b"gpt2", b"gxt2")) as session:
            self.assertEqual(greedy(session, prompt, 2), want)
            self.assertEqual(session.model.metadata["tokenizer.ggml.model"], "gxt2")
            self.assertNotIn("tokenizer.json", session.model.metadata)
        with self.open(data.replace(b"llama-bpe", b"llxma-bpe")) as session:
            self.assertEqual(greedy(session, prompt, 2), want)
        for number in (0, 1, 2, 3, 4, 10, 11):
            more = [("tokenizer.ggml.token_type", ([1] * (count - 3) + [3] * 3, number), 9)]
            with self.open(make("llama", "F32", more)[0]) as session:
                self.assertEqual(session.model.metadata["tokenizer.json"], types)

    def test_sampling(self):
        """Parameters of the file are those of requests that do not state them; others are listed."""
        import inlay
        keys = {"temp": 0.25, "top_k": 7, "top_p": 0.5, "min_p": 0.125, "penalty_repeat": 1.5}
        more = [("general.sampling." + name, value) for name, value in keys.items()]
        with self.open(make("llama", "F32", more + [("general.sampling.mirostat", 1)])[0]) as session:
            self.assertEqual(json.loads(session.model.metadata["generation_config.json"]),
                             {"temperature": 0.25, "top_k": 7, "top_p": 0.5, "min_p": 0.125, "repetition_penalty": 1.5})
            self.assertEqual(session.model.metadata["ignored keys"], "general.sampling.mirostat")
        for more, want in (([], {}), ([("general.sampling.temp", 0.5)], {"temperature": 0.5})):
            with self.open(make("llama", "F32", more + [("tokenizer.ggml.suppress_tokens", [7, 3])])[0]) as session:
                self.assertEqual(json.loads(session.model.metadata["generation_config.json"]),
                                 {**want, "suppress_tokens": [7, 3]})
        with self.open(make("llama", "F32")[0]) as session:
            self.assertNotIn("generation_config.json", session.model.metadata)
        for name, value in (("temp", 3.0), ("top_p", -0.5), ("min_p", float("nan")), ("penalty_repeat", 0.0)):
            with self.assertRaisesRegex(inlay.InlayError, f"out of range for the key 'general.sampling.{name}'"):
                self.open(make("llama", "F32", [("general.sampling." + name, value)])[0])

    def test_ends(self):
        """The tokens that end a text: those of keys, and those that llama.cpp takes by their text."""
        names = ("<|eot_id|> <|im_end|> <end_of_turn> <|endoftext|> <|eom_id|> <EOT> <|end_of_text|> <|return|> <|call|> "
                 "</s> <eos> _<EOT> <|calls|> [EOS] <|flush|> <end_of_utterance> <turn|> [EOT] [e~[ <|fim_pad|> <|file_sep|> "
                 "<|repo_name|> <PAD>").split()

        def ends(extra, more=()):
            tokens = [f"t{i}" for i in range(200)] + extra
            keys = [("tokenizer.ggml.tokens", tokens), ("tokenizer.ggml.token_type", [1] * len(tokens)),
                    ("tokenizer.ggml.merges", ["t1 t1"]), ("tokenizer.ggml.bos_token_id", 1),
                    ("tokenizer.ggml.eos_token_id", 2), *more]
            with self.open(make("llama", "F32", keys)[0]) as session:
                found = json.loads(session.model.metadata["config.json"])["eos_token_id"]
                special = [one["content"] for one in json.loads(session.model.metadata["tokenizer.json"])["added_tokens"]
                           if one["special"]]
            return [tokens[i] for i in found], special

        for name in names:
            self.assertEqual(ends([name, "<|user|>"]), (["t2", name], [name]), name)
        self.assertEqual(ends(["<|end|>", "<|call|>"])[0], ["t2", "<|end|>", "<|call|>"])
        self.assertEqual(ends(["<|end|>", "<|call|>", "<|return|>"]), (["t2", "<|call|>", "<|return|>"],
                                                                       ["<|call|>", "<|return|>"]))
        self.assertEqual(ends(["<|end|>", "<|calls|>", "<|flush|>"])[0], ["t2", "<|calls|>", "<|flush|>"])
        self.assertEqual(ends(["</s>", "<|tool_response>"]), (["t2", "<|tool_response>"], ["<|tool_response>"]))
        self.assertEqual(ends(["<PAD>", "a"], [("tokenizer.ggml.fim_pad_token_id", 201)])[0], ["t2", "a"])
        self.assertEqual(ends([], [("tokenizer.ggml.eot_token_id", 5), ("tokenizer.ggml.eom_token_id", 5)])[0], ["t2", "t5"])

    def test_fills(self):
        """The tokens around the parts of a text whose middle is generated, by their keys of today and of before."""
        tokens = [f"t{i}" for i in range(200)]

        def fills(**ids):
            keys = [("tokenizer.ggml.tokens", tokens), ("tokenizer.ggml.token_type", [1] * len(tokens)),
                    ("tokenizer.ggml.merges", ["t1 t1"]), ("tokenizer.ggml.bos_token_id", 1),
                    ("tokenizer.ggml.eos_token_id", 2), *((f"tokenizer.ggml.{name}_token_id", number) for name, number in ids.items())]
            with self.open(make("llama", "F32", keys)[0]) as session:
                config = json.loads(session.model.metadata["tokenizer_config.json"])
            return [config.get(name) for name in ("prefix_token", "suffix_token", "middle_token")]

        self.assertEqual(fills(), [None] * 3)
        self.assertEqual(fills(fim_pre=3, fim_suf=4, fim_mid=5), ["t3", "t4", "t5"])
        self.assertEqual(fills(prefix=6, suffix=7, middle=8, fim_mid=9), ["t6", "t7", "t9"])
        import inlay
        with self.assertRaisesRegex(inlay.InlayError, "fim_suf_token_id"):
            fills(fim_suf=200)

    def refuses(self, words, name, shape, kind, size, **more):
        """A file with such a tensor, whose data has `size` bytes, is refused in one line with these words."""
        import inlay
        model = Writer("llama", {})
        model.tensor(name, shape, kind, bytes(size), **more)
        with self.assertRaisesRegex(inlay.InlayError, words) as refused:
            self.open(model.bytes())
        self.assertNotIn("\n", str(refused.exception))
        self.assertIn(f"'{name}'", str(refused.exception))

    def test_hostile_tensors(self):
        """For each type of weights: rows that are not whole blocks, data beyond the end of the file, sizes that no memory
        has. Types that are not supported are refused by name."""
        for kind, (_, elements, size, _) in TYPES.items():
            if elements > 1:
                for row in (1, elements - 1, elements + 1, 3 * elements + elements // 2):
                    self.refuses(f"rows of {row} elements, which are not whole blocks of {elements} for its type {kind}$",
                                 "w", (2, row), kind, 8 * size)
                self.refuses("rows of 1 elements", "w", (), kind, size)
            outside = "lies outside of the file; the file is cut short"
            self.refuses(outside, "w", (2, elements), kind, 2 * size - 1)
            self.refuses(outside, "w", (3, 2, elements), kind, 5 * size)
            self.refuses(outside, "w", (2, elements), kind, 2 * size, offset=1)
            for offset in (1 << 40, (1 << 64) - size, (1 << 64) - 1):
                self.refuses(outside, "w", (2, elements), kind, 2 * size, offset=offset)
            self.refuses(outside, "w", (1 << 26, 1 << 30), kind, size)
            self.refuses(outside, "w", ((1 << 56) // elements, elements), kind, size)
            for shape in ((1 << 40, 1 << 40), (1 << 63, elements), (1, (1 << 64) - elements), (0, elements), (1, 0),
                          (1 << 58, elements), (1 << 20, 1 << 20, 1 << 20, elements)):
                self.refuses("has a bad shape", "w", shape, kind, size)
            self.refuses("has 5 axes", "w", (1, 1, 1, 1, elements), kind, size)
        import inlay
        for offset in (0, 32, 96, 65):  # overlapping, not aligned, with a gap
            model = Writer("llama", {})
            model.tensor("a", (16,), "F32", bytes(64))
            model.tensor("b", (16,), "F32", bytes(128), offset=offset)
            with self.assertRaisesRegex(inlay.InlayError,
                                        f"'b' has the offset {offset}, and the tensor before it ends at 64"):
                self.open(model.bytes())
        for number, name in OTHERS.items():
            self.refuses(rf"has type {number} \({name}\), which is not supported; use a file", "w", (2, 256), number, 1000)


def ask(port, path, **body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply)


DEQUANTIZE = """
import gguf, numpy as np, sys
from gguf import quants
reader = gguf.GGUFReader(sys.argv[1])
writer = gguf.GGUFWriter(sys.argv[2], reader.fields['general.architecture'].contents())
for key, field in reader.fields.items():
    if not key.startswith('GGUF.') and key != 'general.architecture':
        writer.add_key_value(key, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
for tensor in reader.tensors:
    writer.add_tensor(tensor.name, np.ascontiguousarray(quants.dequantize(tensor.data,
        tensor.tensor_type).astype(np.float32)))
writer.write_header_to_file(); writer.write_kv_data_to_file(); writer.write_tensors_to_file(); writer.close()
"""


GRID_FLOATS = """
import gguf, numpy as np, sys, zlib
from gguf import quants
blocks = np.fromfile('/tmp/model.gguf', np.uint8).reshape(-1, int(sys.argv[2]))
print(zlib.crc32(quants.dequantize(blocks, gguf.GGMLQuantizationType(int(sys.argv[1]))).astype(np.float32).tobytes()))
"""


@contextlib.contextmanager
def peer(root, *flags):
    """Runs llama.cpp's server in the root, with /tmp/float.gguf. False: it refuses the file."""
    with subprocess.Popen(["chroot", root, "llama-server", "-m", "/tmp/float.gguf", "--port", str(PORT), "-c", "128",
                           "-np", "1", "-fa", "off", "-ctk", "f32", "-ctv", "f32", "-t", "1", "--no-warmup", *flags],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        ready = False
        while not ready and server.poll() is None:
            time.sleep(0.1)
            try:
                ask(PORT, "tokenize", content="a")
                ready = True
            except OSError:
                continue
        try:
            yield ready
        finally:
            server.kill()


def save(made):
    with open(TOKENS, "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in made.items()) + "\n}\n")


def record(root, archs):
    """Asks llama.cpp in the root. What it said is kept if it refuses a later file."""
    with open(TOKENS, encoding="utf-8") as f:
        made = json.load(f)
    try:
        ask_all(root, archs, made)
    finally:
        save(made)


def last_logits(text):
    """The logarithms of the probabilities of some_tokens() in the place of the last token. llama.cpp leaves out those of
    tokens that are a part of a character, so another token is chosen, an ASCII one."""
    reply = ask(PORT, "completion", prompt=text[:-1], n_predict=1, temperature=0, cache_prompt=False, n_probs=1000, logit_bias=[[97, 1000.0]])
    found = {one["id"]: round(one["logprob"], 4) for one in reply["completion_probabilities"][0]["top_logprobs"]}
    return [found[i] for i in some_tokens(len(found))]


def ask_all(root, archs, made):
    for arch, kind in [case for case in CASES if (case[0] in archs if archs else " ".join(case) not in made)]:
        data, count = make(arch, kind)
        with open(os.path.join(root, "tmp", "model.gguf"), "wb") as f:
            f.write(data)
        subprocess.run(["chroot", root, "python3", "-c", DEQUANTIZE, "/tmp/model.gguf", "/tmp/float.gguf"], check=True)
        with peer(root) as ready:
            if not ready:
                raise RuntimeError(f"llama.cpp refuses {arch} {kind}")
            one = {"tokens": [ask(PORT, "completion", prompt=p, n_predict=NEW_TOKENS, temperature=0, return_tokens=True,
                                  cache_prompt=False)["tokens"] for p in prompts(count)]}
            if kind == "F32":
                one["logits"] = [last_logits(p + said) for p, said in zip(prompts(count), one["tokens"])]
                one["texts"] = [ask(PORT, "tokenize", content=t, add_special=True)["tokens"] for t in TEXTS]
        made[f"{arch} {kind}"] = one
    if ("llama4 long" in archs) if archs else "llama4 long" not in made:
        data, prompt = long_text()
        with open(os.path.join(root, "tmp", "float.gguf"), "wb") as f:
            f.write(data)
        with peer(root, "-c", "8448") as ready:
            if not ready:
                raise RuntimeError("llama.cpp refuses a long context")
            tokens = ask(PORT, "completion", prompt=prompt, n_predict=4, temperature=0, return_tokens=True)["tokens"]
            made["llama4 long"] = {"tokens": tokens, "logits": last_logits(prompt + tokens)}
    for kind, (number, _, size, _) in GRIDS.items() if ("grids" in archs if archs else "grids" not in made) else ():
        with open(os.path.join(root, "tmp", "model.gguf"), "wb") as f:
            f.write(grid_blocks(kind))
        made.setdefault("grids", {})[kind] = int(subprocess.run(
            ["chroot", root, "python3", "-c", GRID_FLOATS, str(number), str(size)], check=True, capture_output=True).stdout)
    for name, make_one in EMBEDDERS.items():
        if (name in archs) if archs else name not in made:
            with open(os.path.join(root, "tmp", "float.gguf"), "wb") as f:
                f.write(make_one())
            with peer(root, "--embeddings") as ready:
                if not ready:
                    raise RuntimeError(f"llama.cpp refuses {name}")
                made[name] = {"embeddings": [[round(x, 5) for x in ask(PORT, "embedding", content=t)[0]["embedding"][0]]
                                             for t in EMBEDDED],
                              "texts": [ask(PORT, "tokenize", content=t, add_special=True)["tokens"] for t in EMBEDDED]}
    for name, make_one in RANKERS.items():
        if ("rank " + name in archs) if archs else "rank " + name not in made:
            with open(os.path.join(root, "tmp", "float.gguf"), "wb") as f:
                f.write(make_one())
            with peer(root, "--reranking") as ready:
                if not ready:
                    raise RuntimeError(f"llama.cpp refuses {name}")
                reply = ask(PORT, "v1/rerank", query=TEXTS[0], documents=EMBEDDED)
            made["rank " + name] = {"scores": [one["relevance_score"] for one in sorted(reply["results"], key=lambda one: one["index"])],
                                    "tokens": reply["usage"]["prompt_tokens"]}
    if ("llama server" in archs) if archs else "llama server" not in made:
        for name, data in (("float", make("llama", "F32")[0]), ("adapter", server_adapter())):
            with open(os.path.join(root, "tmp", name + ".gguf"), "wb") as f:
                f.write(data)
        made["llama server"] = []
        for name, more in SERVED.items():
            with peer(root, *(("--lora", "/tmp/adapter.gguf") if name == "lora" else ())) as ready:
                if not ready:
                    raise RuntimeError("llama.cpp refuses the adapter")
                made["llama server"].append([ask(PORT, "completion", prompt=t, n_predict=24, temperature=0, cache_prompt=False,
                                                 **more)["content"] for t in TEXTS])


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--make":
        record(sys.argv[2], sys.argv[3:])
    elif len(sys.argv) == 3 and sys.argv[1] == "--seed":
        with open(sys.argv[2], "wb") as out:
            out.write(seed())
    else:
        unittest.main()
