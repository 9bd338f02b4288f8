"""WebNN's conformance tests as ONNX models, run with default settings and on provider reference without optimiser.

    webnn.py FOLDER [--only TEXT]

FOLDER has the tests as JSON, a file for each operation: tests/wpt_data/conformance of https://github.com/rustnn/rustnn,
which converts those of web-platform-tests. Each test is one operation; here it becomes the operator of ONNX with the
same definition, between transposes where WebNN has other layouts. Constants of the test are initializers. JSON has no
NaN and no infinity: tests that need one, and have null instead, are skipped. The last line has the counts."""
import argparse
import json
import math
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import inlay

SETTINGS = {"default": {}, "reference": {"providers": "reference", "level": "0"}}
CODES = {np.dtype(name): code for name, code in (
    ("float32", TensorProto.FLOAT), ("float16", TensorProto.FLOAT16), ("int32", TensorProto.INT32),
    ("int64", TensorProto.INT64), ("uint32", TensorProto.UINT32), ("uint64", TensorProto.UINT64),
    ("int8", TensorProto.INT8), ("uint8", TensorProto.UINT8))}
SAME = {"hardSwish": "HardSwish", "matmul": "MatMul", "lesser": "Less", "lesserOrEqual": "LessOrEqual",
        "greaterOrEqual": "GreaterOrEqual", "reduceProduct": "ReduceProd", "logicalNot": "Not",
        "convTranspose2d": "ConvTranspose", "conv2d": "Conv"}
UNARY = {"abs", "ceil", "exp", "floor", "log", "neg", "relu", "sigmoid", "sqrt", "tanh", "hardSwish"}
BINARY = {"add", "sub", "mul", "div", "max", "min", "pow", "matmul"}
COMPARISONS = {"equal", "greater", "greaterOrEqual", "lesser", "lesserOrEqual"}
ALPHAS = {"elu": {"alpha": 1}, "leakyRelu": {"alpha": 0.01}, "hardSigmoid": {"alpha": 0.2, "beta": 0.5}}
TOLERANCE = {np.dtype(np.float16): 5e-3, np.dtype(np.float32): 1e-5}


class Untranslated(Exception):
    """A test without a counterpart here, with the reason."""


def number(value):
    """Large integers and infinities are texts."""
    return float(value.rstrip("n").replace("Infinity", "inf")) if isinstance(value, str) else value


def array(described):
    """The tensor of a test. One number fills the shape."""
    form, data = described["descriptor"], described["data"]
    dtype, shape = np.dtype(form["dataType"]), form["shape"]
    data = data if isinstance(data, list) else [data] * math.prod(shape)
    if dtype.kind in "iu":
        data = [int(str(x).rstrip("n")) if isinstance(x, str) else x for x in data]
    else:
        data = [number(x) for x in data]
    with np.errstate(over="ignore"):
        return np.array(data).astype(dtype).reshape(shape)


