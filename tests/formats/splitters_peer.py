#!/usr/bin/env python3
"""splitters_peer.py ROOT [COUNT [NAME...]] - the ids of COUNT (10000) made-up texts in 20 scripts for each pre-tokenizer,
compared with llama.cpp: a table of the texts whose ids are equal, and of those that are equal if texts are split by
llama.cpp's expression where it approximates the model's own. Merges of all pairs of bytes make nearly each difference of
words one of ids. By hand; ROOT is as for test_gguf.py --make."""
import contextlib
import itertools
import json
import os
import random
import sys

import numpy as np

import test_gguf

# First and last letters of scripts, and their digits.
SCRIPTS = {"Latin": "a-zA-Z\u00c0-\u017f", "Greek": "\u0391-\u03c9", "Cyrillic": "\u0410-\u044f", "Armenian": "\u0561-\u0586",
           "Hebrew": "\u05d0-\u05ea\u05b0-\u05b9", "Arabic": "\u0620-\u064a\u064b-\u0652\u0660-\u0669",
           "Devanagari": "\u0904-\u0939\u093e-\u094d\u0966-\u096f", "Bengali": "\u0995-\u09b9\u09be-\u09cc",
           "Gurmukhi": "\u0a15-\u0a39\u0a3e-\u0a42", "Gujarati": "\u0a95-\u0ab9\u0abe-\u0ac5", "Tamil": "\u0b95-\u0bb9\u0bbe-\u0bcd",
           "Telugu": "\u0c15-\u0c39\u0c3e-\u0c4c", "Thai": "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59", "Lao": "\u0e81-\u0eb0",
           "Georgian": "\u10d0-\u10f0", "Ethiopic": "\u1200-\u1240", "Khmer": "\u1780-\u17d3", "Hangul": "\uac00-\uac80",
           "Kana": "\u3041-\u3096\u30a1-\u30fa", "Han": "\u4e00-\u4f00"}
MARKS = list(".,;:!?-_/*#%&()[]{}<>=+'\"") + ["'s", "'T", "'ll", "\u2019s", "\u2026", "\u3002", "\uff0c", "\u060c", "\u0964", "\U0001f600",
                                           "\u200d", "\u00a0", "\u0301", "\u00bd", "\u2167", "\u00b2", "$", "\u20ac", "\ufffd"]
SPACES = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", " \n", "\n ", "\u3000"]


# llama.cpp's expressions that approximate those of the models' tokenizer.json: all letters but ASCII are of both cases, or
# case does not count; a mark is no letter; white space other than ASCII is U+000B for classes; \b knows only letters of
# ASCII, and at the begin of a lookahead not the one before it; digits are joined to what
# is before them, and U+F900 has become U+8C48.
ENGLISH = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?"
LATER = r"|\p{N}DIGITS| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
FIRST = r"[^\r\n\p{L}\p{N}]?"


def cased(upper, lower, english, digits):
    return [FIRST + upper + "*" + lower + "+" + english + "|" + FIRST + upper + "+" + lower + "*" + english +
            LATER.replace("DIGITS", digits)]


ASCII_CASE = (r"(?:(?![a-z])\p{L})", r"(?:(?![A-Z])\p{L})")
ASCII_CASE_MARKS = (r"(?:(?![a-z])[\p{L}\p{M}])", r"(?:(?![A-Z])[\p{L}\p{M}])")
NO_CASE = (r"[\p{L}\p{M}]", r"[\p{L}\p{M}]")
APPROXIMATE = {
    "gpt-4o": cased(*ASCII_CASE, ENGLISH, "{1,3}"), "tekken": cased(*ASCII_CASE, "", ""),
    "granite-embed-multi-97m": cased(*ASCII_CASE_MARKS, ENGLISH, "{1,3}"),
    "tiny_aya": [r"[0-9]{1,3}(?=(?:[0-9]{3})+(?![0-9A-Za-z_])|[0-9A-Za-z_])"] + cased(*NO_CASE, ENGLISH, "{1,3}"),
    "deepseek-llm": [r"[\r\n]", "\\s?(?:(?![\u0560-\u0588\u10c7-\u10ff\u1c80-\u1c8f])[\\p{Lu}\\p{Ll}\\p{Lt}])+",
                     "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3001-\u3002]+", r"\s+$",
                     "(?:(?!\u3000)[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff])+", r"\p{N}+"],
    "youtu": ["[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+"
              "|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"] + cased(*NO_CASE, ENGLISH, ""),
    "kimi-k2": [r"\p{Han}+|" + FIRST + r"(?:(?!\p{Han})\p{L})+" + ENGLISH + LATER.replace("DIGITS", "{1,3}").replace("/", "")],
    "afmoe": [r"\P{N}*\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
              "[\u4e00-\u9fff\u3400-\u4dbf\u8c48-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f"
              "\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+",
              r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
              r"|\s*[\r\n]+|\s+(?!\S)|\s+"]}


