#!/usr/bin/env python3
"""make_tokenizer_cases.py DIR - writes tokenizer_cases.json: what the library `tokenizers` makes of texts with each of
its normalizers, pre-tokenizers, decoders, with patterns, and with combinations of all steps. Run by hand: into DIR npm
installs the library itself. With --categories it prints the tables of providers/prepost/text/categories.c."""
import base64
import json
import os
import random
import struct
import subprocess
import sys

PEER = "@anush008/tokenizers@0.6.0"  # tokenizers 0.22.2 for Node
SCRIPT = """
const { Tokenizer } = require('@anush008/tokenizers');
const { readFileSync, writeFileSync } = require('fs');
(async () => {
  const made = [];
  for (const [tokenizer, texts] of JSON.parse(readFileSync('in.json'))) {
    const one = [];
    try {
      const opened = Tokenizer.fromString(JSON.stringify(tokenizer));
      for (const text of texts) {
        const ids = Array.from((await opened.encode(text)).getIds());
        one.push([ids, ids.length > 0 ? await opened.decode(ids, true) : '']);
      }
    } catch (error) { one.push(String(error)); }
    made.push(one);
  }
  writeFileSync('out.json', JSON.stringify(made));
})();
"""
TEXTS = ["I'LL don't it's 12345.678 \u00e9e\u0301 'S \u017f \u212a", "  two  spaces\n\n\tand\r\nlines \n",
         "\u039f\u0394\u039f\u03a3 \u03a3\u0391\u03a3 \u0130",
         "a\u00a0b\u2003c\u3000d\u180ee\u200bf\u0085g", "x_y-z a.b,c!? (d) [e] #f $g %h &i *j",
             "\u4e2d\u6587\u5b57 \u3042\u30a2 \ud55c\uad6d \ufb01 \u2460 \uff21\uff76\uff9e",
         "<s>a</s> <s> b <t> c<t>d", "\u2581a \u2581\u2581b c\u2581",
             "a\u0007b\u000bc\u007fd\u008fe\u001cf\ufffdg\ufefeh", "\u0915\u094d\u0937\u093f \u0e01\u0e33 \u0301x",
         "abc123def456", "", " ", "don't ABCdef GHI'm n't . , !", "\U0001f468\u200d\U0001f469 \U0001f1e9\U0001f1ea",
             "aXbXXcXXX", "aaa bbb aa", "100,000.5 3\u00bd \u0661\u0662",
         "a\r\nb\nc\n", "q&&r]s^t-u\\v",
         # characters whose category differs between versions of Unicode
         "a\u166db\u2e43c\u0c77d\u061de\U000111c9f \u08e2g\U000110cdh \u1885i\u1734j\u1cf2k\u08d4l\u0afam\u1715n",
         # characters that later versions of Unicode order, change or compose
         "\u0c15\u0c4d\u0c3c a\u0345\u1ac1 \U00011935\u0345\U00011930 \U0001fbf1\u0345\u07fd"]
