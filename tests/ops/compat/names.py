#!/usr/bin/env python3
"""Compares the operators of com.microsoft, and the experimental ones of ai.onnx, with those that ONNX Runtime registers.

    names.py INLAY [PEER]

PEER, or INLAY_PEER in the environment, is the folder that tests/models/peer/setup.sh made; without it the test is skipped.
Every word in ONNX Runtime's library is tried as an operator. A name that only one of the two has must be listed below,
with the reason. Operators without a kernel for CPUs are changed until ONNX Runtime says so."""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

from onnx import helper

# Operators that ONNX Runtime registers without a kernel for CPUs; has_no_kernel() asks it.
NO_CPU_KERNEL = set("""
    BiasAdd BiasDropout BiasSoftmax BiasSplitGelu BitmaskBiasDropout BitmaskDropout ComplexMul ComplexMulConj
    DecoderAttention DecoderMaskedSelfAttention DequantizeBFP DequantizeWithOrder FusedMatMulActivation GatedDeltaNet
    GatedRelativePositionBias GemmFastGelu GemmFloat8 GemmaRotaryEmbedding GroupNorm Irfft IsAllFinite
    LongformerAttention MatMulBlockQuantizedFp4Weight MatMulBlockQuantizedFp8Weight MatMulNBitsMlp MatMulNBitsQkv
    MulInteger NhwcConv PackedAttention PackedMultiHeadAttention PagedAttention QOrderedAttention QOrderedGelu
    QOrderedLayerNormalization QOrderedLongformerAttention QOrderedMatMul QuantizeBFP QuantizeWithOrder ReduceSumInteger
    RelativePositionBias RemovePadding RestorePadding Rfft SkipGroupNorm Snpe TorchEmbedding
    VarlenCausalConvWithState""".split())

NOT_HERE = {
    "Constant": "a function's constant; models use that of ai.onnx",
    "EPContext": "the bridge to ONNX Runtime's providers brings it (providers/ort_ep)",
}

# Operators of this project that this release of ONNX Runtime lacks on CPUs or at all.
ONLY_HERE = set()

EXPERIMENTS = "Affine Crop DynamicSlice ImageScaler MeanVarianceNormalization ParametricSoftplus Scale ScaledTanh ThresholdedRelu"


# For a node without a kernel: the types that its inputs may have, tried in this order; float, float16, int32, ...
TYPES = (1, 10, 6, 7, 2, 3, 9, 17, 16, 12)
NAMES = dict(zip(("float", "float16", "int32", "int64", "uint8", "int8", "bool", "float8e4m3fn", "bfloat16", "uint32"), TYPES))
VALUES = {"INT": 1, "STRING": "a", "FLOAT": 1.0, "INTS": [1], "STRINGS": ["a"], "FLOATS": [1.0]}


def model_of(op, domain, opset, types=(1,), outputs=1, attributes=None):
    """A node with inputs of these types and unknown sizes; the operator may need others."""
    sizes = [1] if op == "MatMulNBitsMlp" else None # it requires known ones
    names, made = [f"x{i}" for i in range(len(types))], [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, made, domain=domain, **(attributes or {}))
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, t, sizes) for n, t in zip(names, types)],
                              [helper.make_tensor_value_info(n, 6, None) if op == "ReduceSumInteger" else
                               helper.make_empty_tensor_value_info(n) for n in made])
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    made = helper.make_model(graph, opset_imports=imports)
    made.ir_version = 8
    return made.SerializeToString()


class Peer:
    """ONNX Runtime, which loads models."""

    def __init__(self, peer, folder):
        self.program, self.library = os.path.join(folder, "ort_load"), os.path.join(peer, "libonnxruntime.so.1")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ort_load.c")
        subprocess.run(["cc", "-I", os.path.join(peer, "include"), source, "-ldl", "-o", self.program], check=True)

    def load(self, models):
        """What it says about each model: "ok" or an error."""
        data = b"".join(struct.pack("<I", len(m)) + m for m in models)
        done = subprocess.run([self.program, self.library], input=data, capture_output=True, check=True)
        lines = done.stdout.decode(errors="replace").splitlines()
        if len(lines) != len(models):
            raise SystemExit(f"ONNX Runtime stopped at model {len(lines)} of {len(models)}")
        return lines

    def registered(self, words, domain, opset):
        """Those of the words that it knows as operators of the domain."""
        lines = self.load([model_of(w, domain, opset) for w in words])
        return {word for word, line in zip(words, lines) if "is not a registered function/op" not in line}


