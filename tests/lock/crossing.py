"""Models whose nodes the optimiser and the providers join over many edges, so that each cut goes through something that a
whole model computes otherwise than its parts."""
import random

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

WIDTH, HEADS, TOKENS = 16, 2, 5


class Model:
    """Layers from [batch, tokens, WIDTH] to the same shape; batch and tokens are symbols."""

    def __init__(self, seed):
        self.rng, self.choose = np.random.default_rng(seed), random.Random(seed)
        self.nodes, self.weights, self.named = [], [], {}

    def add(self, op, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}" + (f"_{i}" if i else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=f"n{len(self.nodes)}", **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value, dtype=np.float32):
        """An initializer; equal ones are shared by all that read them."""
        array = np.asarray(value, dtype)
        key = (array.tobytes(), array.dtype.str, array.shape)
        if key not in self.named:
            self.named[key] = f"w{len(self.weights)}"
            self.weights.append(numpy_helper.from_array(array, self.named[key]))
        return self.named[key]

    def weight(self, *shape):
        return self.constant(self.rng.standard_normal(shape) / 4)

    def sized(self, x, *last):
        """The target of a Reshape: batch and tokens of x, then `last`."""
        sizes = [self.add("Unsqueeze", self.add("Gather", self.add("Shape", x), self.constant(i, np.int64)),
                          self.constant([0], np.int64)) for i in range(2)]
        return self.add("Concat", *sizes, self.constant(list(last), np.int64), axis=0)

    # ---- layers

    def attention(self, x):
        def split(shared, order):
            heads = self.add("Reshape", self.add("Add", self.add("MatMul", x, self.weight(WIDTH, WIDTH)), self.weight(WIDTH)),
                             shared)
            return self.add("Transpose", heads, perm=order)

        shared = self.sized(x, HEADS, WIDTH // HEADS)
        query, value = split(shared, [0, 2, 1, 3]), split(self.sized(x, HEADS, WIDTH // HEADS), [0, 2, 1, 3])
        score = self.add("Div", self.add("MatMul", query, split(shared, [0, 2, 3, 1])), self.constant(np.sqrt(WIDTH / HEADS)))
        mixed = self.add("Transpose", self.add("MatMul", self.add("Softmax", score, axis=-1), value), perm=[0, 2, 1, 3])
        merged = self.add("Reshape", mixed, self.sized(x, WIDTH))
        return self.add("Add", self.add("MatMul", merged, self.weight(WIDTH, WIDTH)), x)

    def norm(self, x):
        far = self.add("Sub", x, self.add("ReduceMean", x, axes=[-1]))
        variance = self.add("ReduceMean", self.add("Pow", far, self.constant(2)), axes=[-1])
        unit = self.add("Div", far, self.add("Sqrt", self.add("Add", variance, self.constant(1e-5))))
        return self.add("Add", self.add("Mul", unit, self.weight(WIDTH)), self.weight(WIDTH))

    def gelu(self, x):
        wide = self.add("Add", self.weight(3 * WIDTH), self.add("MatMul", x, self.weight(WIDTH, 3 * WIDTH)))
        bell = self.add("Add", self.add("Erf", self.add("Div", wide, self.constant(np.sqrt(2)))), self.constant(1))
        wide = self.add("Mul", self.add("Mul", wide, bell), self.constant(.5))
        return self.add("MatMul", wide, self.weight(3 * WIDTH, WIDTH))

    def convolution(self, x):
        rows = self.add("Transpose", x, perm=[0, 2, 1])
        padded = self.add("Pad", rows, self.constant([0, 0, 1, 0, 0, 1], np.int64))
        conv = self.add("Conv", padded, self.weight(WIDTH, WIDTH, 3))
        conv = self.add("BatchNormalization", conv, self.weight(WIDTH), self.weight(WIDTH), self.weight(WIDTH),
                        self.constant(self.rng.random(WIDTH) + .5))
        conv = self.add("Mul", conv, self.weight(WIDTH, 1))
        return self.add("Transpose", self.add("Mul", conv, self.add("Sigmoid", conv)), perm=[0, 2, 1])

    def quantized(self, x):
        scale, zero = self.constant(1 / 32), self.constant(3, np.int8)
        weight = self.add("DequantizeLinear", self.constant(self.rng.integers(-99, 99, (WIDTH, WIDTH)), np.int8),
                          self.constant(1 / 256), self.constant(0, np.int8))
        x = self.add("DequantizeLinear", self.add("QuantizeLinear", x, scale, zero), scale, zero)
        x = self.add("MatMul", x, weight)
        return self.add("DequantizeLinear", self.add("QuantizeLinear", x, scale, zero), scale, zero)

    def dynamic(self, x):
        data, scale, zero = self.add("DynamicQuantizeLinear", x, outputs=3)
        product = self.add("MatMulInteger", data, self.constant(self.rng.integers(-99, 99, (WIDTH, WIDTH)), np.int8), zero)
        scale = self.add("Mul", scale, self.constant(1 / 256))
        return self.add("Mul", self.add("Cast", product, to=TensorProto.FLOAT), scale)

    def computed(self, x):
        """Weights that nodes compute: some above the limit of folding, some from others."""
        ones = self.add("ConstantOfShape", self.constant([WIDTH, 20000], np.int64),
                        value=numpy_helper.from_array(np.array([.01], np.float32)))
        start = self.constant(self.choose.randrange(3) * WIDTH, np.int64)
        part = self.add("Slice", ones, self.add("Unsqueeze", start, self.constant([0], np.int64)),
                        self.constant([9 * WIDTH], np.int64), self.constant([1], np.int64), self.constant([7], np.int64))
        wide = self.add("MatMul", x, self.add("Neg", part))
        wide = self.add("ReduceSum", wide, self.constant([-1], np.int64))
        return self.add("Add", self.add("MatMul", x, self.add("Transpose", self.weight(WIDTH, WIDTH), perm=[1, 0])), wide)

    def moves(self, x):
        """Transposes that cancel, slices, casts and concatenations that merge, and equal subexpressions."""
        first, second = self.add("Split", x, outputs=2, axis=-1)
        both = self.add("Concat", self.add("Tanh", second), self.add("Concat", first, self.add("Tanh", second), axis=-1), axis=-1)
        both = self.add("Transpose", self.add("Exp", self.add("Transpose", both, perm=[2, 0, 1])), perm=[1, 2, 0])
        for begin, end in ((0, 99), (0, WIDTH)):
            both = self.add("Slice", both, *(self.constant([number], np.int64) for number in (begin, end, 2)))
        both = self.add("Cast", self.add("Cast", both, to=TensorProto.DOUBLE), to=TensorProto.FLOAT)
        return self.add("Add", self.add("Identity", both), self.add("Log", both))

    def control(self, x):
        """An If and a Loop whose bodies read values of several regions."""
        value = helper.make_tensor_value_info
        out, weight, one = f"b{len(self.nodes)}", self.weight(WIDTH, WIDTH), self.constant(1, np.int64)
        total = self.add("Greater", self.add("ReduceSum", x, keepdims=0), self.constant(0))
        bodies = [helper.make_graph([helper.make_node("MatMul", [x, weight], [out + "m"]),
                                     helper.make_node(op, [out + "m"], [out])],
                                    op, [], [value(out, TensorProto.FLOAT, None)]) for op in ("Neg", "Abs")]
        y = self.add("If", total, then_branch=bodies[0], else_branch=bodies[1])
        loop = helper.make_graph(
            [helper.make_node("Identity", [out + "c"], [out + "d"]), helper.make_node("MatMul", [out + "s", weight], [out + "p"]),
             helper.make_node("Add", [out + "p", x], [out + "r"]), helper.make_node("Tanh", [out + "r"], [out + "t"])],
            "loop", [value(out + "i", TensorProto.INT64, []), value(out + "c", TensorProto.BOOL, []),
                     value(out + "s", TensorProto.FLOAT, None)],
            [value(out + "d", TensorProto.BOOL, []), value(out + "t", TensorProto.FLOAT, None)])
        turns = self.add("Gather", self.add("Shape", x), one)
        return self.add("Loop", turns, "", y, body=loop)

    def recurrent(self, x):
        rows = self.add("Transpose", x, perm=[1, 0, 2])
        output = self.add("GRU", rows, self.weight(1, 3 * WIDTH, WIDTH), self.weight(1, 3 * WIDTH, WIDTH),
                          self.weight(1, 6 * WIDTH), hidden_size=WIDTH)
        return self.add("Transpose", self.add("Squeeze", output, self.constant([1], np.int64)), perm=[1, 0, 2])

    def einsum(self, x):
        return self.add("Einsum", x, self.weight(WIDTH, WIDTH), equation="bte,ef->btf")


LAYERS = ["attention", "norm", "gelu", "convolution", "quantized", "dynamic", "computed", "moves", "control", "recurrent",
          "einsum"]


def crossing(seed, path="m.onnx", layers=7):
    """Writes a model. Layers are in a random order, with every kind in each eleven layers of a row of seeds; residual sums
    read values of earlier layers, and some values between nodes are outputs, too."""
    model = Model(seed)
    kinds = [LAYERS[(seed * layers + i) % len(LAYERS)] for i in range(layers)]
    model.choose.shuffle(kinds)
    x, history = "x", []
    for kind in kinds:
        history.append(x)
        x = getattr(model, kind)(x)
        if model.choose.random() < .5:
            x = model.add("Add", x, model.choose.choice(history))
        if model.choose.random() < .5:  # keeps the numbers small
            x = model.add("LayerNormalization", x, model.weight(WIDTH), axis=-1)
    value = helper.make_tensor_value_info
    outputs = [x] + [name for name in history[1:] if model.choose.random() < .3]
    graph = helper.make_graph(model.nodes, "g", [value("x", TensorProto.FLOAT, ["batch", "tokens", WIDTH])],
                              [value(name, TensorProto.FLOAT, None) for name in dict.fromkeys(outputs)], model.weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return kinds
