#!/usr/bin/env python3
"""splitters_peer.py ROOT [COUNT] - the ids of COUNT (10000) made-up texts in 20 scripts for each pre-tokenizer, compared with
llama.cpp: a table of the texts whose ids are equal. By hand; ROOT is as for test_gguf.py --make."""
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


def main(root, count):
    with open(test_gguf.SPLITTERS, encoding="utf-8") as f:
        known = json.load(f)
    texts = made_up(count)
    print(f"| pre-tokenizer | equal of {count} | first difference |")
    print("|-|-|-|")
    for name in list(known["ids"]) + ["gpt-4o", "tekken", "tiny_aya", "kimi-k2"]:
        data, mark = test_gguf.splitting(name, known["merges"])
        with open(os.path.join(root, "tmp", "float.gguf"), "wb") as f:
            f.write(data)
        equal, first = 0, ""
        with test_gguf.peer(root) as ready, test_gguf.tokenizer_of(data) as session:
            if not ready:
                raise RuntimeError(f"llama.cpp refuses {name}")
            for begin in range(0, count, 200):
                part = texts[begin:begin + 200]
                joined = "<|u|>".join(part)
                theirs = divide(test_gguf.ask(test_gguf.PORT, "tokenize", content=joined)["tokens"], mark)
                mine = divide(session.run({"text": np.array([joined], object)})["ids"][0].tolist(), mark)
                for one, want, got in zip(part, theirs, mine, strict=True):
                    equal += want == got
                    first = first if want == got or first else ascii(one)
        print(f"| {name} | {equal} | {first} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10000)
