#!/usr/bin/env python3
"""Follows the recipes of sdk/docs/pages/contributing.md in a copy of the tree with an example each, builds the copy and
runs the additions. A recipe must name every file that it touches, and touch at most LIMIT files.

  recipes.py SOURCE_DIR WORK_DIR BUILD_DIR     the copy and its build stay in WORK_DIR, so that a second run builds what has
                                               changed; BUILD_DIR is a build of the sources, and its objects are used where
                                               the same command would make the same"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(sys.argv[1]).resolve()
PAGE = "sdk/docs/pages/contributing.md"
WORK = pathlib.Path(sys.argv[2]).resolve()
BUILD = pathlib.Path(sys.argv[3]).resolve()
TREE = WORK / "tree"
LISTS = WORK / "reusable"
EXAMPLE = SOURCE / "tests/recipes/example"

# Recipe -> (maximum number of files, the change of each: the name of an example to copy, "FILE: from > to", a file of
# the tree with another name in it, or pairs of an existing line and the lines to insert after it).
RECIPES = {
    "Add an operator.": (4, {
        "ops/inlay/clamped.c": "clamped_ops.c",
        "ops/ops.def": [(r"TABLE\(inlay, attention\)", "TABLE(inlay, clamped)")],
        "providers/reference/clamped.c": "clamped_kernel.c",
        "providers/reference/kernels.def": [(r"TABLE\(training\)", "TABLE(clamped)")],
    }),
    "Add a fast kernel for one level.": (6, {
        "providers/simd/clamp_row.c": "clamp_row.c",
        "providers/simd/clamp_row.h": "clamp_row.h",
        "providers/simd/CMakeLists.txt": [
            (r"kernel_instances\(simd .*",
             'if("avx2" IN_LIST KERNEL_LEVELS)\n  kernel_instance(simd avx2 avx2 clamp_row.c)\nendif()')],
        "providers/reference/clamped.c": [
            (r'#include "operators/operators.h"', '#include "simd/clamp_row.h"'),
            (r"    float \*y = call->out.*", "\n    if (clamp_row(x, y, call->out[0].count))\n        return INLAY_OK;")],
        "tests/kernels/test_clamp_row.c": "test_clamp_row.c",
        "tests/kernels/CMakeLists.txt": [
            (r"target_link_libraries\(test_kernel_rows .*",
             "inlay_test(kernel_clamp_row test_clamp_row.c)\ntarget_link_libraries(test_kernel_clamp_row PRIVATE simd)")],
    }),
    "Add an operator to the region compiler.": (5, {
        "providers/cpu/elementwise/sine.c": "sine_family.c",
        "providers/cpu/region/operators.def": [(r'X\("Pow", .*', 'X("Sin", 7, 22, cpu_sine, 1)')],
        "tests/cpu/test_sine.c": "test_sine.c",
        "tests/cpu/CMakeLists.txt": [
            (r"target_link_libraries\(test_cpu_regions .*",
             "inlay_test(cpu_sine test_sine.c)\nadd_dependencies(test_cpu_sine cpu reference)")],
    }),
    "Add a provider.": (3, {
        "providers/mine/mine.c": "samples/provider_skeleton/skeleton.c: skeleton > mine",
        "providers/mine/CMakeLists.txt": "samples/provider_skeleton/CMakeLists.txt: skeleton > mine",
        "providers/CMakeLists.txt": [(r"add_subdirectory\(simd\)", "add_subdirectory(mine)")],
    }),
    "Add a rewrite.": (2, {
        "host/runtime/passes/rules/fusions.rules": [(r"pass swish .*", "Abs(r:Sigmoid(x)) -> r")],
        "tests/passes/test_rewrites.c": [
            (r'        \{ "x / 4", .*', '        { "abs", "x : 2,3\\na = Sigmoid(x)\\ny = Abs(a)\\n-> y", "Sigmoid", 0 },')],
    }),
    "Add a pass.": (3, {
        "host/runtime/passes/relu_of_clamped.c": "relu_of_clamped.c",
        "host/runtime/passes/passes.def": [(r"REWRITE\(1, no_op\)", "REWRITE(1, relu_of_clamped)")],
        "tests/graphs/near_misses.py": [(r"PASSES_LEFT = \{", '    "relu_of_clamped": "an example",')],
    }),
    "Add a verb.": (3, {
        "host/tools/cli/cmd_greet.c": "cmd_greet.c",
        "host/tools/cli/verbs.def": [(r"VERB\(run, .*", 'VERB(greet, "print a word")')],
        "tests/cli/verb_lines.py": [(r"PLAIN = \{", '    "greet": "",')],
    }),
    "Add an option.": (2, {
        "host/runtime/config/options.def": [
            (r'OPTION\(no_cpu, .*', 'OPTION(greeting, TEXT, "hello", 0, 0, "what inlay greet prints")')],
        "samples/inlay.yaml": [(r"#isa: auto", "#greeting: hello")],
    }),
}


def fail(text):
    sys.exit(f"recipes: {text}")


def paragraph(name):
    """Returns the recipe's text, with the example's names for those in angle brackets."""
    recipes = (SOURCE / PAGE).read_text()
    found = re.search(r"^\*\*" + re.escape(name) + r"\*\*.*?(?=^\n|\Z)", recipes, re.M | re.S)
    return found.group(0) if found else fail(f"{PAGE} has no recipe '{name}'")


def follow(name, limit, files, examples):
    """Adds the changed files of a recipe to `examples`."""
    text = paragraph(name)
    named = ["^" + re.sub(r"<\w+>", "[a-z_]+", re.escape(path).replace(r"\<", "<").replace(r"\>", ">")) + "$"
             for path in re.findall(r"`([^`\s]+/[^`\s]+)`", text)]
    if len(files) > limit:
        fail(f"'{name}' touches {len(files)} files, more than {limit}")
    for path, how in files.items():
        if not any(re.match(pattern, path) for pattern in named):
            fail(f"'{name}' does not name {path}")
        if isinstance(how, str):
            if (SOURCE / path).exists():
                fail(f"{path} exists already")
            examples[path] = example(how)
            continue
        after = examples[path].decode() if path in examples else (SOURCE / path).read_text()
        for line, behind in how:
            after, count = re.subn(f"^({line})$", lambda m, more=behind: m.group(1) + "\n" + more, after, count=1, flags=re.M)
            if count == 0:
                fail(f"{path} has no line like '{line}'")
        examples[path] = after.encode()


def example(how):
    """Returns the content of a new file: an example, or a file of the tree with another name in it."""
    copied = re.fullmatch(r"(\S+): (\w+) > (\w+)", how)
    if not copied:
        return (EXAMPLE / how).read_bytes()
    return (SOURCE / copied.group(1)).read_text().replace(copied.group(2), copied.group(3)).encode()


def run(*line, **how):
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **how)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, line))} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


def message(number, *parts):
    """Encodes a field of an ONNX message: bytes, or an integer."""
    if isinstance(parts[0], int):
        return bytes([number << 3, parts[0]])
    body = b"".join(p.encode() if isinstance(p, str) else p for p in parts)
    return bytes([number << 3 | 2, len(body)]) + body


def model_bytes(*operators):
    """Writes a chain of operators, x of [1, 3] floats."""
    def node(x, y, op_type):
        domain = "ai.inlay" if op_type == "Clamped" else ""
        return message(1, message(1, x), message(2, y), message(3, y), message(4, op_type), message(7, domain))

    def tensor(field, name):
        shape = message(2, message(1, message(1, 1)), message(1, message(1, 3)))
        return message(field, message(1, name), message(2, message(1, message(1, 1), shape)))

    names = ["x", *"abcdefg"[:len(operators) - 1], "y"]
    nodes = b"".join(node(names[i], names[i + 1], op_type) for i, op_type in enumerate(operators))
    graph = message(7, nodes, message(2, "g"), tensor(11, "x"), tensor(12, "y"))
    return message(1, 8) + graph + message(8, message(1, ""), message(2, 17)) + message(8, message(1, "ai.inlay"), message(2, 1))


def write_changed(path, data):
    """Writes a file; an unchanged file keeps its time."""
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def copy_tree(examples):
    """Lists the tracked files, or all except builds if the source is no repository, including the examples."""
    listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "-co", "--exclude-standard"], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, check=False) if shutil.which("git") else None
    names = set(listed.stdout.split("\n")) if listed is not None and listed.returncode == 0 else {
        str(p.relative_to(SOURCE)) for p in SOURCE.rglob("*") if p.is_file() and "build" not in p.relative_to(SOURCE).parts}
    wanted = {name: (SOURCE / name).read_bytes() for name in names if name and (SOURCE / name).is_file()} | examples
    for folder, _, files in os.walk(TREE):
        for name in files:
            if os.path.relpath(os.path.join(folder, name), TREE) not in wanted:
                os.unlink(os.path.join(folder, name))
    for name, data in wanted.items():
        write_changed(TREE / name, data)
        if os.access(SOURCE / name, os.X_OK):
            (TREE / name).chmod(0o755)


def variables_of_build():
    """Returns the CMake variables that determine the compiler's commands."""
    lines = (BUILD / "CMakeCache.txt").read_text().split("\n")
    cache = {m.group(1): m.group(2) for m in (re.match(r"(\w+):\w+=(.*)", line) for line in lines) if m}
    kind = cache.get("CMAKE_BUILD_TYPE", "")
    names = ["CMAKE_C_COMPILER", "CMAKE_BUILD_TYPE", "CMAKE_C_FLAGS", "CMAKE_C_FLAGS_" + kind.upper(), "INLAY_WERROR",
             "INLAY_QUICK", "INLAY_CHECKS"]
    return {name: cache[name] for name in names if name in cache}