class Model:
    """The model of one test."""

    def __init__(self, graph):
        if "null" in json.dumps(graph):
            raise Untranslated("null instead of NaN or an infinity")
        self.inputs = {name: array(value) for name, value in graph["inputs"].items()}
        self.constant_inputs = {name for name, value in graph["inputs"].items() if value.get("constant")}
        self.expected = {name: array(value) for name, value in graph["expectedOutputs"].items()}
        self.nodes, self.constants = [], []
        [operation] = graph["operators"]
        arguments = {key: value for one in operation["arguments"] for key, value in one.items()}
        self.options = arguments.pop("options", None) or {}
        self.arguments = list(arguments.values())
        self.outputs = operation["outputs"] if isinstance(operation["outputs"], list) else [operation["outputs"]]
        self.translate(operation["name"])

    def constant(self, value, dtype=np.int64):
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def node(self, op, inputs, outputs=None, **attributes):
        """Returns the name of the first output."""
        outputs = outputs or [f"value_{len(self.nodes)}"]
        self.nodes.append(helper.make_node(op, inputs, outputs, **attributes))
        return outputs[0]

    def moved(self, name, perm):
        return name if list(perm) == sorted(perm) else self.node("Transpose", [name], perm=list(perm))

    def result(self, name, perm=None):
        """The output of the test, transposed back from perm."""
        if perm is None or list(perm) == sorted(perm):
            self.node("Identity", [name], self.outputs)
        else:
            self.node("Transpose", [name], self.outputs, perm=[int(i) for i in np.argsort(perm)])

    def shape(self, name):
        return self.inputs[name].shape

    def translate(self, name):
        x, options = self.arguments[0], self.options
        op = SAME.get(name, name[0].upper() + name[1:])
        if name in UNARY | BINARY:
            self.node(op, self.arguments, self.outputs)
        elif name in COMPARISONS:
            self.node("Cast", [self.node(op, self.arguments)], self.outputs, to=TensorProto.UINT8)
        elif name == "logicalNot":
            self.node("Cast", [self.node("Not", [self.node("Cast", [x], to=TensorProto.BOOL)])], self.outputs,
                      to=TensorProto.UINT8)
        elif name in ALPHAS:
            self.node(op, [x], self.outputs,
                      **{key: float(number(options.get(key, value))) for key, value in ALPHAS[name].items()})
        elif name.startswith("reduce"):
            self.reduction(op, x)
        elif hasattr(self, name):
            getattr(self, name)(x)
        else:
            raise Untranslated(f"operation {name}")

    def reduction(self, op, x):
        """Without axes to reduce, the function applies to single elements."""
        axes, keep = self.options.get("axes"), int(self.options.get("keepDimensions", False))
        if axes == []:
            x, axes, keep = self.node("Unsqueeze", [x, self.constant([-1])]), [-1], 0
        if op == "ReduceSum":
            self.node(op, [x] + ([] if axes is None else [self.constant(axes)]), self.outputs, keepdims=keep)
        else:
            self.node(op, [x], self.outputs, keepdims=keep, **({} if axes is None else {"axes": axes}))

    def cast(self, x):
        self.node("Cast", [x], self.outputs, to=CODES[np.dtype(self.arguments[1])])

    def clamp(self, x):
        """Bounds of integers are rounded inwards; those outside of the type have no effect, or leave its end."""
        dtype, bounds = self.inputs[x].dtype, []
        for key, towards in (("minValue", math.ceil), ("maxValue", math.floor)):
            bound = number(self.options.get(key))
            if bound is None or dtype.kind in "iu" and math.isinf(bound):
                bounds.append("")
                continue
            if dtype.kind in "iu":
                bound = min(max(towards(bound), np.iinfo(dtype).min), np.iinfo(dtype).max)
            bounds.append(self.constant(bound, dtype))
        self.node("Clip", [x, *bounds], self.outputs)

    def concat(self, names):
        self.node("Concat", names, self.outputs, axis=self.arguments[1])

    def expand(self, x):
        self.node("Expand", [x, self.constant(self.arguments[1])], self.outputs)

    def reshape(self, x):
        self.node("Reshape", [x, self.constant(self.arguments[1])], self.outputs, allowzero=1)

    def transpose(self, x):
        perm = self.options.get("permutation")
        self.node("Transpose", [x], self.outputs, **({} if perm is None else {"perm": perm}))

    def softmax(self, x):
        self.node("Softmax", [x], self.outputs, axis=self.arguments[1] if len(self.arguments) > 1 else -1)

    def linear(self, x):
        alpha, beta = (self.constant(number(self.options.get(key, value)), self.inputs[x].dtype)
                       for key, value in (("alpha", 1), ("beta", 0)))
        self.node("Add", [self.node("Mul", [x, alpha]), beta], self.outputs)

    def gather(self, x):
        """WebNN limits indices to the axis."""
        axis, indices = self.options.get("axis", 0), self.arguments[1]
        size = self.shape(x)[axis]
        wide = self.node("Cast", [indices], to=TensorProto.INT64)
        near = self.node("Clip", [wide, self.constant(-size), self.constant(size - 1)])
        self.node("Gather", [x, near], self.outputs, axis=axis)

    def slice(self, x):
        starts, sizes = self.arguments[1:3]
        if not starts:
            self.result(x)
            return
        ends = [start + size for start, size in zip(starts, sizes)]
        lists = starts, ends, list(range(len(starts))), self.options.get("strides", [1] * len(starts))
        self.node("Slice", [x, *(self.constant(values) for values in lists)], self.outputs)

    def split(self, x):
        axis, sizes = self.options.get("axis", 0), self.arguments[1]
        sizes = [self.shape(x)[axis] // sizes] * sizes if isinstance(sizes, int) else sizes
        self.node("Split", [x, self.constant(sizes)], self.outputs, axis=axis)

    def conv2d(self, x):
        self.convolution(x, "oihw")

    def convTranspose2d(self, x):  # pylint: disable=invalid-name
        self.convolution(x, "iohw")

    def convolution(self, x, order):
        layout, filters = self.options.get("inputLayout", "nchw"), self.options.get("filterLayout", order)
        top, bottom, left, right = self.options.get("padding", [0, 0, 0, 0])
        attributes = {"pads": [top, left, bottom, right], "strides": self.options.get("strides", [1, 1]),
                      "dilations": self.options.get("dilations", [1, 1]), "group": self.options.get("groups", 1)}
        if "outputSizes" in self.options: # instead of the output's padding
            whole = [(self.shape(x)[layout.index(c)] - 1) * stride +
                     (self.shape(self.arguments[1])[filters.index(c)] - 1) * dilation + 1 - pads
                     for c, stride, dilation, pads in zip("hw", attributes["strides"], attributes["dilations"],
                                                          (top + bottom, left + right))]
            attributes["output_padding"] = [a - b for a, b in zip(self.options["outputSizes"], whole)]
        elif "outputPadding" in self.options:
            attributes["output_padding"] = self.options["outputPadding"]
        perm = [layout.index(c) for c in "nchw"]
        inputs = [self.moved(x, perm), self.moved(self.arguments[1], [filters.index(c) for c in order])]
        inputs += [self.options["bias"]] if self.options.get("bias") else []
        self.result(self.node("Conv" if order == "oihw" else "ConvTranspose", inputs, **attributes), perm)

    def scale_and_bias(self, x, shape):
        dtype = self.inputs[x].dtype
        return (self.options.get("scale") or self.constant(np.ones(shape), dtype),
                self.options.get("bias") or self.constant(np.zeros(shape), dtype))

    def batchNormalization(self, x):  # pylint: disable=invalid-name
        axis, rank = self.options.get("axis", 1), len(self.shape(x))
        perm = [axis] if rank == 1 else [1 if i == axis else axis if i == 1 else i for i in range(rank)]
        scale, bias = self.scale_and_bias(x, [self.shape(x)[axis]])
        given = self.moved(x, perm) if rank > 1 else self.node("Unsqueeze", [x, self.constant([0])])
        made = self.node("BatchNormalization", [given, scale, bias, *self.arguments[1:3]],
                         epsilon=float(self.options.get("epsilon", 1e-5)))
        self.result(made if rank > 1 else self.node("Squeeze", [made, self.constant([0])]), perm)

    def instanceNormalization(self, x):  # pylint: disable=invalid-name
        layout = self.options.get("layout", "nchw")
        perm = [layout.index(c) for c in "nchw"]
        scale, bias = self.scale_and_bias(x, [self.shape(x)[layout.index("c")]])
        self.result(self.node("InstanceNormalization", [self.moved(x, perm), scale, bias],
                              epsilon=float(self.options.get("epsilon", 1e-5))), perm)

    def layerNormalization(self, x):  # pylint: disable=invalid-name
        """Over any axes, in any order; over none, of each element alone."""
        shape = self.shape(x)
        axes = self.options.get("axes", list(range(1, len(shape))))
        perm = [i for i in range(len(shape)) if i not in axes] + axes
        sizes = [shape[i] for i in axes]
        parameters, given = self.scale_and_bias(x, sizes), self.moved(x, perm)
        if not axes:
            given = self.node("Unsqueeze", [given, self.constant([-1])])
            parameters = [self.node("Reshape", [name, self.constant([1])]) for name in parameters]
        made = self.node("LayerNormalization", [given, *parameters], axis=-max(len(axes), 1),
                         epsilon=float(self.options.get("epsilon", 1e-5)))
        self.result(made if axes else self.node("Squeeze", [made, self.constant([-1])]), perm)

    def bytes(self):
        def infos(values):
            return [helper.make_tensor_value_info(n, CODES[v.dtype], v.shape) for n, v in values.items()]

        constants = [numpy_helper.from_array(self.inputs[name], name) for name in sorted(self.constant_inputs)]
        graph = helper.make_graph(self.nodes, "test", infos(self.feeds()), infos(self.expected),
                                  self.constants + constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()

    def feeds(self):
        return {name: value for name, value in self.inputs.items() if name not in self.constant_inputs}


def difference(got, want):
    """What differs, or ""."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"is {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    if want.dtype.kind in "iu":
        right = got == want
    else:
        with np.errstate(invalid="ignore"):
            right = np.isclose(got.astype(np.float64), want.astype(np.float64), TOLERANCE[want.dtype],
                               TOLERANCE[want.dtype], equal_nan=True)
    wrong = np.argwhere(~right)
    return f"at {wrong[0].tolist()}: {got[tuple(wrong[0])]}, not {want[tuple(wrong[0])]}" if len(wrong) else ""


def differences(model, options):
    try:
        made = inlay.Session(model.bytes(), config=False, **options).run(model.feeds())
    except inlay.InlayError as error:
        return [str(error)]
    texts = ((name, difference(np.asarray(made[name]), want)) for name, want in model.expected.items())
    return [f"output {name} {text}" for name, text in texts if text]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", help="operations whose names contain this text")
    args = parser.parse_args()
    passed = failed = skipped = 0
    for path in sorted(p for p in args.folder.glob("*.json") if args.only in p.stem):
        for test in json.loads(path.read_text())["tests"]:
            try:
                model = Model(test["graph"])
            except Untranslated as reason:
                print(f"skipped: {path.stem}: {test['name']}: {reason}")
                skipped += 1
                continue
            texts = [f"{who}: {text}" for who, options in SETTINGS.items() for text in differences(model, options)]
            for text in texts:
                print(f"{path.stem}: {test['name']}: {text}")
            passed, failed = passed + (not texts), failed + bool(texts)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