# Prints the ranges of characters that the normalization of Node.js (Unicode 17) handles in another way: those that it
# changes or moves past a mark, and the first characters of their compositions.
UNNORMALIZED = """
const { Tokenizer } = require('@anush008/tokenizers');
const { readFileSync, writeFileSync } = require('fs');
const tokenizers = JSON.parse(readFileSync('in.json')), forms = {};
for (const [form, made] of Object.entries(tokenizers)) forms[form] = Tokenizer.fromString(JSON.stringify(made));
const ask = async (form, text) => Buffer.from(Array.from((await forms[form].encode(text)).getIds())).toString();
(async () => {
  const found = new Set();
  for (let code = 0x80; code < 0x110000; code++) {
    if (code >= 0xd800 && code < 0xe000) continue;
    const c = String.fromCodePoint(code), parts = c.normalize('NFD');
    for (const text of [c, '\\u0345' + c, c + '\\u0334'])
      if (text.normalize('NFKD') !== text && await ask('NFKD', text) !== text.normalize('NFKD')) found.add(code);
    if (parts !== c && await ask('NFC', parts) !== parts.normalize('NFC'))
      for (const part of parts) if (part.codePointAt(0) > 0x2000) found.add(part.codePointAt(0));
  }
  writeFileSync('out.json', JSON.stringify([...found].sort((a, b) => a - b)));
})();
"""
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def charsmap(pairs):
    """SentencePiece's map of characters: a double array of 32-bit units, then the replacement texts."""
    texts, units = b"", {0: 0}
    tree = {}
    for key, text in pairs.items():
        node = tree
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[0] = len(texts)
        texts += text.encode() + b"\0"

    def place(at, node):
        base = 1
        while any(base ^ label in units for label in node):
            base += 1
        units[at] |= (at ^ base) << 10 | (0 in node) << 8
        for label in node:
            units[base ^ label] = label if label > 0 else 1 << 31 | node[0]
        for label, child in node.items():
            if label > 0:
                place(base ^ label, child)

    place(0, tree)
    trie = b"".join(struct.pack("<I", units.get(i, 0)) for i in range(max(units) // 256 * 256 + 256))
    return base64.b64encode(struct.pack("<I", len(trie)) + trie + texts).decode()


CHARSMAP = charsmap({"\n": " ", "\r": " ", "\t": " ", "\u0085": " ", "\u2460": "1", "\uff21": "A", "\ufb01": "fi",
                     "e\u0301": "\u00e9", "\u200b": "",
                     "\u30ab\u3099": "\u30ac", "x": "X"})
PATTERNS = [
    r"\p{N}{1,2}", r"\p{N}{1,3}(?=(?:\p{N}{3})*$)", r"\s+", r"\S+", r"\w+", r"\W+", r"\d", r"\D+", r"\h+", r"\H",
    r"\bd", r"\B.", r"^.", r".$", r"\A.", r".\z",
    r"[^\s\p{L}\p{N}]+", r"[\S\n]+", r"[\s-x]+", r"[a-c-]", r"[]x]", r"[\]\-\\^]+", r"[[:alpha:]]+", r"[[:punct:]]",
    r"[[:space:][:digit:]]", r"\p{Han}+", r"\p{Hiragana}|\p{Katakana}",
    r"\p{^L}+", r"\P{L}+", r"\p{Letter}+", r"\p{Uppercase_Letter}",
    r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+", r"\p{Punct}", r"\p{Alpha}+",
    r"\p{White_Space}+",
    r"(?i)ABC|x", r"(?i:abc)|X", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"(a|b)+", r"(?<word>a+)", r"(?>a+)a|b", r"a++b?",
    r"a?+", r"a*", r"(?:a|bb)?", r"a{2}", r"a{,2}", r"a{2,}", r"X{1,2}?", r"X{2}+",
    r"x*+", r"(?<=a)X", r"(?<!a)X", r"X(?!X)", r"X(?=X)", r"(?m:a.b)", r"a.b", r"(?#comment)b",
    r"\x61|\u0062|\x{63}", r"\t|\r|\n|\v|\f", r"b|", r"|b", r"\{|a{|}", r"\.|\,|\/", r"(?:X+)?b",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
    r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]
COMBINATIONS = 150
BEHAVIOURS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
NORMALIZERS = [{"type": t} for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt",
                                     "ByteLevel")] + [
    {"type": "BertNormalizer", "clean_text": c, "handle_chinese_chars": h, "strip_accents": s, "lowercase": l}
    for c, h, s, l in ((True, True, None, True), (True, False, None, False), (False, True, True, False), (False,
        False, False, True))] + [
    {"type": "Strip", "strip_left": left, "strip_right": right} for left, right in ((True, True), (True, False),
        (False, True))] + [
    {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": "a"}, "content": "bb"},
    {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}, {"type": "Replace",
        "pattern": {"Regex": " {2,}"}, "content": "_"},
    {"type": "Replace", "pattern": {"Regex": r"x*"}, "content": "-"}, {"type": "Replace",
        "pattern": {"Regex": r"\p{N}"}, "content": ""},
    {"type": "Precompiled", "precompiled_charsmap": CHARSMAP},
    {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Prepend",
        "prepend": "^"}]}]
SPLITTERS = [{"type": t} for t in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer")] + [
    {"type": "Digits", "individual_digits": True}, {"type": "Digits", "individual_digits": False},
        {"type": "CharDelimiterSplit", "delimiter": "X"},
    {"type": "FixedLength", "length": 3},
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, {"type": "ByteLevel",
        "add_prefix_space": True, "trim_offsets": True, "use_regex": False}] + [
    {"type": "Punctuation", "behavior": b} for b in BEHAVIOURS] + [
    {"type": "Split", "pattern": {"String": "X"}, "behavior": b, "invert": i} for b in BEHAVIOURS for i in (False,
        True)] + [
    {"type": "Split", "pattern": {"Regex": "X?"}, "behavior": b, "invert": i} for b in BEHAVIOURS for i in (False,
        True)] + [
    {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": p, "split": s} for p in ("always", "first",
        "never") for s in (True, False)] + [
    {"type": "Split", "pattern": {"Regex": p}, "behavior": BEHAVIOURS[i % 5], "invert": i % 3 == 0} for i,
        p in enumerate(PATTERNS)]
