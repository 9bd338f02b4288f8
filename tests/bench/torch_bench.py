#!/usr/bin/env python3
"""Times a model of export_models.py in torch: torch_bench.py NAME --threads N --seconds S --inputs DIR
[--script | --compile].

Prints one JSON line like ort_bench. The weights equal the exported ones, because the seed is the model's name."""
import argparse
import json
import os
import sys
import time
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "models"))


def peak_mb():
    with open("/proc/self/status") as f:
        return next((int(line.split()[1]) / 1024 for line in f if line.startswith("VmHWM:")), 0)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("name")
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--seconds", type=float, default=1)
    ap.add_argument("--inputs")
    ap.add_argument("--script", action="store_true")
    ap.add_argument("--compile", action="store_true")
    args = ap.parse_args()

    import torch
    import export_models as models
    from check_models import file_name

    torch.set_num_threads(args.threads)
    torch.manual_seed(zlib.crc32(args.name.encode()))
    np.random.seed(zlib.crc32(args.name.encode()) & 0x7FFFFFFF)
    start = time.perf_counter()
    spec = models.REG[args.name][0]()
    feeds = []
    for name, sample in zip(spec.inputs, spec.ref):
        path = os.path.join(args.inputs, file_name(name))
        feeds.append(torch.from_numpy(np.load(path)) if os.path.exists(path) else sample)
    model = spec.model.eval()
    with torch.no_grad():
        if args.script:
            model = torch.jit.freeze(torch.jit.trace(model, tuple(feeds), check_trace=False))
            model = torch.jit.optimize_for_inference(model)
        elif args.compile:
            model = torch.compile(model)
        created = time.perf_counter()
        model(*feeds)
        first = time.perf_counter()
        times = []
        for _ in range(2):
            model(*feeds)
        end = time.perf_counter() + args.seconds
        while time.perf_counter() < end or not times:
            before = time.perf_counter()
            model(*feeds)
            times.append(time.perf_counter() - before)
    print(json.dumps({"create_ms": (created - start) * 1e3, "first_ms": (first - created) * 1e3,
                      "median_ms": float(np.median(times)) * 1e3, "min_ms": min(times) * 1e3, "runs": len(times),
                      "peak_mb": peak_mb()}))


if __name__ == "__main__":
    main()
