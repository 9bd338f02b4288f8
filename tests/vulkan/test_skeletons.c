/* Every shader over shapes: matrix multiplications, convolutions, reductions, normalisations, moves, indexes. */
#include "hidden_keys.h"
#include "vulkan_case.h"

static void multiplications(void **state)
{
    static const int sizes[][3] = { { 1, 1, 1 },   { 1, 7, 5 },   { 3, 4, 9 },    { 4, 8, 64 }, { 7, 16, 33 },
                                    { 8, 12, 65 }, { 9, 5, 257 }, { 17, 129, 1 }, { 70, 3, 31 } };
    char script[200];

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const int m = sizes[i][0], k = sizes[i][1], n = sizes[i][2];

        (void)snprintf(script, sizeof script, "x : %d,%d\nw : %d,%d\ny = MatMul(x, w)\n-> y", m, k, k, n);
        vulkan_case_expect(script, 13, "MatMul", 0);
        for (int t = 0; t < 4; t++) {
            (void)snprintf(script, sizeof script,
                           "x : %d,%d\nw %s %d,%d%s\nc : %d\n"
                           "y = Gemm(x, w, c) transA=%d transB=%d alpha=0.5 beta=2.0\n-> y",
                           t & 1 ? k : m, t & 1 ? m : k, i % 2 ? "= [" : ":", t & 2 ? n : k, t & 2 ? k : n,
                           i % 2 ? "]" : "", n, t & 1, t >> 1);
            vulkan_case_expect(script, 13, "Gemm", 0);
        }
    }
}

/* Appends a constant of type `type` with random elements: codes in [0, most), or float16 of 0, 1 and 2, or floats that
 * are 0.5 above an integer. */
static void append_constant(char *script, size_t bytes, const char *name, const char *type, int count, int most,
                            uint64_t *random)
{
    size_t used = strlen(script);

    used += (size_t)snprintf(script + used, bytes - used, "%s = %s[%d] ", name, type, count);
    for (int i = 0; i < count; i++) {
        static const int half_bits[] = { 0, 0x3c00, 0x4000 };
        const int drawn = (int)random_below(random, (uint64_t)most);
        const int element = strcmp(type, "float16") == 0 ? half_bits[drawn] : drawn;

        used += (size_t)snprintf(script + used, bytes - used, "%s%d%s", i > 0 ? "," : "", element,
                                 type[0] != '\0' ? "" : ".5");
    }
    used += (size_t)snprintf(script + used, bytes - used, "\n");
    assert_true(used < bytes);
}

/* Weights of a few bits: incomplete blocks and panels, zero points that are packed, floats or absent, a bias, and
 * several multiplications of one matrix. */
static void low_bits(void **state)
{
    static const int sizes[][5] = { /* rows, k, columns, block, bits */
                                    { 1, 16, 1, 16, 4 },   { 1, 70, 37, 32, 4 },  { 5, 40, 20, 16, 2 },
                                    { 13, 65, 19, 64, 8 }, { 33, 96, 34, 32, 4 }, { 2, 130, 9, 128, 8 }
    };
    enum { BYTES = 1 << 16 };
    char *script = malloc(BYTES);
    uint64_t random = 7;

    (void)state;
    assert_non_null(script);
    for (size_t i = 0; i < 3 * sizeof sizes / sizeof sizes[0]; i++) {
        const int *size = sizes[i / 3], zeros = (int)(i % 3), k = size[1], n = size[2], block = size[3], bits = size[4];
        const int blocks = (k + block - 1) / block;

        (void)snprintf(script, BYTES, "x : %d,%d\n", size[0], k);
        append_constant(script, BYTES, "q", "uint8", n * blocks * block * bits / 8, 256, &random);
        append_constant(script, BYTES, "r", "uint8", n * blocks * block * bits / 8, 256, &random);
        append_constant(script, BYTES, "s", "", n * blocks, 3, &random);
        append_constant(script, BYTES, "z", zeros == 1 ? "uint8" : "",
                        zeros == 1 ? n * ((blocks * bits + 7) / 8) : n * blocks, zeros == 1 ? 256 : 7, &random);
        (void)snprintf(script + strlen(script), BYTES - strlen(script),
                       "b = [%d]\n"
                       "y = ms.MatMulNBits(x, q, s%s) K=%d N=%d bits=%d block_size=%d\n"
                       "w = ms.MatMulNBits(x, r, s, %s, _, b) K=%d N=%d bits=%d block_size=%d\n"
                       "v = Relu(w)\n"
                       "u = ms.MatMulNBits(x, r, s%s) K=%d N=%d bits=%d block_size=%d\n-> y, v, u",
                       n, zeros > 0 ? ", z" : "", k, n, bits, block, zeros > 0 ? "z" : "_", k, n, bits, block,
                       zeros > 0 ? ", z" : "", k, n, bits, block);
        vulkan_case_expect(script, 13, "MatMulNBits", 0);
        if (zeros > 0)
            continue;
        /* Float16: every product and sum is exact. */
        (void)snprintf(script, BYTES, "x : %d,%d\na = Floor(x)\nh = Cast(a) to=10\n", 4 * size[0], k);
        append_constant(script, BYTES, "q", "uint8", n * blocks * block * bits / 8, 256, &random);
        append_constant(script, BYTES, "s", "float16", n * blocks, 3, &random);
        (void)snprintf(script + strlen(script), BYTES - strlen(script),
                       "m = ms.MatMulNBits(h, q, s) K=%d N=%d bits=%d block_size=%d\ny = Cast(m) to=1\n-> y", k, n,
                       bits, block);
        vulkan_case_expect(script, 13, "MatMulNBits", 0);
    }
    free(script);
}

