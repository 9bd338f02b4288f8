#!/usr/bin/env python3
"""Checks that no verb takes time in the square of the size of a model: counts instructions (valgrind) for models with
n and 4n nodes, Ifs, functions, initializers, inputs, outputs, captured values, offers of two providers, providers,
elements of a sequence.

    growth.py INLAY PLUGIN FORK_MAIN [--only FAMILY] [--n N]       exit 77 without valgrind
    growth.py INLAY PLUGIN FORK_MAIN --seconds N [--only FAMILY]   CPU seconds at N, 2N and 4N without valgrind, for a
                                                                   search by hand

PLUGIN is the file of samples/provider_skeleton, of which copies under other names are the providers. FORK_MAIN is
fork_main.c as a library."""
import argparse
import os
import pathlib
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from onnx_fields import block, number, value  # noqa: E402

MOST = 5.0  # times the instructions of n for 4n; n log n has up to 4.8, squares approach 16


def fields(op, inputs, outputs):
    return b"".join(block(1, i) for i in inputs) + b"".join(block(2, o) for o in outputs) + block(4, op)


def node(op, inputs, outputs, attributes=b"", domain=""):
    return block(1, fields(op, inputs, outputs) + attributes + (block(7, domain) if domain else b""))


def graph_attribute(name, graph):
    return block(5, block(1, name) + number(20, 5) + block(6, graph))


def tensor(name, dims, values, dtype=1):
    raw = struct.pack(f"<{len(values)}{'f' if dtype == 1 else 'q'}", *values)
    return block(5, b"".join(number(1, d) for d in dims) + number(2, dtype) + block(8, name) + block(9, raw))


def model(nodes, inputs, outputs, functions=b"", domains=()):
    graph = nodes + block(2, "g") + b"".join(block(11, i) for i in inputs) + b"".join(block(12, o) for o in outputs)
    opsets = block(8, number(2, 17)) + b"".join(block(8, block(1, d) + number(2, 1)) for d in domains)
    return number(1, 8) + opsets + block(7, graph) + functions


def chain(n):
    """Nodes that no pass merges."""
    ops = ["Sigmoid", "Tanh", "Sin", "Cos"]
    nodes = b"".join(node(ops[i % 4], [f"v{i}"], [f"v{i + 1}"]) for i in range(n))
    return model(nodes, [value("v0")], [value(f"v{n}")])


def wide(n):
    nodes = b"".join(node("Sin", ["x"], [f"v{i}"]) + node("Add", [f"s{i}", f"v{i}"], [f"s{i + 1}"]) for i in range(n))
    return model(node("Neg", ["x"], ["s0"]) + nodes, [value("x")], [value(f"s{n}")])


def ifs(n):
    def branch(op, i):
        return node(op, [f"v{i}"], [f"b{i}{op}"]) + block(2, f"g{i}{op}") + block(12, value(f"b{i}{op}"))
    nodes = b"".join(node("If", ["c"], [f"v{i + 1}"], graph_attribute("then_branch", branch("Neg", i)) +
                          graph_attribute("else_branch", branch("Sin", i))) for i in range(n))
    return model(nodes, [value("c", (), 9), value("v0")], [value(f"v{n}")])


def captures(n):
    """An If whose branches read n values of the graph around it."""
    def branch(op):
        nodes = node(op, ["v0"], [f"{op}0"])
        nodes += b"".join(node("Add", [f"{op}{i}", f"v{i}"], [f"{op}{i + 1}"]) for i in range(n))
        return nodes + block(2, op) + block(12, value(f"{op}{n}"))
    nodes = b"".join(node("Sin", ["x"] if i == 0 else [f"v{i - 1}"], [f"v{i}"]) for i in range(n))
    nodes += node("If", ["c"], ["y"], graph_attribute("then_branch", branch("Neg")) +
                  graph_attribute("else_branch", branch("Cos")))
    return model(nodes, [value("c", (), 9), value("x")], [value("y")])


def offers(n):
    """Layers that two providers offer, alone and with the nodes that they fuse."""
    nodes = tensor("w", (4, 4), [i % 3 - 1 for i in range(16)])
    nodes += b"".join(node("MatMul", [f"v{i}", "w"], [f"m{i}"]) + node("Add", [f"m{i}", f"v{i}"], [f"a{i}"]) +
                      node("Relu", [f"a{i}"], [f"v{i + 1}"]) for i in range(n))
    return model(nodes, [value("v0", (4, 4))], [value(f"v{n}", (4, 4))])


