/* The models of convert.sh: make_convert_models FOLDER. */
#include "graph_script.h"
#include <stdio.h>

static const struct {
    const char *name, *script;
    int64_t opset;
} models[] = {
    { "axes.onnx",
      "x : 2,6,9\n"
      "a1 = i[1] 1\n a0 = i[1] 0\n last = i[1] -1\n low = [] -0.5\n high = [] 0.8\n k = i[1] 3\n"
      "from = i[1] 1\n to = i[1] 5\n pads = i[2] 1,2\n idx = i[2] 1,0\n"
      "s = ReduceSum(x, a1) keepdims=0\n"
      "m = ReduceMean(x, last)\n"
      "u = Unsqueeze(x, a0)\n q = Squeeze(u, a0)\n"
      "c = Clip(q, low, high)\n"
      "d, e, f, g = Split(c) axis=-1 num_outputs=4\n"
      "p = Pad(c, pads, _, last)\n"
      "l = Slice(p, from, to, last)\n"
      "v, i = TopK(l, k)\n"
      "h = Softmax(c) axis=1\n"
      "j = Concat(d, e) axis=-1\n"
      "n = Gather(j, idx) axis=-1\n"
      "-> s, m, d, g, v, i, h, n",
      18 },
    { "acts.onnx",
      "x : 4,33\n a = HardSwish(x)\n b = Mish(x)\n c = Swish(x) alpha=1.5\n d = Celu(x) alpha=2.0\n"
      "e = Celu(x)\n f = Swish(x)\n -> a, b, c, d, e, f",
      24 },
    { "norms.onnx",
      "x : 2,5,16\n w = [16]\n b = [16]\n g = [5]\n"
      "l = LayerNormalization(x, w, b) axis=-1\n r = RMSNormalization(x, w)\n"
      "n = GroupNormalization(x, g, g) num_groups=5\n"
      "t = Gelu(x) approximate=tanh\n u = Gelu(x)\n"
      "h = GreaterOrEqual(x, l)\n k = Where(h, x, l)\n z = Shape(x) start=1\n y = Expand(w, z)\n"
      "-> l, r, n, t, u, k, y",
      23 },
    { "grid.onnx",
      "x : 1,2,4,5\n s = [4] 1,1,2,3\n"
      "y = Resize(x, _, s) mode=linear coordinate_transformation_mode=asymmetric\n"
      "z = Resize(x, _, s) mode=nearest coordinate_transformation_mode=asymmetric nearest_mode=floor\n"
      "-> y, z",
      19 },
    { "scales.onnx", "x : 1,2,4,5\n s = [4] 1,1,2,3\n y = Upsample(x, s)\n -> y", 9 },
    { "corners.onnx",
      "x : 1,2,6,6\n r = [2,4] 0,0,4,4,1,1,5,3\n i = i[2] 0,0\n"
      "y = RoiAlign(x, r, i) output_height=2 output_width=2 sampling_ratio=2\n -> y",
      10 },
    { "named.onnx",
      "x : 1,2,6,6\n r = [2,4] 0,0,4,4,1,1,5,3\n i = i[2] 0,0\n"
      "y = RoiAlign(x, r, i) output_height=2 output_width=2 sampling_ratio=2 "
      "coordinate_transformation_mode=output_half_pixel\n -> y",
      16 },
    { "halves.onnx",
      "x : 1,2,6,6\n r = [2,4] 0,0,4,4,1,1,5,3\n i = i[2] 0,0\n"
      "y = RoiAlign(x, r, i) output_height=2 output_width=2 sampling_ratio=2\n -> y",
      16 },
    { "centers.onnx", "x : 1,2,4,5\n s = [4] 1,1,2,3\n y = Resize(x, _, s) mode=linear\n -> y", 13 },
    { "first.onnx",
      "x : 2,3,8,8\n s = [3]\n b = [3]\n m = [3]\n v = [3]\n w = [384,6]\n c = [6]\n"
      "n = BatchNormalization(x, s, b, m, v)\n"
      "d = Dropout(n) ratio=0.3\n"
      "p = Pad(d) pads=0,0,1,1,0,0,1,1 value=0.5\n"
      "q = MaxPool(p) kernel_shape=2,2 strides=1,1\n"
      "l = Slice(q) starts=1,1 ends=9,9 axes=2,3\n"
      "t, i = TopK(l) k=4 axis=2\n"
      "e = Softmax(l) axis=2\n"
      "f = Flatten(l)\n g = Clip(f) min=0.0 max=1.0\n"
      "a, o = Split(g) axis=1 split=100,92\n"
      "r = ReduceMax(l) axes=2,3\n"
      "-> t, i, e, a, o, r",
      7 },
    { "branch.onnx",
      "x : 4,6\n zero = [] 0.0\n s = ReduceSum(x) keepdims=0\n t = Greater(s, zero)\n"
      "y = If(t) then:HardSwish(x) else:Relu(x)\n -> y",
      21 },
    { "open.onnx",
      "x : batch,64\n v : 64\n v = [64]\n w = [64,64]\n m = MatMul(x, w)\n y = Mul(m, v)\n z = HardSwish(y)\n"
      "-> z",
      20 },
    { "turned.onnx", "x : 5,4\n w = [5,6]\n t = Transpose(x) perm=1,0\n y = MatMul(t, w)\n u = LeakyRelu(y)\n -> u",
      13 },
    { "brains.onnx",
      "x : bfloat16 1,2,7,7\n w : bfloat16 2,2,3,3\n c = Conv(x, w) strides=2,2\n y = GlobalAveragePool(c)\n=> y", 20 },
    { "blocks.onnx", "x : 4,6\n y = Trilu(x)\n -> y", 14 },
};

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct wire wire = { 0 };
        char path[512];

        script_model(&wire, models[i].opset, models[i].script);
        (void)snprintf(path, sizeof path, "%.400s/%s", argv[1], models[i].name);
        mw_save(&wire, path);
        wire_deinit(&wire);
    }
    return 0;
}
