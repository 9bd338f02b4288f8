#!/usr/bin/env python3
"""Random graphs: compares default settings with the reference kernels without optimiser.

  random_graphs.py INLAY [--quantized] [--first SEED] [--count N] [--against ORT_BENCH,LIBONNXRUNTIME]
      [--bundle TARGET] [-- FLAG...]
  random_graphs.py --passes passes.def

Each seed gives a graph: 2 to 14 steps of the families in families.py, control_flow.py, unsigned.py, windows.py and
near_misses.py, which nearly match each pattern of the optimiser, from opset 13 to 17, in float, double or float16, with
fixed or symbolic sizes, and inner tensors among the outputs. Inputs are ordinary numbers, or contain NaN, infinities and
denormal numbers, or are huge or tiny. A session runs at several sizes, including empty ones, then at the first size
again, which must give the same bits. So must provider cpu with one thread and with three, and a session that follows
the saved plan of the first one, for every fourth graph.

The largest error relative to the same graph in double may be four times that of level 0, or the change of the result if
inputs change by a rounding error. If the graph cannot be converted to double, or rounds to steps, both results are
compared directly, and a few elements may be on another step, or as many as change with the inputs. If a value inside the
graph exceeds its type, NaN and infinities are not compared. For some graphs the files written by `inlay optimize -o`,
`--opset`, `extract` and `bundle` are checked as well.

--quantized makes graphs of the families in quantized.py instead, and runs them at sizes that shrink and grow. Their
results equal those of level 0, or differ as their families say.

--bundle TARGET only bundles the graphs of fixed sizes for a target of `inlay bundle` (wasm32), which compares them.

FLAGs (--isa avx2) apply to the tested run. --against compares with ONNX Runtime instead, through the program that
times it. A graph that differs is stored with its inputs, and its folder printed. --passes fails if a pass of the
optimiser has neither a family nor a reason."""
import argparse
import json
import logging
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import traceback

import numpy as np
import onnx
import control_flow  # noqa: F401  (adds families, as the next imports)
import near_misses
from families import F, FAMILIES
from quantized_graph import Quantized
from onnx import TensorProto, helper, numpy_helper
import unsigned  # noqa: F401
import windows  # noqa: F401

STARTS = [[1, 3, 16, 16], [2, 8, 9, 7], [1, 16, 14, 14], [1, 4, 33, 20], [2, 5, 12], [4, 10, 32], [1, 24, 17], [3, 8],
          [8, 64], [1, 32, 8, 8], [2, 64, 5, 5], [1, 12, 28, 28], [1, 4, 6, 7, 5], [2, 3, 5, 4, 6], [1, 16, 3, 5, 4]]
LARGEST = 400000  # elements of a tensor
# Operators that turn a rounding difference into a step.
STEPS = {"QuantizeLinear", "DynamicQuantizeLinear", "Cast", "ArgMax", "ArgMin", "Round", "Floor", "Ceil", "Mod",
         "Greater", "Less", "TopK", "Sign"}


