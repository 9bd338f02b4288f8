"""Small models that ONNX Runtime runs although they are not valid ONNX, and a model for each of its contributed operators.

Each is a Case: name, model, inputs, the expected outputs (computed by numpy), and the codes of the findings of `inlay
check`. quirks() returns the models of the first kind, operators() those of the second."""
import math

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

F = T.FLOAT
RNG = np.random.default_rng(1)


def type_of(array):
    """TensorProto's number of a numpy type; older onnx packages have another function for it."""
    if hasattr(helper, "np_dtype_to_tensor_dtype"):
        return helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype)
    return onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[np.asarray(array).dtype]


class Case:
    def __init__(self, name, model, inputs, outputs, codes=(), rtol=1e-5, atol=1e-5, peer=True):
        self.name, self.model, self.inputs, self.outputs = name, model, inputs, outputs
        self.codes, self.rtol, self.atol, self.peer = list(codes), rtol, atol, peer


def info(name, shape, dtype=F):
    return helper.make_tensor_value_info(name, dtype, shape)


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array, order="C"), name)


def model(nodes, inputs, outputs, constants=(), imports=(("", 13),), values=(), ir=8):
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(constants), value_info=list(values))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid(*i) for i in imports])
    made.ir_version = ir
    return made


def floats(*shape, low=-1.0, high=1.0):
    return RNG.uniform(low, high, shape).astype(np.float32)


# ------------------------------------------------------------------ quirks of published files


def layer_norm(x, gamma=1.0, beta=0.0, epsilon=1e-5):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + epsilon) * gamma + beta


def rms_norm(x, gamma, epsilon=1e-5):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * gamma


def if_model(then_nodes, else_nodes, outer=(), then_constants=(), constants=(), results=("a", "b")):
    branches = [
        helper.make_graph(then_nodes, "t", [], [info(results[0], None)], list(then_constants)),
        helper.make_graph(else_nodes, "e", [], [info(results[1], None)]),
    ]
    nodes = list(outer) + [helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])]
    return model(nodes, [info("c", [], T.BOOL), info("x", [2, 4])], [info("y", [2, 4])], constants)


def quirks():
    node = helper.make_node
    x = floats(2, 4)
    g, b = floats(4, low=0.5), floats(4)
    xy = [info("x", [2, 4])], [info("y", [2, 4])]
    relu = [node("Relu", ["x"], ["y"])]
    yes = {"c": np.array(True), "x": x}
    for opset in (1, 7, 13):
        yield Case(f"layer_norm_{opset}", model([node("LayerNormalization", ["x", "g", "b"], ["y"], epsilon=1e-3)], *xy,
                   [constant("g", g), constant("b", b)], [("", opset)]), {"x": x}, [layer_norm(x, g, b, 1e-3)],
                   ["operator-newer-than-opset"])
    for name, op, ends, result in (
            ("misspelt_layer_norm", "LayerNormalization", ["x", "g", "b"], layer_norm(x, g, b)),
            ("misspelt_simplified", "SimplifiedLayerNormalization", ["x", "g"], rms_norm(x, g))):
        yield Case(name, model([node(op, ends, ["y"], epsion=1e-3)], *xy, [constant("g", g), constant("b", b)],
                   [("", 17)]), {"x": x}, [result], ["attribute-unknown"])
    yield Case("internal_attribute", model([node("Relu", ["x"], ["y"], __tool=1)], *xy), {"x": x}, [np.maximum(x, 0)])
    yield Case("simplified_layer_norm", model([node("SimplifiedLayerNormalization", ["x", "g"], ["y"], epsilon=1e-5)],
               *xy, [constant("g", g)]), {"x": x}, [rms_norm(x, g)])
    yield Case("domain_not_imported", model([node("Gelu", ["x"], ["y"], domain="com.microsoft")], *xy), {"x": x},
               [gelu(x)], ["domain-not-imported"])
    yield Case("ml_not_imported", model([node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[1.0], scale=[2.0])],
               *xy), {"x": x}, [(x - 1) * 2], ["domain-not-imported"])
    # ONNX Runtime uses the last import; inlay uses the highest, independent of the order.
    yield Case("imports_11_13", model(relu, *xy, imports=[("", 11), ("ai.onnx", 13)]), {"x": x}, [np.maximum(x, 0)],
               ["opset-imported-twice"])
    yield Case("imports_20_11", model([node("Gelu", ["x"], ["y"])], *xy, imports=[("ai.onnx", 20), ("", 11)]), {"x": x},
               [gelu(x)], ["opset-imported-twice"], peer=False)
    yield Case("output_twice", model(relu, xy[0], xy[1] * 2), {"x": x}, [np.maximum(x, 0)], ["output-repeated"])
    yield Case("initializer_twice", model([node("Add", ["x", "k"], ["y"])], *xy, [constant("k", g), constant("k", b)]),
               {"x": x}, [x + b], ["name-repeated"])
    yield Case("rank_20_unused", model(relu, *xy, [constant("u", np.ones([1] * 20, np.float32))]), {"x": x},
               [np.maximum(x, 0)], ["rank-above-16"])
    yield Case("rank_20_declared", model(relu + [node("Abs", ["x"], ["q"])], *xy, values=[info("q", [1] * 20)]),
               {"x": x}, [np.maximum(x, 0)], ["rank-above-16"], peer=False)
    yield Case("body_hides_result", if_model([node("Neg", ["x"], ["y"])], [node("Relu", ["x"], ["b"])],
               results=("y", "b")), yes, [-x], ["name-hides-outer"])
    yield Case("body_hides_value", if_model([node("Neg", ["x"], ["m"]), node("Exp", ["m"], ["a"])],
               [node("Relu", ["m"], ["b"])], [node("Abs", ["x"], ["m"])]), yes, [np.exp(-x)], ["name-hides-outer"],
               peer=False)
    yield Case("body_hides_constant", if_model([node("Mul", ["x", "k"], ["a"])], [node("Mul", ["x", "k"], ["b"])],
               then_constants=[constant("k", np.float32(2))], constants=[constant("k", np.float32(3))]), yes, [x * 2],
               ["name-hides-outer"], peer=False)
    body = helper.make_graph([node("Neg", ["x"], ["r"])], "b", [info("i", [], T.INT64), info("k", [], T.BOOL),
                             info("x", [2, 4])], [info("k", [], T.BOOL), info("r", [2, 4])])
    yield Case("loop_hides_input", model([node("Loop", ["n", "", "x"], ["y"], body=body)], *xy,
               [constant("n", np.int64(3))]), {"x": x}, [-x], ["name-hides-outer"])
    yield Case("declared_rank", model([node("Reshape", ["x", "s"], ["y"])], [info("x", [2, 4]), info("s", [None],
               T.INT64)], [info("y", [8])]), {"x": x, "s": np.array([4, 2])}, [x.reshape(4, 2)])
    yield Case("declared_rank_known", model(relu, xy[0], [info("y", [8])]), {"x": x}, [np.maximum(x, 0)],
               ["declared-shape-differs"])
    yield Case("declared_size", model(relu, xy[0], [info("y", [2, 5])]), {"x": x}, [np.maximum(x, 0)],
               ["declared-shape-differs"])


# ------------------------------------------------------------------ patterns that later opsets have operators for


def patterns():
    """Patterns that the optimiser replaces by an operator only if the model's opset has it."""
    x = floats(2, 6, 8)
    node = helper.make_node
    ends = [info("x", list(x.shape))], [info("y", list(x.shape))]
    numbers = [constant("half", np.float32(0.5)), constant("root", np.float32(math.sqrt(2))),
               constant("one", np.float32(1)), constant("two", np.float32(2)), constant("tiny", np.float32(1e-5)),
               constant("six", np.float32(6)), constant("three", np.float32(3)), constant("zero", np.float32(0))]
    gelu_nodes = [node("Div", ["x", "root"], ["a"]), node("Erf", ["a"], ["b"]), node("Add", ["b", "one"], ["c"]),
                  node("Mul", ["x", "c"], ["d"]), node("Mul", ["d", "half"], ["y"])]
    g, b = floats(8, low=0.5), floats(8)
    norm = [node("ReduceMean", ["x"], ["m"], axes=[-1]), node("Sub", ["x", "m"], ["d"]), node("Pow", ["d", "two"], ["s"]),
            node("ReduceMean", ["s"], ["v"], axes=[-1]), node("Add", ["v", "tiny"], ["w"]), node("Sqrt", ["w"], ["r"]),
            node("Div", ["d", "r"], ["n"]), node("Mul", ["n", "g"], ["k"]), node("Add", ["k", "b"], ["y"])]
    swish = [node("Sigmoid", ["x"], ["a"]), node("Mul", ["x", "a"], ["y"])]
    scores = x @ x.swapaxes(-1, -2) * np.float32(8**-0.5)
    soft = np.exp(scores - scores.max(-1, keepdims=True))
    attention = [node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), node("MatMul", ["x", "t"], ["s"]),
                 node("Mul", ["s", "scale"], ["u"]), node("Softmax", ["u"], ["p"], axis=-1),
                 node("MatMul", ["p", "x"], ["y"])]
    clip = [node("Add", ["x", "three"], ["a"]), node("Clip", ["a", "zero", "six"], ["b"]), node("Mul", ["x", "b"], ["c"]),
            node("Div", ["c", "six"], ["y"])]
    want = {"gelu": (gelu_nodes, gelu(x)), "layer_norm": (norm, layer_norm(x, g, b)), "swish": (swish, x * sigmoid(x)),
            "attention": (attention, soft / soft.sum(-1, keepdims=True) @ x),
            "hard_swish": (clip, x * np.clip(x + 3, 0, 6) / 6)}
    extra = [constant("g", g), constant("b_", b), constant("scale", np.float32(8**-0.5))]
    for name, (nodes, y) in want.items():
        for opset in (11, 12, 13, 17):
            used = {i for n in nodes for i in n.input}
            constants = [c for c in numbers + extra + [constant("b", b)] if c.name in used and
                         not any(c.name in n.output for n in nodes)]
            yield Case(f"{name}_at_{opset}", model(nodes, *ends, constants, [("", opset)]), {"x": x}, [y])


# ------------------------------------------------------------------ reference results of the contributed operators


def erf(x):
    return np.vectorize(math.erf)(x.astype(np.float64))


def gelu(x):
    return (0.5 * x * (1 + erf(x / math.sqrt(2)))).astype(np.float32)


def fast_gelu(x):
    return (0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def conv2d(x, w, pad=0):
    x = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)]).astype(np.float64)
    n, _, height, width = x.shape
    m, _, kh, kw = w.shape
    y = np.zeros((n, m, height - kh + 1, width - kw + 1))
    for i in range(y.shape[2]):
        for j in range(y.shape[3]):
            y[:, :, i, j] = np.einsum("nchw,mchw->nm", x[:, :, i : i + kh, j : j + kw], w)
    return y.astype(np.float32)


