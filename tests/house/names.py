#!/usr/bin/env python3
"""Checks names in C: no replaced name (renames), and structs of one word without typedef, so that variables may use it.

  names.py ROOT   one line for each mistake; exit code 1 if there is one"""
import os
import re
import sys

root = sys.argv[1]
here = os.path.dirname(os.path.abspath(__file__))
ROOMS = ("host", "providers", "ops", "sdk", "tests")
TEXTS = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.S)

old = {}
with open(os.path.join(here, "renames")) as stream:
    for line in stream:
        words = line.split("#")[0].split()
        if words:
            old[words[0]] = words[1]
exact = {name: new for name, new in old.items() if not name.endswith("*")}
begins = {name[:-1]: new for name, new in old.items() if name.endswith("*")}


def instead_of(name):
    """Returns the name that replaced this one, or None."""
    if name in exact:
        return exact[name]
    head = name[: name.find("_") + 1]
    return begins[head][:-1] + name[len(head) :] if head in begins else None


wrong = []
for room in ROOMS:
    for folder, _, files in os.walk(os.path.join(root, room)):
        for file in sorted(files):
            path = os.path.relpath(os.path.join(folder, file), root)
            if not file.endswith((".c", ".h", ".inc", ".def")) or path.startswith("sdk/abi/"):
                continue
            with open(os.path.join(folder, file), errors="replace") as stream:
                code = TEXTS.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), stream.read())
            for match in re.finditer(r"(?<![\w.>])[A-Za-z]\w*", code):
                new = instead_of(match.group())
                if new:
                    line = code.count("\n", 0, match.start()) + 1
                    wrong.append(f"{path}:{line}: {match.group()} is called {new} today")
            for match in re.finditer(r"^typedef struct ([a-z0-9]+) \1;|^typedef struct(?: \w+)? \{.*?^\} ([a-z0-9]+);", code, re.M | re.S):
                line = code.count("\n", 0, match.start()) + 1
                wrong.append(f"{path}:{line}: write struct {match[1] or match[2]} without a typedef, for variables of that name")
print("\n".join(wrong), end="\n" if wrong else "")
sys.exit(1 if wrong else 0)
