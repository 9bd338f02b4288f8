#!/usr/bin/env python3
"""By hand: libinlay_ep.so in Python's onnxruntime (1.23 and later): models compared with its own CPU provider.
    python.py LIBRARY MODEL...     exit code 1: a difference above 1e-4 of the largest element of an output
Debian's package is python3-onnxruntime."""
import os
import sys

import numpy
import onnxruntime

TYPES = {"tensor(float)": numpy.float32, "tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32,
         "tensor(uint8)": numpy.uint8, "tensor(bool)": numpy.bool_, "tensor(double)": numpy.float64}


def inputs_of(session):
    random = numpy.random.default_rng(42)
    feeds = {}
    for value in session.get_inputs():
        shape = [size if isinstance(size, int) else 1 for size in value.shape]
        data = random.standard_normal(shape) if "float" in value.type else random.integers(0, 2, shape)
        feeds[value.name] = data.astype(TYPES[value.type])
    return feeds


def difference(expected, actual):
    if expected.dtype.kind != "f":
        return float(numpy.any(expected != actual))
    scale = numpy.max(numpy.abs(expected), initial=1)
    return float(numpy.max(numpy.abs(expected - actual), initial=0) / scale)


def main():
    library, models = sys.argv[1], sys.argv[2:]
    onnxruntime.register_execution_provider_library("inlay", os.path.abspath(library))
    devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == "InlayExecutionProvider"]
    assert devices, "the library lists no device"
    worst = 0
    for path in models:
        options = onnxruntime.SessionOptions()
        options.add_provider_for_devices(devices[:1], {})
        stock = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        session = onnxruntime.InferenceSession(path, sess_options=options)
        assert session.get_providers()[0] == "InlayExecutionProvider", session.get_providers()
        feeds = inputs_of(stock)
        expected = stock.run(None, feeds)
        for _ in range(2):
            actual = session.run(None, feeds)
            found = max(difference(e, a) for e, a in zip(expected, actual))
            worst = max(worst, found)
        print(f"{os.path.basename(path)}: {len(expected)} outputs, largest difference {found:.1e}")
    print(f"onnxruntime {onnxruntime.__version__}, {len(models)} models, largest difference {worst:.1e}")
    sys.exit(worst > 1e-4)


main()
