"""ONNX's backend tests (onnx.backend.test) through inlay.backend. Prints the number of tests, and exits with 1 if a
test fails that neither EXCLUDED nor tests/conformance/wrong_data.txt names."""
import pathlib
import sys
import unittest
import warnings

import numpy as np
import onnx.backend.test

import inlay.backend

if "object" not in vars(np):
    np.object = object  # Debian's onnx is older than its numpy

EXCLUDED = [
    # Random operators without an expected result, or the preview domain of training.
    "bernoulli", "randomnormal", "randomuniform", "multinomial", "training_dropout", "adagrad", "adam_",
    "momentum", "nesterov", "gradient",
    # Their data has other shapes than their models declare.
    "castlike_BFLOAT16_to_FLOAT", "castlike_FLOAT_to_BFLOAT16",
    # The runner calls len() on a scalar.
    "loop16_seq_none",
    # No provider decodes images.
    "image_decoder",
    # The runner stores each 4-bit integer in a byte, with special types.
    "INT4_", "int4_",
    # The runner compares the bits of NaN.
    "_to_FLOAT8E5M2_(cpu|expanded)",
]
WRONG_DATA = pathlib.Path(__file__).parent.parent / "conformance" / "wrong_data.txt"


def main():
    warnings.simplefilter("ignore")
    tests = onnx.backend.test.BackendTest(inlay.backend, __name__)
    tests.include("^test_.*_cpu$")
    wrong = [line.split()[0] for line in WRONG_DATA.read_text().splitlines() if line and not line.startswith("#")]
    for name in EXCLUDED + [f"^{name}_cpu$" for name in wrong]:
        tests.exclude(name)
    suite = unittest.TestSuite()
    for name, case in tests.test_cases.items():
        if "RealModel" not in name:  # these are downloaded
            suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    result = unittest.TextTestRunner(verbosity=0).run(suite)
    ran = result.testsRun - len(result.skipped)
    print(f"{ran} ran, {len(result.failures) + len(result.errors)} failed")
    sys.exit(0 if result.wasSuccessful() and ran > 800 else 1)


if __name__ == "__main__":
    main()
