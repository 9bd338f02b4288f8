"""Runs the Python tests of ONNX Runtime on the package onnxruntime of inlay.

    onnxruntime_archive.py ARCHIVE README

ARCHIVE has the folders onnxruntime/test and csharp/testdata of ONNX Runtime's sources. README has a table with the
tests that do not pass, by name; the script fails if other tests fail, or if one of these passes."""
import importlib
import io
import os
import re
import sys
import tarfile
import tempfile
import unittest

FILES = ("onnxruntime_test_python", "onnxruntime_test_python_iobinding", "onnxruntime_test_python_backend",
         "onnxruntime_test_python_compile_api")


def expected(readme):
    """The names in the first column of the table whose header is "test of ONNX Runtime"."""
    with open(readme, encoding="utf-8") as f:
        table = f.read().partition("| test of ONNX Runtime |")[2].partition("\n\n")[0]
    return set(re.findall(r"\b(test_\w+)", "\n".join(line.split("|")[1] for line in table.splitlines()[2:])))


def collect(root):
    """A folder testdata with the models that the tests open by name."""
    os.mkdir("testdata")
    for folder in ("csharp/testdata", "onnxruntime/test/testdata", "onnxruntime/test/testdata/TRTEP_test_model"):
        for name in os.listdir(os.path.join(root, folder)):
            if not os.path.lexists(os.path.join("testdata", name)):
                os.symlink(os.path.join(root, folder, name), os.path.join("testdata", name))


def supplement_onnx():
    """The tests are written for a newer package onnx than Debian 12 has."""
    import onnx
    for name in ("numpy_helper", "shape_inference", "checker", "compose"):
        importlib.import_module("onnx." + name)
    if not hasattr(onnx.helper, "tensor_dtype_to_np_dtype"):
        onnx.helper.tensor_dtype_to_np_dtype = lambda number: onnx.mapping.TENSOR_TYPE_TO_NP_TYPE[number]


def main(archive, readme):
    known, root = expected(readme), tempfile.mkdtemp()
    with tarfile.open(archive) as f:
        f.extractall(root)
    os.chdir(tempfile.mkdtemp())
    collect(root)
    supplement_onnx()
    sys.path.insert(0, os.path.join(root, "onnxruntime/test/python"))
    ran, failed, skipped = set(), {}, set()
    for name in FILES:
        suite = unittest.defaultTestLoader.loadTestsFromName(name)
        result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(suite)
        for test, text in result.failures + result.errors:
            match = re.search(r"test_\w+", test.id().split(".")[-1]) or re.search(r"test_\w+", str(test))
            failed.setdefault(match.group(0) if match else str(test), text.strip().splitlines()[-1])
        skipped |= {test.id() for test, _ in result.skipped}
        ran |= {f"{name}:{i}" for i in range(result.testsRun)}
    for name, text in sorted(failed.items()):
        print(f"{'known ' if name in known else 'FAILED'} {name}: {text}")
    for name in sorted(known - set(failed)):
        print(f"PASSED {name}: remove it from the table")
    print(f"{len(ran)} tests, {len(ran) - len(failed) - len(skipped)} passed, {len(skipped)} skipped, {len(failed)} failed, "
          f"{len(set(failed) - known)} of these unknown")
    return 1 if set(failed) ^ known else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
