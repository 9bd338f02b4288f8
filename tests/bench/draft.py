#!/usr/bin/python3
"""Times one text of the server with and without a draft model that often agrees with the model:

    draft.py INLAY_SERVE DIR [--layers 8] [--hidden 768] [--words 2048] [--scale 0.05] [--tokens 200] [--rounds 5] [--head]

Writes a decoder with random weights (decoder_models.py) whose later layers change the result little (by --scale), and a
draft model that has only its first layer. Both servers answer the same requests in turns; the texts must be the same.
With --head, the draft model has the form of a head of EAGLE: a product of the token's embedding and the model's hidden
state before its first layer, whose weights leave the embedding as it is. Prints the share of right guesses among those
that runs have read, the runs of the model, and of the fastest rounds the time and the CPU time of a token on one thread,
without and with the draft model."""
import argparse
import json
import os
import subprocess
import sys
import time
import urllib.request

import numpy as np
import onnx
from onnx import helper, numpy_helper


def make_head(whole, first, hidden):
    """Gives the model an output of its last hidden states, and makes a head of its first layer."""
    states = helper.make_tensor_value_info("hidden_states", onnx.TensorProto.FLOAT, ["batch", "sequence", hidden])
    norms = [n for n in whole.graph.node if n.op_type == "Pow"]
    whole.graph.node.append(helper.make_node("Identity", [norms[-1].input[0]], ["hidden_states"]))
    whole.graph.output.append(states)
    norms = [n for n in first.graph.node if n.op_type == "Pow"]
    words, last = norms[0].input[0], norms[-1].input[0]
    for node in first.graph.node: # all readers of the embedding read the product
        node.input[:] = ["mixed" if name == words else name for name in node.input]
    at = [i for i, n in enumerate(first.graph.node) if words in n.output][0] + 1
    first.graph.node.insert(at, helper.make_node("Concat", [words, "hidden_states"], ["pair"], axis=2))
    first.graph.node.insert(at + 1, helper.make_node("MatMul", ["pair", "fc"], ["mixed"]))
    first.graph.initializer.append(numpy_helper.from_array(np.eye(2 * hidden, hidden, dtype=np.float32), "fc"))
    first.graph.input.append(states)
    first.graph.node.append(helper.make_node("Identity", [last], ["last_hidden_state"]))
    first.graph.output.append(helper.make_tensor_value_info("last_hidden_state", onnx.TensorProto.FLOAT,
                                                            ["batch", "sequence", hidden]))


def write_models(args, folder):
    here = os.path.dirname(os.path.abspath(__file__))
    sizes = ["--hidden", str(args.hidden), "--heads", "12", "--shared", "4", "--words", str(args.words), "--most", "2048"]
    for name, layers in (("whole", args.layers), ("first", 1)):
        subprocess.run([sys.executable, os.path.join(here, "decoder_models.py"), os.path.join(args.dir, name), "--layers",
                        str(layers), *sizes], check=True)
    whole, first = (onnx.load(os.path.join(args.dir, name, "gqa.onnx")) for name in ("whole", "first"))
    for weight in whole.graph.initializer:
        parts = weight.name.split(".")
        if parts[-2:-1] in (["o_proj"], ["down_proj"]) and parts[2] != "0":
            weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(args.scale), weight.name))
    weights = {w.name: w for w in whole.graph.initializer}
    for weight in first.graph.initializer:
        weight.CopyFrom(weights[weight.name])
    if args.head:
        make_head(whole, first, args.hidden)
    vocabulary = {"t%d" % i: i for i in range(args.words)}
    tokenizer = {"normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
                   "decoder": {"type": "ByteLevel"},
                 "added_tokens": [], "model": {"type": "BPE", "merges": [], "vocab": vocabulary}}
    for model, path in ((whole, "m/1"), (first, "m/draft")):
        os.makedirs(os.path.join(folder, path), exist_ok=True)
        onnx.save(model, os.path.join(folder, path, "model.onnx"))
    with open(os.path.join(folder, "m", "tokenizer.json"), "w") as file:
        json.dump(tokenizer, file)


class Server:
    def __init__(self, program, folder, draft_tokens, log, threads=1):
        self.log = open(log, "w+")
        self.process = subprocess.Popen([program, folder, "--port", "0", "--grpc-port", "-1", "--no-config",
                                         "--draft-tokens", str(draft_tokens), "--prefix-memory", "0",
                                         "--intra-threads", str(threads), "--cache-dir", ""],
                                        stdout=self.log, stderr=self.log)
        while "ready" not in (text := open(log).read()):
            if self.process.poll() is not None:
                sys.exit(text)
            time.sleep(0.2)
        self.port = int(text.split("http://")[1].split("/")[0].split()[0].rsplit(":", 1)[1].strip("/,;"))

    def get(self, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        with urllib.request.urlopen("http://127.0.0.1:%d%s" % (self.port, path), data) as answer:
            return answer.read().decode()

    def text(self, prompt, tokens):
        begin, cpu = time.monotonic(), self.cpu()
        answer = json.loads(self.get("/v1/completions", {"model": "m", "prompt": prompt, "max_tokens": tokens,
                                                         "temperature": 0}))
        return answer["choices"][0]["text"], time.monotonic() - begin, self.cpu() - cpu

    def cpu(self):
        fields = open("/proc/%d/stat" % self.process.pid).read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def runs(self):
        name = 'inlay_batch_rows_count{model="m",version="1"} '
        return [float(line[len(name):]) for line in self.get("/metrics").splitlines() if line.startswith(name)][0]

    def guesses(self, kind):
        name = 'inlay_guessed_tokens_total{model="m",version="1",kind="%s"} ' % kind
        return [float(line[len(name):]) for line in self.get("/metrics").splitlines() if line.startswith(name)][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("dir")
    for name, value in (("layers", 8), ("hidden", 768), ("words", 2048), ("tokens", 200), ("rounds", 5)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--scale", type=float, default=0.05)
    parser.add_argument("--head", action="store_true")
    args = parser.parse_args()
    folder = os.path.join(args.dir, "models")
    write_models(args, folder)
    servers = [Server(args.program, folder, n, os.path.join(args.dir, "log%d" % n)) for n in (0, 8)]
    rng, best = np.random.default_rng(1), [[1e9, 1e9], [1e9, 1e9]]
    try:
        for turn in range(args.rounds + 1): # the first round measures
            prompt, texts = [int(t) for t in rng.integers(0, args.words, 16)], [None, None]
            for k in (0, 1) if turn % 2 == 0 else (1, 0):
                texts[k] = servers[k].text(prompt, args.tokens)
                if turn > 0:
                    best[k] = [min(old, new / args.tokens * 1e3) for old, new in zip(best[k], texts[k][1:])]
            if texts[0][0] != texts[1][0]:
                sys.exit("the texts differ")
        read, right = servers[1].guesses("read"), servers[1].guesses("right")
        print("runs of the model: %d without the draft model, %d with it" % tuple(server.runs() for server in servers))
        print("%.0f %% of %d guesses were right; a token: %.2f ms, %.2f ms of CPU; with the draft model %.2f ms, %.2f ms of "
              "CPU; ratio %.2f, of CPU %.2f" % (100 * right / max(read, 1), read, *best[0], *best[1],
                                               best[0][0] / best[1][0], best[0][1] / best[1][1]))
    finally:
        for server in servers:
            server.process.terminate()


if __name__ == "__main__":
    main()
