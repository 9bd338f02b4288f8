#!/usr/bin/env python3
"""Follows the recipes of README.md, "Contributing", in a copy of the tree with an example each, builds the copy and runs
what was added. A recipe names every file that it touches, and no more files than LIMIT are touched.

  recipes.py SOURCE_DIR WORK_DIR     the copy and its build stay in WORK_DIR, so that a second run builds what has changed"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(sys.argv[1]).resolve()
WORK = pathlib.Path(sys.argv[2]).resolve()
EXAMPLE = SOURCE / "tests/recipes/example"

# Recipe -> (most files, what is done to each: the name of an example to copy, or (a line that stays, the line
# behind it); None: a program writes it anew).
RECIPES = {
    "Add an operator.": (5, {
        "ops/inlay/clamped.c": "clamped_ops.c",
        "ops/ops.def": (r"TABLE\(inlay, attention\)", "TABLE(inlay, clamped)"),
        "providers/reference/clamped.c": "clamped_kernel.c",
        "providers/reference/kernels.def": (r"TABLE\(reduce\)", "TABLE(clamped)"),
        "ops/TYPES.md": None,
    }),
    "Add a pass.": (3, {
        "host/runtime/passes/relu_of_clamped.c": "relu_of_clamped.c",
        "host/runtime/passes/passes.def": (r"PASS\(1, no_op\)", "PASS(1, relu_of_clamped)"),
        "tests/graphs/near_misses.py": (r"PASSES_LEFT = \{", '    "relu_of_clamped": "an example",'),
    }),
    "Add a verb.": (3, {
        "host/tools/cli/cmd_greet.c": "cmd_greet.c",
        "host/tools/cli/verbs.def": (r"VERB\(run, .*", 'VERB(greet, "print a word")'),
        "tests/cli/verb_lines.py": (r"PLAIN = \{", '    "greet": "",'),
    }),
    "Add an option.": (2, {
        "host/runtime/config/options.def": (r'OPTION\(max_nodes, .*', 'OPTION(greeting, TEXT, "hello", 0, 0, "what inlay greet prints")'),
        "samples/inlay.yaml": (r"#isa: auto", "#greeting: hello"),
    }),
}


def fail(text):
    sys.exit(f"recipes: {text}")


def paragraph(name):
    """The recipe's text, in which names between angle brackets stand for those of the example."""
    readme = (SOURCE / "README.md").read_text()
    found = re.search(r"^\*\*" + re.escape(name) + r"\*\*.*?(?=^\n|\Z)", readme, re.M | re.S)
    return found.group(0) if found else fail(f"README.md has no recipe '{name}'")


def follow(name, limit, files, examples):
    """Adds the files of a recipe to examples, as they are afterwards."""
    text = paragraph(name)
    named = ["^" + re.sub(r"<\w+>", "[a-z_]+", re.escape(path).replace(r"\<", "<").replace(r"\>", ">")) + "$"
             for path in re.findall(r"`([^`\s]+/[^`\s]+)`", text)]
    if len(files) > limit:
        fail(f"'{name}' touches {len(files)} files, more than {limit}")
    for path, how in files.items():
        if not any(re.match(pattern, path) for pattern in named):
            fail(f"'{name}' does not name {path}")
        if how is None:
            continue
        if isinstance(how, str):
            if (SOURCE / path).exists():
                fail(f"{path} is there already")
            examples[path] = (EXAMPLE / how).read_bytes()
            continue
        line, behind = how
        after, count = re.subn(f"^({line})$", lambda m: m.group(1) + "\n" + behind, (SOURCE / path).read_text(), count=1,
                               flags=re.M)
        if count == 0:
            fail(f"{path} has no line like '{line}'")
        examples[path] = after.encode()


def run(*line, **how):
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **how)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, line))} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


def message(number, *parts):
    """A field of ONNX's messages: of bytes, or of an integer."""
    if isinstance(parts[0], int):
        return bytes([number << 3, parts[0]])
    body = b"".join(p.encode() if isinstance(p, str) else p for p in parts)
    return bytes([number << 3 | 2, len(body)]) + body


def model_bytes():
    """y = Neg(Relu(Clamped(x))), x of 3 floats."""
    def node(x, y, op_type="Clamped", domain="ai.inlay"):
        return message(1, message(1, x), message(2, y), message(3, y), message(4, op_type), message(7, domain))

    def tensor(field, name):
        shape = message(2, message(1, message(1, 3)))
        return message(field, message(1, name), message(2, message(1, message(1, 1), shape)))

    nodes = node("x", "m") + node("m", "n", "Relu", "") + node("n", "y", "Neg", "")
    graph = message(7, nodes, message(2, "g"), tensor(11, "x"), tensor(12, "y"))
    return message(1, 8) + graph + message(8, message(1, ""), message(2, 17)) + message(8, message(1, "ai.inlay"), message(2, 1))


def write_changed(path, data):
    """A file that stays as it is keeps its time."""
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def copy_tree(examples):
    """The tracked files, or all but builds where the source is no repository, with the examples among them."""
    listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "-co", "--exclude-standard"], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, check=False)
    names = set(listed.stdout.split("\n")) if listed.returncode == 0 else {
        str(p.relative_to(SOURCE)) for p in SOURCE.rglob("*") if p.is_file() and "build" not in p.relative_to(SOURCE).parts}
    tree = WORK / "tree"
    wanted = {name: (SOURCE / name).read_bytes() for name in names if name and (SOURCE / name).is_file()} | examples
    for old in list(tree.rglob("*")):
        if old.is_file() and str(old.relative_to(tree)) not in wanted:
            old.unlink()
    for name, data in wanted.items():
        write_changed(tree / name, data)
    for name in wanted:
        if os.access(SOURCE / name, os.X_OK):
            (tree / name).chmod(0o755)
    return tree


def main():
    examples = {}
    for name, (limit, files) in RECIPES.items():
        follow(name, limit, files, examples)
    tree, build = copy_tree(examples), WORK / "build"
    launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    # The example is built once and runs for a second: nothing is optimised.
    run("cmake", "-S", tree, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-O0", "-DINLAY_WERROR=OFF",
        *[f"-DINLAY_{part}=OFF" for part in "TESTS SAMPLES ONEDNN OPENBLAS VULKAN ONNXRUNTIME NODE SERVE".split()], *launcher)
    run("cmake", "--build", build, "-j", str(os.cpu_count()), "--target", "inlay_cli", "reference")
    inlay, model = build / "bin/inlay", WORK / "model.onnx"
    model.write_bytes(model_bytes())
    environment = dict(os.environ, INLAY_CACHE_DIR="", INLAY_PROVIDERS="reference")
    if run(inlay, "greet", env=environment) != "hello\n" or run(inlay, "greet", "--greeting", "hi", env=environment) != "hi\n":
        fail("inlay greet does not print the option greeting")
    run("bash", tree / "tests/ops/types.sh", inlay, tree / "ops/TYPES.md", "--write", env=environment)
    if "Clamped" not in (tree / "ops/TYPES.md").read_text():
        fail("types.sh --write does not list Clamped")
    if "relu_of_clamped" not in run(inlay, "optimize", model, "-o", WORK / "out.onnx", "--explain", env=environment):
        fail("inlay optimize --explain does not have relu_of_clamped")
    printed = run(inlay, "run", model, "--input", "x=random", "--json", env=environment)
    if '"y"' not in printed:
        fail(f"inlay run printed {printed}")
    print(f"{len(RECIPES)} recipes")


main()