def commands(build, compiler):
    """Maps each object to the compiler's command, without a launcher."""
    database = json.loads(run("ninja", "-t", "compdb", cwd=build))
    return {step["output"]: step["command"][step["command"].index(compiler + " "):] for step in database
            if step["output"].endswith(".o") and compiler + " " in step["command"]}


def dependencies(build):
    """Maps each object to its dependencies."""
    of = {}
    for block in run("ninja", "-t", "deps", cwd=build).split("\n\n"):
        first, *files = block.split("\n")
        if first.endswith("(VALID)"):
            of[first.partition(": #")[0]] = [os.path.normpath(build / name.strip()) for name in files]
    return of


def in_copy(text, build):
    """Replaces paths by those of the copy and of its build."""
    places = {str(BUILD): str(build), str(SOURCE): str(TREE)}
    return re.sub("|".join(map(re.escape, places)), lambda m: places[m.group(0)], text)


def list_reusable(examples, build, compiler):
    """Lists for reuse.sh the objects of BUILD that the copy's compiler would reproduce."""
    shutil.rmtree(LISTS, ignore_errors=True)
    LISTS.mkdir(parents=True)
    ours, made_of, count = commands(build, compiler), dependencies(BUILD), 0
    touched = {str(SOURCE / name) for name in examples}
    for out, command in commands(BUILD, compiler).items():
        files = made_of.get(out, [])
        if not files or in_copy(command, build) != ours.get(out):
            continue
        made = (BUILD / out).stat().st_mtime_ns
        if any(name in touched or not os.path.exists(name) or os.stat(name).st_mtime_ns > made for name in files):
            continue
        generated = [os.path.relpath(name, BUILD) for name in files if name.startswith(f"{BUILD}/")]
        (LISTS / out).parent.mkdir(parents=True, exist_ok=True)
        (LISTS / out).write_text("".join(name + "\n" for name in generated))
        (LISTS / (out + ".d")).write_text(f"{out}: {in_copy(' '.join(files), build)}\n")
        count += 1
    return count