DECODERS = [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            {"type": "ByteFallback"}, {"type": "Fuse"}] + [
    {"type": "WordPiece", "prefix": "##", "cleanup": c} for c in (True, False)] + [
    {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": p, "split": True} for p in ("always",
        "never")] + [
    {"type": "BPEDecoder", "suffix": "</w>"}] + [{"type": "CTC", "pad_token": "a", "word_delimiter_token": "X",
                                                  "cleanup": c} for c in (True, False)] + [
    {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                                      {"type": "ByteFallback"}, {"type": "Fuse"},
                                      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": "a", "start": 2, "stop": 1},
                                      {"type": "Replace", "pattern": {"Regex": r"\s"}, "content": "_"}]}]


POSTS = [None, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
         {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                   {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
          "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
         {"type": "BertProcessing", "sep": ["<t>", 2], "cls": ["<s>", 1]},
         {"type": "RobertaProcessing", "sep": ["<t>", 2], "cls": ["<s>", 1], "trim_offsets": True,
          "add_prefix_space": True}]
POSTS.append({"type": "Sequence", "processors": POSTS[1:3]})


def added(**how):
    return {"id": how.pop("id"), "content": how.pop("content"), "single_word": False, "lstrip": False,
            "rstrip": False, "normalized": False, "special": True, **how}


ADDED = [[added(id=1, content="<s>")], [added(id=1, content="<s>", lstrip=True), added(id=2, content="<t>",
    rstrip=True)],
         [added(id=1, content="a", single_word=True, special=False)], [added(id=1, content="ABC", normalized=True,
             special=False)],
         [added(id=1, content="aa", single_word=True), added(id=2, content="a")], [added(id=1, content="  "),
             added(id=2, content=" two")]]


def model(characters, **how):
    vocab = {"<unk>": 0, "<s>": 1, "<t>": 2}
    for c in characters:
        for text in (c, c + "</w>"):
            vocab.setdefault(text, len(vocab))
    for byte in range(256):
        vocab.setdefault(f"<0x{byte:02X}>", len(vocab))
    return {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
            "end_of_word_suffix": "</w>", "fuse_unk": False,
            "byte_fallback": False, "vocab": vocab, "merges": [], **how}


def merged(how):
    """A model that merges letters, and the two bytes of a character."""
    one = model("abcdenot", end_of_word_suffix=None, **how)
    for left, right in (("a", "b"), ("ab", "c"), ("t", "o"), ("d", "o"), ("<0xC3>", "<0xA9>")):
        one["vocab"].setdefault(left + right, len(one["vocab"]))
        one["merges"].append([left, right])
    return one


def with_added(one, tokens):
    """The tokenizer with its tokens at ids that are theirs in the vocabulary."""
    vocab = one["model"]["vocab"]
    for token in tokens:
        token = dict(token)
        token["id"] = vocab.get(token["content"], max(vocab.values()) + 1 + len(one["added_tokens"]))
        one["added_tokens"].append(token)
    return one


def print_ranges(name, codes):
    ranges = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    print(f"static const struct range {name}[] = {{")
    print(",\n".join(f"{{ {a:#x}, {b:#x} }}" for a, b in ranges) + "\n};")


def unnormalized(folder):
    """The characters whose normalization the library does not know."""
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    others = iter(range(256, 512))
    vocab = {chr(b if b in printable else next(others)): b for b in range(256)}
    one = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "pre_tokenizer": BYTES,
           "post_processor": None, "decoder": None, "model": {"type": "BPE", "vocab": vocab, "merges": []}}
    with open(os.path.join(folder, "in.json"), "w", encoding="utf-8") as f:
        json.dump({form: {**one, "normalizer": {"type": form}} for form in ("NFC", "NFKD")}, f)
    with open(os.path.join(folder, "forms.cjs"), "w", encoding="utf-8") as f:
        f.write(UNNORMALIZED)
    subprocess.run(["node", "forms.cjs"], cwd=folder, check=True)
    with open(os.path.join(folder, "out.json"), encoding="utf-8") as f:
        print_ranges("unnormalized", json.load(f))


def categories(folder):
    """The characters that the library takes for punctuation, marks and control characters."""
    bert = {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False, "strip_accents": False,
            "lowercase": False}
    steps = {"punctuation": {"pre_tokenizer": {"type": "Punctuation", "behavior": "Isolated"}},
             "nonspacing_marks": {"normalizer": {**bert, "strip_accents": True}},
             "marks": {"normalizer": {"type": "StripAccents"}}, "others": {"normalizer": {**bert, "clean_text": True}}}
    codes = [c for c in range(0x80, 0x110000) if not 0xd800 <= c < 0xe000]
    model = {"type": "WordLevel", "vocab": {"<unk>": 0, "ab": 1}, "unk_token": "<unk>"}
    with open(os.path.join(folder, "in.json"), "w", encoding="utf-8") as f:
        json.dump([[{"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                     "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": model, **step},
                    [f"a{chr(c)}b" for c in codes]] for step in steps.values()], f)
    subprocess.run(["node", "--max-old-space-size=8192", "ask.cjs"], cwd=folder, check=True)
    with open(os.path.join(folder, "out.json"), encoding="utf-8") as f:
        for name, made in zip(steps, json.load(f)):
            print_ranges(name, [code for code, (ids, _) in zip(codes, made)
                                if (ids == [1] or len(ids) == 3) and code != 0xfffd])


def main():
    folder = os.path.abspath(sys.argv[1])
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder,
                    PEER], check=True)
    with open(os.path.join(folder, "ask.cjs"), "w", encoding="utf-8") as f:
        f.write(SCRIPT)
    if "--categories" in sys.argv[2:]:
        categories(folder)
        unnormalized(folder)
        return
    rng = random.Random(5)
    characters = sorted(set("".join(TEXTS) + "".join(map(chr, range(33, 127))) + "\u0120\u010a\u00c3\u00a9\u2581"))
    models = {"words": model(characters), "bytes": model("abcdefghijklmnopqrstuvwxyz", byte_fallback=True,
                                                         end_of_word_suffix=None),
              "fused": model("abcdef", fuse_unk=True), "dropped": model("abcdef", unk_token=None),
              "merged": merged({"unk_token": None}), "merged_bytes": merged({"byte_fallback": True}),
              "merged_unknown": merged({"fuse_unk": True}),
              "level": {"type": "WordLevel", "vocab": {"<unk>": 0, "a": 1, "don't": 2, "two": 3, "abc": 4, "x": 5,
                                                       " ": 6}, "unk_token": "<unk>"},
              "pieces": {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##",
                         "max_input_chars_per_word": 8,
                         "vocab": {t: i for i, t in enumerate(["<unk>", "a", "##b", "##c", "two", "do", "##n't",
                             "sp", "##aces", "abc", "##123", "12", "##3", ".", ","])}}}
    cases = []
    plain = {"type": "WhitespaceSplit"}

    def case(of, count=6, **parts):
        one = {"normalizer": None, "pre_tokenizer": None, "decoder": None, "added_tokens": [], **parts}
        cases.append({"model": of, "tokenizer": one, "texts": sorted(rng.sample(range(len(TEXTS)), count))})

    for step in NORMALIZERS:
        case("words", normalizer=step, pre_tokenizer=plain, count=8)
    for step in SPLITTERS:
        case("words", pre_tokenizer=step)
    for step in DECODERS:
        case("words", pre_tokenizer=plain, decoder=step)
        case("bytes", pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always",
                                     "split": True}, decoder=step)
        case("pieces", pre_tokenizer={"type": "BertPreTokenizer"}, decoder=step)
    for tokens in ADDED:
        case("words", pre_tokenizer=plain, added_tokens=tokens, count=8)
        case("words", normalizer={"type": "Lowercase"}, pre_tokenizer={"type": "Metaspace", "replacement": "\u2581",
            "prepend_scheme": "first", "split": True},
             added_tokens=tokens, count=8)
    for of in ("fused", "dropped", "level", "pieces", "merged", "merged_bytes", "merged_unknown"):
        case(of, pre_tokenizer={"type": "Whitespace"}, count=len(TEXTS))
    for i in range(COMBINATIONS):
        case(sorted(models)[i % len(models)], normalizer=rng.choice([None] + NORMALIZERS),
             pre_tokenizer=rng.choice([None] + SPLITTERS), decoder=rng.choice([None] + DECODERS),
             post_processor=POSTS[i % len(POSTS)],
             added_tokens=rng.choice(ADDED) if i % 7 == 0 else [])
    for one in cases:  # ids as the library gives them
        whole = with_added({"model": models[one["model"]], **one["tokenizer"], "added_tokens": []},
                           one["tokenizer"]["added_tokens"])
        one["tokenizer"]["added_tokens"] = whole["added_tokens"]
    with open(os.path.join(folder, "in.json"), "w", encoding="utf-8") as f:
        json.dump([[{"version": "1.0", "truncation": None, "padding": None, "post_processor": None,
                     "model": models[c["model"]], **c["tokenizer"]},
                    [TEXTS[i] for i in c["texts"]]] for c in cases], f)
    subprocess.run(["node", "ask.cjs"], cwd=folder, check=True)
    with open(os.path.join(folder, "out.json"), encoding="utf-8") as f:
        for one, made in zip(cases, json.load(f)):
            one["results"] = made
            if isinstance(made[-1], str):
                print("refused:", json.dumps(one["tokenizer"])[:200], made[-1][:200])
    cases = [one for one in cases if not isinstance(one["results"][-1], str)]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizer_cases.json"), "w",
              encoding="utf-8") as f:
        f.write('{"texts":' + json.dumps(TEXTS) + ',\n"models":' + json.dumps(models, separators=(",",
            ":")) + ',\n"cases":[\n')
        f.write(",\n".join(json.dumps(one, separators=(",", ":")) for one in cases) + "\n]}\n")
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
