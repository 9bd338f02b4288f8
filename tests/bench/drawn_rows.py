"""Random rows for operators.py --drawn: operators, types, axes and sizes that operator_rows.py does not list."""
import numpy as np

from operator_rows import Row

ALONG = "Softmax LogSoftmax CumSum ArgMax TopK ReduceSum ReduceMax ReduceMean ReduceL2 LpNormalization Hardmax".split()
MOVES = "Transpose Concat Split Slice Pad Gather Tile Expand".split()
PAIRS = "Add Mul Sub Div Max Less Where".split()
WINDOWS = "MaxPool AveragePool Conv Resize".split()


def text(dims):
    return "[" + ",".join(map(str, dims)) + "]"


def ints(values):
    return f"=i64[{len(values)}]:is " + " ".join(map(str, values))


class Drawing:
    """Random choices, the same for a seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def pick(self, choices):
        return choices[int(self.rng.integers(len(choices)))]

    def between(self, low, high):
        """A whole number, uniform in its logarithm."""
        return int(round(np.exp(self.rng.uniform(np.log(low), np.log(high)))))

    def dims(self, most=1 << 22):
        """Two to four dims of together about 64 to `most` elements, in any order."""
        elements, dims, rank = self.between(64, most), [], self.pick((2, 3, 4))
        for left in range(rank, 0, -1):
            dims.append(elements if left == 1 else self.between(1, max(1, round(elements ** (2 / left)))))
            elements = max(1, elements // dims[-1])
        return [dims[i] for i in self.rng.permutation(rank)]

    def along(self):
        op, kind, dims = self.pick(ALONG), self.pick(("f32", "f32", "f32", "f64")), self.dims(1 << 21)
        axis = int(self.rng.integers(len(dims)))
        data, name = kind + text(dims), f"{op} {kind} {text(dims)} axis {axis}"
        if op == "TopK":
            k = self.between(1, dims[axis])
            return Row(f"{name} k {k}", op, [data, ints([k])], [kind, "i64"], axis=axis)
        if op == "CumSum":
            return Row(name, op, [data, f"=i64[]:is {axis}"], [kind])
        if op == "ReduceSum":
            return Row(name, op, [data, ints([axis])], [kind])
        if op.startswith("Reduce"):
            return Row(name, op, [data], [kind], axes=[axis])
        return Row(name, op, [data], ["i64" if op == "ArgMax" else kind], axis=axis)

    def moved(self):
        op, kind, dims = self.pick(MOVES), self.pick(("f32", "f32", "f16", "i64", "u8")), self.dims()
        axis = int(self.rng.integers(len(dims)))
        if op == "Split":
            dims[axis] *= 2
        data, name, times = kind + text(dims), f"{op} {kind} {text(dims)} axis {axis}", [1] * len(dims)
        if op == "Transpose":
            perm = [int(d) for d in self.rng.permutation(len(dims))]
            return Row(f"{op} {kind} {text(dims)} perm {perm}", op, [data], [kind], perm=perm)
        if op in ("Concat", "Split"):
            both = [data, data] if op == "Concat" else [data]
            return Row(name, op, both, [kind] * (1 if op == "Concat" else 2), axis=axis)
        if op == "Slice":
            return Row(name, op, [data, ints([0]), ints([(dims[axis] + 1) // 2]), ints([axis])], [kind])
        if op == "Gather":
            return Row(name, op, [data, f"i64[{self.between(1, 512)}]:below {dims[axis]}"], [kind], axis=axis)
        if op == "Pad":
            times[axis] = 1 + int(self.rng.integers(3))
            pads = [(n if d == axis else 0) for d, n in enumerate(times)]
            return Row(name, op, [data, ints(pads + pads)], [kind])
        if op == "Tile":
            times[axis] = 2 + int(self.rng.integers(3))
            return Row(name, op, [data, ints(times)], [kind])
        narrow = [1 if d == axis else n for d, n in enumerate(dims)]
        return Row(name, op, [kind + text(narrow), ints(dims)], [kind])

    def pairs(self):
        op, kind, how, dims = self.pick(PAIRS), self.pick(("f32", "f32", "f16", "f64", "i64")), \
            self.pick(("same", "row", "column", "one")), self.dims()
        other = {"same": dims, "row": dims[-1:], "column": dims[:-1] + [1], "one": []}[how]
        name, data = f"{op} {kind} {text(dims)} {how}", kind + text(dims)
        if op == "Where":
            return Row(name, op, ["bool" + text(other), data, data], [kind])
        return Row(name, op, [data, kind + text(other)], ["bool" if op == "Less" else kind])

    def windows(self):
        op, channels, kernel, stride = self.pick(WINDOWS), self.between(1, 256), self.pick((1, 2, 3, 5)), self.pick((1, 2))
        dims = [1, channels, self.between(5, 224), self.between(5, 224)]
        if op == "Resize":
            mode, scale = self.pick(("linear", "nearest")), self.pick(("2", "0.5", "1.5"))
            return Row(f"Resize f32 {text(dims)} {mode} {scale}", op,
                       ["f32" + text(dims), None, f"=f32[4]:is 1 1 {scale} {scale}"], mode=mode)
        window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2 if kernel > 2 else 0] * 4}
        name = f"{op} f32 {text(dims)} {kernel}x{kernel} stride {stride}"
        if op != "Conv":
            return Row(name, op, ["f32" + text(dims)], **window)
        filters, group = self.pick(((channels, channels), (self.between(1, 128), 1)))
        return Row(f"{name} to {filters} group {group}", op,
                   ["f32" + text(dims), f"=f32[{filters},{channels // group},{kernel},{kernel}]"], group=group, **window)


def rows(count, seed):
    drawing, made = Drawing(seed), {}
    while len(made) < count:
        row = drawing.pick((drawing.along, drawing.moved, drawing.pairs, drawing.windows))()
        made.setdefault(row.name, row)
    return list(made.values())
