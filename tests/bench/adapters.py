#!/usr/bin/python3
"""Writes LoRA adapters with random factors for a decoder of decoder_models.py, to time and compare them:

    adapters.py MODEL.onnx DIR [--count 16] [--rank 16] [--modules q_proj,v_proj | all] [--dtype F32|F16|BF16]

DIR/a0 ... have adapter_model.safetensors and adapter_config.json, as PEFT writes them. DIR/merged0.onnx is the model with
a0 merged into its weights."""
import argparse
import json
import os
import struct

import numpy as np
import onnx
from onnx import numpy_helper


def to_bytes(array, dtype):
    if dtype == "BF16":
        return (array.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return array.astype(np.float16 if dtype == "F16" else np.float32).tobytes()


def rounded(array, dtype):
    if dtype == "BF16":
        return (array.view(np.uint32) >> 16 << 16).view(np.float32)
    return array.astype(np.float16 if dtype == "F16" else np.float32).astype(np.float32)


def write_safetensors(path, tensors, dtype):
    header, data = {}, b""
    for name, array in tensors.items():
        raw = to_bytes(array, dtype)
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("dir")
    parser.add_argument("--count", type=int, default=16)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--modules", default="q_proj,v_proj")
    parser.add_argument("--dtype", default="F32", choices=("F32", "F16", "BF16"))
    args = parser.parse_args()
    model = onnx.load(args.model)
    rng = np.random.default_rng(11)
    weights = [w for w in model.graph.initializer if w.name.endswith("_proj.weight") and
               (args.modules == "all" or w.name.split(".")[-2] in args.modules.split(","))]
    for a in range(args.count):
        folder, tensors = os.path.join(args.dir, "a%d" % a), {}
        os.makedirs(folder, exist_ok=True)
        for weight in weights:
            rows, columns = weight.dims
            name = "base_model.model." + weight.name[:-len(".weight")]
            first = rng.standard_normal((args.rank, rows)).astype(np.float32) / np.float32(np.sqrt(rows))
            second = rng.standard_normal((columns, args.rank)).astype(np.float32) / np.float32(args.rank)
            tensors[name + ".lora_A.weight"], tensors[name + ".lora_B.weight"] = first, second
            if a == 0:
                product = 2 * (rounded(second, args.dtype) @ rounded(first, args.dtype)).T
                weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) + product, weight.name))
        write_safetensors(os.path.join(folder, "adapter_model.safetensors"), tensors, args.dtype)
        with open(os.path.join(folder, "adapter_config.json"), "w") as file:
            json.dump({"peft_type": "LORA", "r": args.rank, "lora_alpha": 2 * args.rank, "bias": "none"}, file)
    onnx.save(model, os.path.join(args.dir, "merged0.onnx"))


main()