static void batches(void **state)
{
    static const vulkan_case_row rows[] = {
        { "MatMul", "x : 2,3,4,5\nw : 2,3,5,6\ny = MatMul(x, w)\n-> y" },
        { "MatMul", "x : 2,1,4,5\nw : 3,5,6\ny = MatMul(x, w)\n-> y" },
        { "MatMul", "x : 2,3,4,5\nw = [5,6]\ny = MatMul(x, w)\n-> y" },
        { "MatMul", "x : 4,5\nw : 3,5,6\ny = MatMul(x, w)\n-> y" },
        { "MatMul", "x : 5\nw : 3,5,6\ny = MatMul(x, w)\n-> y" },
        { "MatMul", "x : 3,4,5\nw : 5\ny = MatMul(x, w)\n-> y" },
        { "MatMul", "x : 5\nw : 5\ny = MatMul(x, w)\n-> y" },
        { "MatMul", "x : 2,3,9,5\nw : 2,3,5,1\ny = MatMul(x, w)\n-> y" },
        { "MatMul", "x : 3,4,5\nt = Transpose(x) perm=0,2,1\ny = MatMul(x, t)\n-> y" },
        /* Transposes that are not executed: read by strides, or fused into the multiplication. */
        { "MatMul",
          "x : 2,5,3,8\nt = Transpose(x) perm=0,2,1,3\nu = Transpose(x) perm=0,2,3,1\ny = MatMul(t, u)\n-> y" },
        { "MatMul", "x : 2,5,24\ns = i[4] 2,5,3,8\nr = Reshape(x, s)\nt = Transpose(r) perm=0,2,1,3\n"
                    "u = Transpose(t) perm=0,1,3,2\nh = Mul(u, u)\ny = MatMul(t, h)\n-> y" },
        { "MatMul", "x : 2,3,5,8\nw = [8,20]\nb = [20]\nm = MatMul(x, w)\na = Add(m, b)\n"
                    "y = Transpose(a) perm=0,2,3,1\nz = Neg(y)\n-> z" },
        { "MatMul", "x : 5,7\nt = Transpose(x)\na = Exp(t)\nb = Add(t, a)\ny = MatMul(x, b)\n-> y, t" },
        /* Multiplications of the same matrix, with equal and with different epilogues. */
        { "MatMul", "x : 2,5,16\na = [16,24]\nb = [16,24]\nc = [16,24]\nd = [24]\ne = [24]\nf = [24]\n"
                    "p = MatMul(x, a)\nq = MatMul(x, b)\nr = MatMul(x, c)\n"
                    "s = Add(p, d)\nt = Add(q, e)\nu = Add(f, r)\n-> s, t, u" },
        { "MatMul", "x : 5,16\na = [16,24]\nb = [16,24]\nc = [16,24]\nd = [24]\n"
                    "p = MatMul(x, a)\nq = MatMul(x, b)\nr = MatMul(x, c)\n"
                    "s = Add(p, d)\nt = Add(q, p)\nu = Relu(r)\n-> s, t, u" },
        { "MatMul", "x : 5,16\na = [16,24]\nb = [16,23]\nc = [16,24]\ne = [16,24]\n"
                    "p = MatMul(x, a)\nq = MatMul(x, b)\nr = MatMul(x, c)\nt = MatMul(x, e)\n-> p, q, r, t" },
        /* Strips of rows and panels of columns that overlap or are incomplete. */
        { "MatMul", "x : 3,50,24\nw : 3,24,40\ny = MatMul(x, w)\n-> y" },
        { "MatMul", "x : 600,40\nw = [40,37]\ny = MatMul(x, w)\nz = Gelu(y)\n-> z" },
    };

    (void)state;
    VULKAN_CASE_ROWS(rows, 20, 0);
}

