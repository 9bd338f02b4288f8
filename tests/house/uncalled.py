"""Finds functions of the product that the product uses nowhere except in their definition and prototype.

    uncalled.py SOURCE_DIR [--planted]      --planted: a function is added that the check has to find

A name that only tests use counts as unused. Names that macros paste together (pass_##name) are not checked, nor are
functions that plugins or programs call (sdk/)."""
import collections
import pathlib
import re
import sys

FOLDERS = ("host", "providers", "ops")
USERS = (*FOLDERS, "sdk", "samples")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
WORD = re.compile(r"\b[A-Za-z_]\w*\b")
DEFINITION = re.compile(r"^(?!static|typedef|extern|return|else|#)[A-Za-z_][\w *]*?[ *](\w+)\([^;{]*?\)\s*\{", re.M)
PASTED = re.compile(r"\b(\w+_) ?##|## ?(_\w+)")
CODE = {".c", ".h", ".inc", ".def", ".cpp", ".hpp"}
SCRIPTS = {".cmake", ".txt", ".map", ".py", ".sh", ".in"}


def main():
    source = pathlib.Path(sys.argv[1])
    named, defined, starts, ends = collections.Counter(), {}, set(), set()
    for folder in USERS:
        for path in (source / folder).rglob("*"):
            if path.suffix not in CODE | SCRIPTS or not path.is_file():
                continue
            text = path.read_text(errors="replace")
            if path.suffix in CODE:
                text = COMMENT.sub(" ", text)
                for start, end in PASTED.findall(text):
                    (starts if start else ends).add(start or end)
            words = collections.Counter(WORD.findall(text))
            if path.suffix in (".h", ".hpp"):
                for word in words:
                    words[word] -= 1  # the prototype
            named.update(words)
            if path.suffix in (".c", ".inc") and folder in FOLDERS:
                defined.update((name, path) for name in DEFINITION.findall(text))
    if "--planted" in sys.argv:
        defined["planted"] = source / "host/planted.c"
        named["planted"] = 1
    found = [(path.relative_to(source), name) for name, path in defined.items()
             if named[name] <= 1 and not name.startswith(("inlay_", *starts))
             and not name.endswith(tuple(ends))]
    for path, name in sorted(found):
        print(f"{path}: nothing calls {name}()")
    return 1 if found or len(defined) < 1000 else 0


sys.exit(main())