class Graph:
    def __init__(self, seed):
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.opset = self.random.choice([13, 14, 15, 16, 17])
        self.nodes, self.constants, self.floats, self.inputs, self.made = [], [], [], [], 0
        self.known, self.unread, self.also, self.options = {}, set(), [], {}
        self.hidden = set()  # outputs whose size only a run knows: their family reads them, no other
        self.dtype = self.random.choices([np.float32, np.float16, np.float64], [16, 3, 1])[0]
        start = self.pick(STARTS)
        for i in range(2 if self.chance(.3) else 1):
            self.inputs.append((f"in{i}", start))
            self.floats.append((f"in{i}", start))

    # Random choices of the families.
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

    def constant(self, array):
        name = self.name()
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def scalar(self, value, shape):
        """A constant for a pattern that has one number: mostly that number; or with the axes of the other operand,
        with more axes, with one number per column, or a slightly different number."""
        dims = self.random.choices([[], [1], [1] * len(shape), [1] * (len(shape) + 1), shape[-1:]], [60, 14, 10, 12, 4])[0]
        near = self.random.choices([value, np.nextafter(F(value), F(9e9)), value * 1.001, value + 1], [88, 4, 4, 4])[0]
        return np.full(dims, near, F)

    def tensor(self, dtype, dims, raw):
        """A constant of a type that numpy may not have."""
        name = self.name()
        self.constants.append(TensorProto(name=name, data_type=dtype, dims=dims, raw_data=raw))
        return name

    def name(self):
        self.made += 1
        return f"t{self.made}"

    def add(self, op, *inputs, outputs=1, known=(), unread=False, **attributes):
        """Adds a node. Arrays become constants, None an omitted input. known: (type, shape) of the outputs, if onnx has
        no inference for the operator. Returns the names of its outputs, or the name if there is one."""
        names = ["" if given is None else given if isinstance(given, str) else self.constant(given) for given in inputs]
        made = [self.name() for _ in range(outputs)]
        self.known.update({o: k for o, k in zip(made, known) if k is not None})
        self.unread.update(made if unread else [])
        self.nodes.append(helper.make_node(op, names, made, **attributes))
        return made if outputs > 1 else made[0]

    def model(self, inputs, outputs):
        declared = [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs]
        graph = helper.make_graph(self.nodes, "g", declared, outputs, self.constants)
        imports = [helper.make_opsetid("", self.opset)]
        if any(n.domain for n in self.nodes):
            imports.append(helper.make_opsetid("com.microsoft", 1))
        return helper.make_model(graph, opset_imports=imports, ir_version=8 if self.opset < 21 else 10)

    def infer(self):
        """Returns type and shape of every tensor, {name: (type, dims)}; ValueError if ONNX rejects the graph."""
        made = [helper.make_tensor_value_info(o, *self.known[o]) if o in self.known else onnx.ValueInfoProto(name=o)
                for n in self.nodes for o in n.output]
        try:
            model = onnx.shape_inference.infer_shapes(self.model(self.inputs, made), strict_mode=True, data_prop=True)
        except Exception as e:  # its exception types depend on the version
            raise ValueError(str(e)) from e
        return {v.name: (v.type.tensor_type.elem_type, [d.dim_value for d in v.type.tensor_type.shape.dim])
                for v in list(model.graph.output) + list(model.graph.value_info)}

    def step(self):
        """Adds a family; returns False if it does not fit."""
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
            if any(types[o][0] == 0 and n.op_type != "SequenceConstruct" for n in self.nodes[nodes:] for o in n.output):
                raise ValueError("of unknown type")
        except (ValueError, IndexError):
            del self.nodes[nodes:], self.constants[constants:]
            return False
        self.floats += [(o, types[o][1]) for o in new if types[o][0] == 1 and o not in self.hidden]
        return True

    def build(self):
        """Returns the model, or None if no step fitted, and the names of its outputs."""
        wanted = self.random.randint(2, 14)
        for _ in range(4 * wanted):
            wanted -= self.step()
            if wanted == 0:
                break
        if not self.nodes:
            return None, []
        types, read = self.infer(), {i for n in self.nodes for i in n.input}
        read.update(i for n in self.nodes for a in n.attribute for b in a.g.node for i in b.input)
        made = [o for n in self.nodes for o in n.output if types[o][0] != 0 and o not in self.unread | self.hidden]
        outputs = [o for o in made if o not in read][:6] + [o for o in made if o in read and self.chance(.15)][:4]
        if not outputs:
            return None, []
        symbolic, first = self.chance(.4), self.inputs[0][1]
        self.dims = [f"d{i}" if symbolic and self.chance(.6) else d for i, d in enumerate(first)]
        declared = [helper.make_tensor_value_info(o, types[o][0], None if symbolic else types[o][1]) for o in outputs]
        model = self.model([(name, self.dims) for name, _ in self.inputs], declared)
        other = None if self.dtype == np.float32 else retyped(model, np.float32, self.dtype)
        self.dtype = np.float32 if other is None else self.dtype
        return other or model, outputs

    def other_shapes(self):
        """Returns further sizes for the session, in any order, so that they shrink and grow."""
        return [[d if isinstance(given, int) else self.pick([1, 2, 3, 5, d, d + 1, 2 * d, 0])
                 for d, given in zip(self.inputs[0][1], self.dims)] for _ in range(4)]

    def epsilon(self):
        """Returns the rounding error of the graph's type; of float, if an operator of a graph in double lacks double."""
        rounds = self.dtype == np.float64 and any(n.op_type in ONLY_FLOAT for n in self.nodes)
        return float(np.finfo(F if rounds else self.dtype).eps)

    def feeds(self, shape):
        """Returns inputs of that shape: mostly ordinary numbers."""
        kind = self.random.choices(["plain", "odd", "huge", "tiny"], [82, 10, 5, 3])[0]
        made = {}
        for name, _ in self.inputs:
            x = self.numbers.standard_normal(shape)
            if kind == "odd":
                odd = self.numbers.choice([np.nan, np.inf, -np.inf, 0, -0.0, 1e-40, -1e-45, 1e30], x.shape)
                x = np.where(self.numbers.random(x.shape) < .03, odd, x)
            elif kind == "huge":
                x = x * self.pick([1e15, 1e18])
            elif kind == "tiny":
                x = x * self.pick([1e-30, 1e-39])
            with np.errstate(over="ignore"):
                made[name] = self.other_nans(x.astype(self.dtype))
        return kind, made

    def other_nans(self, x):
        """Changes the lower bits of each NaN: a kernel that adds to the bits of a float may make a number of some."""
        where, bits = np.isnan(x), x.view(f"u{x.itemsize}")
        bits[where] |= self.numbers.integers(0, 1 << np.finfo(x.dtype).nmant, where.sum(), bits.dtype)
        return x