static void convolutions(void **state)
{
    static const vulkan_case_row rows[] = {
        { "Conv", "x : 1,3,9,9\nk = [4,3,3,3]\ny = Conv(x, k)\n-> y" },
        { "Conv", "x : 2,8,7,9\nk = [16,8,3,3]\nb = [16]\ny = Conv(x, k, b) pads=1,1,1,1 strides=2,2\n-> y" },
        { "Conv", "x : 2,8,5,5\nk = [9,8,1,1]\ny = Conv(x, k)\n-> y" },
        { "Conv", "x : 1,8,6,6\nk = [9,8,1,1]\ny = Conv(x, k) strides=2,2\n-> y" },
        { "Conv", "x : 2,6,8,8\nk = [6,1,3,3]\nb = [6]\ny = Conv(x, k, b) group=6 pads=1,1,1,1\n-> y" },
        { "Conv", "x : 1,8,8,8\nk = [12,4,3,3]\ny = Conv(x, k) group=2 dilations=2,2\n-> y" },
        { "Conv", "x : 1,4,19\nk = [5,4,3]\ny = Conv(x, k) auto_pad=SAME_UPPER strides=2,\n-> y" },
        { "Conv", "x : 1,2,5,6,7\nk = [3,2,3,2,3]\ny = Conv(x, k) auto_pad=SAME_LOWER\n-> y" },
        { "Conv", "x : 1,4,8,8\nk : 8,4,3,3\ny = Conv(x, k) pads=0,1,2,1\n-> y" },
        { "Conv", "x : 1,40,6,6\nk = [40,40,5,5]\ny = Conv(x, k) pads=2,2,2,2\n-> y" },
        { "Conv", "x : 1,16,30,30\nk = [20,16,3,3]\ny = Conv(x, k) pads=1,1,1,1\nz = Relu(y)\n-> z" },
        { "Conv", "x : 2,20,14,14\nk = [40,20,1,1]\nb = [40]\ny = Conv(x, k, b)\nc = [40,1,1]\nz = Add(y, c)\n-> z" },
        { "Conv", "x : 1,6,13,9\nk = [6,1,5,3]\ny = Conv(x, k) group=6 strides=2,1 dilations=1,2\nz = Exp(y)\n-> z" },
        { "Conv", "x : 1,3,7\nk = [3,1,3]\ny = Conv(x, k) group=3 pads=2,1\n-> y" },
        { "ConvTranspose",
          "x : 1,4,5,6\nk = [4,3,3,3]\nb = [3]\ny = ConvTranspose(x, k, b) strides=2,2 pads=1,1,0,0\n-> y" },
        { "ConvTranspose", "x : 2,4,5,5\nk = [4,2,2,2]\ny = ConvTranspose(x, k) group=2 strides=2,2\n-> y" },
        { "ConvTranspose",
          "x : 1,2,7\nk = [2,3,4]\ny = ConvTranspose(x, k) dilations=2, output_padding=1, strides=2,\n-> y" },
        { "MaxPool", "x : 2,3,9,9\ny = MaxPool(x) kernel_shape=3,3 strides=2,2 pads=1,1,1,1\n-> y" },
        { "MaxPool", "x : 1,3,10\ny = MaxPool(x) kernel_shape=3, strides=2, ceil_mode=1\n-> y" },
        /* Windows that cover padding only. */
        { "MaxPool", "x : 1,3,5\ny = MaxPool(x) kernel_shape=2, pads=3,3\n-> y" },
        { "MaxPool", "x : 1,3,5\nk = [] 50\nm = Mul(x, k)\ni = Cast(m) to=3\nr = MaxPool(i) kernel_shape=2, pads=3,3\n"
                     "y = Cast(r) to=1\n-> y" },
        { "AveragePool", "x : 1,3,5\ny = AveragePool(x) kernel_shape=2, pads=3,3\n-> y" },
        { "LpPool", "x : 1,3,5\ny = LpPool(x) kernel_shape=2, pads=3,3\n-> y" },
        { "AveragePool", "x : 2,3,9,9\ny = AveragePool(x) kernel_shape=3,3 strides=2,2 pads=1,1,1,1\n-> y" },
        { "AveragePool", "x : 2,3,9,8\ny = AveragePool(x) kernel_shape=3,2 pads=1,0,1,1 count_include_pad=1\n-> y" },
        { "LpPool", "x : 1,3,9,9\ny = LpPool(x) kernel_shape=3,3 p=3\n-> y" },
        { "GlobalAveragePool", "x : 2,3,40,9\ny = GlobalAveragePool(x)\n-> y" },
        { "GlobalMaxPool", "x : 2,3,4,9\ny = GlobalMaxPool(x)\n-> y" },
        { "LRN", "x : 2,7,3,4\ny = LRN(x) size=3 alpha=0.1 beta=0.75\n-> y" },
        { "Resize", "x : 1,2,5,6\ns = [4] 1,1,2,2\ny = Resize(x, _, s) mode=linear\n-> y" },
        { "Resize", "x : 1,2,5,6\ns = [4] 1,1,2.5,0.5\ny = Resize(x, _, s) mode=nearest\n-> y" },
        { "Resize", "x : 1,2,5,6\nz = i[4] 1,2,9,4\ny = Resize(x, _, _, z) mode=cubic "
                    "coordinate_transformation_mode=align_corners\n-> y" },
    };

    (void)state;
    VULKAN_CASE_ROWS(rows, 13, 0);
}

/* Multiplications of float16, which use matrix units where a device has them. The elements are integers, so that the
 * results are exact. */
static void halves(void **state)
{
    static const int sizes[][3] = { { 9, 3, 5 },    { 16, 16, 16 },   { 67, 70, 35 },
                                    { 64, 24, 40 }, { 200, 72, 136 }, { 130, 17, 260 } };
    static const vulkan_case_row rows[] = {
        { "MatMul", "x : 2,3,40,24\nw : 3,24,16\na = Floor(x)\nb = Floor(w)\nh = Cast(a) to=10\ng = Cast(b) to=10\n"
                    "m = MatMul(h, g)\ny = Cast(m) to=1\n-> y" },
        { "MatMul", "x : 2,24,40\na = Floor(x)\nh = Cast(a) to=10\nt = Transpose(h) perm=0,2,1\nm = MatMul(t, h)\n"
                    "y = Cast(m) to=1\n-> y" },
        { "MatMul", "x : 20,16\na = [16,24]\nb = [16,24]\nc = Floor(a)\nd = Floor(b)\ne = Cast(c) to=10\n"
                    "f = Cast(d) to=10\ng = Floor(x)\nh = Cast(g) to=10\np = MatMul(h, e)\nq = MatMul(h, f)\n"
                    "y = Cast(p) to=1\nz = Cast(q) to=1\n-> y, z" },
        { "Conv", "x : 2,5,8,8\nw = [9,5,1,1]\na = Floor(x)\nb = Floor(w)\nh = Cast(a) to=10\ng = Cast(b) to=10\n"
                  "m = Conv(h, g)\nr = Relu(m)\ny = Cast(r) to=1\n-> y" },
        { "Conv", "x : 2,6,9,7\nw = [10,3,3,3]\na = Floor(x)\nb = Floor(w)\nh = Cast(a) to=10\ng = Cast(b) to=10\n"
                  "m = Conv(h, g) pads=1,1,1,1 strides=2,1 group=2\ny = Cast(m) to=1\n-> y" },
    };
    char script[320];

    (void)state;
    VULKAN_CASE_ROWS(rows, 13, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int form = 0; form < 4; form++) {
            const int m = sizes[i][0], k = sizes[i][1], n = sizes[i][2];
            const bool transposed = (form & 1) != 0, constant = (form & 2) != 0;

            (void)snprintf(script, sizeof script,
                           "x : %d,%d\nw %s %d,%d%s\na = Floor(x)\nb = Floor(w)\nh = Cast(a) to=10\ng = Cast(b) to=10\n"
                           "m = Gemm(h, g) transB=%d\ny = Cast(m) to=1\n-> y",
                           m, k, constant ? "= [" : ":", transposed ? n : k, transposed ? k : n, constant ? "]" : "",
                           transposed);
            vulkan_case_expect(script, 13, "Gemm", 0);
        }
}

