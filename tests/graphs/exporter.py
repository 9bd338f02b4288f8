"""Nodes as the exporter of PyTorch 2.14 writes them (torchlib, opset 20), for the models in exports.py.

Sizes are computed from Shape, also where they are constants: exporters leave them to the optimiser."""
import numpy as np
from onnx import TensorProto as T, helper, numpy_helper

F = np.float32
END = np.iinfo(np.int64).max


def ints(*values):
    return np.array(values, np.int64)


class Export:
    """A graph under construction. sizes: (batch, length) of the inputs, numbers or names of open axes."""

    def __init__(self, seed, batch, length, opset=20):
        self.numbers = np.random.default_rng(seed)
        self.batch, self.length, self.opset = batch, length, opset
        self.nodes, self.constants, self.inputs, self.outputs, self.made = [], [], [], [], 0

    def constant(self, array):
        self.made += 1
        self.constants.append(numpy_helper.from_array(np.asarray(array), f"c{self.made}"))
        return f"c{self.made}"

    def add(self, op, *inputs, **attributes):
        """Adds a node with one output and returns its name. Arrays become constants."""
        names = [given if isinstance(given, str) else self.constant(given) for given in inputs]
        self.made += 1
        self.nodes.append(helper.make_node(op, names, [f"v{self.made}"], f"node_{op}_{self.made}", **attributes))
        return f"v{self.made}"

    def input(self, name, dtype, *dims):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, dims))
        return name

    def output(self, value, dtype=T.FLOAT):
        self.outputs.append(helper.make_tensor_value_info(value, dtype, None))

    def model(self):
        graph = helper.make_graph(self.nodes, "main_graph", self.inputs, self.outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)

    def weights(self, rows, columns):
        return (self.numbers.standard_normal((rows, columns)) / np.sqrt(rows)).astype(F)

    def size(self, x, axis):
        return self.add("Shape", x, start=axis, **({} if axis == -1 else {"end": axis + 1}))

    # ------------------------------------------------------------------ layers

    def linear(self, x, rows, columns):
        return self.add("Add", self.add("MatMul", x, self.weights(rows, columns)),
                        (self.numbers.standard_normal(columns) * .1).astype(F))

    def layer_norm(self, x, width):
        return self.add("LayerNormalization", x, (self.numbers.random(width) + .5).astype(F), np.zeros(width, F),
                        axis=-1, epsilon=1e-5)

    def rms_norm(self, x, weight):
        """weight: None, or the factor of each column."""
        mean = self.add("ReduceMean", self.add("Pow", x, F(2)), ints(-1), keepdims=1)
        y = self.add("Mul", x, self.add("Reciprocal", self.add("Sqrt", self.add("Add", mean, F(1e-6)))))
        return y if weight is None else self.add("Mul", weight, y)

    def heads(self, x, count, size):
        """[batch, length, width] to [batch, heads, length, size]."""
        shape = self.add("Concat", self.size(x, 0), self.size(x, 1), ints(count, size), axis=0) \
            if isinstance(self.length, str) else ints(self.batch, self.length, count, size)
        return self.add("Transpose", self.add("Reshape", x, shape, allowzero=1), perm=[0, 2, 1, 3])

    def merged_heads(self, y, width):
        y = self.add("Transpose", y, perm=[0, 2, 1, 3])
        shape = self.add("Concat", self.size(y, 0), self.size(y, 1), ints(width), axis=0) \
            if isinstance(self.length, str) else ints(self.batch, self.length, width)
        return self.add("Reshape", y, shape, allowzero=1)

    def rotated(self, x, size):
        """Rotary positions; the same angles everywhere."""
        angle = self.numbers.random((1, 1, 1, size))
        first = self.add("Slice", x, ints(0), ints(size // 2), ints(3), ints(1))
        second = self.add("Slice", x, ints(size // 2), ints(END), ints(3), ints(1))
        turned = self.add("Concat", self.add("Neg", second), first, axis=-1)
        return self.add("Add", self.add("Mul", x, np.cos(angle).astype(F)),
                        self.add("Mul", turned, np.sin(angle).astype(F)))

    def repeated(self, x, groups, repeats, size):
        """Each head for `repeats` queries."""
        batch, length = self.size(x, 0), self.size(x, 2)
        wide = self.add("Expand", self.add("Unsqueeze", x, ints(2)),
                        self.add("Concat", batch, ints(groups, repeats), length, ints(size), axis=0))
        return self.add("Reshape", wide, self.add("Concat", batch, ints(groups * repeats), length, ints(size), axis=0))

    # ------------------------------------------------------------------ masks

    def padding_mask(self, name="attention_mask"):
        """[batch, 1, 1, length]"""
        seen = self.add("Cast", self.input(name, T.INT64, self.batch, self.length), to=T.BOOL)
        return self.add("Unsqueeze", seen, ints(1, 2))

    def positions(self, x):
        count = self.add("Squeeze", self.size(x, 1))
        return self.add("Range", np.array(0, np.int64), count, np.array(1, np.int64))

    def causal_mask(self, x):
        """[1, 1, length, length]"""
        at = self.positions(x)
        seen = self.add("LessOrEqual", self.add("Unsqueeze", at, ints(0)), self.add("Unsqueeze", at, ints(1)))
        return self.add("Unsqueeze", seen, ints(0, 1))

    def window_mask(self, x, reach=3):
        at = self.positions(x)
        apart = self.add("Abs", self.add("Sub", self.add("Unsqueeze", at, ints(0)), self.add("Unsqueeze", at, ints(1))))
        return self.add("Unsqueeze", self.add("LessOrEqual", apart, np.array(reach, np.int64)), ints(0, 1))

    def triangle(self, q, k):
        """is_causal=True: 0 and -infinity, [queries, keys]"""
        shape = self.add("Concat", self.add("Shape", q, start=-2, end=-1), self.add("Shape", k, start=-2, end=-1), axis=0)
        ones = self.add("Trilu", self.add("Expand", np.array(1, F), shape), upper=0)
        return self.add("Where", self.add("Equal", ones, F(0)), F(-np.inf), F(0))

    # ------------------------------------------------------------------ attention

    def keys(self, k, middle=(0, 2, 1)):
        """[.., length, size] to [.., size, length] through [-1, length, size]."""
        last, length = self.add("Shape", k, start=-1), self.add("Shape", k, start=-2, end=-1)
        first = self.add("Shape", k, end=-2)
        flat = self.add("Reshape", k, self.add("Concat", ints(-1), length, last, axis=0), allowzero=0)
        flat = self.add("Transpose", flat, perm=list(middle))
        return self.add("Reshape", flat, self.add("Concat", first, last, length, axis=0), allowzero=0)

    def attention(self, q, k, v, size, seen=None, added=None):
        """F.scaled_dot_product_attention. seen: a mask of bool, which also brings the guard; added: a mask of floats."""
        root = F(size ** -.25)
        scores = self.add("MatMul", self.add("Mul", q, root), self.add("Mul", self.keys(k), root))
        if seen is not None:
            added = self.add("Where", seen, F(0), F(-np.inf))
        p = self.add("Softmax", scores if added is None else self.add("Add", scores, added), axis=-1)
        if seen is not None:
            p = self.add("Where", self.add("IsNaN", p), F(0), p)
        return self.add("MatMul", p, v)
