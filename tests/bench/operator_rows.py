"""The rows of operators.py: single operators at sizes of real models.

An input is written as `type[dims]`, with `=` before it for a constant of the model and, after it, the distribution of
its elements: `:unit` from 0 to 1, `:below N` integers from 0 to N - 1, `:boxes` corners of boxes, `:perm` a
permutation, `:windows` indices of MaxPool with windows of 2 x 2, `:half` about half true, `:small` normal
distribution times 0.05, `:gaps` a tenth NaN, `:is` these values. By default floats have a normal distribution, and
integers are below 100."""
import itertools

import numpy as np

TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i64": np.int64, "i32": np.int32, "u8": np.uint8,
         "i8": np.int8, "bool": np.bool_}
IMAGE, ROWS, SCORES = "[1,64,112,112]", "[1,128,768]", "[1,12,128,128]"
MS, ML = "com.microsoft", "ai.onnx.ml"


class Row:
    """name: for display and globs; inputs: see above; outputs: their types, None for an omitted output."""

    def __init__(self, name, op, inputs, outputs=("f32",), domain="", opset=17, **attributes):
        self.name, self.op, self.inputs, self.outputs = name, op, inputs, list(outputs)
        self.domain, self.opset, self.attributes = domain, opset, attributes


def shape_of(text):
    return [int(d) for d in text[text.index("[") + 1:text.index("]")].split(",") if d]


def type_of(text):
    return text.lstrip("=").split("[")[0]


def draw(text, rng):
    """The array of an input."""
    kind, dims, how = TYPES[type_of(text)], shape_of(text), text.split(":")[1].split() if ":" in text else [""]
    if how[0] == "boxes":
        low = rng.uniform(0, 400, dims[:-1] + [2])
        return np.concatenate([low, low + rng.uniform(10, 150, low.shape)], -1).astype(kind)
    if how[0] == "perm":
        return rng.permutation(int(np.prod(dims))).astype(kind).reshape(dims)
    if how[0] == "unit":
        return rng.uniform(0, 1, dims).astype(kind)
    if how[0] == "windows":
        plane, row, column = np.indices([dims[0] * dims[1], dims[2], dims[3]])
        row, column = (2 * at + rng.integers(0, 2, at.shape) for at in (row, column))
        return ((plane * 2 * dims[2] + row) * 2 * dims[3] + column).astype(kind).reshape(dims)
    if how[0] == "small":
        return (rng.standard_normal(dims) * 0.05).astype(kind)
    if how[0] == "is":
        return np.array([float(v) for v in how[1:]]).astype(kind).reshape(dims)
    if how[0] == "gaps":
        made = rng.standard_normal(dims)
        made[rng.uniform(0, 1, dims) < 0.1] = np.nan
        return made.astype(kind)
    if kind is np.bool_ or how[0] == "half":
        return (rng.uniform(0, 1, dims) < 0.5).astype(kind)
    if np.issubdtype(kind, np.floating) and how[0] != "below":
        return rng.standard_normal(dims).astype(kind)
    return rng.integers(0, int(how[1]) if how[0] == "below" else 100, dims).astype(kind)


def same(op, types, sizes, *more, **attributes):
    """op over each type and size, the result of the same type."""
    for kind, (name, size) in itertools.product(types.split(), sizes.items()):
        yield Row(f"{op} {kind} {name}", op, [kind + size, *(m.replace("T", kind) for m in more)], [kind], **attributes)


# ------------------------------------------------------------------ elementwise
def functions():
    tokens = {"tokens": "[1,128,3072]"}
    for op in "Relu Sigmoid Tanh Exp Erf Sqrt Neg Abs HardSwish Softplus LeakyRelu Elu Reciprocal".split():
        yield from same(op, "f32", tokens)
    for op in "Log Floor Round Sin Cos Sign".split():
        yield from same(op, "f32", {"tokens": "[1,128,3072]:unit"})
    for op in "Sigmoid Tanh Relu Exp Sqrt".split():
        yield from same(op, "f16", tokens)
    for op in "Tanh Exp Relu Abs".split():
        yield from same(op, "f64", {"rows": ROWS})
    yield from same("Gelu", "f32", tokens, opset=20)
    yield from same("Clip", "f32 u8 i64", {"image": IMAGE}, "=T[]:is 0", "=T[]:is 6")
    yield from same("PRelu", "f32", {"image": IMAGE}, "=f32[64,1,1]")
    yield from same("Abs", "i64", {"image": IMAGE})
    yield from same("Not", "bool", {"mask": "[1,12,256,256]"})


