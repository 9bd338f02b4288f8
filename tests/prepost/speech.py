#!/usr/bin/env python3
"""speech.py DIR INLAY - transcribes an audio file with npm's Moonshine model: `inlay pipe` adds the decoding of the file
to the encoder, and Detokenize converts tokens to text. Run by hand: needs the network (npm), Debian's espeak-ng and
python3-onnx, and INLAY_LIBRARY and PYTHONPATH as in CMakeLists.txt."""
import base64
import json
import os
import re
import subprocess
import sys

import numpy as np
from onnx import TensorProto, helper

import inlay

PACKAGE = "@moonshine-ai/moonshine-js@0.1.29"
SENTENCE = "We will meet again on Monday morning."
BEGIN, END, MOST = 1, 2, 40


def vocabulary(script):
    """The vocabulary, which the package has in base64 in its script, as a tokenizer.json."""
    with open(script, encoding="utf-8") as f:
        texts = re.findall(r"[\"'`]([A-Za-z0-9+/]{20000,}={0,2})[\"'`]", f.read())
    for text in texts:
        try:
            words = base64.b64decode(text).decode().split("\n")
        except (ValueError, UnicodeDecodeError):
            continue
        return json.dumps({"model": {"type": "BPE", "vocab": {w: i for i, w in enumerate(words)}, "merges": [],
                                     "byte_fallback": True},
                           "added_tokens": [{"id": i, "content": words[i], "special": True} for i in range(3)],
                           "decoder": {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True}})
    raise SystemExit("the vocabulary was not found in the package")


def words_of(ids, tokenizer):
    node = helper.make_node("Detokenize", ["ids"], ["text"], domain="inlay.prepost", model=tokenizer)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("ids", TensorProto.INT64, [None])],
                              [helper.ValueInfoProto(name="text")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("inlay.prepost", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    with inlay.Session(model.SerializeToString(), config=False) as session:
        return session.run({"ids": np.array(ids, np.int64)})["text"][0]


def hear(encoder, decoder, file):
    """Greedy decoding; the decoder processes all tokens in each step."""
    with inlay.Session(encoder) as session:
        heard = session.run({"file": np.fromfile(file, np.uint8)})["last_hidden_state"]
    with inlay.Session(decoder) as session:
        feeds = {i.name: np.zeros((1, 8, 0 if "decoder" in i.name else heard.shape[1], 36), np.float32)
                 for i in session.inputs if i.name.startswith("past")}
        feeds.update(encoder_hidden_states=heard, use_cache_branch=np.array([False]))
        ids = [BEGIN]
        while ids[-1] != END and len(ids) < MOST:
            feeds["input_ids"] = np.array([ids], np.int64)
            ids.append(int(session.run(feeds, ["logits"])["logits"][0, -1].argmax()))
    return ids


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, command = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    packed = subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, capture_output=True, text=True)
    subprocess.run(["tar", "xzf", packed.stdout.split()[-1]], cwd=folder, check=True)
    dist, encoder = os.path.join(folder, "package", "dist"), os.path.join(folder, "encoder.onnx")
    models = os.path.join(dist, "model", "tiny", "quantized")
    subprocess.run([command, "pipe", os.path.join(models, "encoder_model.onnx"), "--pre", "audio:16000", "-o", encoder],
                   check=True)
    file = os.path.join(folder, "sentence.wav")
    subprocess.run(["espeak-ng", "-s", "140", "-w", file, SENTENCE], check=True)
    ids = hear(encoder, os.path.join(models, "decoder_model_merged.onnx"), file)
    text = words_of(ids, vocabulary(os.path.join(dist, "moonshine.min.js")))
    print(f"{len(ids)} tokens: {text!r}")
    same = re.sub(r"\W+", " ", text.lower()).split() == re.sub(r"\W+", " ", SENTENCE.lower()).split()
    sys.exit(not same)


if __name__ == "__main__":
    main()
