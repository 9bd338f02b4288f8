#!/usr/bin/python3
"""Regions of committed runs computed by WebAssembly: `inlay extract` cuts a region out of the model, `inlay bundle --target
wasm32 --reproducible cpu` compiles it, and Node runs it on the tensors of the proof. What leaves it has the hashes of the
proof; with a bit of one input flipped, it does not.

  proof_wasm.py INLAY [MODELS]    the executable; generated models (default: 2). Exit code 77: bundles for wasm32 cannot be made
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from proof import REGIONS, digest, generated, inlay

RUN = """
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
const model = await (await import(process.argv[1])).load()
const array = (type, bytes) => new globalThis[type](bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length))
const inputs = model.inputs.map(({ name, array: type }) => [name, array(type, readFileSync(`in/${name}`))])
mkdirSync('out', { recursive: true })
for (const [name, result] of Object.entries(model.run(Object.fromEntries(inputs))))
  writeFileSync(`out/${name}`, new Uint8Array(result.buffer, result.byteOffset, result.byteLength))
"""


def run_region(inputs, outputs):
    """The hashes of the outputs. Both: name -> tensor of the proof."""
    for name in ("in", "out"):
        shutil.rmtree(name, ignore_errors=True)
    pathlib.Path("in").mkdir()
    for name, value in inputs.items():
        pathlib.Path("in", name).write_bytes(value.tobytes())
    subprocess.run(["node", "--input-type=module", "-e", RUN, pathlib.Path("region.mjs").absolute().as_uri()], check=True,
                   timeout=300)
    return {name: digest(np.frombuffer(pathlib.Path("out", name).read_bytes(), value.dtype).reshape(value.shape))
            for name, value in outputs.items()}


def compiled(region):
    """Bundles a region as region.wasm. False: `inlay bundle` refuses its sizes or operators."""
    done = inlay("bundle", f"stage.{region}.onnx", "--target", "wasm32", "--reproducible", "cpu", "--dim", "batch=2", "-o",
                 "region.wasm", "--quiet", codes=(0, 1, 2, 3, 4))
    return done.returncode == 0


def main():
    models = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    agreed = differed = skipped = 0
    for seed in range(models):
        generated(seed, sizes=False)  # whose regions can be bundled
        inlay("run", "m.onnx", "--dim", "batch=2", "--commit", "run.proof", "--regions", str(REGIONS), "--seed", str(seed))
        inlay("extract", "m.onnx", "--split", str(REGIONS), "-o", "stage.onnx")
        tensors = json.loads(pathlib.Path("run.proof/proof.json").read_text(encoding="utf-8"))["tensors"]
        values = {name: np.load(f"run.proof/{tensor['sha256']}.npy") for name, tensor in tensors.items()}
        for region in range(REGIONS):
            if not compiled(region):
                skipped += 1
                continue
            described = json.loads(inlay("inspect", f"stage.{region}.onnx", "--json").stdout)
            inputs, outputs = ({entry["name"]: values[entry["name"]] for entry in described[kind] if entry["name"] in values}
                               for kind in ("inputs", "outputs"))
            want = {name: tensors[name]["sha256"] for name in outputs}
            got = run_region(inputs, outputs)
            if got != want:
                sys.exit(f"model {seed}, region {region}: the module has other hashes: {got}, not {want}")
            agreed += 1
            name = next((name for name, value in inputs.items() if value.dtype == np.float32), None)
            if name is None:  # a region that computes weights
                continue
            changed = inputs[name].copy()
            changed.reshape(-1).view(np.uint32)[seed % changed.size] ^= 1 << 22
            differed += run_region(inputs | {name: changed}, outputs) != want
    if skipped > models * REGIONS // 2 or differed < agreed // 2:
        sys.exit(f"{agreed} regions agree, {skipped} could not be compiled, {differed} of the flipped bits changed a hash")
    print(f"{agreed} regions of {models} models have the hashes of the proof in WebAssembly; {differed} of {agreed} flipped bits "
          f"changed a hash; {skipped} regions could not be compiled")


if __name__ == "__main__":
    if not shutil.which("node"):
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