static void reductions(void **state)
{
    static const char *const ops[] = { "ReduceMean", "ReduceMax", "ReduceMin",       "ReduceProd",
                                       "ReduceL1",   "ReduceL2",  "ReduceSumSquare", "ReduceLogSumExp" };
    static const char *const axes[] = { "", "axes=0,", "axes=1,2", "axes=0,2 keepdims=0", "axes=-1, keepdims=0" };
    char script[160];

    (void)state;
    for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++)
        for (size_t a = 0; a < sizeof axes / sizeof axes[0]; a++) {
            (void)snprintf(script, sizeof script, "x : 3,4,5\ny = %s(x) %s\n-> y", ops[o], axes[a]);
            vulkan_case_expect(script, 13, ops[o], 0);
            vulkan_case_expect(script, 13, ops[o], 0.03f);
            (void)snprintf(script, sizeof script, "x : 3,4,300\nk = [] 0.3\nm = Mul(x, k)\ny = %s(m) %s\n-> y", ops[o],
                           axes[a]);
            if (o != 3) /* a product of hundreds of elements overflows or underflows */
                vulkan_case_expect(script, 13, ops[o], 0);
        }
    vulkan_case_expect("x : 3,4,300\na = i[1] 2\ny = ReduceSum(x, a)\n-> y", 13, "ReduceSum", 0);
    vulkan_case_expect("x : 3,4,5\ni = Cast(x) to=6\ny = ReduceMax(i) axes=1,\nz = ReduceMin(i)\n-> y, z", 13,
                       "ReduceMax", 0);
    vulkan_case_expect("x : 3,0,5\ni = Cast(x) to=6\ny = ReduceMax(i) axes=1,\nz = ReduceMin(i) axes=1,\n-> y, z", 13,
                       NULL, 0); /* the limits of the type */
    for (int last = 0; last < 2; last++)
        for (int axis = 0; axis < 3; axis++) {
            (void)snprintf(script, sizeof script,
                           "x : 3,300,5\nf = Floor(x)\ny = ArgMax(f) axis=%d select_last_index=%d\n"
                           "z = ArgMin(f) axis=%d keepdims=0\n-> y, z",
                           axis, last, axis);
            vulkan_case_expect(script, 13, "ArgMax", 0);
        }
}

static void normalisations(void **state)
{
    static const char *const ops[] = { "Softmax", "LogSoftmax", "Hardmax" };
    static const vulkan_case_row norms[] = {
        { "LayerNormalization", "x : 3,4,200\ns = [200]\nb = [200]\ny = LayerNormalization(x, s, b)\n-> y" },
        { "LayerNormalization", "x : 3,4,5\ns = [4,5]\ny, m, d = LayerNormalization(x, s) axis=1\n-> y, m, d" },
        { "InstanceNormalization", "x : 2,4,5,3\ns = [4]\nb = [4]\ny = InstanceNormalization(x, s, b)\n-> y" },
        { "LpNormalization", "x : 2,4,5\ny = LpNormalization(x) axis=1 p=1\n-> y" },
        { "LpNormalization", "x : 2,4,200\ny = LpNormalization(x)\n-> y" },
        { "ms.SkipLayerNormalization", "x : 2,3,8\nk : 2,3,8\ns = [8]\nb = [8]\nc = [8]\n"
                                       "y = ms.SkipLayerNormalization(x, k, s, b, c)\n-> y" },
        { "ms.SkipLayerNormalization",
          "x : 2,3,200\nk : 2,3,200\ns = [200]\nb = [200]\nc = [200]\n"
          "y, _, _, t = ms.SkipLayerNormalization(x, k, s, b, c)\nz = Neg(t)\n-> y, z, t" },
        { "ms.SkipLayerNormalization", /* one row for the batch: two dispatches */
          "x : 2,3,8\nk : 3,8\ns = [8]\nb = [8]\ny, _, _, t = ms.SkipLayerNormalization(x, k, s, b)\n-> y, t" },
        { "ms.SkipSimplifiedLayerNormalization", /* sums of 2 and -2 have exact results */
          "x : 2,3,8\ns = [8]\na = Sign(x)\ne = Cast(a) to=10\nt = Cast(s) to=10\n"
          "m, _, _, u = ms.SkipSimplifiedLayerNormalization(e, e, t)\ny = Cast(m) to=1\nz = Cast(u) to=1\n-> y, z" },
    };
    char script[160];

    (void)state;
    for (size_t o = 0; o < 3; o++)
        for (int axis = -1; axis < 3; axis++)
            for (int wide = 0; wide < 2; wide++) {
                (void)snprintf(script, sizeof script, "x : 3,4,%d\ny = %s(x) axis=%d\nz = Neg(y)\n-> z", wide ? 300 : 5,
                               ops[o], axis);
                vulkan_case_expect(script, 13, ops[o], 0);
                if (axis >= 0)
                    vulkan_case_expect(script, 11, ops[o], 0);
            }
    for (size_t i = 0; i < sizeof norms / sizeof norms[0]; i++)
        vulkan_case_expect(norms[i].script, 17, strncmp(norms[i].op, "ms.", 3) == 0 ? NULL : norms[i].op, 0);
    vulkan_case_expect("x : 2,6,5\ns = [6]\nb = [6]\ny = GroupNormalization(x, s, b) num_groups=3\n-> y", 21,
                       "GroupNormalization", 0);
}

