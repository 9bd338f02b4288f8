#!/usr/bin/env python3
"""Finds random number generators in tests, which take those of tests/support/random.h: a state that a step multiplies and adds to
(linear congruential), shifts into itself (xorshift) or increases by the constant of splitmix64, and those of libc.

  generators.py ROOT   one line for each; exit code 1 if there is one"""
import os
import re
import sys

TEXTS = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.S)
NUMBER = r"(?:UINT64_C\()?(?:0[xX][0-9a-fA-F]{5,}|\d{5,})[uUlL]*\)?"  # hashes and decimals multiply by less
STATE = r"(?<![\w.>*])\*?[A-Za-z_][\w.>\-]*(?:\[\w+\])?"
GENERATORS = re.compile(rf"({STATE}) = \(?\1 \* {NUMBER}\)? \+"  # x = x * A + B
                        rf"|({STATE}) \^= \2 << \d+"            # x ^= x << A
                        r"|\+= \(?(?:UINT64_C\()?0x9e3779b97f4a7c15"
                        r"|(?<![\w.>])(?:s?rand|rand_r|s?random|[delmnj]rand48(?:_r)?)\(", re.I)

root = sys.argv[1]
wrong = []
for folder, _, files in os.walk(os.path.join(root, "tests")):
    for file in sorted(files):
        path = os.path.relpath(os.path.join(folder, file), root)
        if not file.endswith((".c", ".h", ".inc", ".cpp", ".hpp")):
            continue
        with open(os.path.join(root, path), errors="replace") as stream:
            code = TEXTS.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), stream.read())
        for match in GENERATORS.finditer(code):
            line = code.count("\n", 0, match.start()) + 1
            wrong.append(f"{path}:{line}: take random numbers from support/random.h")
print("\n".join(wrong), end="\n" if wrong else "")
sys.exit(1 if wrong else 0)
