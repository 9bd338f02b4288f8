#!/usr/bin/env python3
"""Tests inlay run --commit and inlay verify-run: every region holds on every level of the CPU and on every architecture,
proofs have one SHA-256, also those of provider reference alone, and a fault in one region is found by the check of that
region, and of no other.

  proof.py INLAY [MODELS [OTHER...]] [--cases DIR [--count N]]

MODELS: generated models (default: 3); OTHER: commands of inlay on other architectures, in an emulator; --cases: also the
first N (default: all) models of ONNX's test cases below DIR, whose proofs are compared without planted faults.
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from crossing import crossing

INLAY = [os.path.abspath(sys.argv[1])]
REGIONS = 4
FEATURES = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
LEVELS = [level for level, flag in (("avx512", " avx512_vnni"), ("avx2", " avx2 ")) if flag in FEATURES] + ["baseline"]


def generated(seed, sizes=True):
    """A chain of layers with residual sums, an If, and values that enter several regions. Nodes at the beginning compute
    some of the weights from constants, as torch exports equal ones, and, with `sizes`, the target of Reshapes."""
    rng, choose = np.random.default_rng(seed), random.Random(seed)
    nodes, first, weights, current, older, channels, image = [], [], [], "x", "x", 8, True

    def weight(*shape):
        weights.append(numpy_helper.from_array((rng.standard_normal(shape) / 4).astype(np.float32), f"w{len(weights)}"))
        if choose.random() < .5:
            return weights[-1].name
        op = choose.choice(["Identity", "Abs", "Add"])
        first.append(helper.make_node(op, [weights[-1].name] * (1 + (op == "Add")), [f"c{len(first)}"]))
        if choose.random() < .3:
            first.append(helper.make_node("Neg", [first[-1].output[0]], [f"c{len(first)}"]))
        return first[-1].output[0]

    def add(op, inputs, **attributes):
        nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"], name=f"n{len(nodes)}", **attributes))
        return nodes[-1].output[0]

    weights += [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in (("zeroth", [0]), ("rest", [channels, 6, 6]))]
    if sizes:
        first += [helper.make_node(op, inputs, [out], **({"axis": 0} if op == "Concat" else {})) for op, inputs, out in (
            ("Shape", ["x"], "sizes"), ("Gather", ["sizes", "zeroth"], "rows"), ("Concat", ["rows", "rest"], "target"))]
    for layer in range(14):
        before, kind = current, choose.choice(["mix", "mix", "norm", "unary", "sum", "softmax", "pool", "mean", "constant", "if"])
        if sizes and image and layer % 3 == 2:  # sizes that are known before a run, but enter the region as a tensor
            current = add("Reshape", [current, "target"])
        if layer == 8:
            current, image = add("Flatten", [current]), False
            current = add("MatMul", [current, weight(channels * 36, 24)])
        elif kind == "mix" and image:
            current = add("Relu", [add("Conv", [current, weight(channels, channels, 3, 3), weight(channels)], pads=[1, 1, 1, 1])])
        elif kind == "mix":
            current = add("Gemm", [current, weight(24, 24), weight(24)])
        elif kind == "norm":
            current = add("LayerNormalization", [current, weight(6 if image else 24)], axis=-1)
        elif kind == "unary":
            current = add(choose.choice(["Tanh", "Sigmoid", "Erf", "Exp"]), [current])
        elif kind == "sum":
            current = add("Add", [current, older if layer not in (9, 10) else current])
        elif kind == "softmax":
            current = add("Softmax", [current], axis=-1)
        elif kind == "pool" and image:
            current = add("AveragePool", [current], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        elif kind in ("mean", "pool"):
            op = "GlobalAveragePool" if image and choose.random() < .5 else "ReduceMean"
            mean = add(op, [current], **({"axes": [choose.choice([1, -1])]} if op == "ReduceMean" else {}))
            current = add("Sub", [current, mean])
        elif kind == "constant":
            value = add("Constant", [], value=numpy_helper.from_array(rng.standard_normal(1).astype(np.float32), "c"))
            current = add("Mul", [current, value])
        else:
            total = add("ReduceSum", [current], keepdims=0)
            bodies = [helper.make_graph([helper.make_node(op, [current], [f"{op}{layer}"])], op, [],
                                        [helper.make_tensor_value_info(f"{op}{layer}", TensorProto.FLOAT, None)])
                      for op in ("Neg", "Abs")]
            current = add("If", [add("Greater", [total, "zero"])], then_branch=bodies[0], else_branch=bodies[1])
        older = before if image == (layer < 8) and layer != 8 else current
    weights.append(numpy_helper.from_array(np.float32(0), "zero"))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(first + nodes, "g", [value("x", TensorProto.FLOAT, ["batch", channels, 6, 6])],
                              [value(current, TensorProto.FLOAT, None)], weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "m.onnx")


def inlay(*words, codes=(0,), command=None):
    environment = dict(os.environ, INLAY_CACHE_DIR="", INLAY_PROVIDERS="", XDG_CONFIG_HOME="/nonexistent")
    environment.pop("INLAY_ISA", None)
    done = subprocess.run([*(command or INLAY), *words], capture_output=True, text=True, check=False,
                          env=environment, timeout=300)
    if done.returncode not in codes:
        sys.exit(f"inlay {' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def digest(array):
    """value_hash_tensor() of host/tools/data/hash.c."""
    kind = numpy_helper.from_array(array).data_type
    bits = np.ascontiguousarray(array).reshape(-1)
    if kind == TensorProto.FLOAT:
        bits = bits.view(np.uint32).copy()
        bits[(bits & 0x7FFFFFFF) > 0x7F800000] = 0x7F800001
    head = np.array([1, kind, array.ndim], np.uint32).tobytes() + np.array(array.shape, np.int64).tobytes()
    return hashlib.sha256(head + bits.tobytes()).hexdigest()


def read_proof():
    return json.loads(pathlib.Path("run.proof/proof.json").read_text(encoding="utf-8"))


def write_proof(proof):
    claim = {"model": proof["model"]["sha256"], **{key: proof[key] for key in ("settings", "regions", "tensors")}}
    proof["sha256"] = hashlib.sha256(json.dumps(claim, separators=(",", ":"), sort_keys=True).encode()).hexdigest()
    pathlib.Path("run.proof/proof.json").write_text(json.dumps(proof), encoding="utf-8")


def failing(command, level):
    """The regions that do not hold, and the verdicts of all."""
    done = inlay("verify-run", "run.proof", "--region", "all", "--json", *(["--isa", level] if level else []),
                 codes=(0, 1), command=command)
    checked = json.loads(done.stdout)["checked"]
    return [c["region"] for c in checked if not c["holds"]], checked


def computed(region, proof, command=None):
    """The tensors that leave a region, computed from those of the proof that enter it."""
    shutil.rmtree("values", ignore_errors=True)
    inlay("verify-run", "run.proof", "--region", str(region), "--outputs", "values", codes=(0, 1), command=command)
    found = {path.stem: np.load(path) for path in pathlib.Path("values").iterdir()}
    files = {name.replace("/", "_").replace(":", "_"): name for name in proof["tensors"]}
    return {files[stem]: array for stem, array in found.items()}


def leaving():
    """For each region of the proof, the names of the float tensors that leave it."""
    proof = read_proof()
    return [sorted(name for name, array in computed(region, proof).items() if array.dtype == np.float32 and array.size > 0)
            for region in range(proof["regions"])]


def plant(region, names, choose, command=None):
    """A machine that flips a bit of one of the tensors, which leave the region, and goes on computing from there: it writes
    the proof of that run. command: that machine's."""
    proof = read_proof()
    name = choose.choice(names)
    changed = np.load(f"run.proof/{proof['tensors'][name]['sha256']}.npy")
    words = changed.reshape(-1).view(np.uint32)
    while digest(changed) == proof["tensors"][name]["sha256"]:  # a bit of a NaN changes nothing
        words[choose.randrange(words.size)] ^= np.uint32(1 << choose.randrange(32))
    later = {name: changed}
    for other in range(region + 1, proof["regions"] + 1):
        for name, array in later.items():
            proof["tensors"][name]["sha256"] = digest(array)
            np.save(f"run.proof/{digest(array)}.npy", array)
        write_proof(proof)
        later = computed(other, proof, command) if other < proof["regions"] else {}


