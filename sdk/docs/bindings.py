"""Generates the reference of the bindings from their sources: comments of C++ and TypeScript, docstrings of Python, the
table of ONNX Runtime's interface."""
import ast
import pathlib
import re
import textwrap

# ------------------------------------------------------------------ C++


def without_bodies(text):
    """C++ without the bodies of functions and without private members: its declarations."""
    text = re.sub(r"\n *(?:private|protected):\n.*?(?=\n\};)", "", text, flags=re.S)
    out, at = "", 0
    while (brace := text.find("{", at)) >= 0:
        out += text[at:brace]
        head = re.split(r"[;}]|\n\s*\n|public:|//[^\n]*\n", out)[-1]
        at = brace + 1
        function = ")" in head and not re.search(r"\b(class|struct|enum|namespace)\b [\w:]+[^()]*$", head)
        if not function:
            out += "{"
            continue
        depth = 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        # The initializers of a constructor are no part of its declaration.
        out = out[:len(out) - len(head)] + re.sub(r"\)( noexcept)?\s+: .*", r")\1", head, flags=re.S).rstrip() + ";"
    return re.sub(r"\n\n(?=\};)", "\n", re.sub(r"\n{3,}", "\n\n", out + text[at:]))


def cpp_page(header):
    """The declarations of the header, by its sections."""
    text = header.read_text()
    about, text = re.match(r"((?://[^\n]*\n)+)(.*)", text, re.S).groups()
    text = without_bodies(re.sub(r"^#.*\n", "", text, flags=re.M))
    about = re.sub(r"^// ?", "", about, flags=re.M)
    out = ["# C++ API: inlay.hpp", "", about.split("\n\n", 1)[1].rstrip(), ""]
    for title, section in re.findall(r"// -{10,} ([^\n]*)\n(.*?)(?=// -{10,}|\Z)", text, re.S):
        section = re.sub(r"\n\} // namespace.*", "", section.strip(), flags=re.S)
        out += ["", "## " + title[0].upper() + title[1:], "", "```cpp", section, "```"]
    return "\n".join(out) + "\n"


# ------------------------------------------------------------------ Python


def signature(function, bound):
    """A function's parameters as the source states them, one line."""
    arguments = ast.unparse(function.args)
    arguments = re.sub(r"^(self|cls)(, )?", "", arguments) if bound else arguments
    result = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"{function.name}({arguments}){result}"


def members_of(node, name):
    """The documented public members of a class: methods, properties, fields."""
    out = []
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and (not item.name.startswith("_") or item.name == "__init__"):
            decorators = [ast.unparse(decorator) for decorator in item.decorator_list]
            if item.name == "__init__":
                head = signature(item, True).replace("__init__", name).split(" -> ")[0]
            elif "property" in decorators:
                head = item.name + (f": {ast.unparse(item.returns)}" if item.returns else "")
            else:
                head = signature(item, "staticmethod" not in decorators)
            out.append((head, ast.get_docstring(item) or ""))
        elif isinstance(item, ast.AnnAssign) and not ast.unparse(item.target).startswith("_"):
            out.append((ast.unparse(item), ""))
    return out


def described(text):
    """A docstring as Markdown; ``code`` and indented examples stay."""
    return re.sub(r"``([^`]+)``", r"`\1`", textwrap.dedent(text))