def quantize_dynamic(x):
    low, high = min(x.min(), 0), max(x.max(), 0)
    scale = np.float32((high - low) / np.float32(255))
    zero = np.uint8(np.clip(np.rint(-low / scale), 0, 255))
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8), scale, zero


def one(op, inputs, outputs, attributes=None, domain="com.microsoft", opset=1, main=17, ir=8, **more):
    """A model of one node. inputs: name -> array, or None for an omitted one; a name that ends in '_' is a constant."""
    names, given, constants, formals = [], {}, [], []
    for name, array in inputs.items():
        names.append("" if array is None else name)
        if array is None:
            continue
        array = np.asarray(array)
        if name.endswith("_"):
            constants.append(constant(name, array))
        else:
            given[name] = array
            formals.append(info(name, array.shape, type_of(array)))
    results = [f"y{i}" if y is not None else "" for i, y in enumerate(outputs)]
    made = [info(r, None, type_of(y)) for r, y in zip(results, outputs) if y is not None]
    node = helper.make_node(op, names, results, domain=domain, **(attributes or {}))
    name = more.pop("name", op)
    imports = [("", main)] + ([(domain, opset)] if domain else [])
    return Case(name, model([node], formals, made, constants, imports, ir=ir), given,
                [np.asarray(y) for y in outputs if y is not None], **more)


def operators():
    yield from activations()
    yield from products()
    yield from movement()
    yield from computed()
    yield from attentions()
    yield from group_queries()
    yield from sparse_attentions()


def activations():
    x, bias = floats(2, 3, 8, low=-4, high=4), floats(8)
    yield one("Gelu", {"x": x}, [gelu(x)])
    yield one("FastGelu", {"x": x}, [fast_gelu(x)])
    yield one("FastGelu", {"x": x, "b_": bias}, [fast_gelu(x + bias)], name="FastGelu_bias")
    yield one("BiasGelu", {"x": x, "b_": bias}, [gelu(x + bias)])
    yield one("QuickGelu", {"x": x}, [x * sigmoid(np.float32(1.702) * x)])
    yield one("QuickGelu", {"x": x}, [x * sigmoid(x)], {"alpha": 1.0}, name="QuickGelu_alpha")
    yield one("SwiGLU", {"x": x, "y": bias}, [x * sigmoid(np.float32(1.5) * x) * bias], {"alpha": 1.5}, domain="", main=28,
              ir=14, peer=False)
    square = floats(2, 4, 5)
    yield one("Trilu", {"x": square, "k_": np.int64(1)}, [np.tril(square, 1)], {"upper": 0})
    g = floats(8, low=0.5)
    yield one("SimplifiedLayerNormalization", {"x": x, "g_": g}, [rms_norm(x, g),
              1 / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-5))], {"epsilon": 1e-5}, domain="",
              name="SimplifiedLayerNormalization_two")


def products():
    a, b = floats(2, 3, 4, 5), floats(2, 3, 5, 6)
    swap = lambda v: np.ascontiguousarray(np.swapaxes(v, -1, -2))
    for ta in (0, 1):
        for tb in (0, 1):
            yield one("FusedMatMul", {"a": swap(a) if ta else a, "b": swap(b) if tb else b},
                      [(a @ b) * np.float32(0.5)], {"transA": ta, "transB": tb, "alpha": 0.5},
                      name=f"FusedMatMul_{ta}{tb}")
    back = lambda v: np.ascontiguousarray(np.moveaxis(v, -2, 0)) # the layout that transBatch transposes
    yield one("FusedMatMul", {"a": back(a), "b": b}, [a @ b], {"transBatchA": 1}, name="FusedMatMul_batch")
    yield one("FusedMatMul", {"a": a, "b": back(swap(b))}, [a @ b], {"transBatchB": 1, "transB": 1},
              name="FusedMatMul_batch_both")
    yield one("TransposeMatMul", {"a": swap(a), "b": b}, [a @ b], {"transA": 1})
    m, w, c = floats(3, 4), floats(4, 5), floats(5)
    yield one("FusedGemm", {"a": m, "w_": w, "c_": c}, [np.maximum(m @ w * np.float32(2) + c, 0)],
              {"activation": "Relu", "alpha": 2.0})
    leaky = m @ w + c
    yield one("FusedGemm", {"a": m, "w_": w, "c_": c}, [np.where(leaky < 0, leaky * np.float32(0.2), leaky)],
              {"activation": "LeakyRelu", "activation_alpha": 0.2}, name="FusedGemm_leaky")
    yield one("FusedGemm", {"a": m, "w_": w, "c_": c}, [np.where(leaky > 0, leaky, 1.5 * np.expm1(leaky)) * np.float32(1.2)],
              {"activation": "Selu", "activation_alpha": 1.5, "activation_gamma": 1.2}, name="FusedGemm_selu")
    yield one("FusedGemm", {"a": m, "w_": w, "c_": c}, [np.float32(0.7) * np.log1p(np.exp(np.float32(1.5) * leaky))],
              {"activation": "ParametricSoftplus", "activation_alpha": 0.7, "activation_beta": 1.5},
              name="FusedGemm_softplus")
    x, k, kb = floats(1, 3, 6, 7), floats(4, 3, 3, 3), floats(4)
    y = conv2d(x, k, 1) + kb.reshape(1, 4, 1, 1)
    z = floats(*y.shape)
    pads = {"pads": [1, 1, 1, 1]}
    yield one("FusedConv", {"x": x, "k_": k, "b_": kb}, [np.maximum(y, 0)], {"activation": "Relu", **pads})
    yield one("FusedConv", {"x": x, "k_": k, "b_": kb, "z": z}, [np.maximum(y + z, 0)], {"activation": "Relu", **pads},
              name="FusedConv_sum")
    yield one("FusedConv", {"x": x, "k_": k, "b_": kb}, [np.clip(y, 0, 0.5)], {"activation": "Clip",
              "activation_params": [0.0, 0.5], **pads}, name="FusedConv_clip")
    yield one("FusedConv", {"x": x, "k_": k}, [np.clip((y - kb.reshape(1, 4, 1, 1)) * np.float32(0.3) + np.float32(0.4),
              0, 1)], {"activation": "HardSigmoid", "activation_params": [0.3, 0.4], **pads}, name="FusedConv_sigmoid")
    ai, bi = RNG.integers(0, 256, (3, 6)).astype(np.uint8), RNG.integers(-128, 128, (6, 5)).astype(np.int8)
    scales = floats(5, low=0.01, high=0.02)
    product = (ai.astype(np.int32) - 120) @ (bi.astype(np.int32) - 3)
    yield one("MatMulIntegerToFloat", {"a": ai, "b_": bi, "as_": np.float32(0.02), "bs_": scales, "az_": np.uint8(120),
              "bz_": np.full(5, 3, np.int8), "bias_": c}, [product.astype(np.float32) * (np.float32(0.02) * scales) + c])
    x2 = floats(3, 6)
    q, scale, zero = quantize_dynamic(x2)
    want = ((q.astype(np.int32) - zero) @ bi.astype(np.int32)).astype(np.float32) * (scale * scales)
    yield one("DynamicQuantizeMatMul", {"a": x2, "b_": bi, "bs_": scales, "bz_": None, "bias_": c}, [want + c])
    p, r = floats(4, 3), floats(5, 3)
    distance = ((p[:, None] - r[None]) ** 2).sum(-1)
    yield one("CDist", {"a": p, "b": r}, [distance])
    yield one("CDist", {"a": p, "b": r}, [np.sqrt(distance)], {"metric": "euclidean"}, name="CDist_euclidean")
    difference = np.abs(p[:, None] - r[None])
    cosine = 1 - p @ r.T / np.outer(np.linalg.norm(p, axis=1), np.linalg.norm(r, axis=1))
    for metric, exponent, want in (("cityblock", None, difference.sum(-1)), ("manhattan", None, difference.sum(-1)),
                                   ("chebyshev", None, difference.max(-1)), ("cosine", None, cosine),
                                   ("minkowski", 1, difference.sum(-1)), ("minkowski", 2, np.sqrt(distance)),
                                   ("minkowski", 3, (difference**3).sum(-1) ** (1 / 3))):
        yield one("CDist", {"a": p, "b": r}, [want], {"metric": metric, **({"p": exponent} if exponent else {})},
                  name=f"CDist_{metric}_{exponent or ''}", peer=False)
    image = RNG.integers(0, 256, (1, 6, 6, 3)).astype(np.uint8)
    pooled = image.reshape(1, 3, 2, 3, 2, 3).max((2, 4))
    yield one("NhwcMaxPool", {"x": image}, [pooled], {"kernel_shape": [2, 2], "strides": [2, 2]})
    mean = (image.astype(np.float32).reshape(1, 3, 2, 3, 2, 3) - 100).mean((2, 4)) * 0.02
    pool = {"x": image, "xs_": np.float32(0.02), "xz_": np.uint8(100), "ys_": np.float32(0.03), "yz_": np.uint8(90)}
    stored = lambda v: np.clip(np.rint(v / 0.03) + 90, 0, 255).astype(np.uint8)
    yield one("QLinearAveragePool", pool, [stored(mean)], {"kernel_shape": [2, 2], "strides": [2, 2], "channels_last": 1},
              atol=1, peer=False)
    whole = (image.astype(np.float32) - 100).mean((1, 2), keepdims=True) * 0.02
    yield one("QLinearGlobalAveragePool", pool, [stored(whole)], {"channels_last": 1}, atol=1)
    xi, wi = RNG.integers(0, 256, (1, 5, 5, 3)).astype(np.uint8), RNG.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8)
    exact = conv2d(xi.astype(np.float32).transpose(0, 3, 1, 2) - 128, wi.astype(np.float32))
    stored = np.clip(np.rint(exact * (0.02 * 0.01) / 0.05) + 100, 0, 255).astype(np.uint8).transpose(0, 2, 3, 1)
    yield one("QLinearConv", {"x": xi, "xs_": np.float32(0.02), "xz_": np.uint8(128), "w_": wi, "ws_": np.float32(0.01),
              "wz_": np.int8(0), "ys_": np.float32(0.05), "yz_": np.uint8(100)}, [stored], {"channels_last": 1}, atol=1)
    full = np.zeros((1, 2, 7, 7), np.float32)
    xt, wt = floats(1, 3, 3, 3), floats(3, 2, 3, 3)
    for i in range(3):
        for j in range(3):
            full[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] += np.einsum("nc,cmhw->nmhw", xt[:, :, i, j], wt)
    yield one("ConvTransposeWithDynamicPads", {"x": xt, "w_": wt, "p": np.array([1, 0, 0, 1])}, [full[:, :, 1:, :-1]],
              {"strides": [2, 2], "kernel_shape": [3, 3]})


    yield from recurrences()
    yield from attending_recurrences()
    yield from blob_products()
    yield from masked_pools()
    yield from experts()
    yield from random_experts()
    yield from linear_attentions()
    yield from token_lists()
    yield from gathered_blocks()
    yield from experiments()