def restore(right):
    """Makes the folder one of the proof `right` again."""
    pathlib.Path("run.proof/proof.json").write_bytes(right)
    files = {tensor["sha256"] for tensor in json.loads(right)["tensors"].values()}
    for path in pathlib.Path("run.proof").glob("*.npy"):
        if path.stem not in files:
            path.unlink()


def agreed(model, commands, *words, codes=(0,), regions=REGIONS):
    """How many checks of regions hold: the proofs of the model by all commands have one SHA-256, and no check fails. 0:
    the first command does not commit the model."""
    roots, checks = {}, 0
    for command, level in commands:
        shutil.rmtree("run.proof", ignore_errors=True)
        done = inlay("run", model, "--commit", "run.proof", "--regions", str(regions), "--json", *words,
                     *(["--isa", level] if level else []), command=command, codes=codes if not roots else (0,))
        if done.returncode != 0:
            return 0
        roots[level or " ".join(command)] = json.loads(done.stdout)["commit"]["sha256"]
    if len(set(roots.values())) != 1:
        sys.exit(f"{model} {words}: different proofs: {roots}")
    for command, level in commands:
        wrong, checked = failing(command, level)
        checks += len(checked)
        if wrong:
            sys.exit(f"{model} {words}, {level or command}: false alarm in {wrong} of {regions} regions: {checked}")
    return checks