def pairs():
    for op in "Add Mul Sub Div".split():
        yield from same(op, "f32", {"same": IMAGE}, "T" + IMAGE)
    yield from same("Add", "f64 i64", {"same": IMAGE}, "T" + IMAGE)
    yield from same("Mul", "f64 i64", {"same": IMAGE}, "T" + IMAGE)
    for op in "Add Mul".split():
        yield from same(op, "f32 f16", {"channel": IMAGE}, "T[64,1,1]")
        yield from same(op, "f32 f64 i64", {"row": ROWS}, "T[768]")
    yield from same("Pow", "f32", {"square": ROWS}, "=f32[]:is 2")
    yield from same("Pow", "f32", {"cube": ROWS}, "=f32[]:is 3")
    yield from same("Max", "f32", {"same": IMAGE}, "T" + IMAGE)
    yield from same("Mod", "i64", {"row": ROWS}, "=i64[]:is 7")
    yield from same("Div", "i64", {"row": ROWS}, "=i64[]:is 7")
    yield from same("And", "bool", {"mask": "[1,1,256,256]"}, "bool[1,1,256,256]")
    for op, kind in itertools.product(("Less", "Equal"), ("f32", "i64")):
        yield Row(f"{op} {kind} rows", op, [kind + ROWS, kind + ROWS], ["bool"])
    for kind in ("f32", "f16", "i64"):
        yield Row(f"Where {kind} mask", "Where", ["bool[1,1,128,128]:half", kind + SCORES, f"={kind}[]:is 0"], [kind])
    for start, to in (("f32", "f16"), ("f16", "f32"), ("f32", "i64"), ("i64", "f32"), ("u8", "f32"), ("f32", "u8"),
                      ("bool", "f32"), ("f32", "bool"), ("f64", "f32"), ("i32", "i64")):
        yield Row(f"Cast {start} to {to}", "Cast", [start + "[1,3,512,512]"], [to], to=to)
    yield Row("Bernoulli f32", "Bernoulli", ["f32" + IMAGE + ":unit"])
    yield Row("RandomUniformLike f32", "RandomUniformLike", ["f32" + IMAGE])
    yield Row("RandomNormalLike f32", "RandomNormalLike", ["f32" + IMAGE])
    yield Row("IsNaN f32", "IsNaN", ["f32" + ROWS], ["bool"])


# ------------------------------------------------------------------ along an axis
def axes():
    for size in (SCORES, "[1,1000]", "[1,49,21843]"):
        yield from same("Softmax", "f32", {size: size}, axis=-1)
    yield from same("Softmax", "f16 f64", {"scores": SCORES}, axis=-1)
    yield from same("Softmax", "f32", {"channels": "[1,21,128,128]"}, axis=1)
    yield from same("LogSoftmax", "f32", {"vocabulary": "[16,32000]"}, axis=-1)
    for op in "ReduceMax ReduceMean ReduceL2 ReduceMin".split():
        yield from same(op, "f32", {"last axis": ROWS}, axes=[-1])
    for op in "ReduceMax ReduceMean".split():
        yield from same(op, "f32", {"image": IMAGE}, axes=[2, 3])
        yield from same(op, "f32", {"channels": IMAGE}, axes=[1])
    yield from same("ReduceMean", "f32", {"first axis": "[128,768]", "first axis of images": "[16,64,56,56]"}, axes=[0])
    yield from same("ReduceSum", "f32 i64 f64", {"last axis": ROWS}, "=i64[1]:is -1")
    yield from same("ReduceMax", "u8", {"last axis": "[1,512,1024]"}, axes=[-1])
    yield from same("ReduceMean", "f16", {"last axis": ROWS}, axes=[-1])
    for op in ("ArgMax", "ArgMin"):
        yield Row(f"{op} f32 vocabulary", op, ["f32[16,32000]"], ["i64"], axis=-1)
    yield Row("ArgMax f32 channels", "ArgMax", ["f32[1,21,256,256]"], ["i64"], axis=1)
    yield from same("CumSum", "f32 i64", {"rows": ROWS}, "=i64[]:is 1")
    for name, size, k in (("classes", "[1,1000]", 5), ("vocabulary", "[1,50257]", 50), ("anchors", "[1,25200]", 1000)):
        yield Row(f"TopK f32 {name} {k}", "TopK", ["f32" + size, f"=i64[1]:is {k}"], ["f32", "i64"])
    yield Row("TopK f32 rows 8", "TopK", ["f32[4096,64]", "=i64[1]:is 8"], ["f32", "i64"])
    yield Row("TopK f32 rows of 160, 32", "TopK", ["f32[1000,160]", "=i64[1]:is 32"], ["f32", "i64"])
    yield Row("LayerNormalization f32", "LayerNormalization", ["f32" + ROWS, "=f32[768]", "=f32[768]"])
    yield Row("LayerNormalization f16", "LayerNormalization", ["f16" + ROWS, "=f16[768]", "=f16[768]"], ["f16"])
    yield Row("InstanceNormalization f32", "InstanceNormalization", ["f32" + IMAGE, "=f32[64]", "=f32[64]"])
    yield Row("GroupNormalization f32", "GroupNormalization", ["f32" + IMAGE, "=f32[64]", "=f32[64]"], opset=21,
              num_groups=8)
    yield Row("BatchNormalization f32", "BatchNormalization",
              ["f32" + IMAGE, *["=f32[64]"] * 3, "=f32[64]:unit"])
    yield from same("LRN", "f32", {"image": "[1,96,55,55]"}, size=5)
    yield from same("LpNormalization", "f32", {"rows": ROWS}, axis=-1)


