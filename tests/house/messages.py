#!/usr/bin/env python3
"""Messages that say "too many", "unknown" or "invalid" name the value or the limit.

  messages.py ROOT             one line for each string without a value; exit code 1 if there is one
  messages.py ROOT --planted   the same with a planted fault

A string has a value if it contains a conversion of printf or a digit. Texts that are no messages, or whose caller adds
the value, are listed in `messages` beside this script."""
import pathlib
import re
import sys

root, planted = pathlib.Path(sys.argv[1]), "--planted" in sys.argv[2:]
allowed = {line for line in (pathlib.Path(__file__).parent / "messages").read_text().splitlines()
           if line and not line.startswith("#")}
STRING = r'"((?:[^"\\]|\\.)*)"'
LITERAL = re.compile(rf"{STRING}(?:\s*(?:PRI\w+\s*)?{STRING})*")
VAGUE = re.compile(r"\b(too many|unknown|invalid)\b", re.I)


def sources():
    for folder in ("host", "ops", "providers", "sdk", "samples"):
        for suffix in ("c", "h", "hpp"):
            for path in sorted((root / folder).rglob("*." + suffix)):
                yield str(path.relative_to(root)), path.read_text(errors="replace")
    if planted:
        yield "planted.c", 'fail("too many "\n"things");'


found, used = [], set()
for name, text in sources():
    code = re.sub(r"/\*.*?\*/", lambda comment: re.sub(r"[^\n]", " ", comment.group(0)), text, flags=re.S)
    for literal in LITERAL.finditer(code):
        said = "".join(re.findall(STRING, literal.group(0)))
        if not VAGUE.search(said) or " " not in said.strip() or re.search(r"%|\d|PRI[a-zA-Z]", literal.group(0)):
            continue
        if said in allowed:
            used.add(said)
        else:
            found.append(f"{name}:{code.count(chr(10), 0, literal.start()) + 1}: which value, or which limit? {said}")
found += [f"tests/house/messages: no source contains '{text}'" for text in sorted(allowed - used)]
print("\n".join(found))
sys.exit(bool(found))
