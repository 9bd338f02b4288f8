#!/usr/bin/env python3
"""Lines of sources have at most 120 columns, no comment is a banner, and shell scripts can be called by their names.

  form.py SOURCE_DIR              prints each fault; exit code 1 if there is one
  form.py SOURCE_DIR --planted    the same for a planted file"""
import os
import pathlib
import re
import sys

COLUMNS = 120
FOLDERS = ("host", "ops", "providers", "samples", "sdk", "tests")


def faults_of(text):
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > COLUMNS:
            yield number, f"{len(line)} columns; at most {COLUMNS} are allowed"
        if re.match(r"\s*(/\*|//) ?[-=*]{5,}", line):
            yield number, "a banner comment"


def is_not_callable(text, executable):
    return text.startswith("#!") and not executable


root = pathlib.Path(sys.argv[1])
if "--planted" in sys.argv:
    files = {"planted.c": f"/* {'-' * 20} part */\nint x;{' ' * COLUMNS}\n"}
    scripts = {"planted.sh": ("#!/bin/sh\n", False)}
else:
    scripts = {str(path.relative_to(root)): (path.read_text(), os.access(path, os.X_OK))
               for folder in FOLDERS for path in sorted((root / folder).rglob("*.sh"))}
    files = {str(path.relative_to(root)): path.read_text() for folder in FOLDERS for path in sorted((root / folder).rglob("*"))
             if path.suffix in (".c", ".h", ".inc", ".def") and path.is_file()}
wrong = [f"{name}:{number}: {fault}" for name, text in files.items() for number, fault in faults_of(text)]
wrong += [f"{name}:1: has #!, but is not executable" for name, script in scripts.items() if is_not_callable(*script)]
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