class QuantizedGraph(Quantized, Graph):
    """A graph of the families in quantized.py."""


# ------------------------------------------------------------------ the same graph of another type

CODES = {np.float16: TensorProto.FLOAT16, np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE}
ONLY_FLOAT = {"Celu"}
ONE_TYPE = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QLinearAdd"}


def retyped(model, old, new):
    """Converts the model's tensors from one type to another; None if an operator supports only the first."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    return made if retype(made.graph, old, new) else None


def retype(graph, old, new):
    def tensor(t):
        if t.data_type == CODES[old]:
            with np.errstate(over="ignore"):
                t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(new), t.name))

    for t in graph.initializer:
        tensor(t)
    for v in list(graph.input) + list(graph.output) + list(graph.value_info):
        if v.type.tensor_type.elem_type == CODES[old]:
            v.type.tensor_type.elem_type = CODES[new]
    scales = {n.input[2] for n in graph.node if n.op_type == "Resize" and len(n.input) > 2}
    for t in graph.initializer:  # the scales of Resize are always floats
        if t.name in scales:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(F), t.name))
    for n in graph.node:
        if n.op_type in ONE_TYPE:
            return False
        for a in n.attribute:
            if n.op_type == "Cast" and a.name == "to" and a.i == CODES[old]:
                a.i = CODES[new]
            if a.type == onnx.AttributeProto.TENSOR:
                tensor(a.t)
            if a.type == onnx.AttributeProto.GRAPH and not retype(a.g, old, new):
                return False
    if new == np.float64:
        keep_floats(graph)
    return True


def keep_floats(graph):
    """Surrounds operators that have no double by casts."""
    nodes = list(graph.node)
    del graph.node[:]
    for n in nodes:
        if n.op_type in ONLY_FLOAT:
            x, y = n.input[0], n.output[0]
            n.input[0], n.output[0] = f"{y}_x", f"{y}_y"
            graph.node.extend([helper.make_node("Cast", [x], [f"{y}_x"], to=TensorProto.FLOAT), n,
                               helper.make_node("Cast", [f"{y}_y"], [y], to=TensorProto.DOUBLE)])
        else:
            graph.node.append(n)


# ------------------------------------------------------------------ comparison

def off_by(got, want):
    """Returns the largest difference of finite elements."""
    both = np.isfinite(got) & np.isfinite(want)
    return np.abs(got - want, where=both, out=np.zeros(want.shape))[both].max(initial=0)


def shake(model, graph, seed):
    """Returns the model with rounding errors in what ArgMax and ArgMin compare: elements that are sums of the same
    numbers stay equal if only the inputs change, but not in another order of summation."""
    types, shaken = graph.infer(), onnx.ModelProto()
    shaken.CopyFrom(model)
    del shaken.graph.node[:]
    for i, node in enumerate(model.graph.node):
        if node.op_type in ("ArgMax", "ArgMin") and types[node.input[0]][0] in (TensorProto.FLOAT, TensorProto.DOUBLE):
            by = 4 * graph.epsilon()
            moved = [helper.make_node("RandomUniformLike", [node.input[0]], [f"shake{i}"], low=1 - by, high=1 + by,
                                      seed=float(seed * 100 + i)),
                     helper.make_node("Mul", [node.input[0], f"shake{i}"], [f"shaken{i}"])]
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.input[0] = f"shaken{i}"
            shaken.graph.node.extend(moved + [copy])
        else:
            shaken.graph.node.append(node)
    return shaken


def differs(got, want, steps, graph, exact=None, moved=None):
    """Returns the error of an output, or None. exact: the result in double, and with inputs changed by rounding
    errors; None: unknown. After rounding to steps, a few elements may differ."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    if not np.issubdtype(want.dtype, np.floating):
        exact = moved = None
    epsilon = max(np.finfo(want.dtype).eps, graph.epsilon() if want.dtype == graph.dtype else 0) \
        if np.issubdtype(want.dtype, np.floating) else 0
    most = np.finfo(want.dtype).max / 16 if epsilon else np.inf
    got, want = np.atleast_1d(got.astype(np.float64)), np.atleast_1d(want.astype(np.float64))
    finite = np.isfinite(want)
    size = np.abs(want[finite]).max(initial=0)
    wrong = (np.isfinite(got) != finite) | (np.isnan(got) != np.isnan(want)) | (np.isinf(got) & (got != want) & ~finite)
    gap = np.abs(got - want, where=finite & np.isfinite(got), out=np.zeros_like(want))
    loose = max(2e-4, 64 * epsilon)
    if exact is not None and exact.shape == want.shape and not steps:
        exact, moved = np.atleast_1d(exact), np.atleast_1d(moved)
        wrong &= ~(np.abs(exact) > most)  # near overflow, rounding decides
        wrong &= ~(np.isnan(got) & np.isnan(exact))  # of a power of almost 0, for instance, whose sign rounding decides
        allowed = 4 * off_by(want, exact) + 8 * off_by(moved, exact) + 16 * epsilon * size
        wrong |= (np.abs(got - exact, where=np.isfinite(got), out=np.zeros_like(want)) > allowed) & np.isfinite(exact) & \
            (gap > allowed)
        if wrong.any() and np.isnan(exact).all() and np.isnan(want).all():
            return None
    else:
        wrong[finite] |= gap[finite] > (.08 if steps else loose) * size + 1e-5
    if wrong.sum() <= (max(2, .03 * wrong.size) if steps else 0):
        return None
    at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    return (f"{wrong.sum()} of {wrong.size} elements, the first at {list(map(int, at))}: {got[at]:g}, not {want[at]:g}"
            + (f" ({exact[at]:g} in double)" if exact is not None and exact.shape == want.shape else ""))


