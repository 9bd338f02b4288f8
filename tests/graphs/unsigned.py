"""Families of unsigned integers of 64 bits, mostly at 2^63 and above, where a signed number would be negative."""
import numpy as np
from families import F, family
from onnx import TensorProto as T

ENDS = [2**63, 2**63 + 1, 2**64 - 1, 2**64 - 2, 2**63 - 1, 0, 1, 3, 2**32, 2**53 + 1, 10**19]


def ends(g, shape):
    return np.array([g.pick(ENDS) for _ in range(int(np.prod(shape)))], np.uint64).reshape(shape)


def chosen(g, x, shape):
    """Large numbers, chosen by the elements of x."""
    return g.add("Where", g.add("Greater", x, F(.1)), ends(g, shape[-1:]), ends(g, g.pick([[], shape[-1:]])))


@family(2)
def large_integers(g, x, shape):
    a, b = chosen(g, x, shape), chosen(g, g.alike(shape), shape)
    kind = g.pick(["sum", "order", "extreme", "divide", "shift", "reduce", "sort", "move", "equal", "range", "running",
                   "scatter", "gather", "pad", "product", "converted", "power", "hot", "sign", "best"])
    if kind == "sum":
        y = g.add(g.pick(["Add", "Mul", "Sub"]), a, b)
    elif kind == "order":
        return g.add("Cast", g.add(g.pick(["Greater", "Less", "GreaterOrEqual", "LessOrEqual"]), a, b), to=T.FLOAT)
    elif kind == "equal":
        return g.add("Cast", g.add("Equal", a, b), to=T.FLOAT)
    elif kind == "extreme":
        y = g.add(g.pick(["Max", "Min"]), a, b)
    elif kind == "divide":
        by = np.uint64(g.pick([1, 2, 3, 7, 2**63, 2**64 - 1]))
        y = g.add(g.pick(["Div", "Mod"]), a, g.add("Max", b, by) if g.chance(.4) else by)
    elif kind == "shift":
        by = np.uint64(g.pick([0, 1, 5, 63]))
        y = g.add("BitShift", a, g.add("Mod", b, np.uint64(64)) if g.chance(.4) else by,
                  direction=g.pick(["LEFT", "RIGHT"]))
    elif kind == "running":
        y = g.add("CumSum", a, np.array(g.axis(shape), np.int64), exclusive=g.below(2), reverse=g.below(2))
    elif kind == "scatter":
        axis = g.axis(shape)
        places = np.full([1 + g.below(d) if i != axis else 1 for i, d in enumerate(shape)], g.below(shape[axis]), np.int64)
        more = {"reduction": g.pick(["add", "mul", "none"])} if g.opset >= 16 else {}
        y = g.add("ScatterElements", a, places, ends(g, places.shape), axis=axis, **more)
    elif kind == "gather":
        axis = g.axis(shape)
        places = g.numbers.integers(-shape[axis], shape[axis], [min(d, 3) for d in shape]).astype(np.int64)
        y = g.add("GatherElements", a, places, axis=axis)
    elif kind == "pad":
        pads = np.array([g.below(3) for _ in shape + shape], np.int64)
        y = g.add("Pad", a, pads, np.uint64(g.pick(ENDS)), mode="constant")
    elif kind == "product":
        if len(shape) < 2:
            raise ValueError("not a matrix")
        w = ends(g, [shape[-1], g.pick([1, 3, 8])])
        y = g.add("Gemm", a, w) if len(shape) == 2 and g.chance(.4) else g.add("MatMul", a, w)
    elif kind == "converted":
        if g.chance(.5):  # floats up to the largest one below 2^64
            y = g.add("Cast", g.add("Clip", g.add("Mul", x, F(1e19)), F(0), F(2**64 - 2**40)), to=T.UINT64)
        else:
            return g.add("Cast", g.add("Cast", a, to=g.pick([T.BOOL, T.DOUBLE, T.FLOAT, T.UINT32])), to=T.FLOAT)
    elif kind == "power":
        base = g.add("Clip", x, F(-1), F(1))
        return g.add("Pow", base, np.uint64(g.pick([0, 1, 2, 3, 2**63])))
    elif kind == "hot":
        indices = g.add("Cast", g.add("Clip", x, F(-2), F(5)), to=T.INT64)
        y = g.add("OneHot", indices, np.array(g.pick([1, 3]), np.int64), ends(g, [2]), axis=g.pick([0, -1]))
    elif kind == "sign":
        y = g.add(g.pick(["Sign", "Abs"]), a)
    elif kind == "best":
        return g.add("Cast", g.add(g.pick(["ArgMax", "ArgMin"]), a, axis=g.axis(shape), keepdims=g.below(2),
                                   select_last_index=g.below(2)), to=T.FLOAT)
    elif kind == "reduce":
        if g.chance(.5):
            y = g.add("ReduceSum", a, np.array([g.axis(shape)], np.int64), keepdims=g.below(2))
        else:
            y = g.add(g.pick(["ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1"]), a,
                      axes=[g.axis(shape)], keepdims=g.below(2))
    elif kind == "sort":
        axis = g.axis(shape)
        y, _ = g.add("TopK", a, np.array([1 + g.below(shape[axis])], np.int64), axis=axis, largest=g.below(2), outputs=2)
    elif kind == "range":
        y = g.add("Clip", a, np.uint64(g.pick([0, 2**63])), np.uint64(g.pick([2**63 + 5, 2**64 - 1])))
    else:
        y = g.add("Concat", a, g.add("Transpose", g.add("Transpose", b)), axis=g.axis(shape))
    if g.chance(.3):
        return y
    if g.chance(.5):
        y = g.add("Cast", y, to=g.pick([T.INT64, T.UINT8, T.INT32]))
    return g.add("Cast", g.add("Mul", g.add("Cast", y, to=T.DOUBLE), np.float64(2**-60)), to=T.FLOAT)
