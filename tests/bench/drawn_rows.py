"""Random rows for operators.py --drawn: operators, types, axes and sizes that operator_rows.py does not list."""
import numpy as np

from operator_rows import Row

ALONG = "Softmax LogSoftmax CumSum ArgMax TopK ReduceSum ReduceMax ReduceMean ReduceL2 LpNormalization Hardmax".split()
MOVES = "Transpose Concat Split Slice Pad Gather Tile Expand".split()
PAIRS = "Add Mul Sub Div Max Less Where".split()
WINDOWS = "MaxPool AveragePool Conv Resize".split()
INDEXED = "GatherElements GatherND ScatterElements ScatterND OneHot NonZero Compress ReverseSequence".split()
CONVERTED = "Cast Clip QuantizeLinear DequantizeLinear DepthToSpace".split()
NORMS = "LayerNormalization RMSNormalization GroupNormalization InstanceNormalization BatchNormalization GlobalAveragePool".split()
PRODUCTS = "MatMul Gemm MatMulInteger Einsum Attention LSTM GRU".split()
FILTERS = "Conv ConvTranspose QLinearConv".split()


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
        kind = "f32" if op == "Hardmax" else kind
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
            self.pick(("same", "row", "column", "middle", "one")), self.dims()
        kind = "f32" if op == "Div" else kind  # a random integer may be 0
        other = {"same": dims, "row": dims[-1:], "column": dims[:-1] + [1], "middle": dims[:1] + [1] * (len(dims) - 2) +
                 dims[-1:], "one": []}[how]
        name, data = f"{op} {kind} {text(dims)} {how}", kind + text(dims)
        if op == "Where":
            return Row(name, op, ["bool" + text(other), data, data], [kind])
        return Row(name, op, [data, kind + text(other)], ["bool" if op == "Less" else kind])

    def windows(self):
        op, channels, kernel, stride = self.pick(WINDOWS), self.between(1, 256), self.pick((1, 2, 3, 5)), self.pick((1, 2))
        dims = [1, channels, self.between(5, 224), self.between(5, 224)]
        if op == "Resize":
            mode, scale = self.pick(("linear", "nearest", "cubic")), self.pick(("2", "0.5", "1.5"))
            return Row(f"Resize f32 {text(dims)} {mode} {scale}", op,
                       ["f32" + text(dims), None, f"=f32[4]:is 1 1 {scale} {scale}"], mode=mode)
        window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2 if kernel > 2 else 0] * 4}
        name = f"{op} f32 {text(dims)} {kernel}x{kernel} stride {stride}"
        if op != "Conv":
            return Row(name, op, ["f32" + text(dims)], **window)
        filters, group = self.pick(((channels, channels), (self.between(1, 128), 1)))
        return Row(f"{name} to {filters} group {group}", op,
                   ["f32" + text(dims), f"=f32[{filters},{channels // group},{kernel},{kernel}]"], group=group, **window)

    def indexed(self):
        op, kind, dims = self.pick(INDEXED), self.pick(("f32", "f32", "i64")), self.dims(1 << 20)
        axis, count = int(self.rng.integers(len(dims))), self.between(1, 512)
        data, name = kind + text(dims), f"{op} {kind} {text(dims)} axis {axis}"
        if op in ("GatherElements", "ScatterElements"):
            taken = text([count if d == axis else n for d, n in enumerate(dims)])
            inputs = [data, f"i64{taken}:below {dims[axis]}"] + ([kind + taken] if op == "ScatterElements" else [])
            return Row(f"{name} of {count}", op, inputs, [kind], axis=axis)
        if op in ("GatherND", "ScatterND"):
            indices = f"i64[{count},{axis + 1}]:below {min(dims[:axis + 1])}"
            updates = [kind + text([count] + dims[axis + 1:])] if op == "ScatterND" else []
            return Row(f"{name} of {count}", op, [data, indices] + updates, [kind])
        if op == "OneHot":
            dims = dims[:2]
            return Row(f"{op} {kind} {text(dims)} of {count} axis {axis}", op, [f"i64{text(dims)}:below {count}",
                       f"=i64[]:is {count}", f"={kind}[2]:is 0 1"], [kind], axis=min(axis, 2))
        if op == "NonZero":
            return Row(f"{op} {kind} {text(dims)}", op, [f"{data}:half"], ["i64"])
        if op == "Compress":
            return Row(name, op, [data, f"bool[{dims[axis]}]"], [kind], axis=axis)
        return Row(f"{op} {kind} {text(dims)}", op, [data, f"i64[{dims[1]}]:below {dims[0]}"], [kind])

    def converted(self):
        op, dims = self.pick(CONVERTED), self.dims()
        axis = int(self.rng.integers(len(dims)))
        if op == "Cast":
            kind, to = self.pick(("f32", "f16", "f64", "i64", "i32", "u8", "bool")), self.pick(("f32", "f16", "i64", "u8"))
            return Row(f"{op} {kind} {text(dims)} to {to}", op, [kind + text(dims)], [to], to=to)
        if op == "Clip":
            kind = self.pick(("f32", "f64", "i64", "u8"))
            return Row(f"{op} {kind} {text(dims)}", op, [kind + text(dims), f"={kind}[]:is 1", f"={kind}[]:is 6"], [kind])
        if op == "DepthToSpace":
            block, dims = self.pick((2, 3, 4)), [1, self.between(1, 64), self.between(2, 96), self.between(2, 96)]
            dims[1] *= block * block
            return Row(f"{op} f32 {text(dims)} {block}", op, ["f32" + text(dims)], blocksize=block)
        kind, each = self.pick(("u8", "i8")), self.pick((text(dims[axis:axis + 1]), "[]"))
        start, to = ("f32", kind) if op == "QuantizeLinear" else (kind, "f32")
        scale, zero = f"=f32{each}:is " + "0.05 " * (dims[axis] if each != "[]" else 1), f"={kind}{each}:below 9"
        return Row(f"{op} {kind} {text(dims)} scales {each} axis {axis}", op, [start + text(dims), scale, zero], [to], axis=axis)

    def normalized(self):
        op, groups = self.pick(NORMS), self.between(1, 32)
        dims = self.dims(1 << 21) if op[0] in "LR" else [self.pick((1, 1, 4)), groups * self.between(1, 16), self.between(3, 96),
                                                       self.between(3, 96)]
        data, channels = "f32" + text(dims), f"=f32[{dims[-1] if op[0] in 'LR' else dims[1]}]"
        name, more = f"{op} {data}", {"num_groups": groups} if op[:2] == "Gr" else {}
        learned = {"R": 1, "B": 3}.get(op[0], 0 if op[:2] == "Gl" else 2)
        inputs = [data] + [channels] * learned + ([channels + ":unit"] if op[0] == "B" else [])
        return Row(f"{name} groups {groups}" if more else name, op, inputs, opset=23 if op[0] == "R" else 21, **more)

    def products(self):
        op, batch = self.pick(PRODUCTS), self.pick(([], [], [self.between(2, 64)]))
        m, k, n = (self.between(1, 300) for _ in range(3))
        constant = self.pick(("", "=")) if not batch else ""
        name = f"{op} {text(batch)} {m} {k} {n}{' constant' if constant else ''}"
        if op == "MatMul":
            kind = self.pick(("f32", "f32", "f64", "f16"))
            return Row(f"{name} {kind}", op, [kind + text(batch + [m, k]), constant + kind + text(batch + [k, n])], [kind])
        if op == "MatMulInteger":
            kind = self.pick(("u8", "i8"))
            return Row(f"{name} {kind}", op, ["u8" + text(batch + [m, k]), constant + kind + text(batch + [k, n])], ["i32"])
        if op == "Gemm":
            a, b = (int(self.rng.integers(2)) for _ in range(2))
            return Row(f"{op} {m} {k} {n} transA {a} transB {b}{' constant' if constant else ''}", op, [
                "f32" + text([k, m] if a else [m, k]), constant + "f32" + text([n, k] if b else [k, n]), f"=f32[{n}]"],
                transA=a, transB=b)
        if op == "Einsum":
            equation, left, right = self.pick((("bij,bkj->bik", [2, m, k], [2, n, k]), ("ij,kj->ik", [m, k], [n, k]),
                                               ("ij,ij->i", [m, k], [m, k]), ("bhi,hij->bhj", [4, 8, k], [8, k, n])))
            return Row(f"{op} {equation} {text(left)} {text(right)}", op, ["f32" + text(left), "f32" + text(right)],
                       equation=equation)
        if op == "Attention":
            heads, width = self.pick((1, 2, 4, 8)), self.pick((8, 16, 32, 40, 64))
            keys = "f32" + text([1, heads, k, width])
            return Row(f"{op} {heads} heads {m} {k} {width}", op, ["f32" + text([1, heads, m, width]), keys, keys], opset=23)
        gates, steps, hidden, width = {"LSTM": 4, "GRU": 3}[op], self.between(1, 64), self.between(4, 128), self.between(1, 128)
        return Row(f"{op} {steps} steps {width} to {hidden}", op, [
            f"f32[{steps},1,{width}]", f"=f32[1,{gates * hidden},{width}]:small", f"=f32[1,{gates * hidden},{hidden}]:small",
            f"=f32[1,{2 * gates * hidden}]"], hidden_size=hidden)

    def filters(self):
        op, axes = self.pick(FILTERS), self.pick((1, 2, 2, 3))
        axes = 2 if op == "QLinearConv" else axes
        sides = [self.between(6, {1: 2000, 2: 80, 3: 20}[axes]) for _ in range(axes)]
        kernel, stride, dilation, group = self.pick((1, 2, 3, 4)), self.pick((1, 1, 2)), self.pick((1, 1, 2)), self.pick((1, 1, 2, 8))
        into, out = (group * self.between(1, 96 // group) for _ in range(2))
        dilation = 1 if kernel > 3 else dilation
        weights = [into, out // group] if op == "ConvTranspose" else [out, into // group]
        name = f"{op} {text([1, into] + sides)} to {out} kernel {kernel} stride {stride} dilation {dilation} group {group}"
        window = {"strides": [stride] * axes, "dilations": [dilation] * axes, "group": group, "pads": [kernel // 2] * 2 * axes}
        data, taps = text([1, into] + sides), text(weights + [kernel] * axes)
        if op == "QLinearConv":
            one = ["=f32[]:is 0.02", "=u8[]:is 128"]
            return Row(name, op, ["u8" + data, *one, "=i8" + taps, "=f32[]:is 0.01", "=i8[]:is 0", "=f32[]:is 0.5", one[1]],
                       ["u8"], **window)
        return Row(name, op, ["f32" + data, "=f32" + taps], **window)


def rows(count, seed):
    drawing, made = Drawing(seed), {}
    while len(made) < count:
        row = drawing.pick((drawing.along, drawing.moved, drawing.pairs, drawing.windows, drawing.indexed, drawing.converted,
                            drawing.normalized, drawing.products, drawing.filters))()
        made.setdefault(row.name, row)
    return list(made.values())