def letters(ranges):
    out, at = [], 0
    while at < len(ranges):
        if at + 2 < len(ranges) and ranges[at + 1] == "-":
            out += [chr(c) for c in range(ord(ranges[at]), ord(ranges[at + 2]) + 1)]
            at += 3
        else:
            out.append(ranges[at])
            at += 1
    return out


def made_up(count):
    """Texts of words of one script or two, numbers, marks and white space."""
    numbers, alphabets, texts = random.Random(1), [letters(r) for r in SCRIPTS.values()], []
    for i in range(count):
        parts, mine = [], [alphabets[i % len(alphabets)], numbers.choice(alphabets)]
        for _ in range(numbers.randint(1, 12)):
            kind = numbers.random()
            if kind < 0.5:
                parts.append("".join(numbers.choices(mine[numbers.random() < 0.2], k=numbers.randint(1, 8))))
            elif kind < 0.6:
                parts.append("".join(numbers.choices("0123456789", k=numbers.randint(1, 7))))
            elif kind < 0.75:
                parts.append(numbers.choice(MARKS) * numbers.choice((1, 1, 1, 2, 3)))
            else:
                parts.append(numbers.choice(SPACES))
        texts.append("".join(parts))
    return texts


def divide(ids, mark):
    """The ids between the marks."""
    out = [[]]
    for one in ids:
        if one == mark:
            out.append([])
        else:
            out[-1].append(one)
    return out


def merges_of_pairs():
    """All pairs of bytes, in a random order."""
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    others = iter(range(256, 512))
    signs = [chr(b) if b in printable else chr(next(others)) for b in range(256)]
    pairs = [f"{a} {b}" for a, b in itertools.product(signs, signs)]
    random.Random(2).shuffle(pairs)
    return pairs


def main(root, count, names):
    texts, merges = made_up(count), merges_of_pairs()
    with open(test_gguf.SPLITTERS, encoding="utf-8") as f:
        known = list(json.load(f)["ids"])
    print(f"| pre-tokenizer | equal of {count} | by llama.cpp's expression | first difference |")
    print("|-|-|-|-|")
    for name in names or list(dict.fromkeys(known + list(APPROXIMATE))):
        data, mark = test_gguf.splitting(name, merges)
        with open(os.path.join(root, "tmp", "float.gguf"), "wb") as f:
            f.write(data)
        equal, first = [0, 0], ["", ""]
        with contextlib.ExitStack() as open_now:
            if not open_now.enter_context(test_gguf.peer(root)):
                raise RuntimeError(f"llama.cpp refuses {name}")
            sessions = [open_now.enter_context(test_gguf.tokenizer_of(data))]
            if name in APPROXIMATE:
                sessions.append(open_now.enter_context(test_gguf.tokenizer_of(data, APPROXIMATE[name])))
            for begin in range(0, count, 200):
                part = texts[begin:begin + 200]
                joined = "<|u|>".join(part)
                theirs = divide(test_gguf.ask(test_gguf.PORT, "tokenize", content=joined)["tokens"], mark)
                for at, session in enumerate(sessions):
                    ids = session.run({"text": np.array([joined], object)})["ids"][0].tolist()
                    mine = divide(ids[ids[0] == mark - 2:], mark)  # without the token that begins texts
                    for one, want, got in zip(part, theirs, mine, strict=True):
                        equal[at] += want == got
                        first[at] = first[at] if want == got or first[at] else ascii(one)
        print(f"| {name} | {equal[0]} | {equal[1] if name in APPROXIMATE else ''} | {first[name in APPROXIMATE]} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10000, sys.argv[3:])