def mixture(x, router, act, first, second, k, normalizes=False):
    """first and second: functions of (expert, vector)."""
    y = np.zeros_like(x)
    for t, row in enumerate(x):
        shares = np.exp(router[t] - router[t].max())
        shares /= shares.sum()
        top = np.argsort(-router[t], kind="stable")[:k]
        whole = shares[top].sum() if normalizes else 1
        for e in top:
            y[t] += shares[e] / whole * second(e, act(first(e, row)))
    return y


def experts():
    x, router = floats(5, 8), floats(5, 3)
    w1, b1, w2, b2 = floats(3, 16, 8), floats(3, 16), floats(3, 8, 16), floats(3, 8)
    silu = lambda v: v * sigmoid(v)
    first, second = lambda e, v: w1[e] @ v + b1[e], lambda e, v: w2[e] @ v + b2[e]
    given = {"x": x, "r": router, "a_": w1, "ab_": b1, "b_": w2, "bb_": b2}
    for name, act in (("relu", lambda v: np.maximum(v, 0)), ("silu", silu), ("gelu", fast_gelu), ("identity", lambda v: v)):
        yield one("MoE", given, [mixture(x, router, act, first, second, 2)], {"activation_type": name, "k": 2},
                  name="MoE_" + name)
    yield one("MoE", given, [mixture(x, router, silu, first, second, 2, True)],
              {"activation_type": "silu", "k": 2, "normalize_routing_weights": 1}, name="MoE_normalized")
    w3 = floats(3, 16, 8)
    gated = lambda e, v: silu(w1[e] @ v + b1[e]) * (w3[e] @ v)
    yield one("MoE", {**given, "c_": w3}, [mixture(x, router, lambda v: v, gated, second, 1)],
              {"activation_type": "silu", "k": 1}, name="MoE_gated", peer=False)
    wide, wide_bias = floats(3, 32, 8), floats(3, 32)
    def swiglu(v):
        gate, linear = np.minimum(v[0::2], 0.5), np.clip(v[1::2], -0.5, 0.5)
        return gate * sigmoid(np.float32(1.702) * gate) * (linear + 1)
    yield one("MoE", {**given, "a_": wide, "ab_": wide_bias},
              [mixture(x, router, swiglu, lambda e, v: wide[e] @ v + wide_bias[e], second, 2, True)],
              {"activation_type": "swiglu", "k": 2, "swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0,
               "swiglu_limit": 0.5, "normalize_routing_weights": 1}, name="MoE_swiglu")
    x = floats(5, 32)
    for bits in (4, 8):
        q1, q2 = (RNG.integers(0, 256, (3, rows, columns * bits // 8)).astype(np.uint8) for rows, columns in
                  ((16, 32), (32, 16)))
        s1, s2 = floats(3, 16, low=0.01, high=0.02), floats(3, 32, low=0.01, high=0.02)
        wide = lambda q: (q.astype(np.float32) - 128 if bits == 8 else
                          np.stack([q & 15, q >> 4], -1).reshape(*q.shape[:-1], -1).astype(np.float32) - 8)
        f1, f2 = wide(q1) * s1[..., None], wide(q2) * s2[..., None]
        yield one("QMoE", {"x": x, "r": router, "a_": q1, "as_": s1, "ab_": None, "b_": q2, "bs_": s2},
                  [mixture(x, router, silu, lambda e, v: f1[e] @ v, lambda e, v: f2[e] @ v, 2, True)],
                  {"activation_type": "silu", "k": 2, "expert_weight_bits": bits, "normalize_routing_weights": 1},
                  name=f"QMoE_{bits}", rtol=1e-4, atol=1e-4)


def dequantize(codes, scales, zeros, bits, block):
    """Weights [experts, rows, columns] of codes packed in bytes. Zero points of several blocks begin a byte in each row;
    those of whole rows are packed for each expert."""
    unpack = lambda t: np.stack([t >> i & (1 << bits) - 1 for i in range(0, 8, bits)], -1).reshape(*t.shape[:-1], -1)
    values = unpack(codes).astype(np.float64)
    experts, rows, columns = values.shape
    blocks = -(-columns // block) if block else 1
    if zeros is not None and zeros.dtype == np.float32:
        zero = zeros.astype(np.float64)
    elif zeros is None:
        zero = np.full((experts, rows, blocks), 1 << bits - 1)
    elif blocks > 1:
        zero = unpack(zeros.reshape(experts, rows, -1))[..., :blocks]
    else:
        zero = unpack(zeros.reshape(experts, -1))[:, :rows, None]
    wide = lambda t: np.repeat(t.reshape(experts, rows, blocks).astype(np.float64), block or columns, 2)[..., :columns]
    return (values - wide(zero)) * wide(scales)


def random_expert_node(i, of_peer):
    """A node QMoE, its constants, and its output in doubles."""
    pick = lambda *choices: choices[RNG.integers(len(choices))]
    bits, block = pick(2, 4, 8), pick(0, 16) if of_peer else pick(0, 16, 32)
    block = 16 if of_peer and bits == 4 else block # ONNX Runtime quantizes rows of 4 bits again
    experts, k, rows = pick(3, 4, 7), pick(1, 2, 3), pick(1, 3, 6)
    # Blocks of 16: 1, 2, 3 and 5 of them. ONNX Runtime does not run one block in one layer and several in the other.
    hidden, inner = pick(48, 80) if of_peer else pick(16, 48, 80), pick(32, 48) if of_peer else pick(16, 32, 48)
    activation = pick("relu", "gelu", "silu", "identity", "swiglu")
    fusion = (1 if of_peer else pick(1, 2)) if activation == "swiglu" else 0
    gated = not of_peer and activation != "swiglu" and pick(True, False)
    normalizes, has_weights = pick(0, 1), pick(True, False)
    normalizes = 1 if of_peer and not has_weights else normalizes # its kernel for CPUs always normalizes a softmax
    x, router = floats(rows, hidden), floats(rows, experts, low=-3, high=3)
    weights = floats(rows, experts, low=0.1, high=2) if has_weights else None
    of_floats = not of_peer and pick(True, False) # zero points; ONNX Runtime takes codes only
    constants, names = {}, ["x", "r"]

    def layer(height, width):
        codes = RNG.integers(0, 256, (experts, height, width * bits // 8)).astype(np.uint8)
        blocks = -(-width // block) if block else 1
        scales = floats(experts, height, *([blocks] if block else []), low=0.2, high=1) / np.float32(width**0.5 * (1 << bits - 1))
        packed = 8 // bits
        shape = (experts, height, -(-blocks // packed)) if blocks > 1 else (experts, -(-height // packed))
        zeros = RNG.integers(0, 256, shape).astype(np.uint8) if pick(True, False) else None
        if of_floats and zeros is not None:
            zeros = floats(experts, height, blocks, low=0, high=(1 << bits) - 1)
        bias = floats(experts, height) if pick(True, False) else None
        return codes, scales, bias, zeros, dequantize(codes, scales, zeros, bits, block)

    first, second = layer(inner * (2 if fusion else 1), hidden), layer(hidden, inner)
    third = layer(inner, hidden) if gated else (None,) * 5
    inputs = [x, router, *first[:3], *second[:3], *third[:3], first[3], second[3], third[3], weights]
    for j, array in enumerate(inputs):
        name = "" if array is None else f"n{i}_{j}"
        names[j:] = [name]
        if array is not None:
            constants[name] = array
    alpha, beta, limit = 1.3, 0.4, 1.5
    double = lambda t: None if t is None else t.astype(np.float64)
    run = lambda part, e, v: part[4][e] @ v + (0 if part[2] is None else double(part[2])[e])

    def activate(v):
        if activation != "swiglu":
            gelu_ = lambda t: 0.5 * t * (1 + np.tanh(math.sqrt(2 / math.pi) * (t + 0.044715 * t**3)))
            return {"relu": lambda t: np.maximum(t, 0), "silu": lambda t: t * sigmoid(t), "gelu": gelu_,
                    "identity": lambda t: t}[activation](v)
        gate, linear = (v[0::2], v[1::2]) if fusion == 1 else (v[:inner], v[inner:])
        gate, linear = np.minimum(gate, limit), np.clip(linear, -limit, limit)
        return gate * sigmoid(alpha * gate) * (linear + beta)

    y = np.zeros((rows, hidden))
    for t in range(rows):
        shares = np.exp(double(router)[t] - router[t].max())
        top = np.argsort(-router[t], kind="stable")[:k]
        shares = double(weights)[t] if has_weights else shares / shares.sum()
        for e in top:
            inner_ = activate(run(first, e, double(x)[t]))
            inner_ = inner_ * run(third, e, double(x)[t]) if gated else inner_
            y[t] += shares[e] / (shares[top].sum() if normalizes else 1) * run(second, e, inner_)
    attributes = {"k": k, "expert_weight_bits": bits, "block_size": block, "activation_type": activation,
                  "normalize_routing_weights": normalizes}
    if fusion:
        attributes.update(swiglu_fusion=fusion, activation_alpha=alpha, activation_beta=beta, swiglu_limit=limit)
    while names[-1] == "":
        names.pop()
    node = helper.make_node("QMoE", names, [f"y{i}"], domain="com.microsoft", **attributes)
    return node, constants, y.astype(np.float32)


def random_experts():
    """Models of many nodes QMoE with constant inputs, compared with sums in double."""
    for name, count, of_peer in (("QMoE_random", 200, False), ("QMoE_random_peer", 60, True)):
        made = [random_expert_node(i, of_peer) for i in range(count)]
        constants = [constant(n, array) for _, given, _ in made for n, array in given.items()]
        yield Case(name, model([node for node, _, _ in made], [], [info(f"y{i}", None) for i in range(count)], constants,
                   [("", 17), ("com.microsoft", 1)]), {}, [y for _, _, y in made], rtol=2e-5, atol=2e-5, peer=of_peer)


def gathered_blocks():
    for bits in (2, 4, 8):
        for axis, gather, has_zeros in ((1, 0, False), (1, 0, True), (1, 1, True), (2, 0, True)): # axis 2: 5 blocks
            shape, block = (6, 32, 80), 16
            codes = RNG.integers(0, 256, (*shape[:2], shape[2] * bits // 8)).astype(np.uint8)
            unpack = lambda t: np.stack([t >> i & (1 << bits) - 1 for i in range(0, 8, bits)], -1).reshape(*t.shape[:-1], -1)
            sizes = [n // block if d == axis else n for d, n in enumerate(shape)]
            scales = floats(*sizes, low=0.1, high=1)
            zeros = RNG.integers(0, 256, (*sizes[:2], -(-sizes[2] * bits // 8))).astype(np.uint8) if has_zeros else None
            zero = unpack(zeros)[..., : sizes[2]] if has_zeros else np.full(sizes, 1 << bits - 1)
            wide = lambda t: np.repeat(t.astype(np.float32), block, axis)
            table = (unpack(codes).astype(np.float32) - wide(zero)) * wide(scales)
            at = np.array([[5, 0], [-1, 2]])
            yield one("GatherBlockQuantized", {"c_": codes, "i": at, "s_": scales, "z_": zeros},
                      [table.take(at, gather)],
                      {"bits": bits, "block_size": block, "gather_axis": gather, "quantize_axis": axis},
                      name=f"GatherBlockQuantized_{bits}_{axis}_{gather}_{has_zeros}", peer=axis == 2)


def linear_attention(q, k, v, heads_q, heads_v, rule, scale=0.0, past=None, decay=None, beta=None):
    """The definition of com.microsoft, with plain loops; the key may have fewer heads than the value."""
    n, steps, size = q.shape[0], q.shape[1], q.shape[2] // heads_q
    heads_k, wide, most = k.shape[2] // size, v.shape[2] // heads_v, max(heads_q, heads_v)
    q, k, v = (t.astype(np.float64).reshape(n, steps, h, -1) for t, h in ((q, heads_q), (k, heads_k), (v, heads_v)))
    state = np.zeros((n, heads_v, size, wide)) if past is None else past.astype(np.float64)
    y = np.zeros((n, steps, most, wide))
    for b in range(n):
        for h in range(heads_v):
            s = state[b, h]
            for t in range(steps):
                if "gated" in rule:
                    g = decay.astype(np.float64).reshape(n, steps, heads_v, -1)[b, t, h]
                    s *= np.exp(g)[:, None]
                key, value = k[b, t, h * heads_k // heads_v], v[b, t, h]
                if "delta" in rule:
                    rates = beta[b, t]
                    value = rates[h if len(rates) > 1 else 0] * (value - s.T @ key)
                s += np.outer(key, value)
                for o in range(h * most // heads_v, (h + 1) * most // heads_v):
                    y[b, t, o] = (scale or size**-0.5) * (s.T @ q[b, t, o * heads_q // most])
    return y.reshape(n, steps, -1).astype(np.float32), state.astype(np.float32)


def causal_conv(x, w, bias, past, dilation, silu, last):
    x, past = (np.moveaxis(t.reshape(*t.shape[:2], -1), 1, 2) if last else t for t in (x, past))
    line = np.concatenate([past, x], 2).astype(np.float64)
    y = np.zeros(x.shape) + bias[None, :, None]
    for k in range(w.shape[2]):
        y += w[None, :, 0, k, None] * line[:, :, k * dilation : k * dilation + x.shape[2]]
    y, state = y * sigmoid(y) if silu else y, line[:, :, line.shape[2] - past.shape[2] :]
    return [np.ascontiguousarray(np.moveaxis(t, 2, 1) if last else t).astype(np.float32) for t in (y, state)]


def linear_attentions():
    n, steps, size, wide = 2, 5, 3, 4
    for name, hq, hk, hv, rule, by_row in (
            ("same", 2, 2, 2, "linear", False), ("group", 4, 2, 2, "gated", False), ("rows", 2, 2, 2, "gated", True),
            ("delta", 2, 2, 2, "delta", False), ("inverse", 2, 2, 4, "gated_delta", False),
            ("key", 4, 2, 4, "gated_delta", True)):
        q, k, v = floats(n, steps, hq * size), floats(n, steps, hk * size), floats(n, steps, hv * wide)
        past, decay = floats(n, hv, size, wide), floats(n, steps, hv * (size if by_row else 1), low=-1, high=0)
        beta = floats(n, steps, 1 if by_row else hv, low=0.1)
        given = {"q": q, "k": k, "v": v, "p": past, "d": decay if "gated" in rule else None,
                 "b": beta if "delta" in rule else None}
        yield one("LinearAttention", given, linear_attention(q, k, v, hq, hv, rule, 0.0, past, decay, beta),
                  {"q_num_heads": hq, "kv_num_heads": hv, "update_rule": rule}, name=f"LinearAttention_{name}",
                  # ONNX Runtime 1.30 writes past its output here.
                  peer=hq <= hv)
    for taps, dilation, silu, last in ((4, 1, True, False), (3, 2, False, False), (3, 2, True, True), (1, 1, True, False)):
        reach = (taps - 1) * dilation
        shape = lambda length: (n, length, 6) if last else (n, 6, length)
        x, past, w, bias = floats(*shape(7)), floats(*shape(reach)), floats(6, 1, taps), floats(6)
        yield one("CausalConvWithState", {"x": x, "w_": w, "b_": bias, "p": past},
                  causal_conv(x, w, bias, past, dilation, silu, last),
                  {"activation": "silu" if silu else "none", "dilation": dilation, "channels_last": int(last)},
                  name=f"CausalConvWithState_{taps}_{dilation}_{int(last)}", peer=reach > 0)
    a, b, bias, factor = floats(2, 3, 4, low=-3, high=3), floats(2, 3, 4), floats(4), floats(4)
    yield one("LinearAttentionGate", {"a": a, "d_": bias, "s_": factor, "b": b}, [factor * np.log1p(np.exp(a + bias)),
              sigmoid(b)])
    yield one("LinearAttentionGate", {"a": a, "d_": bias, "s_": factor}, [factor * np.log1p(np.exp(a + bias))],
              name="LinearAttentionGate_one")
    x, gate, scale = floats(2, 3, 8), floats(2, 3, 8, low=-3, high=3), floats(4, low=0.5)
    for width in (4, 8):
        scale = floats(width, low=0.5)
        grouped = rms_norm(x.reshape(2, 3, -1, width), scale, 1e-3).reshape(x.shape)
        yield one("GatedRMSNorm", {"x": x, "s_": scale, "g": gate}, [grouped * gate * sigmoid(gate)], {"epsilon": 1e-3},
                  name=f"GatedRMSNorm_{width}")
    share = floats(2, 3, 1)
    yield one("GatedAdd", {"x": x, "y": gate, "g": share}, [x + gate * share])
    for width in (8, 5):
        key, query, value = floats(2, 3, 4, width), floats(2, 3, 4, width), floats(2, 3, width)
        scales = floats(4, width, low=0.5), floats(4, width, low=0.5)
        dot = (rms_norm(key, scales[0], 1e-3) * rms_norm(query, scales[1], 1e-3)).sum(-1, keepdims=True) / width**0.5
        y = sigmoid(np.sign(dot) * np.sqrt(np.maximum(np.abs(dot), 1e-6))) * value[:, :, None]
        yield one("EngramGate", {"k": key, "q": query, "v": value, "ks_": scales[0], "qs_": scales[1]}, [y],
                  {"epsilon": 1e-3}, name=f"EngramGate_{width}")
    sections, half = (1, 2, 3), 6
    cosines, sines = np.cos(floats(10, half, high=3)), np.sin(floats(10, half, high=3))
    places = RNG.integers(0, 10, (3, 2, 4))
    for layout in (0, 1):
        owner = np.repeat([0, 1, 2], sections)
        if layout == 1:
            owner = np.array([i % 3 if i % 3 and i < 3 * sections[i % 3] else 0 for i in range(half)])
        rows = [np.stack([cache[places[owner[i], :, :], i] for i in range(half)], -1) for cache in (cosines, sines)]
        x = floats(2, 4, 3 * 16) # three heads, of which 12 elements turn
        for woven in (0, 1):
            y = x.reshape(2, 4, 3, 16).copy()
            c, s = (r[:, :, None, :] for r in rows)
            first, second = (slice(0, 12, 2), slice(1, 12, 2)) if woven else (slice(0, 6), slice(6, 12))
            p, q = y[..., first].copy(), y[..., second].copy()
            y[..., first], y[..., second] = c * p - s * q, s * p + c * q
            yield one("MRotaryEmbedding", {"x": x, "p": places, "c_": cosines, "s_": sines}, [y.reshape(x.shape)],
                      {"mrope_section": list(sections), "mrope_layout": layout, "interleaved": woven, "num_heads": 3,
                       "rotary_embedding_dim": 12}, name=f"MRotaryEmbedding_{layout}_{woven}")


def warping_path(costs):
    """The path of least cost, by dynamic programming; the last step is diagonal only if that is strictly best."""
    rows, columns = costs.shape
    least, steps = np.full((rows + 1, columns + 1), np.inf, np.float32), {}
    least[0, 0] = 0
    for i in range(1, rows + 1):
        for j in range(1, columns + 1):
            both, row, column = least[i - 1, j - 1], least[i - 1, j], least[i, j - 1]
            step = (1, 1) if both < min(row, column) else (1, 0) if row < min(both, column) else (0, 1)
            steps[i, j] = step
            least[i, j] = least[i - step[0], j - step[1]] + costs[i - 1, j - 1]
    i, j, path = rows, columns, []
    while i > 0 and j > 0:
        path.append((i - 1, j - 1))
        i, j = i - steps[i, j][0], j - steps[i, j][1]
    return np.array(path[::-1], np.int32).T.copy()


def token_lists():
    for rows, columns in ((1, 1), (3, 9), (7, 4)):
        costs = floats(rows, columns)
        yield one("DynamicTimeWarping", {"c": costs}, [warping_path(costs)], name=f"DynamicTimeWarping_{rows}")
    yield one("DynamicTimeWarping", {"c": costs[None]}, [warping_path(costs)], name="DynamicTimeWarping_batch")
    x = floats(3, 10, 4)
    for dim, size, step in ((-1, 2, 1), (1, 4, 3), (0, 3, 2), (-2, 10, 1)):
        windows = np.lib.stride_tricks.sliding_window_view(x, size, dim)
        windows = np.take(windows, range(0, windows.shape[dim % 3], step), dim % 3)
        yield one("UnfoldTensor", {"x": x}, [windows.copy()], {"dim": dim, "size": size, "step": step},
                  name=f"UnfoldTensor_{dim}")
    for dtype in (np.int32, np.int64):
        limit, longest, heads = np.iinfo(dtype), 4, 2
        ids, past = RNG.integers(0, 50000, (2, 6)).astype(dtype), RNG.integers(0, 50000, (2, 3)).astype(dtype)
        factors = RNG.integers(limit.min, limit.max, longest).astype(dtype)
        sizes = RNG.integers(100, 1000, (longest - 1) * heads).astype(dtype)
        for given in (None, past):
            line = np.concatenate([np.full((2, 3), 7, dtype) if given is None else past, ids], 1)
            with np.errstate(over="ignore"):
                products = [line[:, 3 - k : 9 - k] * factors[k] for k in range(longest)]
            mixes = [np.bitwise_xor.reduce(products[:count]) for count in range(2, longest + 1)]
            hashes = np.stack([mixes[i // heads] % sizes[i] for i in range(len(sizes))], -1)
            yield one("NGramHashMapping", {"i": ids, "m_": factors, "v_": sizes, "p": given}, [hashes, line[:, -3:].copy()],
                      {"max_ngram_size": longest, "n_head_per_ngram": heads, "pad_id": 7},
                      name=f"NGramHashMapping_{np.dtype(dtype)}_{given is not None}")
    source, current = np.array([5, 1, 2, 3, 4, 1, 2, 9, 8]), np.array([7, 5])
    for name, start, predicted, tokens, place in (
            ("none", 0, None, [7, 5], 1), ("split", 1, [1, 2, 6, 3, 4, 1, 2, 9, 8], [7, 5, 1, 2, 6], -1),
            ("middle", 1, [1, 2, 3, 4, 1, 2, 9, 0, 8], [7, 5, 1, 2, 3, 4, 1, 2, 9, 0], -1),
            ("twice", 4, [4, 1, 2, 3, 9, 9], [7, 5, 4, 1, 2, 3], 4)):
        yield one("BifurcationDetector", {"s": source, "c": current, "p": np.array([start]),
                  "t": None if predicted is None else np.array(predicted)}, [np.array(tokens), np.array([place])],
                  name="BifurcationDetector_" + name)
    a, b = (RNG.integers(-(2**15), 2**15, shape).astype(np.int16) for shape in ((2, 3, 4), (4, 5)))
    with np.errstate(over="ignore"):
        yield one("MatMulInteger16", {"a": a, "b": b}, [np.matmul(a.astype(np.int32), b.astype(np.int32))])
    at = np.array([[[0, 1]], [[2, 9]]])
    for dtype in (np.int32, np.int64):
        yield one("GatherND", {"x": x, "i": at.astype(dtype)}, [x[at[..., 0], at[..., 1]]], name=f"GatherND_{np.dtype(dtype)}")
    yield one("SampleOp", {"x": x}, [x])


def any_crop(attributes):
    """Crop of images of any size."""
    return model([helper.make_node("Crop", ["x"], ["y"], **attributes)], [info("x", ["n", 3, "h", "w"])],
                 [info("y", None)], imports=[("", 7)])


def small_images():
    """(name, model, inputs, part of the message): images that are smaller than what Crop removes or keeps."""
    for name, attributes, size, text in (("height", {"border": [0, 2, 0, 2]}, (3, 5), "Pad"),
                                         ("width", {"border": [3, 0, 3, 0]}, (5, 5), "Pad"),
                                         ("rows", {"border": [1, 1, 0, 0], "scale": [5, 2]}, (5, 5), "Reshape"),
                                         ("columns", {"border": [1, 1, 0, 0], "scale": [2, 5]}, (5, 5), "Reshape")):
        yield f"Crop of an image with too few {name}", any_crop(attributes), {"x": floats(1, 3, *size)}, text


def experiments():
    """Operators that ai.onnx had below opset 10."""
    image = floats(2, 3, 6, 7, low=-2, high=2)
    old = lambda op, y, attributes, inputs=None, **more: one(op, inputs or {"x": image}, [y], attributes, domain="",
                                                             main=more.pop("main", 7), **more)
    yield old("Affine", np.float32(2.5) * image - np.float32(0.5), {"alpha": 2.5, "beta": -0.5})
    yield old("Affine", image, {}, name="Affine_default")
    yield old("Scale", image * np.float32(0.25), {"scale": 0.25})
    yield old("ScaledTanh", np.float32(1.5) * np.tanh(np.float32(0.5) * image), {"alpha": 1.5, "beta": 0.5})
    yield old("ParametricSoftplus", np.float32(1.5) * np.log1p(np.exp(np.float32(0.5) * image)), {"alpha": 1.5, "beta": 0.5})
    yield old("ThresholdedRelu", np.where(image > 0.3, image, 0).astype(np.float32), {"alpha": 0.3},
              codes=["operator-newer-than-opset"])
    yield old("Crop", image[:, :, 2:-1, 1:].copy(), {"border": [1, 2, 0, 1]})
    yield old("Crop", image[:, :, 2:5, 1:3].copy(), {"border": [1, 2, 0, 1], "scale": [3, 2]}, name="Crop_scale")
    for name, attributes, y in (("border", {"border": [1, 2, 0, 1]}, image[:, :, 2:-1, 1:]),
                                ("size", {"border": [1, 2, 0, 1], "scale": [3, 2]}, image[:, :, 2:5, 1:3])):
        yield Case(f"Crop_{name}_of_unknown", any_crop(attributes), {"x": image}, [y.copy()], peer=False)
    bounds = {"x": image, "b": np.array([1, -4]), "e": np.array([99, -1])}
    yield old("DynamicSlice", image[1:, -1:].copy(), {}, {"x": image, "b": np.array([1, -1]), "e": np.array([99, 99])})
    yield old("DynamicSlice", image[:, :, 1:99, -4:-1].copy(), {}, {**bounds, "a": np.array([2, 3])}, name="DynamicSlice_axes")
    for across in (0, 1):
        for variance in (0, 1):
            axes = (0, 1, 2, 3) if across else (0, 2, 3)
            y = image - image.mean(axes, keepdims=True)
            y = y / np.sqrt((y * y).mean(axes, keepdims=True)) if variance else y
            yield old("MeanVarianceNormalization", y, {"across_channels": across, "normalize_variance": variance},
                      name=f"MeanVarianceNormalization_1_{across}_{variance}")


def lstm(x, w, r, bias):
    """One direction forward: [length, batch, rows] by w and r [4 hidden, rows], gates in ONNX's order i o f c."""
    hidden = r.shape[1]
    h, c, made = np.zeros((x.shape[1], hidden)), np.zeros((x.shape[1], hidden)), []
    for step in x:
        i, o, f, g = np.split(step @ w.T + h @ r.T + bias[: 4 * hidden] + bias[4 * hidden :], 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        made.append(h)
    return np.stack(made), h, c


def recurrences():
    # ONNX Runtime rounds the inputs to 8 bits, which explains the tolerance.
    x, bias = floats(5, 2, 6), floats(1, 32)
    for name, dtype, zero in (("DynamicQuantizeLSTM", np.int8, 0), ("DynamicQuantizeLSTM_bytes", np.uint8, 128)):
        for columns in ((), (16,)):
            w, r = (RNG.integers(-120, 120, (1, rows, 16)) for rows in (6, 4))
            scales = [floats(1, *columns, low=0.003, high=0.005) for _ in range(2)]
            wide = [scale.reshape(1, 1, -1) if columns else scale.reshape(1, 1, 1) for scale in scales]
            bias4 = bias[:, : 32]
            y, h, c = lstm(x, (w * wide[0])[0].T, (r * wide[1])[0].T, bias4[0])
            zeros = [np.full((1, *columns), zero, dtype) for _ in range(2)]
            yield one("DynamicQuantizeLSTM", {"x": x, "w_": (w + zero).astype(dtype), "r_": (r + zero).astype(dtype),
                      "b_": bias4, "l": None, "h": None, "c": None, "p": None, "ws_": scales[0], "wz_": zeros[0],
                      "rs_": scales[1], "rz_": zeros[1]},
                      [v.astype(np.float32) for v in (y[:, None], h[None], c[None])], {"hidden_size": 4},
                      name=name + ("_columns" if columns else ""), rtol=2e-2, atol=2e-2)


def attending_lstm(x, w, r, bias, peephole, h, c, attention, activations, clip, coupled):
    """One direction of one sample in doubles: x [steps, inputs]. attention: function of the hidden state."""
    functions = {"Sigmoid": sigmoid, "Tanh": np.tanh, "Relu": lambda v: np.maximum(v, 0), "Softsign": lambda v: v / (1 + abs(v)),
                 "HardSigmoid": lambda v: np.clip(0.3 * v + 0.5, 0, 1)}
    f, g, out = (functions[name] for name in activations)
    cut = lambda v: np.clip(v, -clip, clip)
    rows, state = [], np.zeros(w.shape[1] - x.shape[1])
    for step in x:
        i, o, forget, cell = np.split(w @ np.concatenate([step, state]) + r @ h + bias, 4)
        i = f(cut(i + peephole[0] * c))
        forget = 1 - i if coupled else f(cut(forget + peephole[2] * c))
        c = forget * c + i * g(cut(cell))
        h = f(cut(o + peephole[1] * c)) * out(c)
        rows.append(h)
        state = attention(h)
    return np.stack(rows), h, c


def attending_recurrences():
    """AttnLSTM: an LSTM cell in an additive attention over a memory, as ONNX Runtime documents it."""
    pick = lambda *choices: choices[RNG.integers(len(choices))]
    for i in range(24):
        direction = pick("forward", "reverse", "bidirectional")
        ways, steps, batch, inputs, hidden = (1 + (direction == "bidirectional"), pick(1, 2, 5), pick(1, 3), pick(1, 4),
                                              pick(1, 3, 9))
        places, depth, width, layer = pick(1, 2, 6), pick(1, 3), pick(1, 4), pick(0, 2, 5)
        clip, coupled = pick(0.0, 0.5), pick(0, 0, 1)
        names = [pick("Sigmoid", "HardSigmoid") if k % 3 == 0 else pick("Tanh", "Relu", "Softsign") for k in range(3 * ways)]
        names = pick(None, names)
        optional = lambda chance, *shape, **more: floats(*shape, **more) if RNG.random() < chance else None
        lengths = pick(None, RNG.integers(1, steps + 1, batch).astype(np.int32))
        remembered = pick(None, RNG.integers(1, places + 1, batch).astype(np.int32))
        given = {"x": floats(steps, batch, inputs), "w_": floats(ways, 4 * hidden, inputs + (layer or depth)),
                 "r_": floats(ways, 4 * hidden, hidden), "b_": optional(0.7, ways, 8 * hidden), "l": lengths,
                 "h": optional(0.5, ways, batch, hidden), "c": optional(0.5, ways, batch, hidden),
                 "p_": optional(0.5, ways, 3 * hidden), "qw_": floats(ways, hidden, width), "mw_": floats(ways, depth, width),
                 "v_": floats(ways, width, low=-3, high=3), "m": floats(batch, places, depth), "ml": remembered,
                 "aw_": floats(ways, hidden + depth, layer) if layer else None}
        for b in range(batch): # what is behind a length does not count
            given["x"][steps if lengths is None else lengths[b]:, b] = (np.nan, np.inf, 1e38)[i % 3]
            given["m"][b, places if remembered is None else remembered[b]:] = (np.inf, 1e38, np.nan)[i % 3]
        y, last, cells = np.zeros((steps, ways, batch, hidden)), np.zeros((ways, batch, hidden)), np.zeros((ways, batch, hidden))
        wide = {name: None if value is None else value.astype(np.float64) for name, value in given.items()}
        for d in range(ways):
            for b in range(batch):
                count = steps if lengths is None else lengths[b]
                memory = wide["m"][b, : places if remembered is None else remembered[b]]

                def attention(state, d=d, memory=memory):
                    scores = np.tanh(memory @ wide["mw_"][d] + state @ wide["qw_"][d]) @ wide["v_"][d]
                    shares = np.exp(scores) / np.exp(scores).sum()
                    context = shares @ memory
                    return np.concatenate([state, context]) @ wide["aw_"][d] if layer else context

                backward = direction == "reverse" or d == 1
                x = wide["x"][:count, b][::-1] if backward else wide["x"][:count, b]
                bias = 0 if wide["b_"] is None else wide["b_"][d].reshape(2, -1).sum(0)
                peephole = np.zeros((3, hidden)) if wide["p_"] is None else wide["p_"][d].reshape(3, hidden)
                start = [np.zeros(hidden) if wide[key] is None else wide[key][d, b] for key in ("h", "c")]
                made, last[d, b], cells[d, b] = attending_lstm(
                    x, wide["w_"][d], wide["r_"][d], bias, peephole, *start, attention,
                    (names or ["Sigmoid", "Tanh", "Tanh"] * 2)[3 * d : 3 * d + 3], clip or np.inf, coupled)
                y[:count, d, b] = made[::-1] if backward else made
        attributes = {"hidden_size": hidden, "direction": direction, "input_forget": coupled}
        if names:
            hard = names.count("HardSigmoid")
            attributes.update({"activations": names, "activation_alpha": [0.3] * hard, "activation_beta": [0.5] * hard})
            attributes = {key: value for key, value in attributes.items() if value != []}
        if clip:
            attributes["clip"] = clip
        yield one("AttnLSTM", given, [v.astype(np.float32) for v in (y, last, cells)], attributes, name=f"AttnLSTM_{i}",
                  rtol=1e-4, atol=1e-4)


def blob_products():
    """MatMulFpQ4: columns of 4-bit codes in blocks of 32, each with its scale and zero point."""
    for kind in (0, 1):
        for rows, k, n in (((3,), 32, 5), ((2, 3), 41, 7), ((1,), 200, 3), ((4,), 128, 16), ((2, 1, 2), 1, 1)):
            blocks = -(-k // 32)
            codes, scales = RNG.integers(0, 16, (n, blocks, 32)), floats(n, blocks, 1, low=-0.1, high=0.1)
            zeros = RNG.integers(0, 16, (n, blocks, 1)) if kind == 1 else np.full((n, blocks, 1), 8)
            packed = (codes[..., :16] | codes[..., 16:] << 4).astype(np.uint8)
            parts = [scales.view(np.uint8), zeros.astype(np.uint8), packed] if kind == 1 else [scales.view(np.uint8), packed]
            weights = ((codes - zeros) * scales.astype(np.float64)).reshape(n, -1)[:, :k]
            x = floats(*rows, k)
            yield one("MatMulFpQ4", {"x": x, "b_": np.concatenate(parts, -1).reshape(-1), "s_": np.array([k, n])},
                      [(x.astype(np.float64) @ weights.T).astype(np.float32)], {"blk_quant_type": kind},
                      name=f"MatMulFpQ4_{kind}_{k}_{n}", rtol=1e-4, atol=1e-4)
            yield one("MatMulFpQ4", {"x": x, "b": np.concatenate(parts, -1).reshape(-1), "s": np.array([k, n])},
                      [(x.astype(np.float64) @ weights.T).astype(np.float32)], {"blk_quant_type": kind},
                      name=f"MatMulFpQ4_{kind}_{k}_{n}_inputs", rtol=1e-4, atol=1e-4)


def masked_pool(x, mask, kernel, strides, pads):
    """MaxpoolWithMask as ONNX Runtime has it: a window ends, along the last axis, at the first masked element; the first
    element of a plane of two and more axes cannot be masked; and the mask of a plane begins at an element that
    depends on the number of its planes."""
    axes, size = len(kernel), int(np.prod(x.shape[2:]))
    out = [(x.shape[2 + d] + pads[d] + pads[axes + d] - kernel[d]) // strides[d] + 1 for d in range(axes)]
    y = np.full([*x.shape[:2], *out], np.finfo(np.float32).min, np.float32)
    flat, masks = x.reshape(-1, size), mask.shape[0] * mask.shape[1]
    for plane in range(len(flat)):
        seen = mask.reshape(-1)[plane * size % masks:][:size]
        for place in np.ndindex(*out):
            spans = [range(max(p * s - b, 0), min(p * s - b + k, n)) for p, s, b, k, n in
                     zip(place, strides, pads, kernel, x.shape[2:])]
            for outer in np.ndindex(*[len(span) for span in spans[:-1]]):
                for last in spans[-1]:
                    at = int(np.ravel_multi_index([*(span[o] for span, o in zip(spans, outer)), last], x.shape[2:]))
                    if seen[at] == 0 and (axes == 1 or at > 0):
                        break
                    y.reshape(len(flat), *out)[(plane, *place)] = max(y.reshape(len(flat), *out)[(plane, *place)],
                                                                      flat[plane, at])
    return y


def masked_pools():
    for i, (shape, kernel, strides, pads) in enumerate((
            ((2, 3, 9), [3], [2], [1, 1]), ((1, 2, 6, 7), [2, 3], [1, 2], [0, 0, 0, 0]),
            ((2, 3, 5, 4), [3, 2], [2, 1], [1, 0, 1, 1]), ((2, 2, 4, 3, 5), [2, 2, 2], [2, 1, 1], [0, 1, 0, 1, 0, 1]))):
        for planes in ((1, 1), (1, shape[1]), shape[:2]):
            x, mask = floats(*shape), RNG.integers(0, 4, (*planes, *shape[2:])).astype(np.int32)
            if planes == (1, 1): # no window reads a masked element, except the first of a plane of two and more axes
                x[np.broadcast_to((mask == 0) & ((np.arange(mask.size).reshape(mask.shape) > 0) | (len(kernel) == 1)),
                                  shape)] = np.nan
            yield one("MaxpoolWithMask", {"x": x, "m": mask}, [masked_pool(x, mask, kernel, strides, pads)],
                      {"kernel_shape": kernel, "strides": strides, "pads": pads},
                      name=f"MaxpoolWithMask_{i}_{planes[0] * planes[1]}")
    x, mask = floats(1, 2, 5, 6), RNG.integers(0, 4, (1, 1, 5, 6)).astype(np.int32)
    for how, pads in (("VALID", [0] * 4), ("SAME_UPPER", [1, 0, 1, 1]), ("SAME_LOWER", [1, 1, 1, 0])):
        yield one("MaxpoolWithMask", {"x": x, "m": mask}, [masked_pool(x, mask, [3, 2], [1, 1], pads)],
                  {"kernel_shape": [3, 2], "auto_pad": how}, name=f"MaxpoolWithMask_{how}")


def movement():
    x = floats(2, 3, 4)
    for axis in (0, 1, -1):
        yield one("ExpandDims", {"x": x, "a_": np.int32(axis)}, [np.expand_dims(x, axis)], name=f"ExpandDims_{axis}")
    yield one("Pad", {"x": x[0], "p_": np.array([0, 1, 2, 0]), "v_": np.array([0.5], np.float32)},
              [np.pad(x[0], [(0, 2), (1, 0)], constant_values=0.5)])
    v = np.array([2, 1, 1, 3, 4, 3], np.float32)
    yield one("Unique", {"x": v}, [np.array([2, 1, 3, 4], np.float32), np.array([0, 1, 1, 2, 3, 2]),
              np.array([1, 2, 2, 1])])
    yield one("Range", {"a": np.float32(1), "b": np.float32(4), "c_": np.float32(0.5)}, [np.arange(1, 4, 0.5,
              dtype=np.float32)])
    yield one("Range", {"a": np.int32(1), "b": np.int32(4)}, [np.arange(1, 4, dtype=np.int32)], name="Range_one")
    y, scale, zero = quantize_dynamic(x)
    yield one("QuantizeLinear", {"x": x, "s_": scale, "z_": zero}, [y], atol=1)
    wide = np.clip(np.rint(x / np.float32(1e-4)) + 30000, 0, 65535).astype(np.uint16)
    yield one("QuantizeLinear", {"x": x, "s_": np.float32(1e-4), "z_": np.uint16(30000)}, [wide], name="QuantizeLinear_16",
              atol=1)
    yield one("DequantizeLinear", {"x": y, "s_": scale, "z_": zero}, [(y.astype(np.float32) - zero) * scale])
    scales = floats(3, low=0.01, high=0.1)
    yield one("DequantizeLinear", {"x": wide, "s_": scales, "z_": np.full(3, 30000, np.uint16)},
              [(wide.astype(np.float32) - 30000) * scales[:, None]], {"axis": 1}, name="DequantizeLinear_16_axis",
              rtol=1e-4)
    ids = RNG.integers(0, 9, (2, 5)).astype(np.int32)
    segments, mask = RNG.integers(0, 2, (2, 5)).astype(np.int32), np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    words, positions, kinds, g, b = floats(9, 8), floats(7, 8), floats(2, 8), floats(8, low=0.5), floats(8)
    total = words[ids] + positions[:5][None] + kinds[segments]
    tables = {"w_": words, "p_": positions, "k_": kinds, "g_": g, "b_": b}
    yield one("EmbedLayerNormalization", {"i": ids, "s": segments, **tables, "m": mask},
              [layer_norm(total, g, b, 1e-12), mask.sum(1).astype(np.int32), total])
    tables["k_"] = None
    places = RNG.integers(0, 7, (2, 5)).astype(np.int32)
    total = words[ids] + positions[places]
    yield one("EmbedLayerNormalization", {"i": ids, "s": None, **tables, "m": None, "q": places},
              [layer_norm(total, g, b, 1e-12), np.zeros(2, np.int32)], name="EmbedLayerNormalization_positions")


def murmur(data, seed=0):
    """MurmurHash3 of 32 bits."""
    mask, turn = 0xFFFFFFFF, lambda x, by: ((x << by) | (x >> (32 - by))) & 0xFFFFFFFF
    for i in range(0, len(data) // 4 * 4, 4):
        word = int.from_bytes(data[i : i + 4], "little")
        seed = (turn(seed ^ (turn(word * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask), 13) * 5 + 0xE6546B64) & mask
    rest = data[len(data) // 4 * 4 :]
    if rest:
        seed ^= turn(int.from_bytes(rest, "little") * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    seed ^= len(data)
    seed = (seed ^ seed >> 16) * 0x85EBCA6B & mask
    seed = (seed ^ seed >> 13) * 0xC2B2AE35 & mask
    return seed ^ seed >> 16


def computed():
    x = floats(2, 4, 4) + 3 * np.eye(4, dtype=np.float32)
    yield one("Inverse", {"x": x}, [np.linalg.inv(x)])
    yield one("Inverse", {"x": x[0].astype(np.float64)}, [np.linalg.inv(x[0].astype(np.float64))], name="Inverse_double")
    ids = np.array([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4], [0, 1, 2, 3, 4]])
    scores = floats(3, 6)
    blocked = scores.copy()
    blocked[0, 3] = blocked[1, 4] = -np.inf
    yield one("NGramRepeatBlock", {"i": ids, "s": scores}, [blocked], {"ngram_size": 3})
    keys = np.array([0, 1, -5, 123456789], np.int32)
    yield one("MurmurHash3", {"x": keys}, [np.array([murmur(k.tobytes(), 7) for k in keys], np.uint32)], {"seed": 7})
    long = np.array([3, -(2**40)])
    yield one("MurmurHash3", {"x": long}, [np.array([murmur(k.tobytes()) for k in long], np.uint32).astype(np.int32)],
              {"positive": 0}, name="MurmurHash3_signed")
    letters = np.array([[3, 1, 4, 1, 5], [2, 6, 0, 0, 0], [4, 2, 5, 3, 0]], np.int32)
    table, filters, bias = floats(7, 4), floats(6, 1, 3, 4), floats(6)
    best = np.empty((3, 6), np.float32)
    for i, (word, count) in enumerate(zip(letters, (5, 3, 4))): # the second word has fewer letters than the window
        places = [(table[word[p:p + 3]] * filters[:, 0]).sum((1, 2)) + bias for p in range(count - 2)]
        best[i] = np.tanh(places).max(0)
    yield one("WordConvEmbedding", {"x": letters, "w": filters, "b": bias, "c": table}, [best],
              {"embedding_size": 6, "conv_window_size": 3, "char_embedding_size": 4})
    image = floats(2, 3, 5, 6)
    boxes = np.array([[0.0, 0.0, 1.0, 1.0], [0.1, 0.3, 0.9, 0.7], [-0.2, 0.5, 0.6, 1.2]], np.float32)
    which, size = np.array([0, 1, 1], np.int32), np.array([3, 4], np.int32)
    for mode in ("bilinear", "nearest"):
        y = np.full((3, 3, 3, 4), 0.25, np.float32)
        for r in range(3):
            for i in range(3):
                for j in range(4):
                    row = np.float32(boxes[r, 0] * 4 + i * (boxes[r, 2] - boxes[r, 0]) * 4 / 2)
                    column = np.float32(boxes[r, 1] * 5 + j * (boxes[r, 3] - boxes[r, 1]) * 5 / 3)
                    if not (0 <= row <= 4 and 0 <= column <= 5):
                        continue
                    part = image[which[r]]
                    if mode == "nearest":
                        y[r, :, i, j] = part[:, int(np.floor(row + 0.5)), int(np.floor(column + 0.5))]
                        continue
                    top, left, low, right = int(row), int(column), int(np.ceil(row)), int(np.ceil(column))
                    above = part[:, top, left] + (part[:, top, right] - part[:, top, left]) * (column - left)
                    below = part[:, low, left] + (part[:, low, right] - part[:, low, left]) * (column - left)
                    y[r, :, i, j] = above + (below - above) * (row - top)
        yield one("CropAndResize", {"x": image, "r": boxes, "w": which, "s_": size}, [y], {"mode": mode,
                  "extrapolation_value": 0.25}, name=f"CropAndResize_{mode}", atol=1e-4)


# ------------------------------------------------------------------ attentions


def heads(x, count):
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(0, 2, 1, 3)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(q, k, v, added=0.0, scale=None, cap=0.0):
    """q, k, v are [batch, heads, rows, size]; `added` is added to the scores after softcap."""
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if cap:
        scores = np.tanh(scores / cap) * cap
    y = softmax(scores + added) @ v
    return y.transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], -1).astype(np.float32)


def causal(rows, keys):
    return np.where(np.arange(keys)[None] <= np.arange(rows)[:, None] + keys - rows, 0.0, -1e30)


def rotate(x, cosines, sines, places, interleaved=False):
    """x is [batch, heads, rows, size], places are positions [batch, rows]."""
    half = cosines.shape[1]
    c, s = cosines[places][:, None], sines[places][:, None]
    y = x.copy()
    a, b = (x[..., 0 : 2 * half : 2], x[..., 1 : 2 * half : 2]) if interleaved else (x[..., :half], x[..., half : 2 * half])
    real, imaginary = c * a - s * b, s * a + c * b
    if interleaved:
        y[..., 0 : 2 * half : 2], y[..., 1 : 2 * half : 2] = real, imaginary
    else:
        y[..., :half], y[..., half : 2 * half] = real, imaginary
    return y


def attentions():
    n, rows, keys, wide = 2, 3, 5, 8
    q, k, v = floats(n, rows, wide), floats(n, keys, wide), floats(n, keys, wide)
    plain = attend(heads(q, 2), heads(k, 2), heads(v, 2))
    two = {"num_heads": 2}
    yield one("MultiHeadAttention", {"q": q, "k": k, "v": v}, [plain], two)
    yield one("MultiHeadAttention", {"q": q, "k": k, "v": v}, [attend(heads(q, 2), heads(k, 2), heads(v, 2), scale=0.3)],
              {**two, "scale": 0.3}, name="MultiHeadAttention_scale")
    b = floats(3 * wide)
    biased = attend(heads(q + b[:8], 2), heads(k + b[8:16], 2), heads(v + b[16:], 2))
    yield one("MultiHeadAttention", {"q": q, "k": k, "v": v, "b_": b}, [biased], two, name="MultiHeadAttention_bias")
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32)
    hidden = np.where(mask == 0, -10000.0, 0.0)[:, None, None]
    masked = attend(heads(q, 2), heads(k, 2), heads(v, 2), hidden)
    yield one("MultiHeadAttention", {"q": q, "k": k, "v": v, "b_": None, "m": mask}, [masked], two,
              name="MultiHeadAttention_mask")
    added = floats(1, 2, rows, keys)
    yield one("MultiHeadAttention", {"q": q, "k": k, "v": v, "b_": None, "m": None, "a": added},
              [attend(heads(q, 2), heads(k, 2), heads(v, 2), added)], two, name="MultiHeadAttention_added")
    past_k, past_v, new_k, new_v = floats(n, 2, 4, 4), floats(n, 2, 4, 4), floats(n, rows, wide), floats(n, rows, wide)
    all_k, all_v = np.concatenate([past_k, heads(new_k, 2)], 2), np.concatenate([past_v, heads(new_v, 2)], 2)
    yield one("MultiHeadAttention", {"q": q, "k": new_k, "v": new_v, "b_": None, "m": None, "a": None, "pk": past_k,
              "pv": past_v}, [attend(heads(q, 2), all_k, all_v, causal(rows, 7)), all_k, all_v],
              {**two, "unidirectional": 1}, name="MultiHeadAttention_past")
    row, one_k, one_v = floats(n, 1, wide), floats(n, 1, wide), floats(n, 1, wide)
    op, seen = "DecoderMaskedMultiHeadAttention", [np.concatenate([p, heads(v, 2)], 2) for p, v in
                                                   ((past_k, one_k), (past_v, one_v))]
    yield one(op, {"q": row, "k": heads(k, 2).copy(), "v": heads(v, 2).copy(), "m": None, "a": None, "pk": None,
              "pv": None, "l": None, "w": None, "c": None, "b_": np.concatenate([b[:8], b[:16] * 0])},
              [attend(heads(row + b[:8], 2), heads(k, 2), heads(v, 2))], two, name=op + "_cross")
    yield one(op, {"q": row, "k": one_k, "v": one_v, "m": None, "a": None, "pk": past_k, "pv": past_v},
              [attend(heads(row, 2), *seen), *seen], two, name=op + "_past", peer=False)
    room = [np.concatenate([p, np.zeros((n, 2, 3, 4), np.float32)], 2) for p in (past_k, past_v)]
    full = [np.concatenate([s, np.zeros((n, 2, 2, 4), np.float32)], 2) for s in seen]
    yield one(op, {"q": row, "k": one_k, "v": one_v, "m": None, "a": None, "pk": room[0], "pv": room[1],
              "l": np.array([4], np.int32)}, [attend(heads(row, 2), *seen), *full],
              {**two, "past_present_share_buffer": 1}, name=op + "_buffer", peer=False)
    packed = floats(n, rows, 2, 3, 4)
    parts = [packed[:, :, :, i].transpose(0, 2, 1, 3) for i in range(3)]
    yield one("MultiHeadAttention", {"q": packed}, [attend(*parts)], two, name="MultiHeadAttention_packed", peer=False)
    x, w, bias = floats(n, rows, 6), floats(6, 24), floats(24)
    qkv = x @ w + bias
    three = [heads(qkv[..., i * 8 : i * 8 + 8], 2) for i in range(3)]
    inputs = {"x": x, "w_": w, "b_": bias}
    yield one("Attention", inputs, [attend(*three)], two)
    yield one("Attention", inputs, [attend(*three, causal(rows, rows))], {**two, "unidirectional": 1},
              name="Attention_causal")
    raw = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    yield one("Attention", {**inputs, "m": raw}, [attend(*three, np.where(raw == 0, -10000.0, 0.0)[:, None, None])], two,
              name="Attention_mask")
    for held, shape in ((1, (len(raw), 1)), (0, (1, 1))): # hides no keys
        yield one("Attention", {**inputs, "m": np.full(shape, held, np.int32)}, [attend(*three)], two,
                  name=f"Attention_mask_of_{shape[0]}_and_1")
    yield one("Attention", {**inputs, "m": np.array([2, 3], np.int32)},
              [attend(*three, np.where(raw == 0, -10000.0, 0.0)[:, None, None])], two, name="Attention_lengths")
    past = floats(2, n, 2, 4, 4)
    both = [np.concatenate([past[i], three[i + 1]], 2) for i in range(2)]
    yield one("Attention", {**inputs, "m": None, "p": past}, [attend(three[0], *both, causal(rows, 7)), np.stack(both)],
              {**two, "unidirectional": 1}, name="Attention_past")
    xi, wi = RNG.integers(0, 256, (n, rows, 6)).astype(np.uint8), RNG.integers(-128, 128, (6, 24)).astype(np.int8)
    scaled = ((xi.astype(np.int32) - 128) @ wi.astype(np.int32)).astype(np.float32) * np.float32(0.01 * 0.005) + bias
    yield one("QAttention", {"x": xi, "w_": wi, "b_": bias, "xs_": np.float32(0.01), "ws_": np.float32(0.005), "m": None,
              "xz_": np.uint8(128), "wz_": np.int8(0)}, [attend(*[heads(scaled[..., i * 8 : i * 8 + 8], 2) for i in
              range(3)])], two)
    cosines, sines = np.cos(floats(10, 2, high=3)), np.sin(floats(10, 2, high=3))
    places = np.array([[0, 1, 2], [4, 5, 6]])
    four = heads(q, 2)
    back = lambda t: t.transpose(0, 2, 1, 3).reshape(n, rows, wide)
    for woven in (0, 1):
        caches = {"c_": cosines, "s_": sines}
        yield one("RotaryEmbedding", {"x": q, "p": places, **caches}, [back(rotate(four, cosines, sines, places, woven))],
                  {"interleaved": woven}, name=f"RotaryEmbedding_{woven}")
        yield one("RotaryEmbedding", {"x": np.ascontiguousarray(four), "p": np.array([3]), **caches},
                  [rotate(four, cosines, sines, np.array([[3, 4, 5]] * 2), woven)], {"interleaved": woven},
                  name=f"RotaryEmbedding_first_{woven}")


def group_queries():
    """Two heads of keys for four heads of queries: a prompt, a step after a past, a step in a larger cache."""
    n, size = 2, 16
    cosines, sines = np.cos(floats(16, 8, high=3)), np.sin(floats(16, 8, high=3))
    for name, rows, past, room, attributes in [
        ("begin", 5, 0, 0, {}), ("step", 1, 4, 4, {}), ("room", 1, 4, 8, {}), ("rotary", 5, 0, 0, {"do_rotary": 1}),
        ("rotary_step", 1, 4, 4, {"do_rotary": 1}), ("woven", 1, 4, 4, {"do_rotary": 1, "rotary_interleaved": 1}),
        ("window", 5, 0, 0, {"local_window_size": 2}), ("window_step", 1, 4, 4, {"local_window_size": 3}),
        ("norms", 5, 0, 0, {"do_rotary": 1, "qk_norm_epsilon": 1e-3}),
        ("norms_step", 1, 4, 4, {"do_rotary": 1, "qk_norm_epsilon": 1e-3}),
        ("softcap", 5, 0, 0, {"softcap": 0.7}), ("scale", 5, 0, 0, {"scale": 0.3}), ("smooth", 5, 0, 0, {"smooth_softmax": 1}),
        ("smooth_step", 1, 4, 4, {"smooth_softmax": 1}), ("sinks", 5, 0, 0, {"sinks": 1}), ("sinks_step", 1, 4, 4, {"sinks": 1}),
        ("sinks_capped", 5, 0, 0, {"sinks": 1, "softcap": 0.7}), ("sinks_room", 1, 4, 8, {"sinks": 1}),
    ]:
        total = past + rows
        q, k, v = floats(n, rows, 4 * size), floats(n, rows, 2 * size), floats(n, rows, 2 * size)
        pk, pv = floats(n, 2, room, size), floats(n, 2, room, size)
        if "sinks" in attributes: # nothing need have written the rest
            pk[:, :, total:] = pv[:, :, total:] = np.nan
        places = np.arange(past, total)[None].repeat(n, 0)
        turn = lambda x: rotate(x, cosines, sines, places, "rotary_interleaved" in attributes) if "do_rotary" in attributes else x
        normed, weights = "qk_norm_epsilon" in attributes, (floats(size, low=0.5), floats(size, low=0.5))
        norm = lambda x, i: rms_norm(x, weights[i], 1e-3).astype(np.float32) if normed else x
        turned, fresh = turn(norm(heads(q, 4), 0)), turn(norm(heads(k, 2), 1))
        keys = np.concatenate([pk[:, :, :past], fresh, pk[:, :, total:]], 2)
        values = np.concatenate([pv[:, :, :past], heads(v, 2), pv[:, :, total:]], 2)
        column, row = np.arange(keys.shape[2])[None], np.arange(past, total)[:, None]
        window = attributes.get("local_window_size", 1 << 30)
        added = np.where((column <= row) & (column > row - window), 0.0, -1e30)
        sinks = floats(4) if attributes.pop("sinks", 0) else None
        if "smooth_softmax" in attributes or sinks is not None: # one more score, of 0 or of the head
            scores = turned.astype(np.float64) @ np.nan_to_num(keys).repeat(2, 1).swapaxes(-1, -2) * size**-0.5
            cap = attributes.get("softcap", 0)
            scores = (cap * np.tanh(scores / cap) if cap else scores) + added
            column = np.zeros((*scores.shape[:3], 1)) + (0 if sinks is None else sinks[None, :, None, None])
            y = (softmax(np.concatenate([scores, column], -1))[..., :-1] @ np.nan_to_num(values).repeat(2, 1))
            y = y.transpose(0, 2, 1, 3).reshape(n, rows, -1).astype(np.float32)
        else:
            y = attend(turned, keys.repeat(2, 1), values.repeat(2, 1), added, attributes.get("scale"),
                       attributes.get("softcap", 0.0))
        inputs = {"q": q, "k": k, "v": v, "pk": pk if room else None, "pv": pv if room else None,
                  "l": np.full(n, total - 1, np.int32), "t": np.int32(total)}
        if "do_rotary" in attributes:
            inputs.update({"c_": cosines, "s_": sines})
        if sinks is not None:
            inputs.update({**dict.fromkeys("cdib"), "hs_": sinks})
        if normed: # ONNX Runtime has it on GPUs only
            inputs.update({**dict.fromkeys("ibhdD"), "qn_": weights[0], "kn_": weights[1]})
        yield one("GroupQueryAttention", inputs, [y, keys, values], {"num_heads": 4, "kv_num_heads": 2, **attributes},
                  name=f"GroupQueryAttention_{name}",
                  peer="room" not in name and not normed) # the rest of its cache is undefined
    for rows in (1, 3): # all keys are those of another layer, in the past
        q, pk, pv, empty = floats(n, rows, 4 * size), floats(n, 2, 6, size), floats(n, 2, 6, size), floats(n, 0, 2 * size)
        places = np.arange(6 - rows, 6)[None].repeat(n, 0)
        y = attend(rotate(heads(q, 4), cosines, sines, places, 0), pk.repeat(2, 1), pv.repeat(2, 1), causal(rows, 6))
        yield one("GroupQueryAttention", {"q": q, "k": empty, "v": empty, "pk": pk, "pv": pv, "l": np.full(n, 5, np.int32),
                  "t": np.int32(6), "c_": cosines, "s_": sines}, [y, pk, pv],
                  {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}, name=f"GroupQueryAttention_shared_{rows}", peer=False)
    q, k, v = floats(n, 3, 64), floats(n, 3, 32), floats(n, 3, 32)
    y = attend(heads(q, 4), heads(k, 2).repeat(2, 1), heads(v, 2).repeat(2, 1), causal(3, 3))
    yield one("GroupQueryAttention", {"q": np.concatenate([q, k, v], -1), "k": None, "v": None, "pk": None, "pv": None,
              "l": np.full(n, 2, np.int32), "t": np.int32(3)}, [y, np.ascontiguousarray(heads(k, 2)),
              np.ascontiguousarray(heads(v, 2))], {"num_heads": 4, "kv_num_heads": 2}, name="GroupQueryAttention_packed")


def sparse_attentions():
    """Blocks of 4 tokens. ONNX Runtime needs the past and the present in one buffer, so it takes no part."""
    n, size, room, block, blocks = 2, 8, 24, 4, 6
    cosines, sines = np.cos(floats(room, 4, high=3)), np.sin(floats(room, 4, high=3))
    for name, layouts, rows, past, attributes, packed in (
            ("one", 1, 9, 0, {}, False), ("two", 2, 9, 0, {}, False), ("four", 4, 11, 0, {"scale": 0.4}, True),
            ("step", 2, 1, 13, {}, False), ("rotary", 2, 1, 13, {"do_rotary": 1}, False),
            ("prompt_rotary", 2, 7, 0, {"do_rotary": 1, "rotary_interleaved": 1}, False)):
        mask = np.tril(RNG.integers(0, 2, (layouts, blocks, blocks)))
        mask[:, np.arange(blocks), np.arange(blocks)] = 1
        lists = [[column for row in layout for column in np.flatnonzero(row)] for layout in mask]
        columns = np.array([row + [-1] * (max(map(len, lists)) - len(row)) for row in lists], np.int32)
        first = np.concatenate([np.zeros((layouts, 1)), mask.sum(2).cumsum(1)], 1).astype(np.int32)
        total = past + rows
        q, k, v = floats(n, rows, 4 * size), floats(n, rows, 2 * size), floats(n, rows, 2 * size)
        pk, pv = floats(n, 2, room, size), floats(n, 2, room, size)
        places = np.arange(past, total)[None].repeat(n, 0)
        turn = lambda x: rotate(x, cosines, sines, places, "rotary_interleaved" in attributes) if "do_rotary" in attributes else x
        keys = np.concatenate([pk[:, :, :past], turn(heads(k, 2)), pk[:, :, total:]], 2)
        values = np.concatenate([pv[:, :, :past], heads(v, 2), pv[:, :, total:]], 2)
        at, key = np.arange(past, total)[:, None], np.arange(room)[None]
        seen = (key <= at) & (mask[:, at // block, key // block] == 1)
        added = np.where(np.tile(seen, (4 // layouts, 1, 1)), 0.0, -1e30)[None]
        y = attend(turn(heads(q, 4)), keys.repeat(2, 1), values.repeat(2, 1), added, attributes.get("scale"))
        inputs = {"q": np.concatenate([q, k, v], -1) if packed else q, "k": None if packed else k,
                  "v": None if packed else v, "pk": pk, "pv": pv, "f_": first, "o_": columns, "t": np.int32(total),
                  "l": np.full(n, total, np.int32)}
        if "do_rotary" in attributes:
            inputs.update({"c_": cosines, "s_": sines})
        yield one("SparseAttention", inputs, [y, keys, values], {"num_heads": 4, "kv_num_heads": 2,
                  "sparse_block_size": block, **attributes}, name=f"SparseAttention_{name}", peer=False)
