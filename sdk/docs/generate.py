"""Generates pages: verbs, options, providers, operators, the interfaces of C and of the bindings, and the READMEs.

    generate.py INLAY OUT"""
import json
import os
import pathlib
import re
import subprocess
import sys

import bindings
import contents

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent

# Headers of the reference, with the page's name and title.
HEADERS = [
    ("inlay.h", "api", "C API: inlay.h"),
    ("types.h", "api-types", "Types: types.h"),
    ("status.h", "api-status", "Failures: status.h"),
    ("plugin.h", "abi", "Plugin ABI: plugin.h"),
    ("graph_view.h", "abi-graph", "Graphs and operators: graph_view.h"),
    ("host.h", "abi-host", "Functions of the host: host.h"),
    ("cost.h", "abi-cost", "Refusals and prices: cost.h"),
    ("execution.h", "abi-execution", "Compiled regions and their runs: execution.h"),
    ("kit.h", "kit", "Kit for plugins: kit.h"),
    ("kit_table.h", "kit_table", "Kernels for the kit: kit_table.h"),
    ("kit_node.h", "kit_node", "Nodes that kernels see: kit_node.h"),
    ("kit_call.h", "kit_call", "Runs of kernels: kit_call.h"),
    ("kit_shapes.h", "kit_shapes", "Attributes, windows and axes: kit_shapes.h"),
    ("kit_group.h", "kit_group", "Groups of nodes: kit_group.h"),
    ("kit_region.h", "kit_region", "Kit for providers that compile regions: kit_region.h"),
    ("extensions.h", "extensions", "Extensions: extensions.h"),
]


def run(*command):
    environment = dict(os.environ, COLUMNS="1000") # do not wrap lines
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def escape(text):
    """Escapes text for Markdown. Names of the interface and what is in backquotes become code."""
    pieces = re.split(r"(`[^`|]+`)", text)
    return "".join(piece if i % 2 else escape_plain(piece) for i, piece in enumerate(pieces))


def escape_plain(text):
    text = re.sub(r"([\\`*_<>|\[\]])", r"\\\1", text)
    return re.sub(r"(?:inlay|INLAY)(?:\\_\w+)+(?:\\_?\*|\(\))?", lambda m: "`" + m.group().replace("\\", "") + "`", text)


# ------------------------------------------------------------------ verbs and options


def flags(inlay):
    """Rows of flags.sh, as lists: verb, summary, group, flag, short form, argument, text."""
    script = SOURCE / "sdk" / "packaging" / "flags.sh"
    return [line.split("\t") for line in run("sh", str(script), inlay).splitlines()]


def flag_text(row):
    name = ", ".join(filter(None, [row[4], row[3] + row[5]]))
    return f"| `{name}` | {escape(row[6])} |".replace("`" + name + "`", "`` " + name.replace("|", "\\|") + " ``")


def prose_of(help_text):
    """Returns the lines of --help-all before and after the flags."""
    lines = help_text.splitlines()
    first = next(i for i, line in enumerate(lines) if i > 0 and re.match(r"(Common |Session )?[Oo]ptions\b.*:$", line))
    last = max(i for i, line in enumerate(lines) if re.match(r" +(-., )?--", line))
    before, after = lines[1:first], lines[last + 1:]
    while after and after[0].startswith("   "):  # the rest of the last flag
        after.pop(0)
    return before, after


def markdown_of(lines):
    """Paragraphs; indented lines are code."""
    out = []
    for line in lines:
        if line.startswith("  "):
            out.append("    " + line.strip())
        elif line:
            out += ["", escape(line), ""]
    return out


def verbs_page(inlay, rows):
    out = ["# Verbs", "", "Every verb has `--help` and `--json`, and takes the [options of the library](options.md) as "
           "flags unless it says otherwise. The exit code states the kind of failure:", ""]
    out += ["    " + line for line in run(inlay, "help", "exit-codes").splitlines()]
    for head in (row for row in rows if row[3] == ""):
        verb = head[0]
        before, after = prose_of(run(inlay, verb, "--help-all"))
        own = [row for row in rows if row[0] == verb and row[2] == "own" and row[3] not in ("", "--help", "--help-all", "--usage")]
        out += ["", f"## inlay {verb}", "", escape(head[1][0].upper() + head[1][1:]) + ".", "",
                f"    inlay {verb} [OPTION...] {head[5]}".rstrip(), ""]
        out += markdown_of(before)
        if own:
            out += ["", "| flag | meaning |", "|---|---|"] + [flag_text(row) for row in own]
        out += [""] + markdown_of(after)
    return "\n".join(out) + "\n"


