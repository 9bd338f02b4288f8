#!/usr/bin/env python3
"""Models larger than memory: option memory_limit host=BYTES at a quarter of the weights, compared with the disk.

    stream.py [--inlay FILE] [--folder DIR] [--layers N] [--width N] [--rows N] [--rounds N] [--group]

Writes a model of N layers of Tanh(x W), W a float matrix of width x width, as external data: 32 layers of 4096 are 2 GiB.
In each round the disk is read by `dd iflag=direct` (8 MiB at a time) and, as a second measure, through a mapping in order,
both with an empty page cache; then `inlay bench` runs the model. `weights`: all weights / time of a run, also as a share of
dd's and of the mapping's speed; `read`: those of them that are not kept in memory / time of a run. `peak`: the largest size
of the process, mapped files included (VmHWM), of which about 20 MB are the program.

--group (as root) runs inlay in a control group whose memory is limited to the same bytes, and the page cache counts."""
import argparse
import json
import mmap
import os
import shutil
import subprocess
import tempfile
import time

import numpy as np
import onnx
from onnx import helper

HERE = os.path.dirname(os.path.abspath(__file__))
INLAY = os.path.join(HERE, "..", "..", "build", "release", "bin", "inlay")
CHUNK = 8 << 20


def write_model(folder, layers, width, rows):
    base = np.random.default_rng(0).standard_normal((width, width), dtype=np.float32) / np.float32(np.sqrt(width))
    nodes, weights, at, value = [], [], 0, "x"
    with open(os.path.join(folder, "model.data"), "wb") as data:
        for i in range(layers):
            data.write(np.roll(base, i, axis=0).tobytes())
            weight = onnx.TensorProto(name=f"w{i}", data_type=onnx.TensorProto.FLOAT, dims=[width, width],
                                      data_location=onnx.TensorProto.EXTERNAL)
            for key, text in ("location", "model.data"), ("offset", at), ("length", base.nbytes):
                weight.external_data.add(key=key, value=str(text))
            at += base.nbytes
            weights.append(weight)
            nodes += [helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"]), helper.make_node("Tanh", [f"m{i}"], [f"t{i}"])]
            value = f"t{i}"
        data.flush()
        os.fsync(data.fileno())
    ports = [[helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [rows, width])] for name in ("x", value)]
    made = helper.make_model(helper.make_graph(nodes, "layers", *ports, weights),
                             opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    onnx.save(made, os.path.join(folder, "model.onnx"))
    return at


def empty_cache(path):
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_direct(path):
    began = time.monotonic()
    subprocess.run(["dd", "if=" + path, "of=/dev/null", "iflag=direct", "bs=%d" % CHUNK], check=True, stderr=subprocess.DEVNULL)
    return os.path.getsize(path) / (time.monotonic() - began)


def read_mapped(path):
    """Bytes per second of touching each page of a mapping in order."""
    empty_cache(path)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
        began = time.monotonic()
        for at in range(0, len(pages), CHUNK):
            bytes_of = min(CHUNK, len(pages) - at)
            pages.madvise(22, at, bytes_of)  # MADV_POPULATE_READ
            pages.madvise(mmap.MADV_DONTNEED, at, bytes_of)
            os.posix_fadvise(file.fileno(), at, bytes_of, os.POSIX_FADV_DONTNEED)
        return len(pages) / (time.monotonic() - began)


class Group:
    """A control group (version 1 or 2) whose memory is limited."""

    def __init__(self, limit):
        old = os.path.isdir("/sys/fs/cgroup/memory")
        self.path = ("/sys/fs/cgroup/memory" if old else "/sys/fs/cgroup") + "/inlay-stream-%d" % os.getpid()
        self.peak_file = "memory.max_usage_in_bytes" if old else "memory.peak"
        os.mkdir(self.path)
        with open(os.path.join(self.path, "memory.limit_in_bytes" if old else "memory.max"), "w") as file:
            file.write(str(limit))

    def enter(self):
        with open(os.path.join(self.path, "cgroup.procs"), "w") as file:
            file.write(str(os.getpid()))

    def end(self):
        with open(os.path.join(self.path, self.peak_file)) as file:
            peak = int(file.read())
        os.rmdir(self.path)
        return peak


def inlay(a, model, limit, cache, verb, *flags, group=None):
    command = [a.inlay, verb, model, "--json", "--quiet", "--providers", a.providers, "--memory-limit", "host=%d" % limit,
               "--cache-dir", cache, "--cache-max-bytes", str(1 << 40), *flags]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE,
                                     preexec_fn=group.enter if group else None).stdout)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--inlay", default=INLAY)
    p.add_argument("--folder", help="on the disk to measure; default: the folder of temporary files")
    p.add_argument("--layers", type=int, default=32)
    p.add_argument("--width", type=int, default=4096)
    p.add_argument("--rows", type=int, default=1)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--providers", default="cpu,reference")
    p.add_argument("--group", action="store_true")
    a = p.parse_args()
    folder = tempfile.mkdtemp(prefix="inlay-stream-", dir=a.folder)
    try:
        weights = write_model(folder, a.layers, a.width, a.rows)
        limit, model, cache = weights // 4, os.path.join(folder, "model.onnx"), os.path.join(folder, "cache")
        sizes = inlay(a, model, limit, cache, "explain")["weights"]  # also packs the weights
        packs = [os.path.join(cache, "packs", name) for name in os.listdir(os.path.join(cache, "packs"))]
        measured = packs[0] if packs else os.path.join(folder, "model.data")
        print("%.0f MB of weights, limit %.0f MB; %.0f MB stay in memory, %.0f MB are read in each run" %
              tuple(x / 1e6 for x in (weights, limit, sizes["in_memory_bytes"], sizes["read_bytes"])))
        print("%8s %8s %8s %9s %8s %8s %9s %8s %8s" %
              ("dd MB/s", "map MB/s", "run ms", "weights", "of dd", "of map", "read", "peak MB", "group MB"))
        for _ in range(a.rounds):
            direct, mapped = read_direct(measured), read_mapped(measured)
            group = Group(limit) if a.group else None
            for path in (measured, os.path.join(folder, "model.data")):
                empty_cache(path)
            run = inlay(a, model, limit, cache, "bench", "--runs", "5", "--seconds", "60", "--warmup", "0", group=group)
            speed = weights / run["median_ms"] * 1e3
            print("%8.0f %8.0f %8.0f %9.0f %8.2f %8.2f %9.0f %8.0f %8s" %
                  (direct / 1e6, mapped / 1e6, run["median_ms"], speed / 1e6, speed / direct, speed / mapped,
                   sizes["read_bytes"] / run["median_ms"] / 1e3, run["peak_mb"] * 1.048576,
                   "%.0f" % (group.end() / 1e6) if group else "-"), flush=True)
    finally:
        shutil.rmtree(folder)


main()
