"""Definitions in NumPy of the operators of providers/operators that neither ONNX's cases of Debian 12 nor sums in double
of a test in C check. Each follows the text of ONNX's specification (or of ONNX Runtime's, for com.microsoft), with plain
loops and in double where the operator sums."""
import math

import numpy as np
from onnx import numpy_helper

from models import RNG, floats, one, softmax

def plain(op, inputs, outputs, attributes=None, opset=27, **more):
    """A case of an operator of ONNX."""
    return one(op, inputs, outputs, attributes, domain="", main=opset, ir=13 if opset > 24 else 10, **more)


def as_float(array):
    return np.asarray(array, np.float32)


def integers(dtype, *shape):
    """Numbers of all bits."""
    return RNG.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0]


def elementwise():
    for op, function in (("BitwiseAnd", np.bitwise_and), ("BitwiseOr", np.bitwise_or), ("BitwiseXor", np.bitwise_xor)):
        for dtype in (np.int8, np.uint16, np.int32, np.uint64):
            a, b = integers(dtype, 3, 1, 37), integers(dtype, 5, 37)
            yield plain(op, {"a": a, "b": b}, [function(a, b)], name=f"{op}_{np.dtype(dtype)}")
    for dtype in (np.int8, np.uint16, np.int32, np.uint64):
        a = integers(dtype, 5, 37)
        yield plain("BitwiseNot", {"a": a}, [np.bitwise_not(a)], name=f"BitwiseNot_{np.dtype(dtype)}")
    for dtype, to, code in ((np.float32, np.int32, 6), (np.uint64, np.float64, 11), (np.int16, np.uint16, 4)):
        bits = np.clip(integers(np.int16, 4, 35), -9999, 9999).astype(dtype)
        yield plain("BitCast", {"a": bits}, [bits.view(to)], {"to": code}, name=f"BitCast_{np.dtype(to)}")
    x = floats(3, 41, low=-6, high=6)
    for alpha in (1.0, 1.7):
        yield plain("Swish", {"x": x}, [as_float(x / (1 + np.exp(-alpha * x.astype(np.float64))))], {"alpha": alpha},
                   name=f"Swish_{alpha}")


def cumulative():
    x = floats(3, 9, 5, low=0.5, high=1.5)
    for axis in (0, 1, -1):
        for exclusive in (0, 1):
            for reverse in (0, 1):
                lines = np.moveaxis(x.astype(np.float64), axis, 0)
                lines = lines[::-1] if reverse else lines
                y, product = np.empty_like(lines), np.ones_like(lines[0])
                for i, line in enumerate(lines):
                    y[i] = product if exclusive else product * line
                    product = product * line
                y = np.moveaxis(y[::-1] if reverse else y, 0, axis)
                yield plain("CumProd", {"x": x, "axis_": np.int64(axis)}, [as_float(y)],
                           {"exclusive": exclusive, "reverse": reverse}, name=f"CumProd_{axis}_{exclusive}_{reverse}")


def norms():
    x = floats(2, 7, 11, low=-3, high=3)
    exact = x.astype(np.float64)
    for axis in (0, 1, -1):
        for p in (1, 2):
            norm = np.sum(np.abs(exact) ** p, axis=axis, keepdims=True) ** (1 / p)
            yield plain("LpNormalization", {"x": x}, [as_float(exact / norm)], {"axis": axis, "p": p}, opset=22,
                       name=f"LpNormalization_{axis}_{p}")
    x = floats(2, 3, 5, 9, low=-3, high=3)
    for p in (1, 2, 3):
        y = np.sum(np.abs(x.astype(np.float64)) ** p, axis=(2, 3), keepdims=True) ** (1 / p)
        yield plain("GlobalLpPool", {"x": x}, [as_float(y)], {"p": p}, opset=22, name=f"GlobalLpPool_{p}")
    x, skip, gamma, beta, bias = floats(2, 3, 24), floats(2, 3, 24), floats(24), floats(24), floats(24)
    for has_bias in (False, True):
        total = x.astype(np.float64) + skip + (bias if has_bias else 0)
        centred = total - total.mean(-1, keepdims=True)
        y = centred / np.sqrt((centred ** 2).mean(-1, keepdims=True) + 1e-3) * gamma + beta
        more = {"b": bias} if has_bias else {}
        yield one("SkipLayerNormalization", {"x": x, "s": skip, "g": gamma, "h": beta, **more},
                  [as_float(y), None, None, as_float(total)], {"epsilon": 1e-3}, name=f"SkipLayerNormalization_{has_bias}")
        y = total / np.sqrt((total ** 2).mean(-1, keepdims=True) + 1e-3) * gamma
        yield one("SkipSimplifiedLayerNormalization", {"x": x, "s": skip, "g": gamma, **more},
                  [as_float(y), None, None, as_float(total)], {"epsilon": 1e-3},
                  name=f"SkipSimplifiedLayerNormalization_{has_bias}")


