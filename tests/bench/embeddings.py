#!/usr/bin/python3
"""Times 64 texts by the embedding model of a server: one request after another, one request with all, and 64 requests of
16 clients at once:

    embeddings.py INLAY_SERVE DIR [--layers 6] [--hidden 384] [--longest 40] [--rounds 5]

The model is an encoder with random weights and a mask; the texts have 4 to LONGEST tokens. Prints milliseconds of the fastest
round, and the CPU time of the server."""
import argparse
import concurrent.futures
import http.client
import json
import os
import threading
import time

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from draft import Server


def write_model(path, layers, hidden, words=1024, heads=12):
    rng, nodes, inits = np.random.default_rng(2), [], []

    def constant(name, array):
        inits.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def op(kind, *inputs, **attributes):
        name = "v%d" % len(nodes)
        nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def linear(x, rows, columns):
        weight = constant("w%d" % len(nodes), (rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32))
        return op("Add", op("MatMul", x, weight), constant("b%d" % len(nodes), np.zeros(columns, np.float32)))

    def norm(x):
        return op("LayerNormalization", x, constant("g%d" % len(nodes), np.ones(hidden, np.float32)),
                  constant("c%d" % len(nodes), np.zeros(hidden, np.float32)), axis=-1)

    split = constant("split", np.array([0, 0, heads, hidden // heads]))
    joined = constant("joined", np.array([0, 0, hidden]))
    scale, low = constant("scale", np.float32((hidden // heads) ** -0.5)), constant("low", np.float32(-1e9))
    hidden_keys = op("Sub", constant("one", np.float32(1)), op("Cast", "attention_mask", to=T.FLOAT))
    bias = op("Mul", op("Unsqueeze", hidden_keys, constant("axes", np.array([1, 2]))), low)
    x = op("Gather", constant("table", rng.standard_normal((words, hidden)).astype(np.float32)), "input_ids")
    for _ in range(layers):
        q, k, v = (op("Transpose", op("Reshape", linear(x, hidden, hidden), split), perm=[0, 2, 1, 3]) for _ in range(3))
        scores = op("Mul", op("MatMul", q, op("Transpose", k, perm=[0, 1, 3, 2])), scale)
        y = op("MatMul", op("Softmax", op("Add", scores, bias), axis=-1), v)
        y = op("Reshape", op("Transpose", y, perm=[0, 2, 1, 3]), joined)
        x = norm(op("Add", x, linear(y, hidden, hidden)))
        x = norm(op("Add", x, linear(op("Relu", linear(x, hidden, 4 * hidden)), 4 * hidden, hidden)))
    nodes.append(helper.make_node("Identity", [x], ["last_hidden_state"]))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "encoder", [info("input_ids", T.INT64, ["batch", "tokens"]),
                                                 info("attention_mask", T.INT64, ["batch", "tokens"])],
                              [info("last_hidden_state", T.FLOAT, ["batch", "tokens", hidden])], inits)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)
    return words


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("dir")
    for name, value in (("layers", 6), ("hidden", 384), ("longest", 40), ("rounds", 5)):
        parser.add_argument("--" + name, type=int, default=value)
    args = parser.parse_args()
    os.makedirs(os.path.join(args.dir, "models", "m", "1"), exist_ok=True)
    words = write_model(os.path.join(args.dir, "models", "m", "1", "model.onnx"), args.layers, args.hidden)
    with open(os.path.join(args.dir, "models", "m", "tokenizer.json"), "w") as file:
        json.dump({"normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
                   "decoder": {"type": "ByteLevel"},
                   "added_tokens": [], "model": {"type": "BPE", "merges": [],
                                                 "vocab": {"t%d" % i: i for i in range(words)}}}, file)
    server = Server(args.program, os.path.join(args.dir, "models"), 0, os.path.join(args.dir, "log"), threads=0)
    rng = np.random.default_rng(3)
    texts = [[int(t) for t in rng.integers(0, words, n)] for n in rng.integers(4, args.longest + 1, 64)]
    kept = threading.local()

    def ask(texts):
        if not hasattr(kept, "connection"):
            kept.connection = http.client.HTTPConnection("127.0.0.1", server.port)
        body = json.dumps({"model": "m", "input": texts, "encoding_format": "base64"})
        kept.connection.request("POST", "/v1/embeddings", body)
        answer = json.loads(kept.connection.getresponse().read())
        return [entry["embedding"] for entry in answer["data"]]

    pool = concurrent.futures.ThreadPoolExecutor(16)
    ways = {"one request after another": lambda: [ask([text]) for text in texts],
            "one request": lambda: ask(texts),
            "64 requests of 16 clients": lambda: list(pool.map(lambda text: ask([text]), texts))}
    try:
        best = {name: (1e9, 1e9) for name in ways}
        for _ in range(args.rounds):
            for name, way in ways.items():
                begin, cpu = time.monotonic(), server.cpu()
                way()
                took = (time.monotonic() - begin) * 1e3, (server.cpu() - cpu) * 1e3
                best[name] = tuple(min(old, new) for old, new in zip(best[name], took))
        for name, (took, cpu) in best.items():
            print("%s: %.1f ms, %.0f ms of CPU" % (name, took, cpu))
    finally:
        server.process.terminate()


main()