/* Sums with more terms than CPU drivers execute in a loop, and with just as many. */
static void long_sums(void **state)
{
    static const vulkan_case_row rows[] = {
        { NULL, "x : 1800000\ny = ReduceMean(x)\n-> y" },
        { NULL, "x : 1000,4300\ny = ReduceMax(x)\nz = ArgMax(x) axis=1\n-> y, z" },
        { NULL, "x : 4300000\ny = ReduceMean(x)\nz = ArgMin(x)\n-> y, z" },
        { NULL, "x : 1,2,1000,1000\ny = GlobalAveragePool(x)\n-> y" },
        { NULL, "x : 70000\na = i[] 0\ny = CumSum(x, a)\n-> y" },
        { NULL, "x : 1,1500000\ny = Softmax(x)\n-> y" },
        { NULL, "x : 3,600000\nw : 600000,2\ny = MatMul(x, w)\n-> y" },
        { NULL, "x : 1,2,300,260\ny = AveragePool(x) kernel_shape=290,250\n-> y" },
        { NULL, "x : 1,1,300,260\nk : 2,1,290,250\ny = Conv(x, k)\n-> y" },
        { NULL, "q : 1,4,520\nk : 1,520,1900\nv : 1,1900,520\ns = MatMul(q, k)\nc = [] 0.02\nt = Mul(s, c)\np = "
                "Softmax(t)\ny = MatMul(p, v)\n-> y" },
    };

    (void)state;
    if (getenv("VULKAN_CASE_FAULT") != NULL)
        skip(); /* a CPU driver ends long loops early */
    VULKAN_CASE_ROWS(rows, 13, 0);
}

static void attention(void **state)
{
    static const vulkan_case_row rows[] = {
        { "Attention", "q : 2,4,5,8\nk : 2,4,7,8\nv : 2,4,7,6\ny = Attention(q, k, v)\n-> y" },
        { "Attention", "q : 1,4,5,8\nk : 1,2,7,8\nv : 1,2,7,6\ny = Attention(q, k, v) scale=0.3\n-> y" },
        { "Attention", "q : 1,4,5,8\nk : 1,2,7,8\nv : 1,2,7,6\nm : 5,7\ny = Attention(q, k, v, m) softcap=0.5\n-> y" },
        { "Attention", "q : 1,2,6,8\nk : 1,2,6,8\nv : 1,2,6,8\ny = Attention(q, k, v) is_causal=1\nz = Relu(y)\n-> z" },
        { "Attention", "q : 2,2,5,8\nk : 2,2,7,8\nv : 2,2,7,8\nm : 2,1,1,7\ny = Attention(q, k, v, m)\n-> y" },
        /* More scores than shared memory holds; with is_causal, all but the first block of keys are masked. */
        { "Attention", "q : 1,2,6,4\nk : 1,2,2500,4\nv : 1,2,2500,9\nm : 6,2500\ny = Attention(q, k, v, m)\n-> y" },
        { "Attention", "q : 1,1,5,4\nk : 1,1,5003,4\nv : 1,1,5003,3\ny = Attention(q, k, v) is_causal=1\n-> y" },
    };

    (void)state;
    VULKAN_CASE_ROWS(rows, 23, 0);
    /* The same as separate nodes, with heads that are transposed by strides. */
    vulkan_case_expect("x : 2,9,24\ns = i[4] 2,9,3,8\nq = Reshape(x, s)\na = Transpose(q) perm=0,2,1,3\n"
                       "k = Transpose(q) perm=0,2,3,1\nd = [] 3\nn : 2,1,1,9\np = MatMul(a, k)\ne = Div(p, d)\n"
                       "m = Add(e, n)\nf = Softmax(m)\no = MatMul(f, a)\nt = Transpose(o) perm=0,2,1,3\n"
                       "u = i[3] 2,9,24\ny = Reshape(t, u)\nz = Neg(y)\n-> z",
                       13, NULL, 0);
    vulkan_case_expect("x : 7,5\nk : 5,70\nv : 70,3\np = MatMul(x, k)\nf = Softmax(p) axis=1\ny = MatMul(f, v)\n-> y",
                       13, "Softmax", 0);
    vulkan_case_expect(
        "x : 7,5\nk : 5,3500\nv : 3500,3\np = MatMul(x, k)\nf = Softmax(p) axis=1\ny = MatMul(f, v)\n-> y", 13,
        "Softmax", 0);
    vulkan_case_expect("x : 7,5\nk : 5,9\nv : 9,3\np = MatMul(x, k)\nf = Softmax(p) axis=1\ny = MatMul(f, v)\n-> y, f",
                       13, "Softmax", 0);
}

/* What hidden keys and values hold does not matter. */
static void hidden_keys(void **state)
{
    (void)state;
    vulkan_case_require_device();
    for (uint64_t seed = 0; seed < 16; seed++)
        hidden_expect((const char *const[]){ "providers", "vulkan,reference", "policy", "priority", "vulkan.device",
                                             "auto", "vulkan.tiles", "estimate", NULL },
                      seed);
}