def agreed_cases(folder, most, commands):
    """How many of ONNX's cases were committed, and the checks that hold. Random and empty ones, those whose results are not
    tensors, and those that refuse random inputs are not."""
    cases, total = 0, 0
    for path in sorted(pathlib.Path(folder).rglob("model.onnx")):
        if cases == most:
            break
        checks = agreed(str(path), commands, codes=(0, 1, 2, 3, 4))
        cases += checks > 0
        total += checks
    return cases, total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("inlay")
    parser.add_argument("models", type=int, nargs="?", default=3)
    parser.add_argument("others", nargs="*")
    parser.add_argument("--cases")
    parser.add_argument("--count", type=int, default=-1)
    args = parser.parse_args()
    models = args.models
    commands = [(INLAY, level) for level in LEVELS] + [(command.split(), None) for command in args.others]
    faults = checks = cases = 0
    if args.cases:
        cases, checks = agreed_cases(args.cases, args.count, commands)
        if cases < args.count or cases == 0:
            sys.exit(f"only {cases} cases could be committed")
    for seed in range(models):
        generated(seed)
        for provider in (["--providers", "reference"], []):
            checks += agreed("m.onnx", commands, "--dim", "batch=2", "--seed", str(seed), *provider)
        faults += faults_found(seed, commands[len(LEVELS) - 1:])  # the last level, and other architectures
        crossing(seed, "crossing.onnx")
        for regions in (2, 3, 4, 8, 16)[seed % 3::3]:
            checks += agreed("crossing.onnx", commands, "--dim", "batch=2", "--dim", "tokens=5", "--seed", str(seed),
                             regions=regions)
        faults += faults_found(seed, commands[len(LEVELS) - 1:])
    if faults < 2 * models:
        sys.exit("too few faults were planted")
    if models > 0:
        same_values()
        generated(models - 1)
        inlay("run", "m.onnx", "--commit", "run.proof", "--regions", str(REGIONS), "--dim", "batch=2")
        refused(pathlib.Path("run.proof/proof.json").read_bytes())
    print(f"{2 * models + cases} models on {', '.join([*LEVELS, *args.others])}: one SHA-256 each, {checks} regions hold, "
          f"{faults} faults found in their regions alone")


def faults_found(seed, commands):
    """Plants a fault in up to four regions of the proof, one at a time; each is found in its region alone. How many."""
    right, choose, names, faults = pathlib.Path("run.proof/proof.json").read_bytes(), random.Random(seed), leaving(), 0
    regions = [region for region, leave in enumerate(names) if leave]
    for region in sorted(choose.sample(regions, min(REGIONS, len(regions)))):
        plant(region, names[region], choose)
        faults += 1
        for command, level in commands:
            wrong, checked = failing(command, level)
            if wrong != [region]:
                sys.exit(f"model {seed}, {level or command}: a fault in region {region} is found in {wrong}: {checked}")
        restore(right)
    return faults


def same_values():
    """A committed run has the outputs of another run within its rounding, assumes the same sizes, and has outputs that no
    node computes."""
    value, tensor = helper.make_tensor_value_info, numpy_helper.from_array
    floats = np.arange(3, dtype=np.float32)
    graph = helper.make_graph([helper.make_node("Add", ["x", "given"], ["y"])], "g",
                              [value("x", TensorProto.FLOAT, ["batch", 3]), value("given", TensorProto.FLOAT, [3]),
                               value("unused", TensorProto.FLOAT, [3])],
                              [value(name, TensorProto.FLOAT, None) for name in ("y", "x", "given", "fixed")],
                              [tensor(floats, "given"), tensor(floats + 7, "fixed")])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "outputs.onnx")
    crossing(0, "crossing.onnx")
    for model in ("outputs.onnx", "crossing.onnx"):
        shutil.rmtree("plain", ignore_errors=True)
        plain, committed = (json.loads(inlay("run", model, "--json", *words).stdout)
                            for words in (("--outputs", "plain"), ("--commit", "run.proof", "--expect", "plain")))
        if plain["assumed_inputs"] != committed["assumed_inputs"] or len(plain["outputs"]) != len(committed["outputs"]):
            sys.exit(f"{model}: a committed run has other inputs or outputs: {committed}")