def providers(_):
    """Layers that many providers offer; provider_flags() adds these."""
    return offers(60)


def functions(n):
    steps = block(7, fields("Sin", ["a"], ["t"])) + block(7, fields("Neg", ["t"], ["b"]))
    made = b"".join(block(25, block(1, f"f{i}") + block(4, "a") + block(5, "b") + steps + block(9, number(2, 17)) +
                          block(10, "own")) for i in range(n))
    nodes = b"".join(node(f"f{i}", [f"v{i}"], [f"v{i + 1}"], domain="own") for i in range(n))
    return model(nodes, [value("v0")], [value(f"v{n}")], made, ["own"])


def initializers(n):
    nodes = b"".join(tensor(f"k{i}", (4, ), (i, 1, 2, 3)) for i in range(n))
    nodes += b"".join(node("Mul" if i % 2 else "Add", [f"v{i}", f"k{i}"], [f"v{i + 1}"]) for i in range(n))
    return model(nodes, [value("v0")], [value(f"v{n}")])


def inputs(n):
    nodes = b"".join(node("Add", [f"s{i}", f"x{i}"], [f"s{i + 1}"]) for i in range(n))
    return model(node("Neg", ["x0"], ["s0"]) + nodes, [value(f"x{i}") for i in range(n)], [value(f"s{n}")])


def outputs(n):
    nodes = b"".join(node("Sin", [f"v{i}"], [f"v{i + 1}"]) for i in range(n))
    return model(nodes, [value("v0")], [value(f"v{i + 1}") for i in range(n)])


def concat(n):
    """A node of n inputs."""
    nodes = b"".join(node("Sin" if i % 2 else "Cos", ["x" if i < 2 else f"v{i - 2}"], [f"v{i}"]) for i in range(n))
    nodes += node("Concat", [f"v{i}" for i in range(n)], ["y"], block(5, block(1, "axis") + number(3, 0) + number(20, 2)))
    return model(nodes, [value("x")], [value("y", (4 * n, ))])


def sequence(n):
    """A Loop that appends to a sequence n times."""
    element = block(1, "s") + block(2, block(4, block(1, block(1, number(1, 1)))))
    after = block(1, "t") + block(2, block(4, block(1, block(1, number(1, 1)))))
    loop = node("Identity", ["go"], ["on"]) + node("SequenceInsert", ["s", "x"], ["t"]) + block(2, "body")
    loop += b"".join(block(11, v) for v in (value("i", (), 7), value("go", (), 9), element))
    loop += b"".join(block(12, v) for v in (value("on", (), 9), after))
    nodes = tensor("n", (), (n, ), 7) + node("SequenceEmpty", [], ["e"])
    nodes += node("Loop", ["n", "", "e"], ["q"], graph_attribute("body", loop)) + node("SequenceLength", ["q"], ["y"])
    return model(nodes, [value("x")], [value("y", (), 7)])


FAMILIES = {f.__name__: f for f in (chain, wide, ifs, captures, offers, providers, functions, initializers, inputs, outputs,
                                    concat, sequence)}
SIZES = {"ifs": 40, "functions": 80, "offers": 60, "outputs": 80, "providers": 16, "sequence": 300}
VERBS = {
    "run": ["run", "--providers", "reference"],
    "explain": ["explain", "--providers", "reference"],
    "optimize": ["optimize", "-o", "/dev/null"],
    "inspect": ["inspect"],
}


# Families that grow in some verbs only: the others load plugins at most, and the system compares each with the list of all
# mappings.
ONLY_IN = {"sequence": ["run"], "providers": ["run", "explain"]}


def provider_flags(plugin, folder, count):
    """Flags for `count` plugins in the folder, each with a provider of its own."""
    names = [f"grow{i:04}" for i in range(count)]
    if not folder.exists():
        folder.mkdir()
        data = plugin.read_bytes()
        for name in names:
            (folder / f"inlay-{name}.so").write_bytes(data.replace(b"skeleton", name.encode()))
    return ["--plugin-dirs", str(folder), "--providers", ",".join([*names, "cpu", "reference"])]


