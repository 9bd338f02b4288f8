"""Prints the inputs and outputs of models as the Python packages report them, in the form of describe.cjs.

    describe.py onnxruntime|inlay FILE..."""
import json
import os
import re
import sys

TYPES = {"float": "float32", "double": "float64"}


def of_onnxruntime(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for side in session.get_inputs(), session.get_outputs():
        yield [(port.name, match and match.group(1), port.shape)
               for port in side for match in [re.fullmatch(r"tensor\((\w+)\)", port.type)]]


def of_inlay(path):
    import inlay

    session = inlay.Session(path)
    for side in [port for port in session.inputs if not port.optional], session.outputs:
        yield [(port.name, port.dtype if port.kind == "tensor" else None, port.shape or ()) for port in side]


def main(package, *paths):
    describe = {"onnxruntime": of_onnxruntime, "inlay": of_inlay}[package]
    for path in paths:
        line = [os.path.basename(path)]
        try:
            for side in describe(path):
                line.append([[name] if dtype is None else
                             [name, TYPES.get(dtype, dtype), ["" if size is None else size for size in shape]]
                             for name, dtype, shape in side])
        except Exception as error:  # pylint: disable=broad-except
            line = [line[0], None, str(error)]
        print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