def check_operator_and_pass(inlay, environment):
    model = WORK / "model.onnx"
    model.write_bytes(model_bytes("Clamped", "Relu", "Neg"))
    if "| ai.inlay.Clamped | 1 | f32 | all |" not in run(inlay, "providers", "--types", env=environment).replace("| - ", ""):
        fail("inlay providers --types does not list Clamped")
    if "relu_of_clamped" not in run(inlay, "optimize", model, "-o", WORK / "out.onnx", "--explain", env=environment):
        fail("inlay optimize --explain does not have relu_of_clamped")
    printed = [run(inlay, "run", model, "--input", "x=random", "--isa", isa, "--json", env=environment)
               for isa in ("auto", "baseline")]
    values = [re.findall(r'"values":[^]]*', text) for text in printed]
    if '"y"' not in printed[0] or not values[0] or values[0] != values[1]:
        fail(f"inlay run printed {printed}")
    return model


def check_region(inlay, environment):
    """Sin is a part of a region of cpu with its neighbours; by the operators outside of regions it would be separate."""
    model = WORK / "sine.onnx"
    model.write_bytes(model_bytes("Relu", "Sin", "Neg"))
    explained = run(inlay, "explain", model, "--providers", "cpu,reference", "--policy", "priority", "--level", "0",
                    env=dict(environment, INLAY_PROVIDERS="cpu,reference"))
    if "in 1 region\n" not in explained:
        fail(f"Sin is not in a region of provider cpu:\n{explained}")


def main():
    examples = {}
    for name, (limit, files) in RECIPES.items():
        follow(name, limit, files, examples)
    build, variables = WORK / "build", variables_of_build()
    copy_tree(examples)
    variables |= {f"INLAY_{part}": "OFF" for part in "SAMPLES ONEDNN OPENBLAS VULKAN ONNXRUNTIME NODE SERVE".split()}
    variables["INLAY_TESTS"] = "ON"
    variables["CMAKE_C_COMPILER_LAUNCHER"] = f"{SOURCE}/tests/recipes/reuse.sh;{BUILD};{LISTS}"
    run("cmake", "-S", TREE, "-B", build, "-G", "Ninja", *[f"-D{name}={value}" for name, value in variables.items()])
    if list_reusable(examples, build, variables["CMAKE_C_COMPILER"]) == 0:
        print(f"no object of {BUILD} can be reused")
    run("cmake", "--build", build, "-j", str(os.cpu_count()), "--target", "inlay_cli", "reference", "cpu", "mine",
        "test_kernel_clamp_row", "test_cpu_sine")
    inlay, environment = build / "bin/inlay", dict(os.environ, INLAY_CACHE_DIR="", INLAY_PROVIDERS="reference")
    if run(inlay, "greet", env=environment) != "hello\n" or run(inlay, "greet", "--greeting", "hi", env=environment) != "hi\n":
        fail("inlay greet does not print the option greeting")
    model = check_operator_and_pass(inlay, environment)
    check_region(inlay, environment)
    for test in ("test_kernel_clamp_row", "test_cpu_sine"):
        run(build / "bin" / test)
    explained = run(inlay, "explain", model, "--providers", "mine,reference", "--policy", "priority", "--level", "0",
                    env=environment)
    if not re.search(r"^ *\d+ +mine .*Relu", explained, re.M):
        fail(f"provider mine does not run Relu:\n{explained}")
    print(f"{len(RECIPES)} recipes")


main()