def refused(right):
    """What is changed, missing or cannot be verified is an error of one line."""
    def says(text, *words):
        done = inlay(*words, codes=(1, 2, 3, 4))
        if text not in done.stdout + done.stderr:
            sys.exit(f"inlay {' '.join(words)}: not '{text}': {done.stdout}{done.stderr}")

    proof, path = json.loads(right), pathlib.Path("run.proof/proof.json")
    path.write_text(json.dumps(proof | {"regions": 3}), encoding="utf-8")
    says("so it was changed", "verify-run", "run.proof")
    write_proof(proof | {"settings": []})
    says("not made with reproducible=cpu", "verify-run", "run.proof")
    for setting in ("plugin_dirs=evil", "ort_ep.library=evil.so"):  # what a stranger's proof must not load
        write_proof(proof | {"settings": ["reproducible=cpu", setting]})
        says(setting.split("=", maxsplit=1)[0], "verify-run", "run.proof")
    path.write_text(json.dumps(proof | {"more": 1}), encoding="utf-8")
    says("more", "verify-run", "run.proof")
    for change, text in ((-1, "an earlier version"), (1, "a newer version")):
        path.write_text(json.dumps(proof | {"inlay_proof": proof["inlay_proof"] + change}), encoding="utf-8")
        says(text, "verify-run", "run.proof")
    path.write_bytes(right)
    says("the proof has the regions 0 to", "verify-run", "run.proof", "--region", "9")
    says("is not the model of the proof", "verify-run", "run.proof", "--model", "crossing.onnx")
    first = pathlib.Path(f"run.proof/{proof['tensors']['x']['sha256']}.npy")
    for name, tensor in proof["tensors"].items():  # also those that no region reads
        file = pathlib.Path(f"run.proof/{tensor['sha256']}.npy")
        content = file.read_bytes()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        says(f"is not the tensor '{name}' of the proof", "verify-run", "run.proof", "--region", "all")
        file.write_bytes(content)
    inlay("verify-run", "run.proof", "--region", "all")
    first.unlink()
    says("the maker of the proof has it", "verify-run", "run.proof", "--region", "all")
    for option in ("providers=reference", "precision=reduced", "dim=batch=3"):
        says(f"sets {option.split('=', maxsplit=1)[0]}, but verify-run takes", "verify-run", "run.proof", "--option", option)
    says("--commit permits options of", "run", "m.onnx", "--commit", "other.proof", "--option", "openblas.x=1")
    says("--commit needs reproducible=cpu", "run", "m.onnx", "--commit", "other.proof", "--reproducible", "0")
    graph = helper.make_graph([helper.make_node("RandomNormal", [], ["y"], shape=[2])], "g", [],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "random.onnx")
    says("are random", "run", "random.onnx", "--commit", "other.proof")
    for opset, mode, given, attributes in ((1, None, False, {"is_test": 1}), (6, None, False, {}), (7, None, False, {}),
                                           (13, None, False, {}), (13, False, False, {}), (22, True, False, {}),
                                           (22, False, True, {})):
        modes = [helper.make_tensor_value_info("mode", TensorProto.BOOL, [])] if given else []
        values = [] if mode is None or given else [numpy_helper.from_array(np.array(mode), "mode")]
        graph = helper.make_graph(
            [helper.make_node("Dropout", ["x"] if mode is None else ["x", "", "mode"], ["y"], **attributes)], "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]), *modes],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])], values)
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), "dropout.onnx")
        if opset == 6 or mode is True or given:
            says("the results of Dropout", "run", "dropout.onnx", "--commit", "other.proof")
        else:
            inlay("run", "dropout.onnx", "--commit", "other.proof")
            inlay("verify-run", "other.proof")
            shutil.rmtree("other.proof")
    for option in ("last_logits=1", "watchdog=1%", "tap=v3", "max_error=0.1"):
        says(f"sets {option.split('=', maxsplit=1)[0]}, which concerns the whole model", "run", "m.onnx", "--commit",
             "other.proof", "--option", option)
    says("the model expects float", "run", "m.onnx", "--commit", "other.proof", "--input", "x=random:2,3")
    graph = helper.make_graph([helper.make_node("SplitToSequence", ["x"], ["parts"]),
                               helper.make_node("ConcatFromSequence", ["parts"], ["y"], axis=0)], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "sequence.onnx")
    says("value 'parts' is no tensor", "run", "sequence.onnx", "--commit", "other.proof")
    inlay("run", "sequence.onnx", "--commit", "other.proof", "--regions", "1")
    # a proof that cannot be written leaves no files but those of an earlier one
    os.makedirs("blocked.proof/proof.json")
    shutil.copy(next(pathlib.Path("other.proof").glob("*.npy")), "blocked.proof")
    earlier = set(os.listdir("blocked.proof"))
    says("proof.json", "run", "sequence.onnx", "--commit", "blocked.proof", "--regions", "1")
    if set(os.listdir("blocked.proof")) != earlier:
        sys.exit(f"a proof that failed left {os.listdir('blocked.proof')} instead of {earlier}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
