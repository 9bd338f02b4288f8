#!/usr/bin/env python3
"""Compares the operators of com.microsoft, and the experimental ones of ai.onnx, with those that ONNX Runtime registers.

    names.py INLAY [PEER]

PEER, or INLAY_PEER in the environment, is the folder that tests/models/peer/setup.sh made; without it the test is skipped.
Every word in ONNX Runtime's library is tried as an operator. A name that only one of the two has must be listed below,
with the reason."""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

from onnx import helper

# Operators that ONNX Runtime registers without a kernel for CPUs.
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


def model_of(op, domain, opset):
    """A node with one input and one output; the operator may need others."""
    node = helper.make_node(op, ["x"], ["y"], domain=domain)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", 1, None)],
                              [helper.make_empty_tensor_value_info("y")])
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    made = helper.make_model(graph, opset_imports=imports)
    made.ir_version = 8
    return made.SerializeToString()


def registered(peer, words, domain, opset):
    """Those of the words that ONNX Runtime knows as operators of the domain."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "ort_load")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ort_load.c")
        subprocess.run(["cc", "-I", os.path.join(peer, "include"), source, "-ldl", "-o", program], check=True)
        data = b"".join(struct.pack("<I", len(m)) + m for m in (model_of(w, domain, opset) for w in words))
        done = subprocess.run([program, os.path.join(peer, "libonnxruntime.so.1")], input=data, capture_output=True,
                              check=True)
    lines = done.stdout.decode(errors="replace").splitlines()
    if len(lines) != len(words):
        raise SystemExit(f"ONNX Runtime stopped at operator {words[len(lines)]}")
    return {word for word, line in zip(words, lines) if "is not a registered function/op" not in line}


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
    theirs = registered(peer, words, "com.microsoft", 17)
    old = registered(peer, EXPERIMENTS.split(), "", 7)
    wrong = [f"{name} is missing" for name in sorted(theirs - ours - NO_CPU_KERNEL - set(NOT_HERE))]
    wrong += [f"{name} is not an operator of this ONNX Runtime" for name in sorted(ours - theirs - ONLY_HERE)]
    wrong += [f"{name} is listed as missing, but is here" for name in sorted((NO_CPU_KERNEL | set(NOT_HERE)) & ours)]
    names = {row["operator"] for row in listed if row["domain"] == "ai.onnx"}
    wrong += [f"{name} of ai.onnx below opset 10 is missing" for name in sorted(old - names)]
    for text in wrong:
        print(text)
    print(f"{len(words)} words, {len(theirs)} operators of com.microsoft, {len(ours)} here, {len(wrong)} wrong")
    return 1 if wrong or len(theirs) < 100 or len(old) < 9 else 0


if __name__ == "__main__":
    sys.exit(main())
