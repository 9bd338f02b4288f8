#!/usr/bin/env python3
"""The operators that had attributes `broadcast` and `axis` or another form before opset 7, converted to later opsets:
the results are those of the original, and ONNX's checker accepts the file.

    early_forms.py INLAY"""
import itertools
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

INLAY = sys.argv[1]
ARITHMETIC, LOGIC, EQUAL = ["Add", "Sub", "Mul", "Div", "Pow", "Less", "Greater"], ["And", "Or", "Xor"], ["Equal"]
# The shape of the second input, and attributes; the first has shape [2, 3, 4].
FORMS = [((2, 3, 4), {}), ((3, 4), {"broadcast": 1}), ((4, ), {"broadcast": 1}), ((), {"broadcast": 1}),
         ((1, ), {"broadcast": 1}), ((2, ), {"broadcast": 1, "axis": 0}), ((3, ), {"broadcast": 1, "axis": 1}),
         ((2, 3), {"broadcast": 1, "axis": 0}), ((3, 4), {"broadcast": 1, "axis": 1}), ((3, ), {"broadcast": 1, "axis": -2}),
         ((1, ), {"broadcast": 1, "axis": 0})]
# Other forms: operator, opset, shapes of the inputs, shape of the output, attributes.
OTHERS = [("Reshape", 1, [(2, 6)], (2, 2, 3), {"shape": [0, -1, 3]}),
          ("Reshape", 4, [(2, 6)], (4, 3), {"shape": [4, 3]}),
          ("LpPool", 1, [(1, 2, 5, 5)], (1, 2, 4, 4), {"kernel_shape": [2, 2], "p": 3.0}),
          ("LpPool", 1, [(1, 2, 5)], (1, 2, 4), {"kernel_shape": [2]}),
          ("GlobalLpPool", 1, [(1, 2, 5, 4)], (1, 2, 1, 1), {"p": 1.0}),
          ("GlobalLpPool", 1, [(1, 2, 5, 4)], (1, 2, 1, 1), {}),
          ("Upsample", 1, [(1, 2, 3, 2)], (1, 2, 6, 6), {"height_scale": 2.0, "width_scale": 3.0}),
          ("Upsample", 1, [(1, 1, 3, 2)], (1, 1, 6, 3), {"height_scale": 2.0, "width_scale": 1.5, "mode": "bilinear"}),
          ("Pad", 1, [(2, 3)], (3, 4), {"paddings": [0, 1, 1, 0], "value": 2.0}),
          ("Pad", 1, [(2, 3)], (3, 5), {"paddings": [1, 0, 0, 2]}),
          ("Cast", 1, [(2, 3)], (2, 3), {"to": "INT32"}), ("Cast", 5, [(3, )], (3, ), {"to": "BOOL"}),
          ("Concat", 1, [(2, 1), (2, 3)], (2, 4), {}), ("Concat", 3, [(2, 1), (2, 3)], (2, 4), {"axis": 1}),
          ("PRelu", 1, [(2, 3, 2, 4), (3, )], (2, 3, 2, 4), {}), ("PRelu", 6, [(2, 3, 4), (1, )], (2, 3, 4), {}),
          ("PRelu", 6, [(2, 3), (3, )], (2, 3), {}), ("Max", 1, [(3, ), (3, )], (3, ), {"consumed_inputs": [0, 0]})]


def run(*words):
    done = subprocess.run([INLAY, *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"FAIL: {' '.join(map(str, words))}: {done.stderr.strip()[-400:]}")


def model(op, shapes, result, attributes, opset, dtype, constant):
    """Returns the model; its inputs are random."""
    names = "abc"[:len(shapes)]
    rng = np.random.default_rng(1)
    kinds = {T.BOOL: np.bool_, T.INT32: np.int32, T.FLOAT: np.float32}
    arrays = [np.asarray(rng.integers(1 if dtype == T.FLOAT else 0, 3, s), kinds[dtype]) for s in shapes]
    if op == "PRelu":
        arrays[0] -= 2
    node = helper.make_node(op, list(names), ["y"], **attributes)
    out = T.BOOL if op in LOGIC + EQUAL + ["Less", "Greater"] else dtype
    out = getattr(T, attributes["to"]) if op == "Cast" else out
    inputs = [helper.make_tensor_value_info(n, dtype, s) for n, s in zip(names, shapes)]
    graph = helper.make_graph([node], "g", inputs[:1] if constant else inputs,
                              [helper.make_tensor_value_info("y", out, result)],
                              [numpy_helper.from_array(np.asarray(a), n) for n, a in zip(names, arrays)][1:]
                              if constant else [])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=4)
    return made, dict(zip(names[:1] if constant else names, arrays))


def check(folder, made, arrays):
    onnx.save(made, folder / "from.onnx")
    inputs = []
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        inputs += ["--input", f"{name}={folder}/{name}.npy"]
    common = ["--providers", "reference", "--quiet"]
    run("run", folder / "from.onnx", *inputs, *common, "--level", "0", "--outputs", folder / "want")
    for opset in (7, 13, 17):
        run("optimize", folder / "from.onnx", "-o", folder / "to.onnx", "--opset", str(opset), "--level", "0", "--quiet")
        onnx.checker.check_model(str(folder / "to.onnx"), full_check=True)
        run("run", folder / "to.onnx", *inputs, *common, "--expect", folder / "want")


def main():
    count = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for op in ARITHMETIC + LOGIC + EQUAL:
            dtype = T.BOOL if op in LOGIC else T.INT32 if op in EQUAL else T.FLOAT
            forms = FORMS if op in ("Sub", "And") else FORMS[1::4]
            for (shape, attributes), opset in itertools.product(forms, (6, )):
                check(folder, *model(op, [(2, 3, 4), shape], (2, 3, 4), attributes, opset, dtype, count % 2 == 1))
                count += 1
        for shape in ((2, 4), (4, ), (1, )):
            attributes = {"broadcast": 1} if shape != (2, 4) else {}
            check(folder, *model("Gemm", [(2, 3), (3, 4), shape], (2, 4), attributes, 6, T.FLOAT, False))
            count += 1
        for op, opset, shapes, result, attributes in OTHERS:
            check(folder, *model(op, shapes, result, attributes, opset, T.FLOAT, False))
            count += 1
    print(f"{count} models converted to three opsets each")


main()
