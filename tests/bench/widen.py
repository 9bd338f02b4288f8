"""Converts a model from float to double, as a reference for errors.

Inputs stay float and are cast. Operators without support for double (by their schemas: quantization, scales of
Resize) get floats from a Cast, and another Cast converts their outputs."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE
WIDE_TYPES = {"tensor(double)", "seq(tensor(double))", "optional(tensor(double))"}


def widen_tensor(tensor):
    if tensor.data_type != FLOAT:
        return tensor
    wide = numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)
    return wide


def schema_of(node, opsets):
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = min(opsets.get(domain, 1), onnx.defs.onnx_opset_version() if domain == "" else 1 << 30)
    try:
        return onnx.defs.get_schema(node.op_type, version, domain)
    except Exception:  # onnx raises several types  # noqa: BLE001
        return None


def formal(formals, index):
    """The declaration of the index-th input or output; the last may be variadic."""
    return formals[min(index, len(formals) - 1)] if formals else None


class Graph:
    """A graph during conversion; `wide`: names of double values of this graph and of outer ones."""

    def __init__(self, opsets, wide, names):
        self.opsets, self.wide, self.names = opsets, set(wide), names
        self.nodes, self.narrow = [], {}

    def fresh(self, name):
        self.names[0] += 1
        return f"{name}__{self.names[0]}"

    def cast(self, source, target, to):
        self.nodes.append(helper.make_node("Cast", [source], [target], to=to))

    def as_float(self, name):
        if name not in self.narrow:
            self.narrow[name] = self.fresh(name)
            self.cast(name, self.narrow[name], FLOAT)
        return self.narrow[name]

    # ------------------------------------------------------------- nodes
    def constant(self, node):
        """Constant and ConstantOfShape: the type is in their attributes."""
        attrs = {a.name: a for a in node.attribute}
        float_ones = [a for a in node.attribute if a.name in ("value_float", "value_floats")]
        if float_ones:
            values = float_ones[0].f if float_ones[0].name == "value_float" else list(float_ones[0].floats)
            tensor = numpy_helper.from_array(np.array(values, np.float64))
        elif "value" in attrs:
            if attrs["value"].t.data_type != FLOAT:
                return False
            tensor = widen_tensor(attrs["value"].t)
        elif node.op_type == "ConstantOfShape":
            tensor = numpy_helper.from_array(np.zeros(1, np.float64))
        else:
            return False
        self.nodes.append(helper.make_node(node.op_type, list(node.input), list(node.output), value=tensor))
        self.wide.update(node.output)
        return True

    def with_bodies(self, node):
        """If, Loop, Scan: the outputs of their bodies decide."""
        returned = []
        for attr in node.attribute:
            if attr.type == onnx.AttributeProto.GRAPH:
                inner = Graph(self.opsets, self.wide, self.names)
                inner.run(attr.g, False)
                returned = [o.name in inner.wide for o in attr.g.output]
        if node.op_type == "Loop":  # the first is the condition
            returned = returned[1:]
        self.nodes.append(node)
        self.wide.update(name for name, wide in zip(node.output, returned) if wide)

    def typed_by_attribute(self, node):
        """Returns the attribute with the output's type (Cast and similar operators), or None."""
        for attr in node.attribute:
            if attr.name == ("to" if node.op_type == "Cast" else "dtype") and node.op_type != "EyeLike":
                if attr.i == FLOAT:
                    attr.i = DOUBLE
                return attr.i == DOUBLE
        return None

    def plain(self, node):
        """Returns which inputs may be double by the schema, and which outputs then are."""
        schema = schema_of(node, self.opsets)
        allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints} if schema else {}
        bound, narrowed = {}, set()
        for i, name in enumerate(node.input):
            if name not in self.wide:
                continue
            declared = formal(schema.inputs, i).typeStr if schema else "?"
            if WIDE_TYPES & allowed.get(declared, {declared}):
                bound[declared] = True
            else:
                node.input[i] = self.as_float(name)
                narrowed.add(declared)
        by_attribute = self.typed_by_attribute(node)
        behind = []
        for i, name in enumerate(node.output):
            declared = formal(schema.outputs, i).typeStr if schema else "?"
            if by_attribute or (by_attribute is None and bound.get(declared)):
                self.wide.add(name)
            elif by_attribute is None and name and (declared == "tensor(float)" or declared in narrowed):
                node.output[i] = self.fresh(name)
                behind.append((node.output[i], name))
        self.nodes.append(node)
        for source, target in behind:
            self.cast(source, target, DOUBLE)
            self.wide.add(target)

    # ------------------------------------------------------------- the graph
    def run(self, graph, outermost):
        for tensor in graph.initializer:
            if tensor.data_type == FLOAT:
                self.wide.add(tensor.name)
                tensor.CopyFrom(widen_tensor(tensor))
        held = {t.name for t in graph.initializer}
        for value in graph.input:
            if value.type.tensor_type.elem_type != FLOAT:
                continue
            if outermost and value.name not in held:
                outside = value.name
                value.name = outside + "__float"
                self.cast(value.name, outside, DOUBLE)
            else:
                value.type.tensor_type.elem_type = DOUBLE
            self.wide.add(outside if outermost and value.name not in held else value.name)
        for node in list(graph.node):
            if any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute):
                self.with_bodies(node)
            elif node.op_type not in ("Constant", "ConstantOfShape") or not self.constant(node):
                self.plain(node)
        del graph.node[:]
        graph.node.extend(self.nodes)
        del graph.value_info[:]
        for value in graph.output:
            if value.name in self.wide and value.type.HasField("tensor_type"):
                value.type.tensor_type.elem_type = DOUBLE


def widen(model):
    """Converts the model; inputs that are cast get the suffix "__float"."""
    opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
    Graph(opsets, (), [0]).run(model.graph, True)
    return model