# ------------------------------------------------------------------ data movement
def moves():
    for kind in ("f32", "u8", "f16"):
        yield from same("Transpose", kind, {"NCHW to NHWC": "[1,64,112,112]"}, perm=[0, 2, 3, 1])
        yield from same("Transpose", kind, {"heads": "[1,128,12,64]"}, perm=[0, 2, 1, 3])
    yield from same("Transpose", "f32 u8", {"matrix": "[1024,1024]"}, perm=[1, 0])
    yield from same("Transpose", "u8", {"NHWC to NCHW": "[1,512,512,3]"}, perm=[0, 3, 1, 2])
    yield from same("Transpose", "f32", {"NHWC to NCHW": "[1,224,224,3]"}, perm=[0, 3, 1, 2])
    for kind in ("f32", "u8"):
        yield Row(f"Concat {kind} channels", "Concat", [kind + IMAGE] * 2, [kind], axis=1)
        yield Row(f"Concat {kind} last axis", "Concat", [kind + "[1,128,64]"] * 4, [kind], axis=2)
    yield Row("Split f32 last axis", "Split", ["f32[1,128,2304]", "=i64[3]:is 768 768 768"], ["f32"] * 3, axis=2)
    yield from same("Slice", "f32", {"rows": "[1,128,2304]"}, "=i64[1]:is 768", "=i64[1]:is 1536", "=i64[1]:is 2")
    yield from same("Slice", "f32", {"every second": IMAGE}, "=i64[2]:is 0 0", "=i64[2]:is 112 112", "=i64[2]:is 2 3",
                    "=i64[2]:is 2 2")
    yield from same("Expand", "f32", {"heads": "[1,4,1,128,64]"}, "=i64[5]:is 1 4 8 128 64")
    yield from same("Expand", "bool", {"mask": "[1,1,1,256]"}, "=i64[4]:is 1 12 256 256")
    for kind in ("f32", "u8", "i64"):
        yield from same("Tile", kind, {"rows": "[1,128,64]"}, "=i64[3]:is 4 2 3")
        yield from same("Tile", kind, {"pixels": "[1,64,56,1]"}, "=i64[4]:is 1 1 1 56")
    yield Row("Gather f32 words", "Gather", ["=f32[30522,384]", "i64[1,128]:below 30522"], axis=0)
    yield Row("Gather f32 last axis", "Gather", ["f32[1,1024,256]", "=i64[64]:below 256"], axis=2)
    yield Row("GatherElements f32 last axis", "GatherElements", ["f32[128,1000]", "i64[128,200]:below 1000"], axis=1)
    yield Row("GatherElements f32 boxes", "GatherElements", ["f32[1,8400,4]", "i64[1,300,4]:below 8400"], axis=1)
    yield Row("GatherElements i64 first axis", "GatherElements", ["i64[512,256]", "i64[512,256]:below 512"], ["i64"],
              axis=0)
    yield Row("GatherND f32", "GatherND", ["f32[64,64,128]", "i64[2000,2]:below 64"])
    yield Row("ScatterND f32", "ScatterND", ["f32[64,64,128]", "i64[500,2]:below 64", "f32[500,128]"])
    yield Row("ScatterElements f32", "ScatterElements", ["f32[128,1000]", "i64[128,200]:below 1000", "f32[128,200]"],
              axis=1)
    for mode, kind in itertools.product(("constant", "reflect", "edge"), ("f32", "u8")):
        yield from same("Pad", kind, {mode + " image": "[1,3,224,224]"}, "=i64[8]:is 0 0 3 3 0 0 3 3", mode=mode)
    yield from same("Pad", "f32", {"reflect sound": "[1,16000]"}, "=i64[4]:is 0 200 0 200", mode="reflect")
    for mode in ("DCR", "CRD"):
        yield from same("DepthToSpace", "f32", {mode: "[1,64,64,64]"}, blocksize=2, mode=mode)
    yield from same("SpaceToDepth", "f32 u8", {"image": "[1,16,256,256]"}, blocksize=2)
    yield Row("Range f32", "Range", ["f32[]:is 0", "f32[]:is 100000", "f32[]:is 1"])
    yield Row("Range i64", "Range", ["i64[]:is 0", "i64[]:is 100000", "i64[]:is 1"], ["i64"])
    yield Row("OneHot f32", "OneHot", ["i64[1024]:below 1000", "=i64[]:is 1000", "=f32[2]:is 0 1"])
    yield from same("Trilu", "f32", {"mask": "[1,1,512,512]"}, upper=0)
    yield Row("NonZero f32", "NonZero", ["f32[1,256,256]:half"], ["i64"])
    yield Row("Compress f32", "Compress", ["f32[8400,85]", "bool[8400]:half"], axis=0)
    for kind, top in (("i64", 1000), ("f32", 1000), ("i64", 100000)):
        yield Row(f"Unique {kind} of {top}", "Unique", [f"{kind}[16384]:below {top}"], [kind, "i64", "i64", "i64"])
    yield Row("ReverseSequence f32", "ReverseSequence", ["f32[128,8,256]", "i64[8]:is 128 100 90 64 32 16 8 1"])