def col2im(columns, image, block, dilations, pads, strides):
    batch, lines, _ = columns.shape
    channels = lines // math.prod(block)
    wide = np.zeros((batch, channels, image[0] + pads[0] + pads[2], image[1] + pads[1] + pads[3]))
    steps = [(wide.shape[2 + d] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1 for d in range(2)]
    parts = columns.reshape(batch, channels, *block, *steps)
    for i in range(block[0]):
        for j in range(block[1]):
            for y in range(steps[0]):
                for x in range(steps[1]):
                    wide[:, :, y * strides[0] + i * dilations[0], x * strides[1] + j * dilations[1]] += parts[:, :, i, j, y, x]
    return wide[:, :, pads[0]:pads[0] + image[0], pads[1]:pads[1] + image[1]]


def windows():
    for image, block, dilations, pads, strides in (((5, 6), (2, 3), (1, 1), (0, 0, 0, 0), (1, 1)),
                                                   ((7, 8), (3, 2), (2, 1), (1, 0, 2, 1), (2, 3))):
        steps = [(image[d] + pads[d] + pads[d + 2] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1 for d in range(2)]
        x = floats(2, 3 * math.prod(block), math.prod(steps))
        yield plain("Col2Im", {"x": x, "i_": np.array(image), "b_": np.array(block)},
                   [as_float(col2im(x, image, block, dilations, pads, strides))],
                   {"dilations": dilations, "pads": pads, "strides": strides}, opset=18, name=f"Col2Im_{strides[0]}")
    x = floats(2, 3, 9, 11)
    rois = as_float([[0, 0, 0, 10, 8], [1, 2, 1, 7, 6], [1, 4, 4, 4, 4], [0, 3, 2, 12, 7]])
    y = np.zeros((4, 3, 3, 2), np.float32)
    for n, (batch, *ends) in enumerate(rois):
        left, top, right, bottom = (int(math.floor(end * 0.75 + 0.5)) for end in ends)
        size = (max(bottom - top + 1, 1), max(right - left + 1, 1))
        for i in range(3):
            for j in range(2):
                rows = [min(max(v + top, 0), 9) for v in (size[0] * i // 3, -(-size[0] * (i + 1) // 3))]
                columns = [min(max(v + left, 0), 11) for v in (size[1] * j // 2, -(-size[1] * (j + 1) // 2))]
                part = x[int(batch), :, rows[0]:rows[1], columns[0]:columns[1]].reshape(3, -1)
                y[n, :, i, j] = part.max(1) if part.shape[1] else 0
    yield plain("MaxRoiPool", {"x": x, "r": rois}, [y], {"pooled_shape": [3, 2], "spatial_scale": 0.75}, opset=22)


def causal_convolutions():
    for taps in (1, 4):
        for silu in (False, True):
            x, w, b, past = floats(2, 5, 13), floats(5, 1, taps), floats(5), floats(2, 5, taps - 1)
            line = np.concatenate([past, x], 2).astype(np.float64)
            y = np.array([[[w[c, 0] @ line[n, c, t:t + taps] + b[c] for t in range(13)] for c in range(5)]
                          for n in range(2)])
            y = y / (1 + np.exp(-y)) if silu else y
            yield plain("CausalConvWithState", {"x": x, "w": w, "b": b, "p": past},
                       [as_float(y), as_float(line[:, :, 13:])], {"activation": "silu" if silu else "none"},
                       name=f"CausalConvWithState_{taps}_{silu}")


def attend(q, k, v, scale, added, cap=0.0):
    """Attention of [batch, heads, length, size] in double; heads of keys are repeated."""
    k, v = (np.repeat(m.astype(np.float64), q.shape[1] // m.shape[1], 1) for m in (k, v))
    scores = q.astype(np.float64) @ k.transpose(0, 1, 3, 2) * scale
    scores = cap * np.tanh(scores / cap) if cap else scores
    return as_float(softmax(scores + added) @ v)


def attentions():
    q, k, v = floats(2, 4, 6, 8), floats(2, 2, 6, 8), floats(2, 2, 6, 10)
    scale = 1 / math.sqrt(8)
    yield plain("Attention", {"q": q, "k": k, "v": v}, [attend(q, k, v, scale, 0)], opset=23)
    yield plain("Attention", {"q": q, "k": k, "v": v}, [attend(q, k, v, 0.3, 0, 1.5)], {"scale": 0.3, "softcap": 1.5},
               opset=23, name="Attention_scale")
    hidden = np.where(np.tril(np.ones((6, 6))) == 0, -np.inf, 0)
    yield plain("Attention", {"q": q, "k": k, "v": v}, [attend(q, k, v, scale, hidden)], {"is_causal": 1}, opset=23,
               name="Attention_causal")
    mask = RNG.random((6, 6)) < 0.7
    mask[:, 0] = True
    yield plain("Attention", {"q": q, "k": k, "v": v, "m": mask}, [attend(q, k, v, scale, np.where(mask, 0, -np.inf))],
               opset=23, name="Attention_mask")
    added, past = floats(2, 1, 6, 9), (floats(2, 2, 3, 8), floats(2, 2, 3, 10))
    keys, values = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
    yield plain("Attention", {"q": q, "k": k, "v": v, "m": added, "pk": past[0], "pv": past[1]},
               [attend(q, keys, values, scale, added), keys, values], opset=23, name="Attention_past")

    def flat(x):
        return np.ascontiguousarray(x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1))

    yield plain("Attention", {"q": flat(q), "k": flat(k), "v": flat(v)}, [flat(attend(q, k, v, scale, 0))],
               {"q_num_heads": 4, "kv_num_heads": 2}, opset=23, name="Attention_flat")


def linear_attentions():
    batch, steps, heads, groups, size, width = 2, 5, 2, 2, 4, 3
    q, k, v = floats(batch, steps, heads * groups * size), floats(batch, steps, heads * size), floats(batch, steps, heads * width)
    past, beta = floats(batch, heads, size, width), floats(batch, steps, heads, low=0, high=1)
    for rule in ("linear", "gated", "delta", "gated_delta"):
        for by_row in (False, True) if "gated" in rule else (False,):
            decay = floats(batch, steps, heads * (size if by_row else 1), low=-1, high=0)
            state, y = past.astype(np.float64), np.zeros((batch, steps, heads * groups, width))
            for n in range(batch):
                for t in range(steps):
                    for h in range(heads):
                        key, value = k[n, t].reshape(heads, size)[h], v[n, t].reshape(heads, width)[h].astype(np.float64)
                        if "gated" in rule:
                            state[n, h] *= np.exp(decay[n, t].astype(np.float64).reshape(heads, -1)[h])[:, None]
                        if "delta" in rule:
                            value = beta[n, t, h] * (value - key @ state[n, h])
                        state[n, h] += np.outer(key, value)
                        for g in range(h * groups, (h + 1) * groups):
                            y[n, t, g] = q[n, t].reshape(-1, size)[g] @ state[n, h] / math.sqrt(size)
            inputs = {"q": q, "k": k, "v": v, "p": past, "d": decay if "gated" in rule else None}
            if "delta" in rule:
                inputs["b"] = beta
            yield plain("LinearAttention", inputs, [as_float(y.reshape(batch, steps, -1)), as_float(state)],
                       {"update_rule": rule, "q_num_heads": heads * groups, "kv_num_heads": heads},
                       name=f"LinearAttention_{rule}_{by_row}")


def caches():
    x, angles = floats(2, 3, 5, 8), floats(16, 3, low=0, high=3)
    cosines, sines, places = as_float(np.cos(angles)), as_float(np.sin(angles)), RNG.integers(0, 16, (2, 5))
    for woven in (0, 1):
        y = x.copy()
        for n in range(2):
            for t in range(5):
                for i in range(3):
                    a, b = (2 * i, 2 * i + 1) if woven else (i, i + 3)
                    c, s = (table[places[n, t], i].astype(np.float64) for table in (cosines, sines))
                    y[n, :, t, a] = c * x[n, :, t, a] - s * x[n, :, t, b]
                    y[n, :, t, b] = s * x[n, :, t, a] + c * x[n, :, t, b]
        yield plain("RotaryEmbedding", {"x": x, "c": cosines, "s": sines, "p": places}, [y],
                   {"interleaved": woven, "rotary_embedding_dim": 6}, opset=23, name=f"RotaryEmbedding_{woven}")
    cache, update, at = floats(3, 2, 7, 4), floats(3, 2, 3, 4), np.array([0, 4, 6])
    for mode in ("linear", "circular"):
        y = cache.copy()
        starts = at if mode == "circular" else np.minimum(at, 4)
        for n in range(3):
            for i in range(3):
                y[n, :, (starts[n] + i) % 7] = update[n, :, i]
        yield plain("TensorScatter", {"c": cache, "u": update, "w": starts}, [y], {"mode": mode}, opset=24,
                   name=f"TensorScatter_{mode}")


def random_tree(nodes, leaves, depth, features, targets):
    """Appends a tree in the form of TreeEnsemble-5; returns the number of its root."""
    me = len(nodes)
    nodes.append(None)
    sides = []
    for _ in range(2):
        if depth > 0 and RNG.random() < 0.8:
            sides.append((random_tree(nodes, leaves, depth - 1, features, targets), 0))
        else:
            leaves.append((int(RNG.integers(targets)), np.float32(RNG.normal())))
            sides.append((len(leaves) - 1, 1))
    nodes[me] = (int(RNG.integers(features)), int(RNG.integers(6)), np.float32(RNG.integers(-2, 3)), *sides)
    return me


COMPARISONS = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)


def tree_ensembles():
    features, targets = 4, 3
    for aggregate, function in enumerate((None, np.sum, np.min, np.max)):
        nodes, leaves = [], []
        roots = [random_tree(nodes, leaves, 4, features, targets) for _ in range(5)]
        x = as_float(RNG.integers(-3, 4, (23, features)))
        y = np.zeros((23, targets), np.float32)
        for n, row in enumerate(x):
            found = [[] for _ in range(targets)]
            for root in roots:
                at, is_leaf = root, 0
                while not is_leaf:
                    feature, mode, split, true, false = nodes[at]
                    at, is_leaf = true if COMPARISONS[mode](row[feature], split) else false
                found[leaves[at][0]].append(float(leaves[at][1]))
            for t in range(targets):
                if found[t]:
                    y[n, t] = sum(found[t]) / len(roots) if function is None else function(found[t])

        def tensor(name, values, dtype=np.float32):
            return numpy_helper.from_array(np.array(values, dtype), name)

        columns = list(zip(*nodes))
        attributes = {"aggregate_function": aggregate, "n_targets": targets, "tree_roots": roots,
                      "nodes_featureids": columns[0], "nodes_modes": tensor("modes", columns[1], np.uint8),
                      "nodes_splits": tensor("splits", columns[2]),
                      "nodes_truenodeids": [side[0] for side in columns[3]], "nodes_trueleafs": [side[1] for side in columns[3]],
                      "nodes_falsenodeids": [side[0] for side in columns[4]],
                      "nodes_falseleafs": [side[1] for side in columns[4]],
                      "leaf_targetids": [leaf[0] for leaf in leaves], "leaf_weights": tensor("w", [leaf[1] for leaf in leaves])}
        yield one("TreeEnsemble", {"x": x}, [y], attributes, domain="ai.onnx.ml", opset=5, main=22, ir=10,
                  name=f"TreeEnsemble_{aggregate}")


def gathered_products():
    for m, k, n, dtype in ((1, 70, 131, np.float32), (3, 5, 16, np.float32), (2, 33, 9, np.float16)):
        table = floats(4, k, n).astype(dtype)
        for chosen in (np.int64([[3, -4, 1], [1, 1, 2]]), np.int32([0] * 70), np.int64(-1)):
            x = floats(*chosen.shape, m, k).astype(dtype)
            y = (x.astype(np.float64) @ table.astype(np.float64)[chosen]).astype(dtype)
            for transposed in (0, 1):
                stored = table.swapaxes(1, 2) if transposed else table
                yield one("GatherMatMul", {"x": x, "w_": np.ascontiguousarray(stored), "i": chosen}, [y],
                          {"transposed": transposed}, domain="ai.inlay", peer=False,
                          name=f"GatherMatMul_{m}_{chosen.size}_{transposed}")


def all_cases():
    """Generates the cases; the same ones in each run."""
    for group in (elementwise, cumulative, norms, windows, causal_convolutions, attentions, linear_attentions, caches,
                  tree_ensembles, gathered_products):
        for case in group():
            case.operator = case.model.graph.node[0].op_type
            yield case
