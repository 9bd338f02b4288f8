#!/usr/bin/env python3
"""Runs the models of models.py, and compares the results and the findings of `inlay check`.

    compat.py INLAY [--peer DIR] [NAME...]

--peer compares with ONNX Runtime as well: DIR has ort_bench and libonnxruntime.so.1."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx

import flex
import models
import searches

LEVELS = ("0", "99")


def run(*command):
    # Without caches each process would probe each plug-in again, which takes ten times as long as the model.
    environment = dict(os.environ, INLAY_CACHE_DIR="", INLAY_PROBE="never")
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment, check=False)


def differs(got, want, case):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"is {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    if np.allclose(got.astype(np.float64), want.astype(np.float64), case.rtol, case.atol, equal_nan=True):
        return ""
    worst = np.abs(got.astype(np.float64) - want.astype(np.float64)).max()
    return f"differs by up to {worst:.3g}"


def outputs_of(folder, case):
    return [np.load(os.path.join(folder, name.name + ".npy")) for name in case.model.graph.output]


def compare(folder, case, who):
    wrong = []
    for i, (got, want) in enumerate(zip(outputs_of(folder, case), case.outputs)):
        text = differs(got, want, case)
        if text:
            wrong.append(f"{who}: output {i} {text}")
    return wrong


def computes(inlay, path, case, folder):
    wrong = []
    for level in LEVELS:
        out = os.path.join(folder, "out" + level)
        done = run(inlay, "run", path, "--inputs", os.path.join(folder, "in"), "--outputs", out, "--level", level)
        if done.returncode != 0:
            wrong.append(f"level {level}: {done.stderr.strip()}")
        else:
            wrong += compare(out, case, f"level {level}")
    return wrong


def checks(inlay, path, case):
    """A quirk is a finding, and the model runs; with strict_model it is refused."""
    found = json.loads(run(inlay, "check", path, "--json").stdout)
    codes = sorted({f["code"] for f in found["findings"]})
    wrong = [] if found["ok"] and codes == sorted(case.codes) else [f"check says {codes}, expected {case.codes}"]
    if any(not f["path"].startswith("$") or not f["fix"] for f in found["findings"]):
        wrong.append("a finding lacks its path or fix")
    if case.codes:
        strict = run(inlay, "run", path, "--strict-model", "1")
        if strict.returncode != 3 or len(strict.stderr.strip().splitlines()) != 1:
            wrong.append(f"strict_model: exit {strict.returncode}: {strict.stderr.strip()}")
    return wrong


def refuses(path):
    """The error of ONNX's checker; "" if it accepts the file."""
    try:
        onnx.checker.check_model(onnx.load(path), full_check=True)
        return ""
    except Exception as error: # pylint: disable=broad-except
        return str(error).strip().replace("\n", " ")[:200]


def writes(inlay, path, case, folder, where):
    """The output of `inlay optimize -o` for a valid model is valid, and computes the same in other runtimes."""
    wrong = []
    if refuses(path):
        return wrong
    for level in ("0", "1", "2", "99"):
        small = os.path.join(folder, "small.onnx")
        done = run(inlay, "optimize", path, "-o", small, "--level", level)
        why = refuses(small) if done.returncode == 0 else done.stderr.strip()
        if why:
            wrong.append(f"optimize --level {level}: {why}")
        elif where and case.peer:
            wrong += peer(folder, small, case, where)
    return wrong


def raises(inlay, path, case, folder):
    """--opset allows newer operators if every node has the same meaning in that opset."""
    if case.name == "layer_norm_at_13":
        small = os.path.join(folder, "raised.onnx")
        done = run(inlay, "optimize", path, "-o", small, "--opset", "17")
        why = refuses(small) if done.returncode == 0 else done.stderr.strip()
        made = [] if why else onnx.load(small)
        if why or made.opset_import[0].version != 17 or [n.op_type for n in made.graph.node] != ["LayerNormalization"]:
            return [f"optimize --opset 17: {why or made.graph.node}"]
    return []


def peer(folder, path, case, where):
    out = tempfile.mkdtemp(dir=folder)
    done = run(os.path.join(where, "ort_bench"), os.path.join(where, "libonnxruntime.so.1"), path, "--seconds", 0,
               "--warmup", 0, "--level", 0, "--inputs", os.path.join(folder, "in"), "--outputs", out)
    return compare(out, case, "peer") if done.returncode == 0 else [f"peer: {done.stderr.strip()}"]


def feed(folder, made, inputs):
    """Writes a model and its inputs; returns the path of the model."""
    path = os.path.join(folder, "model.onnx")
    onnx.save(made, path)
    os.makedirs(os.path.join(folder, "in"), exist_ok=True)
    for name, array in inputs.items():
        np.save(os.path.join(folder, "in", name + ".npy"), array)
    return path


def is_refused(done, text=""):
    return 0 < done.returncode < 128 and len(done.stderr.strip().splitlines()) == 1 and text in done.stderr


def refuses_inputs(inlay):
    """Images that are too small, wrong settings and damaged states of a search give an error of one line, never a crash."""
    wrong = []
    for name, made, inputs, text in [*searches.refusals(), *models.small_images()]:
        with tempfile.TemporaryDirectory() as folder:
            path = feed(folder, made, inputs)
            done = run(inlay, "run", path, "--inputs", os.path.join(folder, "in"))
            if not is_refused(done, text):
                wrong.append(f"{name}: exit {done.returncode}: {done.stderr.strip()}")
    for i, (made, inputs) in enumerate(searches.broken_states(60)):
        with tempfile.TemporaryDirectory() as folder:
            path = feed(folder, made, inputs)
            done = run(inlay, "run", path, "--inputs", os.path.join(folder, "in"))
            if done.returncode != 0 and not is_refused(done):
                wrong.append(f"broken state {i}: exit {done.returncode}: {done.stderr.strip()}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("inlay")
    parser.add_argument("--peer")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    bad = count = 0
    for case in [*models.quirks(), *models.patterns(), *models.operators(), *searches.cases(), *flex.cases()]:
        if args.names and case.name not in args.names:
            continue
        count += 1
        with tempfile.TemporaryDirectory() as folder:
            path = feed(folder, case.model, case.inputs)
            wrong = computes(args.inlay, path, case, folder) + checks(args.inlay, path, case)
            wrong += writes(args.inlay, path, case, folder, args.peer)
            wrong += raises(args.inlay, path, case, folder)
            if args.peer and case.peer:
                wrong += peer(folder, path, case, args.peer)
        for text in wrong:
            print(f"{case.name}: {text}")
        bad += bool(wrong)
    refused = [] if args.names else refuses_inputs(args.inlay)
    for text in refused:
        print(text)
    bad += len(refused)
    print(f"{count} models, {bad} wrong")
    return 1 if bad or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