# ------------------------------------------------------------------ convolutions, pools, images
def windows():
    for op in ("MaxPool", "AveragePool"):
        yield from same(op, "f32", {"3x3 stride 2": IMAGE}, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        yield from same(op, "f32", {"2x2": IMAGE}, kernel_shape=[2, 2], strides=[2, 2])
        yield from same(op, "f32", {"7x7": "[1,512,7,7]"}, kernel_shape=[7, 7])
    yield from same("MaxPool", "f32", {"5x5 same": "[1,256,20,20]"}, kernel_shape=[5, 5], pads=[2, 2, 2, 2])
    yield from same("MaxPool", "u8 f64", {"3x3 stride 2": IMAGE}, kernel_shape=[3, 3], strides=[2, 2])
    yield Row("MaxPool f32 with indices", "MaxPool", ["f32" + IMAGE], ["f32", "i64"], kernel_shape=[2, 2], strides=[2, 2])
    yield Row("MaxUnpool f32", "MaxUnpool", ["f32[1,64,56,56]", "i64[1,64,56,56]:perm"], kernel_shape=[2, 2],
              strides=[2, 2])
    yield Row("MaxUnpool f32 of MaxPool", "MaxUnpool", ["f32[1,64,56,56]", "i64[1,64,56,56]:windows"], kernel_shape=[2, 2],
              strides=[2, 2])
    yield from same("GlobalAveragePool", "f32 f16", {"7x7": "[1,2048,7,7]"})
    yield from same("GlobalMaxPool", "f32", {"14x14": "[1,512,14,14]"})
    yield Row("Conv f32 3x3", "Conv", ["f32[1,64,56,56]", "=f32[64,64,3,3]"], pads=[1, 1, 1, 1])
    yield Row("Conv f32 1x1", "Conv", ["f32[1,256,28,28]", "=f32[512,256,1,1]"])
    yield Row("Conv f32 7x7 stride 2", "Conv", ["f32[1,3,224,224]", "=f32[64,3,7,7]"], pads=[3, 3, 3, 3], strides=[2, 2])
    yield Row("Conv f32 depthwise 3x3", "Conv", ["f32[1,144,56,56]", "=f32[144,1,3,3]"], pads=[1, 1, 1, 1], group=144)
    yield Row("Conv f32 depthwise 5x5", "Conv", ["f32[1,240,28,28]", "=f32[240,1,5,5]"], pads=[2, 2, 2, 2], group=240)
    yield Row("Conv f32 depthwise 3x3 stride 2", "Conv", ["f32[1,96,112,112]", "=f32[96,1,3,3]"], pads=[1, 1, 1, 1],
              strides=[2, 2], group=96)
    yield Row("Conv f32 depthwise sound", "Conv", ["f32[1,256,400]", "=f32[256,1,31]"], pads=[15, 15], group=256)
    yield Row("Conv f32 sound", "Conv", ["f32[1,80,300]", "=f32[384,80,3]"], pads=[1, 1])
    yield Row("Conv f32 filter 65x65", "Conv", ["f32[1,1,256,256]", "=f32[1,1,65,65]"], pads=[32, 32, 32, 32])
    yield Row("Conv f32 15x15", "Conv", ["f32[1,16,64,64]", "=f32[16,16,15,15]"], pads=[7, 7, 7, 7])
    yield Row("Conv f32 depthwise 31x31", "Conv", ["f32[1,64,56,56]", "=f32[64,1,31,31]"], pads=[15, 15, 15, 15],
              group=64)
    yield Row("Conv f32 sound 512 taps", "Conv", ["f32[1,16,16000]", "=f32[16,16,512]"], pads=[256, 255])
    yield Row("Conv f32 sound filter 2048", "Conv", ["f32[1,1,16000]", "=f32[1,1,2048]"])
    yield Row("Conv f16 3x3", "Conv", ["f16[1,64,56,56]", "=f16[64,64,3,3]"], ["f16"], pads=[1, 1, 1, 1])
    yield Row("ConvTranspose f32", "ConvTranspose", ["f32[1,64,56,56]", "=f32[64,32,2,2]"], strides=[2, 2])
    yield Row("ConvTranspose f32 4x4", "ConvTranspose", ["f32[1,128,28,28]", "=f32[128,64,4,4]"], strides=[2, 2],
              pads=[1, 1, 1, 1])
    yield Row("DeformConv f32", "DeformConv", ["f32[1,64,28,28]", "=f32[64,64,3,3]", "f32[1,18,28,28]", "=f32[64]",
              "f32[1,9,28,28]:unit"], opset=19, pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    yield Row("Col2Im f32", "Col2Im", ["f32[1,576,3136]", "=i64[2]:is 56 56", "=i64[2]:is 3 3"], opset=18,
              pads=[1, 1, 1, 1])
    for mode in ("linear", "nearest", "cubic"):
        yield Row(f"Resize f32 {mode}", "Resize", ["f32[1,64,56,56]", None, "=f32[4]:is 1 1 2 2"], mode=mode)
    yield Row("Resize f32 down linear", "Resize", ["f32[1,64,112,112]", None, "=f32[4]:is 1 1 0.5 0.5"], mode="linear")
    yield Row("Resize f32 image down linear", "Resize", ["f32[1,3,480,640]", None, None, "=i64[4]:is 1 3 224 224"],
              mode="linear")
    yield Row("Resize u8 linear", "Resize", ["u8[1,3,480,640]", None, "=f32[4]:is 1 1 0.5 0.5"], ["u8"], mode="linear")
    for mode in ("bilinear", "nearest", "bicubic"):
        yield Row(f"GridSample f32 {mode}", "GridSample", ["f32[1,64,56,56]", "f32[1,56,56,2]:unit"], mode=mode)
    yield Row("RoiAlign f32", "RoiAlign", ["f32[1,256,50,50]", "f32[100,4]:boxes", "=i64[100]:below 1"],
              output_height=7, output_width=7, sampling_ratio=2, spatial_scale=0.0625)
    yield Row("NonMaxSuppression f32", "NonMaxSuppression", ["f32[1,2000,4]:boxes", "f32[1,10,2000]:unit",
              "=i64[]:is 100", "=f32[]:is 0.5", "=f32[]:is 0.3"], ["i64"])
    yield Row("NonMaxSuppression f32 one class", "NonMaxSuppression", ["f32[1,8400,4]:boxes", "f32[1,1,8400]:unit",
              "=i64[]:is 300", "=f32[]:is 0.45", "=f32[]:is 0.25"], ["i64"])
    yield Row("AffineGrid f32", "AffineGrid", ["f32[1,2,3]", "=i64[4]:is 1 3 224 224"], opset=20)
    yield Row("DFT f32", "DFT", ["f32[1,400,512,1]"], axis=2, onesided=1)


# ------------------------------------------------------------------ matrix multiplications
def products():
    for kind in ("f32", "f16", "f64"):
        yield Row(f"MatMul {kind} rows", "MatMul", [kind + ROWS, f"={kind}[768,768]"], [kind])
    yield Row("MatMul f32 heads", "MatMul", ["f32[1,12,128,64]", "f32[1,12,64,128]"])
    yield Row("MatMul f32 one row", "MatMul", ["f32[1,768]", "=f32[768,3072]"])
    yield Row("MatMul f32 one row 4096", "MatMul", ["f32[1,4096]", "=f32[4096,4096]"])
    for size in ("[10000,4,4]", "[1000,16,16]", "[20,100,100]"):
        yield Row(f"Det f32 {size}", "Det", ["f32" + size])
    yield Row("Gemm f32", "Gemm", ["f32[32,2048]", "=f32[1000,2048]", "=f32[1000]"], transB=1)
    yield Row("Gemm f16", "Gemm", ["f16[32,2048]", "=f16[1000,2048]", "=f16[1000]"], ["f16"], transB=1)
    yield Row("MatMulInteger u8", "MatMulInteger", ["u8[128,768]", "=i8[768,768]"], ["i32"])
    yield Row("Einsum f32", "Einsum", ["f32[1,128,12,64]", "f32[1,128,12,64]"], equation="bihd,bjhd->bhij")
    yield Row("DynamicQuantizeLinear f32", "DynamicQuantizeLinear", ["f32" + ROWS], ["u8", "f32", "u8"])
    yield Row("QuantizeLinear f32", "QuantizeLinear", ["f32" + IMAGE, "=f32[]:is 0.1", "=u8[]:is 128"], ["u8"])
    yield Row("DequantizeLinear u8", "DequantizeLinear", ["u8" + IMAGE, "=f32[]:is 0.1", "=u8[]:is 128"])
    yield Row("LSTM f32", "LSTM", ["f32[50,1,128]", "=f32[1,1024,128]:small", "=f32[1,1024,256]:small", "=f32[1,2048]"],
              ["f32"], hidden_size=256)
    yield Row("LSTM f32 128", "LSTM", ["f32[50,1,128]", "=f32[1,512,128]:small", "=f32[1,512,128]:small", "=f32[1,1024]"],
              ["f32"], hidden_size=128)
    yield Row("GRU f32", "GRU", ["f32[50,1,128]", "=f32[1,768,128]:small", "=f32[1,768,256]:small", "=f32[1,1536]"], ["f32"],
              hidden_size=256)
    yield Row("Gelu f32 microsoft", "Gelu", ["f32[1,128,3072]"], domain=MS)
    yield Row("SkipLayerNormalization f32", "SkipLayerNormalization", ["f32" + ROWS, "f32" + ROWS, "=f32[768]",
              "=f32[768]"], domain=MS)
    for bits, rows in ((4, 1), (8, 1), (4, 64)):
        codes = lambda height, width: f"=u8[8,{height},{width * bits // 8}]"
        yield Row(f"QMoE {bits} bits {rows} rows", "QMoE",
                  [f"f32[{rows},512]", f"f32[{rows},8]", codes(2048, 512), "=f32[8,2048,16]:small", None, codes(512, 1024),
                   "=f32[8,512,32]:small"], domain=MS, k=2, expert_weight_bits=bits, block_size=32,
                  activation_type="swiglu", swiglu_fusion=1, normalize_routing_weights=1)
    yield Row("CDist f32", "CDist", ["f32[256,128]", "f32[512,128]"], domain=MS, metric="euclidean")


# ------------------------------------------------------------------ ai.onnx.ml
def trees(count, depth, features, targets, kind, texts=False):
    """The attributes of `count` complete trees; leaves of tree t count for target t % targets."""
    rng = np.random.default_rng(1)
    inner, nodes = 2 ** depth - 1, 2 ** (depth + 1) - 1
    split, ids = np.arange(nodes) < inner, np.arange(nodes)
    all_ids, of = np.tile(ids, count), np.repeat(np.arange(count), nodes)
    leaves = np.tile(~split, count)
    part = "class" if kind == "TreeEnsembleClassifier" else "target"
    made = {
        "nodes_treeids": of, "nodes_nodeids": all_ids, "nodes_modes": ["BRANCH_LEQ" if s else "LEAF" for s in split] * count,
        "nodes_featureids": np.where(leaves, 0, rng.integers(0, features, count * nodes)),
        "nodes_values": np.where(leaves, 0, rng.standard_normal(count * nodes)).astype(np.float32),
        "nodes_truenodeids": np.tile(np.where(split, 2 * ids + 1, 0), count),
        "nodes_falsenodeids": np.tile(np.where(split, 2 * ids + 2, 0), count),
        part + "_treeids": of[leaves], part + "_nodeids": all_ids[leaves],
        part + "_ids": of[leaves] % targets,
        part + "_weights": (rng.standard_normal(int(leaves.sum())) / 100).astype(np.float32),
    }
    if part == "target":
        made["n_targets"] = targets
    elif texts:
        made["classlabels_strings"] = [f"class {i}" for i in range(targets)]
    else:
        made["classlabels_int64s"] = list(range(targets))
    return made


def learned():
    for rows in (1, 1000):
        yield Row(f"TreeEnsembleRegressor 1000 trees, {rows} rows", "TreeEnsembleRegressor", [f"f32[{rows},100]"],
                  domain=ML, make=lambda: trees(1000, 8, 100, 1, "TreeEnsembleRegressor"))
        yield Row(f"TreeEnsembleClassifier 10 classes, {rows} rows", "TreeEnsembleClassifier", [f"f32[{rows},30]"],
                  ["i64", "f32"], domain=ML, post_transform="SOFTMAX",
                  make=lambda: trees(500, 6, 30, 10, "TreeEnsembleClassifier"))
        rng = np.random.default_rng(2)
        wide = {"coefficients": rng.standard_normal(20 * 200).astype(np.float32)}
        yield Row(f"LinearClassifier 20 classes, {rows} rows", "LinearClassifier", [f"f32[{rows},200]"], ["i64", "f32"],
                  domain=ML, intercepts=np.zeros(20, np.float32), classlabels_ints=list(range(20)), multi_class=1,
                  post_transform="SOFTMAX", **wide)
        yield Row(f"LinearRegressor, {rows} rows", "LinearRegressor", [f"f32[{rows},200]"], domain=ML, targets=20,
                  **wide)
        for kernel in ("RBF", "LINEAR", "POLY"):
            yield Row(f"SVMRegressor {kernel}, {rows} rows", "SVMRegressor", [f"f32[{rows},50]"], domain=ML,
                      kernel_type=kernel, kernel_params=np.array([0.02, 0, 3], np.float32), n_supports=400,
                      coefficients=rng.standard_normal(400).astype(np.float32), rho=np.zeros(1, np.float32),
                      support_vectors=rng.standard_normal(400 * 50).astype(np.float32))
        yield Row(f"SVMClassifier RBF 4 classes, {rows} rows", "SVMClassifier", [f"f32[{rows},50]"], ["i64", "f32"],
                  domain=ML, kernel_type="RBF", kernel_params=np.array([0.02, 0, 3], np.float32),
                  vectors_per_class=[100] * 4, classlabels_ints=[0, 1, 2, 3], rho=np.zeros(6, np.float32),
                  coefficients=rng.standard_normal(3 * 400).astype(np.float32),
                  support_vectors=rng.standard_normal(400 * 50).astype(np.float32))
    yield Row("Imputer f32", "Imputer", ["f32[10000,50]:gaps"], domain=ML, replaced_value_float=float("nan"),
              imputed_value_floats=np.zeros(50, np.float32))
    yield Row("Scaler f32", "Scaler", ["f32[10000,50]"], domain=ML, offset=np.zeros(50, np.float32),
              scale=np.ones(50, np.float32))
    yield Row("Normalizer f32", "Normalizer", ["f32[10000,50]"], domain=ML, norm="L2")
    yield Row("Binarizer f32", "Binarizer", ["f32[10000,50]"], domain=ML, threshold=0.5)
    yield Row("ArrayFeatureExtractor f32", "ArrayFeatureExtractor", ["f32[10000,50]", "=i64[10]:below 50"], domain=ML)
    yield Row("OneHotEncoder i64", "OneHotEncoder", ["i64[10000,1]:below 20"], domain=ML, cats_int64s=list(range(20)))
    yield Row("LabelEncoder i64", "LabelEncoder", ["i64[10000]"], domain=ML, keys_int64s=list(range(100)),
              values_floats=np.arange(100, dtype=np.float32))


# ------------------------------------------------------------------ rarely the bulk of a model
def others():
    """Operators and types of which few models have more than one."""
    for kind in ("i32", "i8"):
        for op in ("Abs", "Neg", "Sign"):
            yield Row(f"{op} {kind}", op, [f"{kind}[1,128,3072]"], [kind])
    yield Row("Log f64", "Log", ["f64[128,768]:unit"], ["f64"])
    yield Row("Pow f32 1.7", "Pow", ["f32[1,128,3072]:unit", "=f32[]:is 1.7"])
    yield Row("Pow f32 f32", "Pow", ["f32[1,128,3072]:unit", "f32[1,128,3072]"])
    yield Row("Mod f32", "Mod", ["f32[1,128,3072]", "=f32[]:is 0.7"], fmod=1)
    yield Row("Mod f32 f32", "Mod", ["f32[1,128,3072]", "f32[1,128,3072]:unit"], fmod=1)
    yield Row("Mul outer", "Mul", ["f32[512,1]", "f32[1,512]"])
    yield Row("Sub outer rows", "Sub", ["f32[128,1,64]", "f32[1,128,64]"])
    yield Row("Less outer i64", "Less", ["i64[512,1]", "i64[1,512]"], ["bool"])
    yield Row("TopK axis 0", "TopK", ["f32[1000,256]", "=i64[1]:is 5"], ["f32", "i64"], axis=0)
    yield Row("TopK 50 axis 0", "TopK", ["f32[1000,256]", "=i64[1]:is 50"], ["f32", "i64"], axis=0)
    # short rows and columns, which random rows (drawn_rows.py) showed below ONNX Runtime
    yield from same("ArgMax", "f32 f64", {"rows of 4": "[1890,4]"}, axis=1)
    yield Row("TopK 1 axis 0", "TopK", ["f32[72,2928]", "=i64[1]:is 1"], ["f32", "i64"], axis=0)
    yield Row("TopK 4 rows of 119", "TopK", ["f32[192,119]", "=i64[1]:is 4"], ["f32", "i64"])
    yield from same("LogSoftmax", "f32", {"4 columns": "[90000,4]"}, axis=0)
    yield from same("LpNormalization", "f32", {"rows of 6": "[4835,6]"}, axis=1)
    yield from same("Hardmax", "f32", {"6 columns": "[341,63,6]"}, axis=1)
    yield from same("ReduceL2", "f64", {"2 columns": "[168,49,2]"}, axes=[1])
    yield from same("Transpose", "f32", {"4 by 18": "[252,4,18]"}, perm=[0, 2, 1])
    yield from same("Transpose", "u8", {"2 by 9": "[19,2,9]", "7 rows": "[2,7,7528]"}, perm=[0, 2, 1])
    yield Row("ReduceSum 64", "ReduceSum", ["f32[4096,64]", "=i64[1]:is 1"], opset=13, keepdims=0)
    yield Row("MeanVarianceNormalization", "MeanVarianceNormalization", ["f32[4,64,56,56]"])
    yield Row("MeanVarianceNormalization rows", "MeanVarianceNormalization", ["f32[1024,512]"], axes=[1])
    yield Row("MaxPool f16", "MaxPool", ["f16[1,64,112,112]"], ["f16"], kernel_shape=[3, 3], strides=[2, 2],
              pads=[1, 1, 1, 1])
    yield Row("AveragePool 3x3", "AveragePool", ["f32[1,64,56,56]"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    yield Row("AveragePool 2x2", "AveragePool", ["f32[1,64,112,112]"], kernel_shape=[2, 2], strides=[2, 2])
    yield Row("SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLoss", ["f32[256,1000]", "i64[256]"])
    yield Row("AffineGrid", "AffineGrid", ["f32[4,2,3]", "=i64[4]:is 4 3 224 224"], opset=20)
    yield Row("MatMulInteger dynamic", "MatMulInteger", ["u8[256,768]", "u8[768,768]"], ["i32"])
    for side in (64, 256, 1024):
        for kind in ("u8", "i8"):
            yield Row(f"MatMulInteger dynamic {kind} {side}", "MatMulInteger",
                      [f"u8[{side},{side}]", f"{kind}[{side},{side}]"], ["i32"])
    yield Row("MatMulInteger dynamic heads", "MatMulInteger", ["u8[12,128,64]", "u8[12,64,128]"], ["i32"])


# ------------------------------------------------------------------ sizes within and beyond each cache, odd sizes
def sizes():
    """The operators of the other families that move or reduce more than they compute, at sizes that these lack."""
    planes = {"tiny": "[1,8,14,14]", "odd": "[1,37,61,53]", "large": "[4,64,224,224]"}
    rows = {"tiny": "[4,48]", "odd": "[77,333]", "large": "[8192,1024]"}
    for op in "Relu Sigmoid Tanh Exp HardSwish".split():
        yield from same(op, "f32", planes)
    for op in "Add Mul".split():
        for name, size in planes.items():
            yield Row(f"{op} f32 {name}", op, ["f32" + size, "f32" + size])
            yield Row(f"{op} f32 {name} channel", op, ["f32" + size, f"f32[{shape_of(size)[1]},1,1]"])
    for op in "Softmax LogSoftmax Hardmax LpNormalization".split():
        yield from same(op, "f32", rows, axis=-1)
    for name, size in rows.items():
        width = shape_of(size)[1]
        yield Row(f"LayerNormalization f32 {name}", "LayerNormalization", ["f32" + size, f"=f32[{width}]", f"=f32[{width}]"])
        for axis in (0, 1):
            for op in "ReduceMean ReduceMax ReduceL2".split():
                yield Row(f"{op} f32 {name} axis {axis}", op, ["f32" + size], axes=[axis])
            yield Row(f"ReduceSum f32 {name} axis {axis}", "ReduceSum", ["f32" + size, f"=i64[1]:is {axis}"])
            yield Row(f"Concat f32 {name} axis {axis}", "Concat", ["f32" + size] * 3, axis=axis)
            yield Row(f"ArgMax f32 {name} axis {axis}", "ArgMax", ["f32" + size], ["i64"], axis=axis)
            yield Row(f"CumSum f32 {name} axis {axis}", "CumSum", ["f32" + size, f"=i64[]:is {axis}"])
        yield Row(f"Transpose f32 {name} matrix", "Transpose", ["f32" + size], perm=[1, 0])
        yield Row(f"Gather f32 {name} rows", "Gather", ["=f32" + size, f"i64[200]:below {shape_of(size)[0]}"], axis=0)
        yield Row(f"Slice f32 {name} columns", "Slice", ["f32" + size, "=i64[1]:is 1", f"=i64[1]:is {width - 1}",
                                                        "=i64[1]:is 1"])
        yield Row(f"Gemm f32 {name} to 96", "Gemm", ["f32" + size, f"=f32[{width},96]", "=f32[96]"])
        yield Row(f"MatMul f32 one row of {name}", "MatMul", [f"f32[1,{shape_of(size)[0]}]", "=f32" + size])
    for name, size in planes.items():
        channels = shape_of(size)[1]
        for op in ("MaxPool", "AveragePool"):
            for kernel, stride, pad in ((2, 2, 0), (3, 1, 1), (3, 2, 1)):
                yield Row(f"{op} f32 {name} {kernel}x{kernel} stride {stride}", op, ["f32" + size],
                          kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)
        for mode in ("linear", "nearest"):
            for scale in ("2", "0.5", "1.3"):
                yield Row(f"Resize f32 {name} {mode} {scale}", "Resize", ["f32" + size, None, f"=f32[4]:is 1 1 {scale} {scale}"],
                          mode=mode)
        yield Row(f"Pad f32 {name}", "Pad", ["f32" + size, "=i64[8]:is 0 0 1 1 0 0 1 1"])
        yield Row(f"Transpose f32 {name} channels last", "Transpose", ["f32" + size], perm=[0, 2, 3, 1])
        yield Row(f"Concat f32 {name} channels", "Concat", ["f32" + size] * 2, axis=1)
        yield Row(f"Split f32 {name} rows", "Split", ["f32" + size], ["f32"] * 2, axis=3, opset=18, num_outputs=2)
        yield Row(f"GlobalAveragePool f32 {name}", "GlobalAveragePool", ["f32" + size])
        yield Row(f"BatchNormalization f32 {name}", "BatchNormalization",
                  ["f32" + size, *[f"=f32[{channels}]"] * 3, f"=f32[{channels}]:unit"])
        yield Row(f"InstanceNormalization f32 {name}", "InstanceNormalization", ["f32" + size, *[f"=f32[{channels}]"] * 2])
        for kernel, group in ((1, 1), (3, 1), (3, channels), (5, channels)):
            if name == "large" and group == 1 and kernel == 3:
                continue
            yield Row(f"Conv f32 {name} {kernel}x{kernel} group {group}", "Conv",
                      ["f32" + size, f"=f32[{channels},{channels // group},{kernel},{kernel}]"],
                      pads=[kernel // 2] * 4, group=group)
        yield Row(f"QuantizeLinear f32 {name}", "QuantizeLinear", ["f32" + size, "=f32[]:is 0.1", "=u8[]:is 128"], ["u8"])
        yield Row(f"DequantizeLinear u8 {name}", "DequantizeLinear", ["u8" + size, "=f32[]:is 0.1", "=u8[]:is 128"])
        grid = "f32[1,%d,%d,2]:unit" % tuple(shape_of(size)[2:])
        if name != "large":
            yield Row(f"GridSample f32 {name}", "GridSample", ["f32" + size, grid], mode="bilinear")
    yield Row("MelWeightMatrix f32", "MelWeightMatrix", ["=i64[]:is 80", "=i64[]:is 512", "=i64[]:is 16000",
              "=f32[]:is 20", "f32[]:is 8000"])
    yield Row("STFT f32", "STFT", ["f32[1,16000,1]", "=i64[]:is 160", "=f32[400]"])
    yield Row("HannWindow f32", "HannWindow", ["i64[]:is 4000"])
    yield Row("EyeLike f32", "EyeLike", ["f32[512,512]"])
    yield Row("ConstantOfShape f32", "ConstantOfShape", ["i64[2]:is 512 512"])
    yield Row("Gather f32 words of 768", "Gather", ["=f32[30522,768]", "i64[1,128]:below 30522"], axis=0)
    yield Row("Hardmax f32 rows", "Hardmax", ["f32[128,1000]"], axis=-1)


FAMILIES = (functions, pairs, axes, moves, windows, products, learned, others, sizes)


def rows():
    return [row for family in FAMILIES for row in family()]
