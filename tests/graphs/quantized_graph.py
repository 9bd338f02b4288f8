"""Random graphs of the families in quantized.py, and the comparison of their results, for random_graphs.py."""
import numpy as np
import quantized
from onnx import TensorProto, helper

LARGEST = 400000  # elements of a tensor


class Quantized:
    """Steps of quantized.py, each of which reads the result of an earlier one. To be mixed into Graph."""
    STARTS = {"images": [[1, 3, 16], [2, 8, 13], [1, 33, 9], [1, 3, 12, 12], [2, 8, 9, 7], [1, 16, 8, 8], [1, 20, 7, 11],
                         [1, 64, 5, 6], [1, 72, 6, 4], [1, 130, 4, 3], [1, 4, 5, 6, 5], [1, 16, 4, 5, 3]],
              "rows": [[3, 8], [5, 64], [17, 100], [1, 256], [6, 272], [1, 4, 32], [2, 9, 40], [3, 5, 16], [1, 33, 128],
                       [2, 5, 64]]}

    def __init__(self, seed):
        super().__init__(seed)
        self.dtype, self.opset = np.float32, self.pick([13, 17, 21, 21, 25])
        self.kind = self.pick(["images", "images", "rows"])
        self.inputs = [("in0", self.pick(self.STARTS[self.kind]))]
        self.floats = list(self.inputs)
        self.exact, self.over = self.chance(.75), False
        self.options = self.pick([{}, {"fold_max_bytes": 0}, {"cpu.activations": "fine"}])
        self.sizes, self.limits = {}, {}  # of float tensors: typical size; how far results may be off
        self.within = None

    def step(self):
        if self.over:
            return False
        name, shape = self.floats[-1] if self.chance(.7) else self.pick(self.floats)
        known = (quantized.IMAGES if self.kind == "images" else quantized.ROWS)[len(shape)]
        chosen = self.random.choices([f for _, f in known], [w for w, _ in known])[0]
        nodes, constants = len(self.nodes), len(self.constants)
        try:
            y = chosen(self, name, shape)
            types = self.infer()
            if types[y][0] != 1 or 0 in types[y][1] or np.prod(types[y][1]) > LARGEST:
                raise ValueError("empty, too large, or of unknown shape")
        except ValueError:
            del self.nodes[nodes:], self.constants[constants:]
            self.over = False
            return False
        self.floats.append((y, types[y][1]))
        self.limits[y] = self.within
        return True

    def build(self):
        wanted = self.random.randint(1, 4)
        for _ in range(4 * wanted):
            wanted -= self.step()
            if wanted == 0:
                break
        if not self.limits:
            return None, []
        read = {i for n in self.nodes for i in n.input}
        outputs = [y for y in self.limits if y not in read or self.chance(.6)]
        self.hidden = any(y not in outputs and limit != ("same", 0) for y, limit in self.limits.items())
        first = self.inputs[0][1]
        fixed = 1 if self.kind == "images" else len(first) - 1
        self.dims = [f"d{i}" if i != fixed and self.chance(.7) else d for i, d in enumerate(first)]
        declared = [helper.make_tensor_value_info(y, TensorProto.FLOAT, None) for y in outputs]
        return self.model([("in0", self.dims)], declared), outputs

    def other_shapes(self):
        first = self.inputs[0][1]
        factors = [self.pick([.3, .5, 1, 2, 3]) for _ in range(4)] + [0]
        return [[d if isinstance(given, int) else max(1, round(d * f)) if f else self.pick([0, 1, d])
                 for d, given in zip(first, self.dims)] for f in factors]

    def feeds(self, shape):
        """Numbers for which no sum cancels: next to 1e30, a rounding error would exceed all other numbers."""
        kind = self.random.choices(["plain", "odd", "huge"], [88, 8, 4])[0]
        x = self.numbers.standard_normal(shape) * (1e15 if kind == "huge" else 1)
        if kind == "odd":
            odd = self.numbers.choice([np.nan, np.inf, -np.inf, 0, -0.0, 1e-40, -1e-45], x.shape)
            x = np.where(self.numbers.random(x.shape) < .03, odd, x)
        return kind, {"in0": x.astype(self.dtype)}

    def differs(self, got, want):
        """Returns the error of the outputs, or None. Outputs after one that is off, but not too far, are not
        compared."""
        for name, y in want.items():
            x = got[name]
            if x.shape != y.shape or x.dtype != y.dtype:
                return f"output '{name}': {x.dtype}{list(x.shape)}, not {y.dtype}{list(y.shape)}"
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            if same.all():
                continue
            limit = ("size", .15) if self.hidden else self.limits[name]
            size = np.abs(y[np.isfinite(y)]).max(initial=0)
            most = {"same": 0, "step": 1.01 * limit[-1], "size": limit[-1] * size}[limit[0]]
            wrong = ~same & ~(np.abs(x.astype(np.float64) - y) <= most)
            many = limit[0] == "step" and (~same).sum() > max(2, .03 * y.size)
            if wrong.any() or many:
                at = np.unravel_index(int(np.argmax(wrong if wrong.any() else ~same)), y.shape)
                return (f"output '{name}': {(~same).sum()} of {y.size} elements, {wrong.sum()} by more than {most:g}; at "
                        f"{list(map(int, at))}: {x[at]:g}, not {y[at]:g}")
            return None
        return None
