"""Runs models for the scripts in this folder. A name is a path, which inlay runs, or ort:PATH, which ONNX Runtime runs:
tests/models/peer/setup.sh installs ONNX Runtime in a folder, which INLAY_PEER names.

The Python package inlay must be installed (sdk/bindings/python/README.md).
"""
import json
import os
import subprocess
import tempfile
import time

import numpy


class Inlay:
    def __init__(self, path, threads):
        import inlay

        self.session = inlay.Session(path, intra_threads=threads)
        self.inputs = [i.name for i in self.session.inputs]
        self.took = []

    def run(self, values):
        """Outputs in the order of the model."""
        begin = time.perf_counter_ns()
        out = list(self.session.run(values).values())
        self.took.append(time.perf_counter_ns() - begin)
        return [numpy.asarray(o) for o in out]

    def ms(self):
        """The minimum, because other load makes runs longer, never shorter."""
        return min(self.took) / 1e6


class Peer:
    """Starts a process for each run: slow, but needs no Python package of ONNX Runtime."""

    def __init__(self, path, threads):
        self.path, self.threads, self.took = path, threads, []
        self.peer = os.environ.get("INLAY_PEER")
        if not self.peer:
            raise SystemExit("ort:... needs INLAY_PEER: the folder that tests/models/peer/setup.sh created")
        outputs = [o.name for o in Inlay(path, 1).session.outputs]
        self.files = [name.replace("/", "_").replace(":", "_") + ".npy" for name in outputs]

    def run(self, values):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/in")
            os.mkdir(f"{folder}/out")
            for name, value in values.items():
                numpy.save(f"{folder}/in/{name.replace('/', '_').replace(':', '_')}.npy", value)
            said = subprocess.run([f"{self.peer}/ort_bench", f"{self.peer}/libonnxruntime.so.1", self.path, "--threads",
                                   str(self.threads), "--seconds", "0.3" if len(self.took) < 3 else "0", "--warmup",
                                   "1" if len(self.took) < 3 else "0", "--inputs", f"{folder}/in", "--outputs",
                                   f"{folder}/out"], check=True, capture_output=True, text=True).stdout
            if len(self.took) < 3:
                self.took.append(json.loads(said.strip().splitlines()[-1])["min_ms"])
            return [numpy.load(f"{folder}/out/{name}") for name in self.files]

    def ms(self):
        return min(self.took)


def open_model(name, threads=1):
    return Peer(name[4:], threads) if name.startswith("ort:") else Inlay(name, threads)


def label(name):
    """The first cells of a row: the name of the model, and its size in MiB."""
    path = name[4:] if name.startswith("ort:") else name
    who = "ONNX Runtime: " if name.startswith("ort:") else ""
    return f"| {who}{os.path.basename(path)} | {os.path.getsize(path) / 2**20:.1f}"
