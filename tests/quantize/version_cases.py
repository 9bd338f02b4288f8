"""ONNX's test cases of its version converter, applied to inlay:

    version_cases.py INLAY [unittest arguments]

Run by hand, if python3-onnx includes its tests (Debian 13; they need python3-parameterized). A rejection by inlay counts
as a conversion error, like ONNX's. The cases then check the written model: its form, its types, and that nodes are as
expected.
"""
import os
import subprocess
import sys
import tempfile
import unittest

import onnx
import onnx.version_converter

INLAY = os.path.abspath(sys.argv.pop(1))


def convert_version(model, opset):
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, f"{folder}/from.onnx")
        done = subprocess.run([INLAY, "optimize", f"{folder}/from.onnx", "-o", f"{folder}/to.onnx", "--opset", str(opset),
                               "--level", "0", "--no-config", "--cache-dir", "", "--quiet"], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}")
        return onnx.load(f"{folder}/to.onnx")


onnx.version_converter.convert_version = convert_version
sys.path.append(os.path.join(os.path.dirname(onnx.__file__), "test", "version_converter"))
unittest.main(module=None, argv=sys.argv[:1] + (sys.argv[1:] or [
    "onnx.test.version_converter_test", "onnx.test.version_converter.automatic_upgrade_test"]))
