#!/usr/bin/env python3
"""Random graphs, compared: what the default makes of each beside the reference kernels without optimiser.

  random_graphs.py INLAY [--first SEED] [--count N] [--against ORT_BENCH,LIBONNXRUNTIME] [-- FLAG...]

Seeds are graphs: 2 to 14 steps over the families of families.py, from opset 13 to 17, with sizes fixed or symbolic, and
inner tensors among the outputs. FLAGs (--isa avx2) go to the run that is judged. --against takes ONNX Runtime's word
instead, through the program that times it; it is known to differ in Resize with align_corners and scales that leave a
fraction. A graph that differs is kept, with its inputs, and its folder printed."""
import argparse
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from families import F, FAMILIES
from onnx import helper, numpy_helper

STARTS = [[1, 3, 16, 16], [2, 8, 9, 7], [1, 16, 14, 14], [1, 4, 33, 20], [2, 5, 12], [4, 10, 32], [1, 24, 17], [3, 8],
          [8, 64], [1, 32, 8, 8], [2, 64, 5, 5], [1, 12, 28, 28]]
LARGEST = 400000  # elements of a tensor
# Where a value that is off by its last digit becomes another one.
STEPS = {"QuantizeLinear", "DynamicQuantizeLinear", "Cast", "ArgMax", "ArgMin", "Round", "Floor", "Ceil", "Mod",
         "Greater", "Less", "TopK", "Sign"}