def python_page(package):
    """The names that `import inlay` has, in the order of `__all__`."""
    found = {}
    for path in sorted(package.glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                found.setdefault(node.name, node)
    module = ast.parse((package / "__init__.py").read_text())
    names = next(ast.literal_eval(node.value) for node in module.body
                 if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")
    out = ["# Python API: inlay", "", described(ast.get_docstring(module, clean=False)), ""]
    for name in names:
        node = found.get(name)
        if node is None:
            continue
        out += ["", f"## {name}", ""]
        if isinstance(node, ast.FunctionDef):
            out += ["```python", signature(node, False), "```", "", described(ast.get_docstring(node) or ""), ""]
            continue
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        out += ["```python", f"class {name}" + (f"({bases})" if bases else ""), "```", "",
                described(ast.get_docstring(node) or ""), ""]
        fields = [head for head, text in members_of(node, name) if not text]
        if fields:
            out += ["```python", *fields, "```", ""]
        for head, text in members_of(node, name):
            if text:
                out += ["```python", head, "```", "", described(text), ""]
    return "\n".join(out) + "\n"


# ------------------------------------------------------------------ Node


def typescript_page(title, *files):
    """The declarations of TypeScript files, each under its name. The first comment of the first file is the introduction."""
    parts = [re.match(r"((?://[^\n]*\n)+)(.*)", file.read_text(), re.S).groups() for file in files]
    out = ["# " + title, "", re.sub(r"^// ?", "", parts[0][0], flags=re.M), ""]
    for piece in (piece for _, text in parts
                  for piece in re.split(r"\n(?=\n(?:/\*\*.*?\*/\n)?export )", "\n" + text.strip(), flags=re.S)):
        piece = piece.strip()
        names = re.findall(r"^export (?:declare )?(?:abstract )?(?:class|interface|type|const|function|namespace) (\w+)", piece, re.M)
        if names:
            out += ["", "## " + ", ".join(names), "", "```typescript", piece, "```"]
    return "\n".join(out) + "\n"


# ------------------------------------------------------------------ ONNX Runtime's interface

STATES = {
    "WORKS": "behaves as in ONNX Runtime",
    "KEPT": "is stored and can be read back, without effect",
    "ACCEPTED": "succeeds without effect, since inlay has no counterpart; logged once",
    "NOTHING": "belongs to objects that cannot be created: returns NULL or 0",
    "NOT_BUILT": "returns ORT_FAIL, as a build without that execution provider",
    "REFUSED": "fails with the code of ONNX Runtime's build for CPUs",
}


def onnxruntime_page(tables):
    """The state of every entry of ONNX Runtime's C interface, on which its other languages are built."""
    out = ["# ONNX Runtime's API", "",
           "Each entry of `OrtApi` in inlay's `libonnxruntime.so.1`, in the order of the table. ONNX Runtime's interfaces for "
           "C++, C#, Java and Node call this table, so it says what a program in these languages can use; [programs for ONNX "
           "Runtime](guide-onnxruntime.md) says how to install it.", "", "| state | an entry in it |", "|---|---|"]
    out += [f"| {state} | {text} |" for state, text in STATES.items()]
    for title, path in tables:
        entries = re.findall(r"^ENTRY\((?:([A-Z_]+), )?[^,]+, (\w+),", re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S), re.M)
        entries = [(kind or "WORKS", name) for kind, name in entries]  # tables without states work completely
        counts = {state: sum(1 for kind, _ in entries if kind == state) for state in STATES}
        out += ["", f"## {title}", "", f"{len(entries)} entries: " +
                ", ".join(f"{count} {state}" for state, count in counts.items() if count) + ".", ""]
        for state in STATES:
            names = [f"`{name}`" for kind, name in entries if kind == state]
            if names:
                out += [f"### {title}: {state}", "", ", ".join(names), ""]
    return "\n".join(out) + "\n"


def pages(source):
    """All pages, by name."""
    bindings = pathlib.Path(source) / "sdk/bindings"
    ort = bindings / "onnxruntime"
    return {
        "api-cpp": cpp_page(bindings / "cpp/inlay/inlay.hpp"),
        "api-python": python_page(bindings / "python/inlay"),
        "api-node": typescript_page("Node API: index.d.ts", bindings / "node/index.d.ts", bindings / "node/common.d.ts"),
        "api-web": typescript_page("Web API: index.d.ts", bindings / "web/index.d.ts", bindings / "node/common.d.ts"),
        "api-onnxruntime": onnxruntime_page([("OrtApi", ort / "api.def"), ("OrtModelEditorApi", ort / "editor.def"),
                                             ("OrtCompileApi", ort / "compile.def")]),
    }
