#!/usr/bin/env python3
"""Compares the table of OrtEpApi in the README of provider ort_ep with the functions that the plug-in defines.
    table.py README EP_DEF PLUGIN
A function NAME is implemented if the plug-in has a function ort_NAME (providers/ort_ep/tables.c)."""
import re
import subprocess
import sys


def names_of(cell, names):
    """The functions of a cell: `NAME`, `_SUFFIX` with the class of the name before, `PREFIX*`."""
    found, prefix = [], ""
    for text in re.findall(r"`([^`]+)`", cell):
        if text.startswith("_"):
            text = prefix + text
        prefix = text.split("_")[0]
        if not text.endswith("*"):
            assert text in names, f"the README names {text}, which OrtEpApi does not have"
        found.append(text)
    return found


def main():
    readme, ep_def, plugin = sys.argv[1:]
    with open(ep_def) as file:
        names = re.findall(r"^ENTRY\([^,]+, (\w+),", file.read(), re.M)
    symbols = subprocess.run(["nm", plugin], capture_output=True, text=True, check=True).stdout
    defined = set(re.findall(r" [tT] ort_(\w+)$", symbols, re.M))
    with open(readme) as file:
        text = file.read()
    rows = re.findall(r"^\| (`.*?) \| ([ckv ]*) ?\| (implemented|refuses?)\b.*\|$", text, re.M)
    listed = {}
    for wild in (False, True):  # a name counts more than a pattern
        for cell, _, state in rows:
            for name in names_of(cell, names):
                matches = [n for n in names if n.startswith(name[:-1])] if name.endswith("*") else [name]
                for match in matches if name.endswith("*") == wild else []:
                    assert wild or match not in listed, f"two rows have {match}"
                    listed.setdefault(match, state == "implemented")
    wrong = [n for n in names if listed.get(n) != (n in defined)]
    assert not wrong, f"the README is wrong about {', '.join(wrong)}"
    count = sum(n in defined for n in names)
    line = f"Of its {len(names)} functions, {count} are implemented and {len(names) - count} refuse."
    assert line in text, f"the README does not say: {line}"
    print(line)


main()