def options_page(rows):
    out = ["# Options", "", "One name everywhere: `--intra-threads 2` on the command line, `INLAY_INTRA_THREADS=2` in the "
           "environment, `intra_threads: 2` in `inlay.yaml`, `inlay_options_set(options, \"intra_threads\", \"2\", &diag)` "
           "in C, `intra_threads=2` in Python. `inlay config` shows each value and where it comes from.", "",
           "| option | value | meaning |", "|---|---|---|"]
    for row in rows:
        if row[0] == "run" and row[2] == "session" and row[5] and row[3] not in ("--config", "--option"):
            out.append(f"| `{row[3][2:].replace('-', '_')}` | `` {row[5].strip('[=]').replace('|', chr(92) + '|')} `` | "
                       f"{escape(row[6])} |")
    return "\n".join(out) + "\n"


def providers_page(inlay):
    """Each provider with its options, and the operators that plugins define."""
    listed = json.loads(run(inlay, "providers", "--options", "--no-config", "--plugin-dirs", "", "--json"))
    out = ["# Providers and their options", "", "The providers of the build that generated this page. An option is set as "
           "`--option NAME.OPTION=VALUE`; `inlay providers --options` lists those of an installation.", ""]
    for provider in listed["providers"]:
        out += ["", f"## {provider['name']}", "", f"On {provider['device']}: {escape(provider['description'])}.", ""]
        if provider["options"]:
            out += ["| option | values | default | meaning |", "|---|---|---|---|"]
        for option in provider["options"]:
            values = escape((option["choices"] or option["kind"]).replace("|", ", "))
            default = f"`{option['default']}`" if option["default"] else ""
            out.append(f"| `{option['name']}` | {values} | {default} | {escape(option['doc'])} |")
    out += ["", "## Operators that plugins define", "", "Inputs `->` outputs; the types; the attributes with their types and "
            "defaults, in the notation of [plugin.h](abi.md).", "", "| operator | domains | meaning |", "|---|---|---|"]
    same = {}  # operators of several domains are listed once
    for operator in listed["operators"]:
        key = operator["operator"], operator["signature"], operator["doc"]
        same.setdefault(key, []).append(operator["domain"])
    for (name, form, doc), domains in same.items():
        out.append(f"| `{name}` | {', '.join(domains)} | `` {form.replace('|', chr(92) + '|')} ``: {escape(doc)} |")
    return "\n".join(out) + "\n"


def types_page(inlay):
    """Operators with their versions, and the types that each provider runs, by domain."""
    heads, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in
                       run(inlay, "providers", "--types", "--no-config", "--plugin-dirs", "").splitlines() if line]
    out = ["# Supported operators, types and opsets", "", "For each operator: the opset versions in which it changed, the types "
           "that it is defined for, and the types that each provider of this build runs. A model of any opset is accepted: the "
           "version of an operator is the last one that is not above the model's opset.", "", "`inlay check MODEL` reports "
           "operators that no provider runs, and `inlay providers --types` prints this table for an installation."]
    domain = None
    for cells in rows:
        row = dict(zip(heads, cells))
        prefix, _, name = row["operator"].rpartition(".")
        if prefix != domain:
            domain = prefix
            out += ["", "## " + (f"Operators of {domain}" if domain else "Operators of ONNX"), "",
                    "| operator | since | types | run by |", "|---|---|---|---|"]
        by_types = {}
        for provider in heads[3:-1]:
            if row[provider] != "-":
                by_types.setdefault(row[provider], []).append(provider)
        runs = [f"**{', '.join(names)}**: {types}" for types, names in by_types.items()]
        if row[heads[-1]]:
            runs.append(f"no provider: {escape(row[heads[-1]])}")
        out.append(f"| `{name}` | {row['since']} | {row['types']} | {'; '.join(runs)} |")
    return "\n".join(out) + "\n"


# ------------------------------------------------------------------ headers