/* GroupQueryAttention with one more score in each row: of the head, or 0 (smooth_softmax). */
static void sinks(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 24; seed++) {
        static const char *const factors[] = { "1", "30", "-1000" };
        uint64_t random = seed;
        const int batch = 1 + (int)random_below(&random, 3), shared = 1 + (int)random_below(&random, 2),
                  heads = shared * (1 + (int)random_below(&random, 3)), size = 4 * (1 + (int)random_below(&random, 5)),
                  rows = random_below(&random, 3) == 0 ? 1 : 1 + (int)random_below(&random, 9),
                  past = seed % 8 == 7              ? 2500 /* more scores than shared memory holds */
                         : random_below(&random, 2) ? 1 + (int)random_below(&random, 40)
                                                    : 0;
        const bool smooth = random_below(&random, 3) == 0;
        char script[1024], lengths[64] = "", states[96] = "";

        for (int b = 0; b < batch; b++) {
            const size_t used = strlen(lengths);

            (void)snprintf(lengths + used, sizeof lengths - used, "%s%d", b > 0 ? "," : "",
                           (past > 0 ? rows - 1 : 0) +
                               (int)random_below(&random, (uint64_t)(past > 0 ? past + 1 : rows)));
        }
        if (past > 0)
            (void)snprintf(states, sizeof states, "pk : %d,%d,%d,%d\npv : %d,%d,%d,%d\n", batch, shared, past + rows,
                           size, batch, shared, past + rows, size);
        (void)snprintf(script, sizeof script,
                       "q : %d,%d,%d\nk : %d,%d,%d\nv : %d,%d,%d\n%sh : %d\nc = [] %s\ns = Mul(h, c)\nm = i[%d] %s\n"
                       "l = Cast(m) to=6\nn = i[1] %d\nt = Cast(n) to=6\ny, a, b = ms.GroupQueryAttention(q, k, v, %s, "
                       "l, t%s) num_heads=%d kv_num_heads=%d%s\n=> y, s",
                       batch, rows, heads * size, batch, rows, shared * size, batch, rows, shared * size, states, heads,
                       factors[random_below(&random, 3)], batch, lengths, past + rows, past > 0 ? "pk, pv" : "_, _",
                       smooth ? "" : ", _, _, _, _, s", heads, shared, smooth ? " smooth_softmax=1" : "");
        vulkan_case_expect(script, 24, "Attention", 0);
    }
}

static void layouts(void **state)
{
    static const vulkan_case_row rows[] = {
        { "Transpose", "x : 2,3,4,5\ny = Transpose(x) perm=0,2,3,1\n-> y" },
        { "Transpose", "x : 2,3,4,5\ny = Transpose(x)\n-> y" },
        { "Transpose", "x : 2,3,2,3,2,3\ny = Transpose(x) perm=5,0,4,1,3,2\n-> y" },
        { "Transpose", "x : 3,4\nb = Cast(x) to=9\ny = Transpose(b)\n-> y" },
        { "Concat", "x : 2,3,4\nc : 2,1,4\nd = [2,2,4]\ny = Concat(x, c, d) axis=1\n-> y" },
        { "Concat", "x : 2,3\ni = Cast(x) to=7\ny = Concat(i, i) axis=-1\n-> y" },
        { "Split", "x : 6,4\na, b, c = Split(x) axis=0\nd = Add(a, b)\ne = Mul(d, c)\n-> e" },
        { "Split", "x : 4,6\ns = i[2] 2,4\na, b = Split(x, s) axis=1\n-> a, b" },
        { "Slice",
          "x : 8,9\ns = i[2] 1,-1\ne = i[2] 7,-10\na = i[2] 0,1\nt = i[2] 2,-3\ny = Slice(x, s, e, a, t)\n-> y" },
        { "Slice", "x : 8,9\ns = i[1] 2\ne = i[1] 5\ny = Slice(x, s, e)\nz = Neg(y)\n-> z" },
        { "Pad", "x : 3,4\np = i[4] 1,0,2,3\ny = Pad(x, p)\n-> y" },
        { "Pad", "x : 3,4\np = i[4] 1,-1,2,3\nv = [] 7\ny = Pad(x, p, v)\n-> y" },
        { "Pad", "x : 3,4\np = i[4] 2,2,1,3\ny = Pad(x, p) mode=reflect\n-> y" },
        { "Pad", "x : 3,4\np = i[4] 2,2,1,3\ny = Pad(x, p) mode=edge\n-> y" },
        { "Expand", "x : 3,1\ns = i[3] 2,3,4\ny = Expand(x, s)\n-> y" },
        { "Tile", "x : 2,3,4\nr = i[3] 2,1,3\ny = Tile(x, r)\n-> y" },
        { "DepthToSpace", "x : 2,8,3,4\ny = DepthToSpace(x) blocksize=2\n-> y" },
        { "DepthToSpace", "x : 2,8,3,4\ny = DepthToSpace(x) blocksize=2 mode=CRD\n-> y" },
        { "SpaceToDepth", "x : 2,3,4,6\ny = SpaceToDepth(x) blocksize=2\n-> y" },
        { "Reshape", "x : 2,3,4\ns = i[2] 6,4\na = Neg(x)\ny = Reshape(a, s)\nz = Exp(y)\n-> y, z" },
        { "Flatten", "x : 2,3,4\ny = Flatten(x)\n-> y" },
        { "Identity", "x : 2,3\na = Identity(x)\nb = Identity(a)\n-> a, b" },
    };

    (void)state;
    VULKAN_CASE_ROWS(rows, 13, 0);
}

/* Appends one random Transpose, Slice, Split or Reshape of value v<n> with four dimensions, and updates these. */
static void append_view(char *script, size_t bytes, int n, int dims[4], uint64_t *random)
{
    size_t used = strlen(script);
    char *at = script + used;
    const size_t room = bytes - used;
    const int axis = (int)random_below(random, 4), size = dims[axis];
    const int first = (int)random_below(random, (uint64_t)size), step = 1 + (int)random_below(random, 2);
    int other;

    switch (random_below(random, 5)) {
    case 0:
        (void)snprintf(at, room,
                       "s%d = i[1] %d\ne%d = i[1] %d\na%d = i[1] %d\nt%d = i[1] %d\n"
                       "v%d = Slice(v%d, s%d, e%d, a%d, t%d)\n",
                       n, first, n, size, n, axis, n, step, n + 1, n, n, n, n, n);
        dims[axis] = (size - first + step - 1) / step;
        break;
    case 1: /* both parts are read */
        if (size % 2 == 0) {
            (void)snprintf(at, room,
                           "l%d, r%d = Split(v%d) axis=%d\nv%d = Identity(%s%d)\nz%d = ReduceMax(%s%d) keepdims=0\n", n,
                           n, n, axis, n + 1, first % 2 ? "l" : "r", n, n, first % 2 ? "r" : "l", n);
            dims[axis] = size / 2;
            break;
        }   /* fallthrough */
    case 2: /* from this axis to the next: a reshape that strides may not express */
        other = (axis + 1) % 4;
        if (size % 3 == 0) {
            dims[axis] /= 3;
            dims[other] *= 3;
        }
        (void)snprintf(at, room, "d%d = i[4] %d,%d,%d,%d\nv%d = Reshape(v%d, d%d)\n", n, dims[0], dims[1], dims[2],
                       dims[3], n + 1, n, n);
        break;
    default: { /* exchanges two axes */
        int perm[] = { 0, 1, 2, 3 };

        other = (axis + 1 + (int)random_below(random, 3)) % 4;
        perm[axis] = other, perm[other] = axis;
        dims[axis] = dims[other], dims[other] = size;
        (void)snprintf(at, room, "v%d = Transpose(v%d) perm=%d,%d,%d,%d\n", n + 1, n, perm[0], perm[1], perm[2],
                       perm[3]);
    }
    }
}