def mended(line, turn, types, outputs, attributes):
    """The inputs' types, the number of outputs and the attributes of a node, changed as the error asks."""
    found = re.search(r"has input size \d+ not in range \[min=\d+, max=(\d+)", line)
    if found:
        return [1] * int(found[1]), outputs, attributes
    found = re.search(r"has output size \d+ not in range \[min=(\d+)", line)
    if found:
        return types, int(found[1]), attributes
    found = re.search(r"Required attribute '(\w+)' is missing", line)
    if found:
        return types, outputs, {**attributes, found[1]: VALUES["INT"]}
    found = re.search(r"Mismatched attribute type in '.*: (\w+)'. Expected: '(\w+)'", line)
    if found:
        return types, outputs, {**attributes, found[1]: VALUES[found[2]]}
    found = re.search(r"bound to different types \(tensor\((\w+)\) and tensor\((\w+)\)", line)
    if found:
        one, other = (NAMES[found[1 + (turn + k) % 2]] for k in (0, 1))
        return [other if kind == one else kind for kind in types], outputs, attributes
    found = re.search(r"of input parameter \(x(\d+)\) of operator|type inference failed", line)
    at = int(found[1] or 0) if found else None
    return [TYPES[(TYPES.index(t) + 1) % len(TYPES)] if i == at else t for i, t in enumerate(types)], outputs, attributes


def has_no_kernel(peer, words):
    """Those of the words for which ONNX Runtime has no kernel: it says so, or makes a float16 input a float, which the
    operator refuses."""
    nodes, proven = {word: ([1], 1, {}) for word in words}, set()
    for turn in range(60):
        left = sorted(set(words) - proven)
        for word, line in zip(left, peer.load([model_of(w, "com.microsoft", 17, *nodes[w]) for w in left])):
            if "Could not find an implementation for" in line or "parameter (InsertedPrecisionFreeCast_" in line:
                proven.add(word)
            nodes[word] = mended(line, turn, *nodes[word])
    return proven


def main():
    peer = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("INLAY_PEER")
    if not peer:
        print("INLAY_PEER does not name a folder with ONNX Runtime")
        return 77
    listed = json.loads(subprocess.run([sys.argv[1], "providers", "--operators", "--json"], capture_output=True,
                                       check=True).stdout)["operators"]
    ours = {row["operator"] for row in listed if row["domain"] == "com.microsoft"}
    with open(os.path.join(peer, "libonnxruntime.so.1"), "rb") as file:
        found = re.findall(rb"(?<![A-Za-z0-9_])[A-Z][A-Za-z0-9]{2,40}(?=\0)", file.read())
    words = sorted({word.decode() for word in found} | ours | NO_CPU_KERNEL | set(NOT_HERE))
    with tempfile.TemporaryDirectory() as folder:
        runtime = Peer(peer, folder)
        theirs = runtime.registered(words, "com.microsoft", 17)
        old = runtime.registered(EXPERIMENTS.split(), "", 7)
        kernels = NO_CPU_KERNEL - has_no_kernel(runtime, NO_CPU_KERNEL)
    wrong = [f"{name} is missing" for name in sorted(theirs - ours - NO_CPU_KERNEL - set(NOT_HERE))]
    wrong += [f"{name} is not an operator of this ONNX Runtime" for name in sorted(ours - theirs - ONLY_HERE)]
    wrong += [f"{name} is listed as missing, but is here" for name in sorted((NO_CPU_KERNEL | set(NOT_HERE)) & ours)]
    wrong += [f"{name} may have a kernel for CPUs there" for name in sorted(kernels)]
    names = {row["operator"] for row in listed if row["domain"] == "ai.onnx"}
    wrong += [f"{name} of ai.onnx below opset 10 is missing" for name in sorted(old - names)]
    for text in wrong:
        print(text)
    print(f"{len(words)} words, {len(theirs)} operators of com.microsoft, {len(ours)} here, {len(wrong)} wrong")
    return 1 if wrong or len(theirs) < 100 or len(old) < 9 else 0


if __name__ == "__main__":
    sys.exit(main())