# ------------------------------------------------------------------ runs

REFERENCE = {"providers": ["reference"], "policy": "priority", "level": 0}


class Declines(logging.Handler):
    """Collects what providers decline of their own offers, since such regions run on slower providers, and what option
    watchdog finds."""
    def __init__(self):
        super().__init__(logging.INFO)
        self.texts = []

    def emit(self, record):
        text = record.getMessage()
        if "is assigned again for" in text or text.startswith("watchdog: provider"):
            self.texts.append(text)


class Judge:
    def __init__(self, args):
        np.seterr(all="ignore")
        import inlay  # after the fork: each child loads the library
        self.inlay, self.args = inlay, args
        self.declines = Declines()
        logging.getLogger("inlay").addHandler(self.declines)
        logging.getLogger("inlay").setLevel(logging.INFO)
        self.env = dict(os.environ, INLAY_CACHE_DIR="", INLAY_PROBE="never")
        flags = dict(zip((f[2:].replace("-", "_") for f in args.flags[::2]), args.flags[1::2]))
        self.shared = {name: flags.pop(name) for name in list(flags) if name == "isa"}
        self.flags = flags

    def known(self, options):
        """Those of providers in use: option providers may leave out cpu."""
        in_use = self.flags.get("providers", "cpu").split(",")
        return {name: value for name, value in options.items() if not name.startswith("cpu.") or "cpu" in in_use}

    def open(self, model, **options):
        if not isinstance(model, (str, bytes)):
            model = model.SerializeToString()
        return self.inlay.Session(model, config=False, cache_dir="", **self.shared, **options)

    def reference(self, model, feeds):
        """Returns the outputs of level 0, or None if it rejects the graph."""
        if model is None:
            return None
        try:
            with self.open(model, **REFERENCE) as session:
                return {name: np.array(y) for name, y in session.run(feeds).items()}
        except self.inlay.InlayError:
            return None

    def doubles(self, graph, model, feeds):
        """Returns the outputs in double, and with inputs and constants changed by a rounding error."""
        twin = retyped(model, graph.dtype, np.float64) if graph.dtype != np.float64 else model
        if twin is None:
            return None, None
        wide = {name: x.astype(np.float64) for name, x in feeds.items()}
        exact = self.reference(twin, wide)
        moved = None if exact is None else self.moved(twin, wide, .5 * graph.epsilon(), 1)
        return (exact, moved) if moved is not None else (None, None)

    def moved(self, model, feeds, by, seed):
        """Returns the outputs of level 0 for inputs and constants with a relative change."""
        numbers, other = np.random.default_rng(seed), onnx.ModelProto()
        other.CopyFrom(model)

        def move(x):
            return (x * (1 + by * numbers.choice([-1, 1], x.shape))).astype(x.dtype)
        for t in other.graph.initializer:
            x = numpy_helper.to_array(t)
            if x.dtype.kind == "f" and x.size > 4:  # small tensors may be exponents and scales
                t.CopyFrom(numpy_helper.from_array(move(x), t.name))
        return self.reference(other, {name: move(x) for name, x in feeds.items()})

    def overflows(self, graph, model, feeds):
        """Does a value inside the graph, which is finite in double, exceed the type? Then kernels decide what follows."""
        twin = retyped(model, graph.dtype, np.float64) if graph.dtype != np.float64 else None
        if twin is None:
            return False
        types, declared = graph.infer(), {o.name for o in twin.graph.output}
        for o in (o for n in graph.nodes for o in n.output):
            if types[o][0] == TensorProto.FLOAT and o not in declared:
                twin.graph.output.append(helper.make_tensor_value_info(o, TensorProto.DOUBLE, None))
        made = self.reference(twin, {name: x.astype(np.float64) for name, x in feeds.items()}) or {}
        return any((np.abs(y[np.isfinite(y)]) > np.finfo(graph.dtype).max / 16).any() for y in made.values()
                   if y.dtype.kind == "f")

    def jumps(self, graph, model, feeds, want, name):
        """Do rounding errors of the inputs change the output to other steps?"""
        halves = any(n.op_type == "Cast" and a.i == TensorProto.FLOAT16 for n in graph.nodes for a in n.attribute)
        for seed in range(6):
            moved = self.moved(shake(model, graph, seed), feeds, 4 * graph.epsilon() if not halves else 2**-11, seed)
            if moved is not None and differs(moved[name], want, True, graph):
                return True
        return False

    def compare(self, graph, model, feeds, got, want, steps):
        """Returns the error of the outputs, or None. Runs the double form only if both results differ."""
        if self.args.quantized:
            return graph.differs(got, want)
        twins = None
        large = any(np.abs(x[np.isfinite(x)]).max(initial=0) > 1e12 for x in feeds.values())
        overflow = graph.dtype == np.float16 and any(y.dtype.kind == "f" and not np.isfinite(y).all()
                                                     for y in want.values())
        if steps and (large or overflow):  # a rounding error exceeds a step, or the step between 65504 and infinity
            got = {name: want[name] if (y.shape, y.dtype) == (want[name].shape, want[name].dtype) else y
                   for name, y in got.items()}
        for name in want:
            wrong = differs(got[name], want[name], steps, graph)
            close = wrong is None and off_by(got[name].astype(np.float64), want[name].astype(np.float64)) <= \
                16 * graph.epsilon() * np.abs(want[name][np.isfinite(want[name])]).max(initial=0)
            if close or (wrong is None and steps) or want[name].dtype != graph.dtype:
                if wrong is None:
                    continue
            elif not steps and got[name].shape == want[name].shape:
                twins = twins if twins is not None else self.doubles(graph, model, feeds)
                if twins[0] is not None:
                    wrong = differs(got[name], want[name], steps, graph, twins[0][name], twins[1][name])
            if wrong and steps and self.jumps(graph, model, feeds, want[name], name):
                continue
            if wrong and got[name].shape == want[name].shape and self.overflows(graph, model, feeds):
                finite = np.where(np.isfinite(got[name]) & np.isfinite(want[name]), got[name], want[name])
                twin = (twins[0][name], twins[1][name]) if twins and twins[0] else ()
                wrong = differs(finite, want[name], steps, graph, *twin)
            if wrong:
                return f"output '{name}': {wrong}"
        return None

    def command(self, *words):
        return subprocess.run([self.args.inlay, *words], capture_output=True, text=True, env=self.env, check=False)

    def against(self, folder, graph, feeds):
        """Returns ONNX Runtime's outputs, or None."""
        for name in "in", "want":
            os.makedirs(f"{folder}/{name}", exist_ok=True)
        for name, x in feeds.items():
            np.save(f"{folder}/in/{name}.npy", x)
        program, library = self.args.against.split(",")
        done = subprocess.run([program, library, f"{folder}/m.onnx", "--inputs", f"{folder}/in", "--outputs",
                               f"{folder}/want", "--seconds", "0", "--warmup", "0"], capture_output=True, check=False)
        if done.returncode != 0:
            return None
        return {f[:-4]: np.load(f"{folder}/want/{f}") for f in os.listdir(f"{folder}/want")}

    def files(self, graph, seed, folder, model, outputs, feeds, want, steps):
        """Returns the error of the files that verbs write for the model: a message, or None."""
        way, path = seed % 8, f"{folder}/made.onnx"
        if seed % 100 == 7:
            return self.bundle(folder, steps)
        if way < 2:
            verb = ["optimize", f"{folder}/m.onnx", "-o", path]
        elif way == 2:
            verb = ["optimize", f"{folder}/m.onnx", "--level", "0", "--opset", str(18 + seed // 8 % 5), "-o", path]
        elif way == 3:
            verb = ["extract", f"{folder}/m.onnx", "--outputs", outputs[-1], "-o", path]
        else:
            return None
        done = self.command(*verb)
        if done.returncode < 0:
            return f"`inlay {' '.join(verb)}` ended with {done.returncode}"
        if done.returncode != 0:  # the verb wrote no file; the default must write one
            return f"`inlay {' '.join(verb)}`: {done.stderr.strip()}" if way < 2 else None
        try:
            with self.open(path, **REFERENCE) as session:
                names = {i.name for i in session.inputs}
                got = session.run({name: x for name, x in feeds.items() if name in names})
        except self.inlay.InlayError as e:
            return f"the file of `inlay {' '.join(verb)}`: {e}"
        wrong = self.compare(graph, model, feeds, got, {n: want[n] for n in want if way != 3 or n == outputs[-1]}, steps)
        return f"the file of `inlay {' '.join(verb)}`: {wrong}" if wrong else None

    def threads(self, graph, model, feeds):
        """Returns the name of an output of provider cpu whose bits depend on the number of threads, or None."""
        made = []
        for count in 1, 3:
            with self.open(model, **dict(graph.options, **self.flags, providers="cpu,reference", intra_threads=count)) \
                    as session:
                made.append({name: np.array(y) for name, y in session.run(feeds).items()})
        return next((f"output '{name}' has other bits with 3 threads than with 1" for name, y in made[0].items()
                     if y.tobytes() != made[1][name].tobytes()), None)

    def plan(self, graph, folder, feeds, got):
        """Returns the error of a session that follows the plan of another one: a message, or None."""
        with self.open(f"{folder}/m.onnx", **self.known(graph.options), **self.flags) as session:
            session.save_plan(f"{folder}/plan")
        try:
            with self.open(f"{folder}/m.onnx", **self.known(graph.options), **self.flags, plan=f"{folder}/plan") as session:
                planned = session.run(feeds)
        except self.inlay.InlayError as e:
            return str(e)
        return next((f"output '{name}' has other bits with the saved plan" for name, y in got.items()
                     if y.tobytes() != planned[name].tobytes()), None)

    def bundle(self, folder, steps):
        """The verb compares the program with `inlay run`; it may reject a model, and needs a compiler."""
        target = ["--target", self.args.bundle] if self.args.bundle else []
        program = f"{folder}/program{'.wasm' if self.args.bundle == 'wasm32' else ''}"
        done = self.command("bundle", f"{folder}/m.onnx", "-o", program, "--json", "--no-config", *target)
        if done.returncode < 0:
            return f"`inlay bundle` ended with {done.returncode}"
        said = json.loads(done.stdout) if done.returncode == 0 else {"tried": False}
        fits = not said["tried"] or said["same"] or said["difference"] < (.1 if steps else 2e-4)
        return None if fits else f"`inlay bundle`: {said}"

    def one(self, seed, folder):
        """Returns the error of this graph: a message, or None; "" if nothing was compared."""
        graph = QuantizedGraph(seed) if self.args.quantized else Graph(seed)
        model, outputs = graph.build()
        if model is None:
            return ""
        onnx.save(model, f"{folder}/m.onnx")
        first = graph.inputs[0][1]
        shapes = [first] + (graph.other_shapes() if graph.dims != first else [])
        runs = [(shape, *graph.feeds(shape)) for shape in shapes]
        steps = any(n.op_type in STEPS for n in graph.nodes)
        if self.args.bundle:
            wrong = "" if graph.dims != first else self.bundle(folder, steps)
            return f"{wrong}; seed {seed}" if wrong else wrong
        ops = " ".join(n.op_type for n in graph.nodes)
        session, seen = None, None
        for i, (shape, kind, feeds) in enumerate(runs + runs[:1]):
            for name, x in feeds.items():
                np.save(f"{folder}/{name}.npy", x)
            want = self.against(folder, graph, feeds) if self.args.against else self.reference(model, feeds)
            if want is None:
                if i == 0:
                    return ""
                continue
            where = f"{kind}, {graph.dtype.__name__}{shape}; {ops}"
            try:
                session = session or self.open(model, **self.known(graph.options), **self.flags)
                got = session.run(feeds)
            except self.inlay.InlayError as e:
                return f"{e}; {where}"
            declined = self.declines.texts.pop() if self.declines.texts else None
            if declined and 0 not in shape:  # libraries lack kernels for images without pixels
                return f"{declined}; {where}"
            wrong = self.compare(graph, model, feeds, got, want, steps)
            if wrong:
                return f"{wrong}; {where}"
            if i == 0:
                seen = {name: np.array(y) for name, y in got.items()}
                wrong = self.files(graph, seed, folder, model, outputs, feeds, want, steps)
                if not wrong and seed % 4 == 0 and "providers" not in self.flags:
                    wrong = self.threads(graph, model, feeds)
                if not wrong and seed % 4 == 1:
                    wrong = self.plan(graph, folder, feeds, seen)
                if wrong:
                    return f"{wrong}; {where}"
            elif i == len(runs):
                for name, y in got.items():
                    if y.tobytes() != seen[name].tobytes():
                        return f"output '{name}' has other bits in a later run at the same size; {where}"
        if session is not None:
            session.close()
        return None


# ------------------------------------------------------------------ main program

def child(args, seeds, pipe):
    """Tests seeds and writes a line for each, until the end, or until one crashes the process."""
    judge = Judge(args)
    for seed in seeds:
        folder = tempfile.mkdtemp(prefix=f"inlay-graph-{seed}-")
        os.write(pipe, struct.pack("=qq", seed, -1))
        said = judge.one(seed, folder)
        if said:
            said = f"{said} ({folder})"
        else:
            shutil.rmtree(folder)
        text = b"\0" if said is None else said.encode()
        os.write(pipe, struct.pack("=qq", seed, len(text)) + text)


def judged(args, seeds):
    """Yields (seed, error) for each: child processes run the library, so that a crash is a result, too."""
    while seeds:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            code = 1
            try:
                child(args, seeds, writer)
                code = 0
            except Exception:  # an error of this program
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(writer)
        begun, ended = None, 0
        with os.fdopen(reader, "rb") as pipe:
            while True:
                head = pipe.read(16)
                if len(head) < 16:
                    break
                seed, size = struct.unpack("=qq", head)
                begun = seed
                if size >= 0:
                    ended += 1
                    begun, text = None, pipe.read(size)
                    yield seed, None if text == b"\0" else text.decode()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        seeds = seeds[ended:]
        if begun is not None:
            yield begun, f"the process ended with {status}"
            seeds = seeds[1:]
        elif status != 0:
            sys.exit(f"a child ended with {status}")


def named_passes(path):
    """Finds passes of passes.def without a family or a reason, and names that are not passes."""
    with open(path, encoding="utf-8") as f:
        passes = set(re.findall(r"^(?:(?:PASS|REWRITE)\(\d+, |LOWERING\()(\w+)\)", f.read(), re.M))
    named = set(near_misses.PASSES_NEARED) | set(near_misses.PASSES_LEFT)
    for name in sorted(passes - named):
        print(f"pass {name}: near_misses.py has neither a family nor a reason")
    for name in sorted(named - passes):
        print(f"{name} is not a pass of {path}")
    return passes != named


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("inlay", nargs="?")
    flags.add_argument("--first", type=int, default=0)
    flags.add_argument("--count", type=int, default=100)
    flags.add_argument("--against")
    flags.add_argument("--quantized", action="store_true")
    flags.add_argument("--bundle")
    flags.add_argument("--passes")
    given = sys.argv[1:]
    cut = given.index("--") if "--" in given else len(given)
    args = flags.parse_args(given[:cut])
    args.flags = given[cut + 1:]
    if args.passes:
        return named_passes(args.passes)
    compared, wrong = 0, 0
    for seed, said in judged(args, list(range(args.first, args.first + args.count))):
        compared += said is None
        if said:
            wrong += 1
            print(f"seed {seed}: {said}", flush=True)
    print(f"{compared} graphs agree, {wrong} differ")
    return wrong > 0 or compared < (1 if args.bundle else args.count // 2)  # many graphs have open sizes


sys.exit(main())