def command(arguments, verb, work, name, size):
    flags = VERBS[verb][1:]
    if name == "offers":
        flags = [flag if flag != "reference" else "cpu,reference" for flag in flags]
    if name == "providers":
        flags = provider_flags(arguments.plugin, work / f"plugins{size}", size)
    path = work / f"{name}{size}.onnx"
    if not path.exists():
        path.write_bytes(FAMILIES[name](size))
    return [arguments.inlay, VERBS[verb][0], str(path), *flags]


def environment(work):
    return {**os.environ, "INLAY_CACHE_DIR": str(work / "cache"), "INLAY_ISA": "baseline", "INLAY_PROBE": "never"}


class Counter:
    """Counts the instructions of runs of one program. Valgrind translates it once: the runs are copies of a process that
    has run before (fork_main.c)."""

    def __init__(self, program, library, work):
        self.errors = open(work / "errors", "w+", errors="replace")
        self.server = subprocess.Popen(
            ["valgrind", "--tool=exp-bbv", "--instr-count-only=yes", "--bb-out-file=/dev/null", program], cwd=work,
            env={**environment(work), "LD_PRELOAD": library, "FORK_MAIN": os.path.basename(program)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)

    def ask(self, how, words):
        """What a run printed to standard error."""
        self.errors.seek(0)
        self.errors.truncate()
        print(how, *words, sep="\t", file=self.server.stdin, flush=True)
        code = self.server.stdout.readline().strip()
        self.errors.seek(0)
        text = self.errors.read()
        if code != "0":
            sys.exit(f"FAIL: {' '.join(words)}: exit code {code or '(none)'}: {text[-600:]}")
        return text

    def warm(self, words):
        self.ask("stay", words)

    def count(self, words):
        """The instructions of a run, plus those of the process before it, which are the same for all runs."""
        return sum(int(of_thread) for of_thread in re.findall(r"Total instructions: (\d+)", self.ask("fork", words)))

    def close(self):
        self.server.stdin.close()
        self.server.wait()
        self.errors.close()


def seconds(words, work):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, cwd=work, env=environment(work), capture_output=True, text=True, errors="replace")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"FAIL: {' '.join(words)}: {done.stderr[-600:]}")
    return after.ru_utime - before.ru_utime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inlay", type=os.path.abspath)
    parser.add_argument("plugin", type=pathlib.Path)
    parser.add_argument("fork_main", type=os.path.abspath)
    parser.add_argument("--only")
    parser.add_argument("--verb")
    parser.add_argument("--n", type=int)
    parser.add_argument("--seconds", type=int)
    arguments = parser.parse_args()
    if arguments.seconds is None and shutil.which("valgrind") is None:
        print("valgrind is not installed")
        sys.exit(77)
    work = pathlib.Path(tempfile.mkdtemp())
    failures = 0
    bases = {} # instructions for a model of one node, by the flags
    cases = [] # of each family and verb, the commands for its sizes
    try:
        for name in FAMILIES if arguments.only is None else [arguments.only]:
            n = arguments.seconds or arguments.n or SIZES.get(name, 150)
            sizes = (n, 2 * n, 4 * n) if arguments.seconds else (int(name != "providers"), n, 4 * n)
            for verb in VERBS if arguments.verb is None else [arguments.verb]:
                if verb in ONLY_IN.get(name, VERBS):
                    cases.append((name, verb, [command(arguments, verb, work, name, size) for size in sizes]))
        if arguments.seconds:
            for name, verb, commands in cases:
                print(f"{name:12} {verb:8} " + " ".join(f"{seconds(words, work):8.3f}" for words in commands), flush=True)
            return
        counter = Counter(arguments.inlay, arguments.fork_main, work)
        for _, _, commands in cases:
            counter.warm(commands[0])
        for name, verb, commands in cases:
            flags = (verb, *commands[0][3:])
            if flags not in bases:
                bases[flags] = counter.count(commands[0])
            small, large = (counter.count(words) - bases[flags] for words in commands[1:])
            print(f"{name:12} {verb:8} {small:12} {large:12} {large / small:6.2f}", flush=True)
            if large / small > MOST:
                print(f"FAIL: {name}, {verb}: {large / small:.1f} times the instructions for 4 times the size")
                failures += 1
        counter.close()
    finally:
        shutil.rmtree(work)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
