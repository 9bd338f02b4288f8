"""FlexAttention of ai.onnx.preview with its bodies, compared with numpy."""
import numpy as np
from onnx import TensorProto as T
from onnx import helper

from models import Case, constant, floats, info, model

NAMES = {np.float32: T.FLOAT, np.float16: T.FLOAT16, np.float64: T.DOUBLE}


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def body(name, op, weights, dtype):
    """A body of one operator on its input and a constant of the body or of the outer graph."""
    node = helper.make_node(op, ["x_" + name, weights[0]], ["y_" + name])
    own = [] if weights[1] is None else [constant(weights[0], weights[1])]
    return helper.make_graph([node], name, [info("x_" + name, None, dtype)], [info("y_" + name, None, dtype)], own)


def case(name, shapes, dtype=np.float32, soft=None, score=None, prob=None, scale=None, sizes=True):
    q, k, v = (floats(*s).astype(dtype) for s in shapes)
    wide = soft or (np.float32 if dtype == np.float16 else dtype)
    groups = q.shape[1] // k.shape[1]
    scores = q.astype(wide) @ np.repeat(k, groups, 1).transpose(0, 1, 3, 2).astype(wide)
    scores = scores * wide(q.shape[3] ** -0.5 if scale is None else scale)
    attributes, outer = {}, []
    if scale is not None:
        attributes["scale"] = scale
    if soft is not None:
        attributes["softmax_precision"] = NAMES[soft]
    if score is not None: # added; captured from the outer graph
        scores = scores + score.astype(wide)
        outer.append(constant("bias", score.astype(dtype)))
        attributes["score_mod"] = body("s", "Add", ("bias", None), NAMES[dtype])
    p = softmax(scores)
    if prob is not None: # a mask in the body
        p = p * prob.astype(wide)
        attributes["prob_mod"] = body("p", "Mul", ("kept", prob.astype(wide)), NAMES[wide])
    y = (p @ np.repeat(v, groups, 1).astype(wide)).astype(dtype)
    node = helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview", **attributes)
    declared = [list(s) if sizes else [None, s[1], None, None] for s in shapes]
    made = model([node], [info(n, s, NAMES[dtype]) for n, s in zip("qkv", declared)],
                 [info("y", list(y.shape) if sizes else None, NAMES[dtype])], outer,
                 imports=(("", 13), ("ai.onnx.preview", 1)))
    close = 4e-3 if dtype == np.float16 else 1e-5
    return Case("flex_attention_" + name, made, {"q": q, "k": k, "v": v}, [y], rtol=close, atol=close, peer=False)


def cases():
    same = ((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 6))
    shared = ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6))
    causal = np.where(np.tri(5, 7, 2) > 0, 0, -1e4)
    kept = np.where(np.arange(7) % 3 > 0, 1.5, 0)
    yield case("plain", same)
    yield case("open_sizes", same, sizes=False)
    yield case("scores", same, score=causal, scale=0.25)
    yield case("both", shared, score=causal, prob=kept)
    yield case("half", shared, np.float16, score=causal, prob=kept)
    yield case("half_plain", same, np.float16)
    yield case("half_shared", shared, np.float16, scale=0.5)
    yield case("half_prob", same, np.float16, prob=kept)
    yield case("double", same, np.float64, prob=kept)
    yield case("soft", same, np.float32, np.float64, score=causal, prob=kept)
