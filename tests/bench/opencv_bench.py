#!/usr/bin/env python3
"""Times a model in OpenCV's dnn: opencv_bench.py MODEL.onnx --threads N --seconds S --inputs DIR.

Prints one JSON line like ort_bench."""
import argparse
import glob
import json
import os
import time

import cv2
import numpy as np

from torch_bench import peak_mb


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("model")
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--seconds", type=float, default=1)
    ap.add_argument("--inputs")
    args = ap.parse_args()
    cv2.setNumThreads(args.threads)
    start = time.perf_counter()
    net = cv2.dnn.readNetFromONNX(args.model)
    for path in glob.glob(os.path.join(args.inputs, "*.npy")):
        net.setInput(np.load(path), os.path.basename(path)[:-4])
    created = time.perf_counter()
    names = net.getUnconnectedOutLayersNames()
    net.forward(names)
    first = time.perf_counter()
    times, end = [], first + args.seconds
    while time.perf_counter() < end or not times:
        before = time.perf_counter()
        net.forward(names)
        times.append(time.perf_counter() - before)
    print(json.dumps({"create_ms": (created - start) * 1e3, "first_ms": (first - created) * 1e3,
                      "median_ms": float(np.median(times)) * 1e3, "min_ms": min(times) * 1e3, "runs": len(times),
                      "peak_mb": peak_mb()}))


if __name__ == "__main__":
    main()