def comment_text(comment):
    """Converts the text of a comment to Markdown: paragraphs and lists; other indented lines stay unchanged."""
    lines = re.sub(r"^/\*\s?|\s*\*/$", "", comment.strip()).split("\n")
    lines = [re.sub(r"^\s*\* ?", "", line) if i else line for i, line in enumerate(lines)]
    out, code, item = [], False, None
    for line in lines:
        bullet = re.match(r" *- ", line)
        if bullet and (code is False or item is not None):  # an item of a list, with its further lines
            out += [""] if item is None else []
            out.append("- " + escape(line[bullet.end():]))
            item, code = bullet.end(), False
            continue
        if item is not None and line.startswith(" " * item):
            out.append("  " + escape(line.strip()))
            continue
        if item is not None and line:
            out.append("")
        item = None if line else item
        if line.startswith("  "):
            if not code:
                out.append("")
            out.append("    " + line)
        else:
            if code and line:
                out.append("")
            out.append(escape(line))
        code = line.startswith("  ")
    return "\n".join(out)


def names_in(code):
    """Returns the names that a piece of code declares, in its order."""
    code = re.sub(r"/\*.*?\*/", "", code, flags=re.S)
    found = []
    depth = 0
    for line in code.split("\n"):
        if depth == 0:
            for pattern in (r"\b((?:inlay|INLAY|kit)\w*)\(", r"^#define (INLAY_\w+)", r"^typedef .*?\b(inlay_\w+)(?:;| \{)",
                            r"^typedef .*\(\*(inlay_\w+)\)", r"\bstatic inline .*?\b(\w+)\("):
                found += re.findall(pattern, line)
        depth += line.count("{") - line.count("}")
    skip = {"INLAY_NODISCARD", "INLAY_API", "INLAY_PRINTF"}
    return [name for name in dict.fromkeys(found) if name not in skip]


def blocks(text):
    """Splits a header into ("ruler", title, comment), ("text", comment) and ("code", code)."""
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n?", "", text, flags=re.S)
    text = re.sub(r"^#(?:ifndef|define) INLAY_\w+_H\n|^#include .*\n", "", text, flags=re.M)
    for piece in re.split(r"\n\s*\n", text):
        piece = piece.strip("\n")
        comment = re.match(r"/\*.*?\*/", piece, re.S)
        if comment and re.match(r"/\* -{20,}", piece):
            title, _, rest = comment.group()[2:-2].strip(" -").partition("\n")
            yield "ruler", title.strip(), "/*" + rest + "*/" if rest.strip() else ""
            piece = piece[comment.end():].strip("\n")
            comment = re.match(r"/\*.*?\*/", piece, re.S)
        if comment and not piece[comment.end():].startswith(" "):
            yield "text", comment.group()
            piece = piece[comment.end():].strip("\n")
        if piece and piece != "#endif":
            yield "code", piece


def header_page(name, title):
    out = [f"# {title}", "", f"    #include <inlay/{name}>", ""]
    text, pending, level = (SOURCE / "sdk/include/inlay" / name).read_text(), [], "##"
    for kind, *parts in blocks(text):
        if kind == "ruler":
            level = "###"
            declared = "_" in parts[0].split()[0]  # the title is the name of a declaration
            out += pending + ["", "## " + (parts[0] if declared else parts[0][0].upper() + parts[0][1:]), ""]
            pending = [comment_text(parts[1]), ""] if parts[1] else []
        elif kind == "text":
            pending += [comment_text(parts[0]), ""]
        else:
            names = names_in(parts[0])
            if names:
                out += ["", f"{level} " + ", ".join(names[:4]) + (" ..." if len(names) > 4 else ""), ""]
            # The \ of a macro's lines are aligned at column 120, which no screen of a page has.
            out += pending + ["", "```c", re.sub(r" {2,}\\$", r" \\", parts[0], flags=re.M), "```", ""]
            pending = []
    return "\n".join(out + pending) + "\n"


def main():
    inlay, out = sys.argv[1], pathlib.Path(sys.argv[2])
    rows = flags(inlay)
    (out / "verbs.md").write_text(verbs_page(inlay, rows))
    (out / "options.md").write_text(options_page(rows))
    (out / "providers.md").write_text(providers_page(inlay))
    for name, page, title in HEADERS:
        (out / f"{page}.md").write_text(header_page(name, title))
    (out / "types.md").write_text(types_page(inlay))
    for name, text in bindings.pages(SOURCE).items():
        (out / f"{name}.md").write_text(text)
    for page, path in contents.READMES.items():
        (out / f"{page}.md").write_text((SOURCE / path).read_text())


main()
