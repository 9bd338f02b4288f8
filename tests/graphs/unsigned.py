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
    kind = g.pick(["sum", "order", "extreme", "divide", "shift", "reduce", "sort", "move", "equal", "range"])
    if kind == "sum":
        y = g.add(g.pick(["Add", "Mul", "Sub"]), a, b)
    elif kind == "order":
        return g.add("Cast", g.add(g.pick(["Greater", "Less", "GreaterOrEqual", "LessOrEqual"]), a, b), to=T.FLOAT)
    elif kind == "equal":
        return g.add("Cast", g.add("Equal", a, b), to=T.FLOAT)
    elif kind == "extreme":
        y = g.add(g.pick(["Max", "Min"]), a, b)
    elif kind == "divide":
        y = g.add(g.pick(["Div", "Mod"]), a, np.uint64(g.pick([1, 2, 3, 7, 2**63, 2**64 - 1])))
    elif kind == "shift":
        y = g.add("BitShift", a, np.uint64(g.pick([0, 1, 5, 63])), direction=g.pick(["LEFT", "RIGHT"]))
    elif kind == "reduce":
        if g.chance(.5):
            y = g.add("ReduceSum", a, np.array([g.axis(shape)], np.int64), keepdims=g.below(2))
        else:
            y = g.add(g.pick(["ReduceMax", "ReduceMin", "ReduceProd"]), a, axes=[g.axis(shape)], keepdims=g.below(2))
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
