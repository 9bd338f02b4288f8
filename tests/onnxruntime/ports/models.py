"""Writes models whose inputs and outputs have many kinds of declared names, types and shapes.

    models.py FOLDER [COUNT] [SEED]

Axes have sizes, names (also such that look like expressions, numbers or made-up names), an empty name, or nothing;
shapes of outputs may be missing; initializers may be inputs; values may be sequences and maps. No shape depends on a
computed one (Shape, then Expand): inlay then reports sizes that ONNX Runtime does not know."""
import os
import random
import sys

import onnx
from onnx import TensorProto, helper

NAMES = ("N", "batch", "batch size", "seq_len", "floor((image_width + 7)/8)", "x[0]", "i0[1]", "unk__12", "?", "-1",
         "0", "7", "None", "größe", "a\"b", "a\\b", "line\nbreak", "1 + N", "2*N", "N" * 300,
         " ", "DynamicDimension.0")
TYPES = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.DOUBLE)


class Writer:
    def __init__(self, rng):
        self.rng = rng
        self.nodes, self.inputs, self.outputs, self.initializers = [], [], [], []
        self.count = 0

    def name(self, prefix):
        self.count += 1
        odd = self.rng.choice(("", "", "", ":0", "/a.b", " x", "é"))
        return f"{prefix}{self.count}{odd}"

    def dims(self, rank):
        """A size, a name, "" for an empty name, or None for an axis without either."""
        return [self.rng.choice((self.rng.randint(1, 4), self.rng.choice(NAMES), "", None)) for _ in range(rank)]

    def value(self, name, dtype, dims):
        info = helper.make_tensor_value_info(name, dtype, None if dims is None else [1] * len(dims))
        for axis, size in zip(info.type.tensor_type.shape.dim, dims or ()):
            axis.Clear()
            if isinstance(size, int):
                axis.dim_value = size
            elif size is not None:
                axis.dim_param = size
        return info

    def input(self, dtype, rank):
        name = self.name("i")
        dims = None if self.rng.random() < 0.1 else self.dims(rank)
        self.inputs.append(self.value(name, dtype, dims))
        return name, dims

    def node(self, op, inputs, **attributes):
        name = self.name("o")
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def constant(self, dtype, dims, values, as_input):
        name = self.name("w")
        self.initializers.append(helper.make_tensor(name, dtype, dims, values))
        if as_input:
            self.inputs.append(self.value(name, dtype, list(dims)))
        return name

    def output(self, name, dtype, dims):
        self.outputs.append(self.value(name, dtype, dims))

    def declared(self, dims):
        """What an output declares whose real shape is dims: the same, less, or other names."""
        kind = self.rng.randrange(5)
        if dims is None or kind == 0:
            return dims
        if kind == 1:
            return None
        return [self.rng.choice((size, None, self.rng.choice(NAMES), size)) for size in dims]

    def branch(self):
        """An input, a node or two, an output."""
        rank, dtype = self.rng.randint(0, 4), self.rng.choice(TYPES)
        name, dims = self.input(dtype, rank)
        as_input = self.rng.random() < 0.5
        kind = self.rng.choice(("Identity", "Abs", "Add", "Transpose", "Shape", "Unsqueeze", "Concat", "Reshape",
                                "Cast", "NonZero", "Conv", "Slice", "MatMul"))
        out, out_type = dims, dtype
        if kind == "Add":
            result = self.node("Add", [name, self.constant(dtype, [1], [1], as_input)])
            out = [1] if dims == [] else dims
        elif kind == "Transpose" and dims is not None:
            order = list(range(rank))
            self.rng.shuffle(order)
            attributes = {"perm": order} if order else {}  # onnx 1.17 takes no empty list
            result, out = self.node("Transpose", [name], **attributes), [dims[i] for i in order]
        elif kind == "Shape":
            result, out_type = self.node("Shape", [name]), TensorProto.INT64
            out = [rank if dims is not None else None]
        elif kind == "Unsqueeze" and dims is not None:
            axes = self.constant(TensorProto.INT64, [1], [0], as_input)
            result, out = self.node("Unsqueeze", [name, axes]), [1] + dims
        elif kind == "Concat" and rank > 0 and dims is not None:
            result, out = self.node("Concat", [name, name], axis=0), [None] + dims[1:]
        elif kind == "Reshape":
            result = self.node("Reshape", [name, self.constant(TensorProto.INT64, [2], [1, -1], as_input)])
            out = [1, None]
        elif kind == "Cast":
            result, out_type = self.node("Cast", [name], to=TensorProto.FLOAT), TensorProto.FLOAT
        elif kind == "NonZero" and dtype != TensorProto.DOUBLE:
            result, out, out_type = self.node("NonZero", [name]), [None, None], TensorProto.INT64
        elif kind == "Slice" and rank > 0 and dims is not None:
            numbers = [self.constant(TensorProto.INT64, [1], [n], as_input) for n in (0, 1, 0)]
            result, out = self.node("Slice", [name, *numbers]), [None] + dims[1:]
        elif kind == "Conv":
            name = self.name("i")
            batch, width = self.dims(2)
            width = 5 if isinstance(width, int) else width  # inlay refuses a window that does not fit before a run
            self.inputs.append(self.value(name, TensorProto.FLOAT, [batch, 3, width, 16]))
            weight = self.constant(TensorProto.FLOAT, [2, 3, 3, 3], [0.5] * 54, as_input)
            result, out, out_type = self.node("Conv", [name, weight]), [batch, 2, None, 14], TensorProto.FLOAT
        elif kind == "MatMul" and dtype == TensorProto.FLOAT:
            name = self.name("i")
            batch = self.dims(2)
            self.inputs.append(self.value(name, dtype, [*batch, 4]))
            result, out = self.node("MatMul", [name, self.constant(dtype, [4, 2], [0.5] * 8, as_input)]), [*batch, 2]
        else:
            result = self.node("Identity" if kind != "Abs" else "Abs", [name])
        self.output(result, out_type, self.declared(out))

    def special(self):
        """Sequences, optionals, maps, an unused input, an output that is an input or an initializer."""
        kind = self.rng.randrange(6)
        name, dims = self.input(TensorProto.FLOAT, 2)
        if kind == 0:
            result = self.node("SequenceConstruct", [name, name])
            info = helper.make_tensor_sequence_value_info(result, TensorProto.FLOAT, dims and [None, None])
            self.outputs.append(info)
        elif kind == 1:
            sequence = self.name("i")
            self.inputs.append(helper.make_tensor_sequence_value_info(sequence, TensorProto.INT64, None))
            at = self.constant(TensorProto.INT64, [], [0], False)
            dims = self.rng.choice((None, ["N"], [None]))
            self.output(self.node("SequenceAt", [sequence, at]), TensorProto.INT64, dims)
        elif kind == 2:
            scores = self.name("i")
            self.inputs.append(self.value(scores, TensorProto.FLOAT, [None, 3]))
            result = self.name("o")
            self.nodes.append(helper.make_node("ZipMap", [scores], [result], domain="ai.onnx.ml",
                                               classlabels_int64s=[1, 2, 3]))
            info = onnx.ValueInfoProto(name=result)
            item = info.type.sequence_type.elem_type.map_type
            item.key_type = TensorProto.INT64
            item.value_type.tensor_type.elem_type = TensorProto.FLOAT
            self.outputs.append(info)
        elif kind == 3:
            self.output(self.node("Identity", [name]), TensorProto.FLOAT, self.rng.choice((None, dims)))
            self.input(TensorProto.INT64, 1)
        elif kind == 4:
            result = self.node("Identity", [self.constant(TensorProto.FLOAT, [2], [1, 2], False)])
            self.output(result, TensorProto.FLOAT, self.rng.choice((None, [2], ["K"])))
            self.output(self.node("Neg", [name]), TensorProto.FLOAT, self.rng.choice((None, dims)))
        else:  # two inputs that share names of axes, and disagree where they are broadcast
            other = self.name("i")
            self.inputs.append(self.value(other, TensorProto.FLOAT, self.dims(2)))
            self.output(self.node("Mul", [name, other]), TensorProto.FLOAT,
                        self.rng.choice((None, [None, "K"], [None, None])))


def write(path, rng):
    writer = Writer(rng)
    for _ in range(rng.randint(1, 3)):
        writer.special() if rng.random() < 0.3 else writer.branch()
    graph = helper.make_graph(writer.nodes, "g", writer.inputs, writer.outputs, writer.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)])
    model.ir_version = 8
    onnx.save(model, path)


def main(folder, count="300", seed="1"):
    os.makedirs(folder, exist_ok=True)
    for i in range(int(count)):
        write(os.path.join(folder, f"{i:04}.onnx"), random.Random(f"{seed} {i}"))


if __name__ == "__main__":
    main(*sys.argv[1:])
