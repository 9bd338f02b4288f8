"""Runs the quantizer of ONNX Runtime, to compare it with inlay quantize on the same samples:

    peer_quantizer.py MODEL.onnx OUT.onnx DATA.npz [--method MinMax|Percentile|Entropy]

Static, QDQ, per-channel weights, as its guide recommends. DATA has the format of inlay quantize --data: arrays
[samples, ...]. Prints wall-clock and CPU seconds and the peak memory. Needs python3-onnxruntime and python3-onnx
(Debian 13).
"""
import argparse
import json
import os
import resource
import time

import numpy
import onnx.reference  # noqa: F401  before onnxruntime: otherwise Debian's onnx registers its operators twice
from onnxruntime.quantization import (CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quant_pre_process,
                                      quantize_static)


class Samples(CalibrationDataReader):
    def __init__(self, path):
        self.arrays = dict(numpy.load(path))
        self.count = max(len(a) for a in self.arrays.values())
        self.at = 0

    def get_next(self):
        if self.at == self.count:
            return None
        self.at += 1
        return {name: array[self.at - 1] for name, array in self.arrays.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("data")
    parser.add_argument("--method", default="MinMax")
    args = parser.parse_args()
    begin, before = time.monotonic(), args.out + ".prepared"
    quant_pre_process(args.model, before, skip_symbolic_shape=True)
    quantize_static(before, args.out, Samples(args.data), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
                    calibrate_method=CalibrationMethod[args.method])
    os.unlink(before)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"seconds": round(time.monotonic() - begin, 1), "cpu": round(used.ru_utime + used.ru_stime, 1),
                      "peak_mb": used.ru_maxrss // 1024, "bytes": os.path.getsize(args.out)}))


if __name__ == "__main__":
    main()