/* Chains of views before operators that read by strides, and others: the copies that are left out were not needed. */
static void views(void **state)
{
    enum { BYTES = 4096 };
    char script[BYTES];
    uint64_t random = 11;

    (void)state;
    for (int round = 0; round < 60; round++) {
        static const char *const readers[] = { "m = MatMul(v, w)\n", "m = Softmax(v)\n",    "m = Concat(v, v) axis=2\n",
                                               "m = Add(v, v0)\n",   "m = MatMul(v0, v)\n", "m = Exp(v)\n" };
        int dims[] = { 2, 6, 4, 6 }, wanted = (int)random_below(&random, 6);
        const int steps = 1 + (int)random_below(&random, 4);
        size_t used;

        (void)snprintf(script, BYTES, "x : 2,6,4,6\nv0 = Neg(x)\n");
        for (int n = 0; n < steps; n++)
            append_view(script, BYTES, n, dims, &random);
        used = strlen(script);
        wanted = (wanted == 3 && memcmp(dims, (const int[]){ 2, 6, 4, 6 }, sizeof dims) != 0) ||
                         (wanted == 4 && (dims[0] != 2 || dims[1] != 6 || dims[2] != 6))
                     ? 0
                     : wanted;
        (void)snprintf(script + used, BYTES - used, "v = Identity(v%d)\nw : %d,3\n%s-> m%s", steps, dims[3],
                       readers[wanted], strstr(script, "z0 =") != NULL ? ", z0" : "");
        vulkan_case_expect(script, 13, NULL, 0);
    }
}

static void indexes(void **state)
{
    static const vulkan_case_row rows[] = {
        { "Gather", "x : 5,6\ni = i[2,2] 0,4,-1,2\ny = Gather(x, i)\n-> y" },
        { "Gather", "x : 5,6\ni = i[3] 0,5,-2\ny = Gather(x, i) axis=1\n-> y" },
        { "Gather", "x : 5,6\ni = i[] 3\ny = Gather(x, i) axis=1\n-> y" },
        /* 32-bit indexes, computed on the device and before. */
        { "Gather", "x : 3,4\ni = i[4] -1,0,2,-3\nj = Cast(i) to=6\ny = Gather(x, j)\n-> y" },
        { "Gather", "x : 3,4\nn : 4\nm = Abs(n)\nf = Floor(m)\ng = Neg(f)\nk = [] 1\nh = Sub(g, k)\n"
                    "j = Cast(h) to=6\ny = Gather(x, j)\n-> y" },
        { "GatherElements",
          "x : 3,4\ni = i[2,4] 0,1,2,0,-1,-2,-3,1\nj = Cast(i) to=6\ny = GatherElements(x, j)\n-> y" },
        { "ScatterElements",
          "x : 3,4\ni = i[1,4] 0,2,-2,-3\nj = Cast(i) to=6\nu : 1,4\ny = ScatterElements(x, j, u)\n-> y" },
        { "OneHot", "i = i[4] -1,0,2,-3\nj = Cast(i) to=6\nd = i[] 3\nx : 2\ny = OneHot(j, d, x)\n-> y" },
        { "GatherElements", "x : 3,4\ni = i[2,4] 0,1,2,0,-1,-2,1,1\ny = GatherElements(x, i)\n-> y" },
        { "GatherND", "x : 3,4,2\ni = i[2,2] 0,1,-1,3\ny = GatherND(x, i)\n-> y" },
        { "GatherND", "x : 2,4,2\ni = i[2,1] 3,-4\ny = GatherND(x, i) batch_dims=1\n-> y" },
        { "ScatterND", "x : 3,4\ni = i[2,1] 2,0\nu : 2,4\ny = ScatterND(x, i, u)\n-> y" },
        { "ScatterElements", "x : 3,4\ni = i[1,4] 0,2,-2,0\nu : 1,4\ny = ScatterElements(x, i, u)\n-> y" },
        { "CumSum", "x : 3,4,5\na = i[] 1\ny = CumSum(x, a)\nz = CumSum(x, a) exclusive=1 reverse=1\n-> y, z" },
        { "Trilu", "x : 2,4,5\nk = i[] 1\ny = Trilu(x, k)\nz = Trilu(x) upper=0\n-> y, z" },
        { "EyeLike", "x : 4,5\ny = EyeLike(x) k=-1\n-> y" },
    };

    (void)state;
    VULKAN_CASE_ROWS(rows, 14, 0);
}

/* 8-bit integers of an input of floats. */
#define BYTES_OF(name, size, type)                                                                                     \
    name "f : " size "\n" name "h = [] 90\n" name "s = Mul(" name "f, " name "h)\n" name " = Cast(" name "s) to=" type \
         "\n"