class Graph:
    def __init__(self, seed):
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.opset = self.random.choice([13, 14, 15, 16, 17])
        self.nodes, self.constants, self.floats, self.inputs, self.made = [], [], [], [], 0
        start = self.pick(STARTS)
        for i in range(2 if self.chance(.3) else 1):
            self.inputs.append((f"in{i}", start))
            self.floats.append((f"in{i}", start))

    # What the families draw with.
    def pick(self, of):
        return of[self.random.randrange(len(of))]

    def below(self, n):
        return self.random.randrange(n)

    def chance(self, p):
        return self.random.random() < p

    def some(self, n):
        return sorted(self.random.sample(range(n), self.random.randint(1, n)))

    def axis(self, shape):
        return self.random.randrange(len(shape))

    def alike(self, shape):
        return self.pick([name for name, s in self.floats if s == shape])

    def joinable(self, shape, axis):
        return [name for name, s in self.floats if len(s) == len(shape) and
                all(i == axis or a == b for i, (a, b) in enumerate(zip(s, shape)))]

    def name(self):
        self.made += 1
        return f"t{self.made}"

    def add(self, op, *inputs, outputs=1, **attributes):
        """A node. Arrays become constants, None an input left out. Returns its outputs' names, one alone as such."""
        names = []
        for given in inputs:
            if given is None or isinstance(given, str):
                names.append(given or "")
            else:
                names.append(self.name())
                self.constants.append(numpy_helper.from_array(np.asarray(given), names[-1]))
        made = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, names, made, **attributes))
        return made if outputs > 1 else made[0]

    def model(self, inputs, outputs):
        declared = [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs]
        graph = helper.make_graph(self.nodes, "g", declared, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def infer(self):
        """Type and shape of every tensor, {name: (type, dims)}; ValueError where ONNX finds the graph wrong."""
        made = [onnx.ValueInfoProto(name=o) for n in self.nodes for o in n.output]
        try:
            model = onnx.shape_inference.infer_shapes(self.model(self.inputs, made), strict_mode=True, data_prop=True)
        except Exception as e:  # its own kinds, by version
            raise ValueError(str(e)) from e
        return {v.name: (v.type.tensor_type.elem_type, [d.dim_value for d in v.type.tensor_type.shape.dim])
                for v in list(model.graph.output) + list(model.graph.value_info)}

    def step(self):
        """One family more; False where it does not fit."""
        name, shape = self.pick(self.floats[-4:])
        known = FAMILIES[None] + FAMILIES.get(len(shape), []) if shape else FAMILIES[None]
        chosen = self.random.choices([f for _, f in known], [w for w, _ in known])[0]
        nodes, constants = len(self.nodes), len(self.constants)
        try:
            chosen(self, name, shape)
            types = self.infer()
            new = [o for n in self.nodes[nodes:] for o in n.output]
            if any(o not in types or 0 in types[o][1] or np.prod(types[o][1]) > LARGEST for o in new):
                raise ValueError("empty, too large, or of unknown shape")
        except (ValueError, IndexError):
            del self.nodes[nodes:], self.constants[constants:]
            return False
        self.floats += [(o, types[o][1]) for o in new if types[o][0] == 1]
        return True

    def build(self):
        """The model, or None where no step fitted, and the names of its outputs."""
        wanted = self.random.randint(2, 14)
        for _ in range(4 * wanted):
            wanted -= self.step()
            if wanted == 0:
                break
        if not self.nodes:
            return None, []
        types, read = self.infer(), {i for n in self.nodes for i in n.input}
        made = [o for n in self.nodes for o in n.output]
        outputs = [o for o in made if o not in read][:6] + [o for o in made if o in read and self.chance(.15)][:4]
        symbolic, first = self.chance(.4), self.inputs[0][1]
        dims = [f"d{i}" if symbolic and self.chance(.6) else d for i, d in enumerate(first)]
        declared = [helper.make_tensor_value_info(o, types[o][0], None if symbolic else types[o][1]) for o in outputs]
        return self.model([(name, dims) for name, _ in self.inputs], declared), outputs


def differs(got, want, steps):
    """What is wrong with an output, or None. Beyond steps a few elements may be another one."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    got, want = np.atleast_1d(got.astype(np.float64)), np.atleast_1d(want.astype(np.float64))
    finite = np.isfinite(want)
    size = np.abs(want[finite]).max(initial=0)
    wrong = np.isfinite(got) != finite
    wrong[finite] |= np.abs(got - want, where=finite, out=np.zeros_like(want))[finite] > \
        (.08 if steps else 2e-4) * size + 1e-5
    if wrong.sum() <= (max(1, .02 * wrong.size) if steps else 0):
        return None
    at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    return f"{wrong.sum()} of {wrong.size} elements, the first at {list(map(int, at))}: {got[at]:g}, not {want[at]:g}"


class Judge:
    def __init__(self, args):
        self.args = args
        self.env = dict(os.environ, INLAY_CACHE_DIR="")

    def inlay(self, folder, to, flags):
        return subprocess.run([self.args.inlay, "run", f"{folder}/m.onnx", "--inputs", f"{folder}/in", "--outputs",
                               f"{folder}/{to}", "--quiet", *flags], capture_output=True, text=True, env=self.env,
                              check=False)

    def wanted(self, folder):
        if self.args.against is None:
            return self.inlay(folder, "want", ["--providers", "reference", "--policy", "priority", "--level", "0"])
        program, library = self.args.against.split(",")
        return subprocess.run([program, library, f"{folder}/m.onnx", "--inputs", f"{folder}/in", "--outputs",
                               f"{folder}/want", "--seconds", "0", "--warmup", "0"], capture_output=True, text=True,
                              check=False)

    def one(self, seed, folder):
        """What is wrong with this graph: a sentence, or None; "" where there is nothing to compare."""
        graph = Graph(seed)
        model, outputs = graph.build()
        if model is None:
            return ""
        for name in "in", "got", "want":
            os.makedirs(f"{folder}/{name}", exist_ok=True)
        onnx.save(model, f"{folder}/m.onnx")
        for name, shape in graph.inputs:
            np.save(f"{folder}/in/{name}.npy", graph.numbers.standard_normal(shape).astype(F))
        want, got = self.wanted(folder), self.inlay(folder, "got", self.args.flags)
        if got.returncode != 0 and (want.returncode == 0 or got.returncode < 0):
            return f"ended with {got.returncode}: {got.stderr.strip()}"
        if want.returncode != 0:
            return "" if self.args.against else f"the reference ended with {want.returncode}: {want.stderr.strip()}"
        steps = any(n.op_type in STEPS for n in graph.nodes)
        for name in outputs:
            wrong = differs(np.load(f"{folder}/got/{name}.npy"), np.load(f"{folder}/want/{name}.npy"), steps)
            if wrong:
                return f"output '{name}': {wrong}; {' '.join(n.op_type for n in graph.nodes)}"
        return None


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("inlay")
    flags.add_argument("--first", type=int, default=0)
    flags.add_argument("--count", type=int, default=100)
    flags.add_argument("--against")
    given = sys.argv[1:]
    cut = given.index("--") if "--" in given else len(given)
    args = flags.parse_args(given[:cut])
    args.flags = given[cut + 1:]
    judge, compared, wrong = Judge(args), 0, 0
    for seed in range(args.first, args.first + args.count):
        folder = tempfile.mkdtemp(prefix=f"inlay-graph-{seed}-")
        said = judge.one(seed, folder)
        compared += said is None
        if said:
            wrong += 1
            print(f"seed {seed} ({folder}): {said}", flush=True)
        else:
            subprocess.run(["rm", "-r", folder], check=True)
    print(f"{compared} graphs alike, {wrong} not")
    return wrong > 0 or compared < args.count // 2


sys.exit(main())
