#!/usr/bin/python3
"""Writes small decoders with random weights, to time steps of one token and to compare results:

    decoder_models.py DIR [--layers 8] [--hidden 576] [--heads 9] [--shared 3] [--words 4096] [--most 16384]

  gqa.onnx      GroupQueryAttention of com.microsoft with its rotary embedding, as exporters of ONNX Runtime GenAI write it
  spelled.onnx  the same layers with the attention and the rotation in ONNX's operators, as Optimum writes them
Both have inputs input_ids, attention_mask, past_key_values.*, outputs logits and present.*; spelled.onnx also reads
position_ids. Weights are the same."""
import argparse
import os

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper


class Writer:
    def __init__(self, args):
        self.a, self.nodes, self.inits, self.count = args, [], [], 0
        self.rng = np.random.default_rng(3)

    def constant(self, name, array):
        self.inits.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def weights(self, name, rows, columns):
        return self.constant(name, (self.rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32))

    def op(self, kind, *inputs, outputs=1, names=None, **attributes):
        self.count += 1
        names = names or ["v%d_%d" % (self.count, i) for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if len(names) == 1 else names

    def linear(self, x, layer, name, rows, columns):
        return self.op("MatMul", x, self.weights("model.layers.%d.%s.weight" % (layer, name), rows, columns))

    def norm(self, x, name):
        """Root mean square, as Optimum writes it."""
        gain = self.constant(name, np.ones(self.a.hidden, np.float32))
        mean = self.op("ReduceMean", self.op("Pow", x, "two"), axes=[-1], keepdims=1)
        return self.op("Mul", gain, self.op("Mul", x, self.op("Div", "one", self.op("Sqrt", self.op("Add", mean, "tiny")))))


def rotate(w, x):
    half = w.a.size // 2
    first = w.op("Slice", x, w.zero, w.constant_once("half", [half]), w.last)
    second = w.op("Slice", x, w.constant_once("half", [half]), w.end, w.last)
    turned = w.op("Concat", w.op("Neg", second), first, axis=-1)
    return w.op("Add", w.op("Mul", x, w.cosines), w.op("Mul", turned, w.sines))


def by_heads(w, x, heads):
    shape = w.constant_once("heads%d" % heads, [0, 0, heads, w.a.size])
    return w.op("Transpose", w.op("Reshape", x, shape), perm=[0, 2, 1, 3])


def repeated(w, x):
    """Repeats each key head for the query heads that share it, like Optimum's repeat_kv."""
    if w.a.heads == w.a.shared:
        return x
    shape = w.op("Concat", w.op("Shape", "input_ids", start=0, end=1), w.constant_once("shared", [w.a.shared]),
                 w.constant_once("times", [w.a.heads // w.a.shared]), w.op("Shape", x, start=2, end=3),
                 w.constant_once("size", [w.a.size]), axis=0)
    wide = w.op("Expand", w.op("Unsqueeze", x, w.constant_once("axis2", [2])), shape)
    return w.op("Reshape", wide, w.constant_once("all_heads", [0, w.a.heads, -1, w.a.size]))


def attention_spelled(w, i, q, k, v):
    q, k, v = by_heads(w, q, w.a.heads), by_heads(w, k, w.a.shared), by_heads(w, v, w.a.shared)
    q, k = rotate(w, q), rotate(w, k)
    k = w.op("Concat", "past_key_values.%d.key" % i, k, axis=2, names=["present.%d.key" % i])
    v = w.op("Concat", "past_key_values.%d.value" % i, v, axis=2, names=["present.%d.value" % i])
    k, v = repeated(w, k), repeated(w, v)
    scores = w.op("MatMul", q, w.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = w.op("Add", w.op("Mul", scores, w.constant_once("scale", np.float32(w.a.size**-0.5))), w.mask)
    y = w.op("MatMul", w.op("Softmax", scores, axis=-1), v)
    y = w.op("Transpose", y, perm=[0, 2, 1, 3])
    return w.op("Reshape", y, w.constant_once("flat", [0, 0, w.a.heads * w.a.size]))


def attention_gqa(w, i, q, k, v):
    past = ["past_key_values.%d.%s" % (i, kind) for kind in ("key", "value")]
    names = ["attention%d" % i] + ["present.%d.%s" % (i, kind) for kind in ("key", "value")]
    return w.op("GroupQueryAttention", q, k, v, *past, w.lengths, w.total, "cos_cache", "sin_cache", names=names,
                domain="com.microsoft", num_heads=w.a.heads, kv_num_heads=w.a.shared, do_rotary=1)[0]


def prologue(w, kind):
    a, seen = w.a, set()

    def constant_once(name, value):
        if name not in seen:
            seen.add(name)
            w.constant(name, np.asarray(value, np.float32 if isinstance(value, np.float32) else np.int64))
        return name

    w.constant_once = constant_once
    w.zero, w.last = constant_once("zero", [0]), constant_once("last", [-1])
    w.end = constant_once("end", [2**62])
    for name, value in (("two", 2), ("one", 1), ("tiny", 1e-5)):
        w.constant(name, np.float32(value))
    angles = np.outer(np.arange(a.most), 10000.0 ** (-np.arange(0, a.size, 2) / a.size))
    if kind == "gqa":
        w.constant("cos_cache", np.cos(angles).astype(np.float32))
        w.constant("sin_cache", np.sin(angles).astype(np.float32))
        count = w.op("ReduceSum", "attention_mask", constant_once("axis1", [1]), keepdims=0)
        w.lengths = w.op("Cast", w.op("Sub", count, constant_once("less", 1)), to=T.INT32)
        w.total = w.op("Cast", w.op("Gather", w.op("Shape", "attention_mask"), constant_once("at1", 1)), to=T.INT32)
        return
    both = np.concatenate([angles, angles], -1)
    w.constant("cos_cache", np.cos(both).astype(np.float32))
    w.constant("sin_cache", np.sin(both).astype(np.float32))
    axis = constant_once("axis1", [1])
    w.cosines = w.op("Unsqueeze", w.op("Gather", "cos_cache", "position_ids"), axis)
    w.sines = w.op("Unsqueeze", w.op("Gather", "sin_cache", "position_ids"), axis)
    keys = w.op("Range", constant_once("at0", 0), w.op("Gather", w.op("Shape", "attention_mask"), constant_once("at1", 1)),
                constant_once("at1", 1))
    seen_keys = w.op("LessOrEqual", w.op("Unsqueeze", keys, constant_once("axes", [0, 1])),
                     w.op("Unsqueeze", "position_ids", constant_once("axis2", [2])))
    bias = w.op("Where", seen_keys, w.constant("seen", np.float32(0)), w.constant("hidden", np.float32(-3e38)))
    w.mask = w.op("Unsqueeze", bias, axis)


def write(path, kind, args):
    w = Writer(args)
    prologue(w, kind)
    attention = attention_gqa if kind == "gqa" else attention_spelled
    table = w.weights("embedding", args.words, args.hidden)
    x = w.op("Gather", table, "input_ids")
    for i in range(args.layers):
        n = w.norm(x, "norm%d.0" % i)
        wide, narrow = args.heads * args.size, args.shared * args.size
        q, k, v = (w.linear(n, i, "self_attn.%s_proj" % name, args.hidden, size)
                   for name, size in (("q", wide), ("k", narrow), ("v", narrow)))
        y = attention(w, i, q, k, v)
        x = w.op("Add", x, w.linear(y, i, "self_attn.o_proj", wide, args.hidden))
        n = w.norm(x, "norm%d.1" % i)
        gate = w.linear(n, i, "mlp.gate_proj", args.hidden, args.inner)
        up = w.linear(n, i, "mlp.up_proj", args.hidden, args.inner)
        gate = w.op("Mul", w.op("Mul", gate, w.op("Sigmoid", gate)), up)
        x = w.op("Add", x, w.linear(gate, i, "mlp.down_proj", args.inner, args.hidden))
    w.op("MatMul", w.norm(x, "norm"), w.weights("head", args.hidden, args.words), names=["logits"])
    info = helper.make_tensor_value_info
    inputs = [info("input_ids", T.INT64, ["batch", "sequence"]), info("attention_mask", T.INT64, ["batch", "total"])]
    inputs += [info("position_ids", T.INT64, ["batch", "sequence"])] if kind == "spelled" else []
    outputs = [info("logits", T.FLOAT, ["batch", "sequence", args.words])]
    for i in range(args.layers):
        for name in ("key", "value"):
            inputs.append(info("past_key_values.%d.%s" % (i, name), T.FLOAT, ["batch", args.shared, "past", args.size]))
            outputs.append(info("present.%d.%s" % (i, name), T.FLOAT, ["batch", args.shared, "total", args.size]))
    graph = helper.make_graph(w.nodes, kind, inputs, outputs, w.inits)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 8
    onnx.save(model, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    for name, value in (("layers", 8), ("hidden", 576), ("heads", 9), ("shared", 3), ("words", 4096), ("most", 16384)):
        parser.add_argument("--" + name, type=int, default=value)
    args = parser.parse_args()
    args.size, args.inner = args.hidden // args.heads, 3 * args.hidden
    os.makedirs(args.dir, exist_ok=True)
    for kind in ("gqa", "spelled"):
        write(os.path.join(args.dir, kind + ".onnx"), kind, args)


main()
