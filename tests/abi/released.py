#!/usr/bin/env python3
"""Compares the public headers with those of a released ABI version: what was released must still be there.

    released.py OLD NEW     two source trees; of each, sdk/include/inlay and tests/abi/layout.def are read

Allowed: new constants, new structs, structs that grow at the end, new functions, and a name for a reserved field. The
first field that was appended to a struct says since when it exists: "Since 1.N" in its comment.
"""
import re
import sys
from pathlib import Path

NEVER_GROW = ("inlay_str", "inlay_dim", "inlay_buffer", "inlay_fence", "inlay_tensor_view")
HEADERS = ("status.h", "types.h", "note.h", "host.h", "cost.h", "graph_view.h", "execution.h", "plugin.h",
           "extensions.h", "inlay.h")


def rows(tree):
    """The rows of layout.def: constants, sizes of structs, and fields by struct and offset."""
    text = (tree / "tests/abi/layout.def").read_text()
    values = dict(re.findall(r"^VALUE\((\w+), (.+)\)$", text, re.M))
    sizes = {name: int(size) for name, size in re.findall(r"^STRUCT\((\w+), (\d+)\)", text, re.M)}
    fields = {(struct, int(at)): (name, int(size))
              for struct, name, at, size in re.findall(r"^FIELD\((\w+), (\w+), (\d+), (\d+)\)", text, re.M)}
    if not values or not sizes or not fields:
        sys.exit(f"{tree}/tests/abi/layout.def cannot be read")
    return values, sizes, fields


def headers(tree):
    """The texts of the headers. A tree before the parts of plugin.h had files of their own lacks some of them."""
    paths = [tree / "sdk/include/inlay" / name for name in HEADERS]
    return [path.read_text() for path in paths if path.exists()]


def signatures(tree):
    """The types of functions (of the library, of members of structs, of callbacks), and texts of macros, by name."""
    found = {}
    for text in headers(tree):
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        found.update(re.findall(r'^#define (INLAY_\w+) ("[^"]+") *$', text, re.M))
        text = re.sub(r"^\s*#.*?(?<!\\)$", "", text, flags=re.M | re.S)
        text = re.sub(r"\bINLAY_(API|NODISCARD|EXPORT)\b", " ", text)
        text = " ".join(text.split())
        for result, name, arguments in re.findall(
                r"\b([\w ]+[ *]+)(inlay_\w+)\(([^(){};]*(?:\([^{};]*\)[^{};]*)?)\);", text):
            found[name] = f"{result.strip()} ({arguments})"
        for struct, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text):
            for result, name, arguments in re.findall(r"([\w ]+[ *]*)\(\*(\w+)\)\(((?:[^()]|\([^()]*\))*)\);", body):
                found[f"{struct}.{name}"] = f"{result.strip()} ({arguments})"
        for result, name, arguments in re.findall(r"typedef ([\w ]+[ *]*)\(\*(\w+)\)\(([^()]*)\);", text):
            found[name] = f"{result.strip()} ({arguments})"
    return found


def unmarked(tree, struct, last):
    """Whether the fields of the struct after the field `last` begin without "Since 1.N"."""
    for text in headers(tree):
        body = re.search(rf"typedef struct {struct} \{{(.*?)\n\}} {struct};", text, re.S)
        if body:
            code = re.sub(r"/\*.*?\*/", lambda comment: " " * len(comment.group(0)), body.group(1), flags=re.S)
            end = re.search(rf"\b{last}\b[^;]*;", code).end()
            appended = re.match(r"(?: */\*.*?\*/)?(.*?;)(.*)", body.group(1)[end:], re.S)
            return not re.search(r"[Ss]ince 1\.[0-9]", appended.group(1) + appended.group(2).split("\n")[0])
    return True


def compare(old, new):
    faults = []
    (old_values, old_sizes, old_fields), (new_values, new_sizes, new_fields) = rows(old), rows(new)
    for name, value in old_values.items():
        if new_values.get(name) != value:
            faults.append(f"constant {name} was {value}, and is {new_values.get(name)}")
    for struct, size in old_sizes.items():
        now = new_sizes.get(struct, 0)
        if now < size or (struct in NEVER_GROW and now != size):
            faults.append(f"struct {struct} had {size} bytes, and has {now}")
    for (struct, at), (name, size) in old_fields.items():
        now = new_fields.get((struct, at))
        if now is None or now[1] != size or (now[0] != name and not name.startswith("reserved")):
            faults.append(f"field {struct}.{name} was at {at} with {size} bytes; there is now {now}")
    for struct, size in old_sizes.items():
        names = [now[0] for (of, at), now in sorted(new_fields.items(), key=lambda row: row[0][1]) if of == struct]
        kept = sum(of == struct for of, _ in old_fields)
        if new_sizes.get(struct, 0) > size and kept < len(names) and unmarked(new, struct, names[kept - 1]):
            faults.append(f"field {struct}.{names[kept]} was appended, and its comment does not say since when")
    old_types, new_types = signatures(old), signatures(new)
    for name, text in old_types.items():
        if new_types.get(name) != text:
            faults.append(f"{name} was {text}, and is {new_types.get(name)}")
    if len(old_types) < 100:
        sys.exit(f"{old}/sdk/include: only {len(old_types)} functions were found")
    return faults, len(old_values) + len(old_fields) + len(old_types)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    faults, count = compare(Path(sys.argv[1]), Path(sys.argv[2]))
    for fault in faults:
        print(fault)
    print(f"{count} constants, fields and functions compared, {len(faults)} changed")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
