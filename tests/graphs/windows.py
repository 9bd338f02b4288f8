"""Families of windows in one to three dimensions with every attribute: convolutions, transposed convolutions, pools."""
import numpy as np
from families import F, family, groups_of, weights


def weights_of(g, x, *shape):
    """Weights, which a run computes now and then."""
    w = weights(g, *shape)
    return g.add("Mul", g.add("Clip", g.add("ReduceMax", x, keepdims=0), F(.5), F(2)), w) if g.chance(.15) else w


def given(g, more):
    """The attributes without some that have their default values, or that the weights determine."""
    ones = [name for name in ("strides", "dilations") if name in more and set(more[name]) == {1} and g.chance(.5)]
    left = ones + (["kernel_shape"] if g.chance(.3) else [])
    return {name: value for name, value in more.items() if name not in left}


def window(g, spatial, dilated=True, ceil=False):
    """Sizes, steps and pads of a window. ValueError if it does not fit, or if versions of ONNX disagree on its steps."""
    size = [g.pick([1, 2, 3, 4]) for _ in spatial]
    step = [g.pick([1, 1, 2, 3]) for _ in spatial]
    apart = [g.pick([1, 1, 2, 3]) if dilated else 1 for _ in spatial]
    more = {"kernel_shape": size, "strides": step}
    reach = [(k - 1) * d + 1 for k, d in zip(size, apart)]
    if dilated:
        more["dilations"] = apart
    if g.chance(.25):
        more["auto_pad"] = g.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
        if more["auto_pad"] == "VALID" and any(r > n for r, n in zip(reach, spatial)):
            raise ValueError("a window larger than the image")
        return more
    begins, ends = [g.below(r) for r in size], [g.below(r) for r in size]
    more["pads"] = begins + ends
    for n, r, s, b, e in zip(spatial, reach, step, begins, ends):
        if n + b + e < r:
            raise ValueError("a window larger than the image")
        if ceil and -(-(n + b + e - r) // s) * s >= n + b:
            raise ValueError("a last window in the padding")
    return dict(more, ceil_mode=1) if ceil else more


@family(2, 3, 4)
@family(6, 5)
def any_convolution(g, x, shape):
    more, (groups, to) = window(g, shape[2:]), groups_of(g, shape[1])
    bias = [g.numbers.standard_normal(to).astype(F)] if g.chance(.6) else []
    w = weights_of(g, x, to, shape[1] // groups, *more["kernel_shape"])
    y = g.add("Conv", x, w, *bias, group=groups, **given(g, more))
    return g.add(g.pick(["Relu", "HardSwish", "Clip"] if g.opset >= 14 else ["Relu"]), y) if g.chance(.4) else y


@family(1, 3, 4)
@family(3, 5)
def any_transposed(g, x, shape):
    more, (groups, to) = window(g, shape[2:]), groups_of(g, shape[1])
    if "auto_pad" not in more and g.chance(.5):
        more["output_padding"] = [g.below(max(s, d)) for s, d in zip(more["strides"], more["dilations"])]
    if "auto_pad" not in more and "output_padding" not in more and g.chance(.3):
        whole = [s * (n - 1) + (k - 1) * d + 1 for n, k, s, d in
                 zip(shape[2:], more["kernel_shape"], more["strides"], more["dilations"])]
        more["output_shape"] = [max(1, n - g.below(2 * k - 1)) for n, k in zip(whole, more["kernel_shape"])]
        del more["pads"]
    if more.get("auto_pad", "").startswith("SAME"):
        raise ValueError("versions of ONNX disagree on its pads")
    bias = [g.numbers.standard_normal(to).astype(F)] if g.chance(.6) else []
    w = weights_of(g, x, shape[1], to // groups, *more["kernel_shape"])
    return g.add("ConvTranspose", x, w, *bias, group=groups, **given(g, more))


@family(2, 3, 4)
@family(5, 5)
def any_pool(g, x, shape):
    name = g.pick(["MaxPool", "MaxPool", "AveragePool", "LpPool", "GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"])
    if name.startswith("Global"):
        return g.add(name, x, **({"p": g.pick([1, 2, 3])} if name == "GlobalLpPool" else {}))
    more = window(g, shape[2:], dilated=name == "MaxPool", ceil=name != "LpPool" and g.chance(.3))
    if name == "LpPool":
        return g.add(name, x, p=g.pick([1, 2, 3]), **more)
    if name == "AveragePool":
        return g.add(name, x, count_include_pad=g.below(2), **more)
    return g.add(name, x, outputs=1 + g.below(2), storage_order=g.below(2), **more)


@family(2, 5)
def normal_volume(g, x, shape):
    c = shape[1]
    scale, shift = (g.numbers.random(c) + .5).astype(F), g.numbers.standard_normal(c).astype(F)
    if g.chance(.5):
        return g.add("InstanceNormalization", x, scale, shift)
    return g.add("BatchNormalization", x, scale, shift, shift, scale)