#define U8(name, size) BYTES_OF(name, size, "2")
#define S8(name, size) BYTES_OF(name, size, "3")

/* Sums of 8-bit integers are exact: with and without zero points, of inputs and of constants. */
static void integers(void **state)
{
    static const int sizes[][3] = { { 9, 70, 130 }, { 70, 36, 4 }, { 1, 3, 5 } };
    static const struct {
        inlay_dtype x, w;
    } types[] = { { INLAY_UINT8, INLAY_INT8 }, { INLAY_INT8, INLAY_INT8 }, { INLAY_UINT8, INLAY_UINT8 } };
    /* clang-format off */
    static const vulkan_case_row rows[] = {
        { "MatMulInteger", U8("x", "2,3,5,8") S8("w", "3,8,6")
          "z = uint8[] 7\ny = MatMulInteger(x, w, z)\n-> y" },
        { "MatMulInteger", S8("x", "6") U8("w", "6,5") "y = MatMulInteger(x, w)\n-> y" },
        { "MatMulInteger", U8("x", "2,5,6") S8("w", "6") "y = MatMulInteger(x, w)\n-> y" },
        { "MatMulInteger", U8("x", "5,6") S8("w", "6,4")
          "m = MatMulInteger(x, w)\nf = Cast(m) to=1\ns = [4]\ny = Mul(f, s)\n-> y" },
        { "QLinearMatMul", U8("x", "5,30") S8("w", "30,6")
          "a = [] 0.02\nz = uint8[] 120\nb = [6] 0.01,0.02,0.03,0.04,0.05,0.06\nq = int8[6] 1,-2,3,-4,5,-6\n"
          "c = [] 0.5\nd = uint8[] 9\ny = QLinearMatMul(x, a, z, w, b, q, c, d)\n-> y" },
        { "ConvInteger", U8("x", "2,5,8,9") S8("w", "7,5,3,3")
          "z = uint8[] 33\ny = ConvInteger(x, w, z) pads=1,2,1,0 strides=2,1\n-> y" },
        { "ConvInteger", S8("x", "1,8,6,6") U8("w", "4,4,1,1")
          "z = int8[] -3\nq = uint8[4] 1,2,250,4\nm = ConvInteger(x, w, z, q) group=2\nf = Cast(m) to=1\nr = Relu(f)\n"
          "-> r" },
        { "QLinearConv", U8("x", "1,6,7,7") S8("w", "6,1,3,3")
          "a = [] 0.02\nz = uint8[] 120\nb = [] 0.01\nq = int8[] 0\nc = [] 0.05\nd = int8[] 9\n"
          "e = int32[6] 1,20000,-3,-40000,5,6\n"
          "y = QLinearConv(x, a, z, w, b, q, c, d, e) pads=1,1,1,1 group=6\n-> y" },
    };
    /* clang-format on */
    enum { BYTES = 1 << 17 };
    char *script = malloc(BYTES);
    uint64_t random = 11;

    (void)state;
    assert_non_null(script);
    VULKAN_CASE_ROWS(rows, 13, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const int m = sizes[i][0], k = sizes[i][1], n = sizes[i][2];
        const bool has_zeros = i != 1;

        (void)snprintf(script, BYTES, BYTES_OF("x", "%d,%d", "%d") BYTES_OF("w", "%d,%d", "%d"), m, k, types[i].x, k, n,
                       types[i].w);
        append_constant(script, BYTES, "c", inlay_dtype_name(types[i].w), k * n, 128, &random);
        append_constant(script, BYTES, "p", inlay_dtype_name(types[i].x), 1, 128, &random);
        append_constant(script, BYTES, "q", inlay_dtype_name(types[i].w), n, 128, &random);
        (void)snprintf(script + strlen(script), BYTES - strlen(script),
                       "s = i[2] %d,%d\nv = Reshape(c, s)\ny = MatMulInteger(x, w%s)\nz = MatMulInteger(x, v%s)\n"
                       "-> y, z",
                       k, n, has_zeros ? ", p, q" : "", has_zeros ? ", p" : "");
        vulkan_case_expect(script, 13, "MatMulInteger", 0);
    }
    free(script);
}

static bool is_wanted(const char *part, const char *wanted)
{
    return wanted == NULL || strcmp(wanted, part) == 0;
}

/* test_skeletons [products | rows | moves | few_bits] */
int main(int argc, char **argv)
{
    const struct CMUnitTest products[] = { cmocka_unit_test(multiplications), cmocka_unit_test(batches),
                                           cmocka_unit_test(convolutions), cmocka_unit_test(halves) };
    const struct CMUnitTest rows[] = { cmocka_unit_test(reductions), cmocka_unit_test(normalisations),
                                       cmocka_unit_test(attention),  cmocka_unit_test(hidden_keys),
                                       cmocka_unit_test(sinks),      cmocka_unit_test(long_sums) };
    const struct CMUnitTest moves[] = { cmocka_unit_test(layouts), cmocka_unit_test(views), cmocka_unit_test(indexes) };
    const struct CMUnitTest few_bits[] = { cmocka_unit_test(low_bits), cmocka_unit_test(integers) };
    const char *wanted = argc > 1 ? argv[1] : NULL;
    int failed = -1; /* no such part */

    if (is_wanted("products", wanted))
        failed = cmocka_run_group_tests(products, NULL, vulkan_case_end);
    if (is_wanted("rows", wanted) && failed <= 0)
        failed = cmocka_run_group_tests(rows, NULL, vulkan_case_end);
    if (is_wanted("moves", wanted) && failed <= 0)
        failed = cmocka_run_group_tests(moves, NULL, vulkan_case_end);
    if (is_wanted("few_bits", wanted) && failed <= 0)
        failed = cmocka_run_group_tests(few_bits, NULL, vulkan_case_end);
    return failed;
}
