/* Operators of image models on cpu, compared with the reference: Resize in every layout that a region may have. */
#define COMPARE_TOLERANCE 3e-5f /* Sigmoid of large sums that cancel */
#include "compare.h"
#include "random.h"
#include "loops.h"

static void resize(void **state)
{
    /* The op before determines the layout: none (row-major), a convolution (channels last, or blocked if channels do
     * not fill blocks), a Winograd convolution (blocked), a concatenation. */
    static const char *const before[] = {
        "x : 2,3,9,7\na = Neg(x)\n",
        "x : 2,3,9,7\nw = [20,3,3,3]\na = Conv(x, w) pads=1,1,1,1\n",
        "x : 1,32,24,24\nw = [64,32,3,3]\nk = Conv(x, w) pads=1,1,1,1\na = Relu(k)\n",
        "x : 2,16,6,5\nw = [16,16,3,3]\nk = Conv(x, w) pads=1,1,1,1\na = Concat(k, x) axis=1\n",
        "x : 2,5,6\nw = [24,5,3]\na = Conv(x, w) pads=1,1\n",
        "x : 1,4,5,6,3\nw = [17,4,3,3,3]\na = Conv(x, w) pads=1,1,1,1,1,1\n",
    };
    static const char *const modes[] = { "nearest", "linear", "cubic" };
    static const char *const places[] = { "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric" };
    static const uint32_t ranks[] = { 4, 4, 4, 4, 3, 5 };
    static const char *const factors[] = { "2.0", "1.7", "0.6", "1.0", "3.0" };
    char script[512], ones[64];
    uint32_t n = 0;

    (void)state;
    for (uint32_t b = 0; b < 6; b++) {
        for (uint32_t m = 0; m < 3; m++) {
            for (uint32_t place = 0; place < 4; place++, n++) {
                const compare_case row = { "Resize", script };
                uint32_t at = (uint32_t)snprintf(ones, sizeof ones, "1,1");

                for (uint32_t d = 2; d < ranks[b]; d++)
                    at += (uint32_t)snprintf(ones + at, sizeof ones - at, ",%s",
                                             factors[(n + d) % (ranks[b] == 3 ? 3 : 5)]);
                (void)snprintf(script, sizeof script,
                               "%ss = [%u] %s\ny = Resize(a, _, s) mode=%s coordinate_transformation_mode=%s\nz = "
                               "Relu(y)\n-> z, y",
                               before[b], ranks[b], ones, modes[m], places[place]);
                compare_expect(&row, 13, NULL);
            }
        }
    }
}

static void resize_unsupported(void **state)
{
    static const compare_case rows[] = {
        { "Resize", "x : 2,3,4,5\ns = i[4] 2,3,9,4\ny = Resize(x, _, _, s) mode=linear\n-> y" },
        { "Resize", "x : 2,3,4,5\ns = i[4] 2,7,4,4\ny = Resize(x, _, _, s) mode=linear\n-> y" }, /* channels, too */
        { "Resize", "x : N,17,H,W\nw = [17,17,1,1]\na = Conv(x, w)\ns = [4] 1,1,2,2\ny = Resize(a, _, s) "
                    "mode=linear\nz = Conv(y, w)\n-> z" },
        { "Resize", "x : 1,8,1,1\nw = [16,8,1,1]\na = Conv(x, w)\ns = i[4] 1,16,5,6\ny = Resize(a, _, _, s) "
                    "mode=linear\n-> y" },
        { "Resize", "x : 1,16,4,4\nw = [16,16,3,3]\na = Conv(x, w) pads=1,1,1,1\ns = i[4] 1,16,4,4\n"
                    "y = Resize(a, _, _, s) mode=linear\nz = Add(y, x)\n-> z" }, /* the size does not change */
        { "Resize", "x : 1,16,8,8\nw = [24,16,3,3]\na = Conv(x, w) pads=1,1,1,1\ns = i[4] 1,24,3,20\n"
                    "y = Resize(a, _, _, s) mode=cubic antialias=1 exclude_outside=1\n-> y" },
        { "Resize", "x : 1,16,8,8\nw = [24,16,3,3]\na = Conv(x, w) pads=1,1,1,1\ns = i[2] 3,20\n"
                    "y = Resize(a, _, _, s) mode=linear antialias=1 axes=3,2\n-> y" },
        { "Resize", "x : 1,16,8,8\ns = [1] 1.5\ny = Resize(x, _, s) mode=linear axes=2,\n-> y" },
        /* Not supported by cpu. */
        { NULL, "x : 1,16,8,8\ns = i[2] 3,20\ny = Resize(x, _, _, s) mode=linear keep_aspect_ratio_policy=not_larger "
                "axes=2,3\n-> y" },
    };

    (void)state;
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        compare_expect(&rows[i], 19, NULL);
    compare_expect(&(compare_case){ "Upsample", "x : 1,16,3,4\nw = [16,16,3,3]\na = Conv(x, w) pads=1,1,1,1\n"
                                                "s = [4] 1,1,2,3\ny = Upsample(a, s) mode=linear\n-> y" },
                   9, NULL);
}

static void transposed(void **state)
{
    static const compare_case rows[] = {
        /* wide: taps that are adjacent, that overlap, and with gaps */
        { "ConvTranspose", "x : 2,5,4,6\nw = [5,24,2,2]\nb = [24]\ny = ConvTranspose(x, w, b) strides=2,2\n-> y" },
        { "ConvTranspose", "x : 1,16,5,4\nw = [16,17,3,3]\na = Neg(x)\ny = ConvTranspose(a, w) "
                           "strides=2,2 pads=1,1,1,1 "
                           "output_padding=1,1\nz = Relu(y)\n-> z" },
        { "ConvTranspose", "x : 2,3,5,4\nw = [3,8,4,4]\nb = [8]\ny = ConvTranspose(x, w, b) strides=2,3 pads=1,0,2,1\n"
                           "z = LeakyRelu(y) alpha=0.2\nv = Sigmoid(z)\n-> v" },
        { "ConvTranspose", "x : 1,4,3,3\nw = [4,9,2,3]\ny = ConvTranspose(x, w) strides=3,4 output_padding=2,0\n-> y" },
        { "ConvTranspose", "x : 1,4,5,5\nw = [4,9,3,3]\nc = [1,9,1,1]\na = ConvTranspose(x, w) dilations=2,3\n"
                           "y = Add(a, c)\nz = Relu(y)\n-> z" },
        { "ConvTranspose", "x : 1,4,5,5\nw = [4,9,3,2]\ny = ConvTranspose(x, w) dilations=2,2 strides=2,3\n-> y" },
        { "ConvTranspose", "x : 1,4,5,5\nw = [4,9,3,3]\ny = ConvTranspose(x, w) auto_pad=SAME_UPPER "
                           "strides=2,2\n-> y" },
        { "ConvTranspose", "x : 1,4,5,5\nw = [4,9,4,3]\ny = ConvTranspose(x, w) auto_pad=SAME_LOWER "
                           "strides=3,2\n-> y" },
        { "ConvTranspose", "x : 1,4,5,5\nw = [4,9,3,3]\ny = ConvTranspose(x, w) auto_pad=VALID strides=2,2\n-> y" },
        { "ConvTranspose", "x : 1,4,5,5\nw = [4,9,3,3]\ny = ConvTranspose(x, w) output_shape=10,8 strides=2,2\n-> y" },
        { "ConvTranspose", "x : 2,40,31,70\nw = [40,21,4,4]\nb = [21]\ny = ConvTranspose(x, w, b) strides=2,2 "
                           "pads=1,1,1,1\nz = LeakyRelu(y) alpha=0.2\n-> z" },
        { "ConvTranspose", "x : 1,130,9,67\nw = [130,3,5,3]\ny = ConvTranspose(x, w) strides=1,3 pads=2,0,2,1 group=2\n"
                           "z = Tanh(y)\n-> z" },
        { "ConvTranspose",
          "x : 1,20,9,300\nw = [20,9,3,3]\ny = ConvTranspose(x, w) strides=2,2 dilations=2,3 group=1\n-> y" },
        { "ConvTranspose", "x : 2,6,7\nw = [6,10,5]\ny = ConvTranspose(x, w) strides=2, pads=2,1\n-> y" },
        { "ConvTranspose", "x : 1,3,3,4,5\nw = [3,12,2,3,2]\nb = [12]\ny = ConvTranspose(x, w, b) "
                           "strides=2,1,2\n-> y" },
        /* the kernel is a multiple of the stride: one convolution for each residue of the position (phase) */
        { "ConvTranspose", "x : 2,16,5,4\nw = [16,17,4,6]\nb = [17]\na = ConvTranspose(x, w, b) strides=2,3 "
                           "pads=1,2,0,1 output_padding=1,2\ny = Relu(a)\nz = Sigmoid(y)\n-> z" },
        { "ConvTranspose", "x : 2,12,7\nw = [12,9,16]\ny = ConvTranspose(x, w) strides=8, pads=4,4\n-> y" },
        { "ConvTranspose", "x : 1,9,6,5\nw = [9,40,3,3]\na = ConvTranspose(x, w) pads=1,1,1,1\ny = Clip(a)\n-> y" },
        { "ConvTranspose", "x : 1,9,6,5\nw = [9,33,4,4]\ny = ConvTranspose(x, w) strides=2,2 pads=3,3,3,3\n-> y" },
        { "ConvTranspose", "x : 1,8,3,3\nw = [8,8,4,4]\ny = ConvTranspose(x, w) strides=4,4 output_shape=1,9\n-> y" },
        { "ConvTranspose", "x : 1,16,4,4\nk = [16,24,4,4]\na = ConvTranspose(x, k) strides=2,2 "
                           "pads=1,1,1,1\nb = LeakyRelu(a) alpha=0.1\nt = [16,8,2,2]\nc = ConvTranspose(x, t) "
                           "strides=2,2\nd = Concat(c, b) axis=1\nw = [16,32,1,1]\nz = Conv(d, w)\n-> z" },
        { "ConvTranspose", "x : N,16,H,W\nk = [16,16,3,3]\na = Conv(x, k) pads=1,1,1,1\nt = [16,16,4,4]\n"
                           "y = ConvTranspose(a, t) strides=2,2 pads=1,1,1,1\nv = Mul(y, y)\nz = Conv(v, k)\n-> z" },
        /* thin */
        { "ConvTranspose", "x : 2,24,6,5\nw = [24,1,2,2]\nb = [1]\na = ConvTranspose(x, w, b) strides=2,2\ny = "
                           "Sigmoid(a)\n-> y" },
        { "ConvTranspose", "x : 2,8,6,5\nw = [8,3,4,4]\nb = [3]\na = ConvTranspose(x, w, b) strides=2,2 "
                           "pads=1,1,1,1\ny = Relu(a)\nz = Neg(y)\n-> z" },
        { "ConvTranspose", "x : 1,8,6,5\nw = [8,2,3,3]\ny = ConvTranspose(x, w) strides=4,3 dilations=2,1 pads=3,0,0,3 "
                           "output_padding=1,2\n-> y" },
        { "ConvTranspose", "x : 1,2,2,3,4\nw = [2,5,3,2,2]\ny = ConvTranspose(x, w) pads=1,0,1,0,1,0\n-> y" },
        { "ConvTranspose", "x : 3,1,4\nw = [1,1,9]\ny = ConvTranspose(x, w) pads=4,4\n-> y" },
        /* one channel a group, and several */
        { "ConvTranspose", "x : 2,6,5,4\nw = [6,1,4,4]\nb = [6]\ny = ConvTranspose(x, w, b) group=6 strides=2,2 "
                           "pads=1,1,1,1\nz = LeakyRelu(y) alpha=0.3\n-> z" },
        { "ConvTranspose", "x : 2,20,5\nw = [20,1,3]\ny = ConvTranspose(x, w) group=20 strides=2, "
                           "output_padding=1,\n-> y" },
        { "ConvTranspose", "x : 2,6,5,4\nw = [6,2,3,3]\nb = [6]\ny = ConvTranspose(x, w, b) group=3 strides=2,2 "
                           "pads=1,1,1,1 output_padding=1,0\nz = Relu(y)\nv = Sigmoid(z)\n-> v" },
        /* in a network with sizes that are known at run time only */
        { "ConvTranspose", "x : N,16,H,W\nw = [32,16,3,3]\na = Conv(x, w) pads=1,1,1,1\nt = [32,16,2,2]\ny = "
                           "ConvTranspose(a, t) strides=2,2\nk = [1,16,1,1]\nz = Conv(y, k)\n-> z, y" },
    };

    (void)state;
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        compare_expect(&rows[i], 11, NULL);
}

/* Weights or a bias that are inputs or computed: they cannot be packed. */
static void computed_weights(void **state)
{
    static const char *const scripts[] = {
        "x : 2,5,9,8\nw : 7,5,3,3\nb : 7\nc = Conv(x, w, b) pads=1,0,2,1 strides=2,1\ny = Relu(c)\n-> y",
        "x : 1,8,9,N\nw : 16,4,3,3\nc = Conv(x, w) group=2\ny = Sigmoid(c)\n-> y, c",
        "x : 1,6,12\nw : 6,1,5\nv = Tanh(w)\nc = Conv(x, v) group=6 dilations=2,\ny = Add(c, c)\n-> y",
        "x : 1,16,9,9\nk = [32,16,3,3]\nb : 32\nc = Conv(x, k, b) pads=1,1,1,1\nm = [32,32,1,1]\n"
        "d = Conv(c, m)\ny = Add(c, d)\n-> y",
        "x : 1,4,5,6,7\nw : 8,4,2,3,2\nk = [8]\nc = Conv(x, w, k) auto_pad=SAME_UPPER\ny = Clip(c)\n-> y",
        "x : 1,8,9,9\nw : 8,8,1,1\nk = [8,8,3,3]\na = Conv(x, k)\ns = GlobalAveragePool(a)\n"
        "t = Sigmoid(s)\nm = Mul(a, t)\ny = Conv(m, w)\n-> y",
        "x : N,3,5,5\nw : 4,3,3,3\nb : 4\nc = Conv(x, w, b)\n-> c",
        "x : 1,5,6,7\nw : 5,4,3,2\nb : 4\ny = ConvTranspose(x, w, b) strides=2,3 "
        "output_padding=1,0\nz = Relu(y)\n-> z",
        "x : 1,12,6,7\nw = [12,9,2,2]\nb = [9]\nt = ConvTranspose(x, w, b) strides=2,2\n"
        "a = LeakyRelu(t)\nc = Sigmoid(a)\nd = Tanh(c)\ny = Abs(d)\n-> y",
        "x : 1,12,6,7\nw = [12,2,3,3]\nt = ConvTranspose(x, w) strides=2,2\nc = HardSigmoid(t)\n"
        "y = Exp(c)\n-> y, c",
        "x : 1,6,8,5\nw = [6,1,3,3]\nt = ConvTranspose(x, w) group=6\ns = Sigmoid(t)\n"
        "y = Mul(t, s)\n-> y",
        "x : 1,6,8\nw : 6,2,3\ny = ConvTranspose(x, w) group=3 strides=2,\n-> y",
    };

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
        compare_expect(&(compare_case){ NULL, scripts[i] }, 11, NULL);
}

static void prelu(void **state)
{
    static const compare_case rows[] = {
        { "PRelu", "x : 2,7,5,4\ns = [7,1,1]\ny = PRelu(x, s)\n-> y" },
        { "PRelu", "x : 2,7,5,4\ns = [1]\na = Neg(x)\ny = PRelu(a, s)\nz = Exp(y)\n-> z" },
        { "PRelu", "x : 2,7,5,4\ns = [2,7,5,4]\ny = PRelu(x, s)\n-> y" },
        { "PRelu", "x : 2,7,5,4\ns = [5,1]\nt = PRelu(x, s)\ny = Add(t, x)\n-> y" },
        { "PRelu", "x : 1,16,9,9\nw = [33,16,3,3]\nc = [33]\ns = [33,1,1]\na = Conv(x, w, c)\ny = PRelu(a, s)\nz = "
                   "Relu(y)\nv = Neg(z)\n-> v" },
        { "PRelu", "x : 1,16,9,9\nw = [16,1,3,3]\ns = [16,1,1]\na = Conv(x, w) group=16\ny = PRelu(a, s)\nu = "
                   "[17,16,1,1]\nz = Conv(y, u)\n-> z" },
        { "PRelu", "x : 1,3,8\nw = [20,3,3]\ns = [20,1]\na = Conv(x, w) pads=1,1\ny = PRelu(a, s)\n-> y, a" },
        { "PRelu", "x : 1,32,24,24\nw = [64,32,3,3]\ns = [64,1,1]\na = Conv(x, w) pads=1,1,1,1\ny = PRelu(a, s)\nz = "
                   "Add(y, a)\n-> z" },
        { "PRelu", "x : 4,8\nw = [8,6]\ns = [6]\na = MatMul(x, w)\ny = PRelu(a, s)\n-> y" },
        { "PRelu", "x : 4,8\nt : 4,8\ny = PRelu(x, t)\n-> y" }, /* a computed slope */
        { "PRelu", "x : N,8,H,W\nw = [24,8,1,1]\ns = [24,1,1]\na = Conv(x, w)\ny = PRelu(a, s)\nz = Concat(y, x) "
                   "axis=1\n-> z" },
    };

    (void)state;
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        compare_expect(&rows[i], 16, NULL);
}

static void views(void **state)
{
    /* A convolution's output, channels last or blocked, and a row-major input, read through views. */
    static const compare_case rows[] = {
        { "Slice", "x : 2,24,6,5\nb = i[1] 8\ne = i[1] 24\na = i[1] 1\ny = Slice(x, b, e, a)\nz = Relu(y)\n-> y, z" },
        { "Slice", "x : 2,3,6,6\nw = [40,3,3,3]\nc = Conv(x, w) pads=1,1,1,1\nb = i[3] 8,-4,1\ne = i[3] 30,99,5\na = "
                   "i[3] 1,-1,2\ny = Slice(c, b, e, a)\nz = Exp(y)\nv = Add(y, z)\n-> v, y" },
        { "Slice", "x : 1,16,24,24\nw = [64,16,3,3]\nc = Conv(x, w) pads=1,1,1,1\nb = i[1] 16\ne = i[1] 48\na = i[1] "
                   "1\ny = Slice(c, b, e, a)\nu = [8,32,3,3]\nz = Conv(y, u)\n"
                   "m = MaxPool(y) kernel_shape=2,2\n-> z, m" },
        { "Slice", "x : 3,16,24,24\nw = [64,16,3,3]\nc = Conv(x, w) pads=1,1,1,1\nb = i[2] 16,3\ne = i[2] 48,20\na = "
                   "i[2] 1,3\ny = Slice(c, b, e, a)\nz = MaxPool(y) kernel_shape=2,2\nv = Sigmoid(y)\n-> z, v" },
        { "Slice", "x : 1,3,8,8\nb = i[2] 1,0\ne = i[2] 8,8\na = i[2] 2,3\ns = i[2] 2,2\np = Slice(x, b, e, a, s)\nf = "
                   "i[2] 0,1\nq = Slice(x, f, e, a, s)\nc = Concat(p, q) axis=1\nw = [9,6,3,3]\nz = Conv(c, w)\n-> z" },
        { "Split", "x : 2,16,5,5\nw = [48,16,1,1]\nc = Conv(x, w)\np, q, r = Split(c) axis=1\ny = Mul(p, q)\n"
                   "z = Add(y, r)\n-> z" },
        { "Split", "x : 2,16,5,5\nw = [30,16,1,1]\nc = Conv(x, w)\ns = i[2] 7,23\np, q = Split(c, s) axis=1\ny = "
                   "Sigmoid(p)\nu = [8,23,3,3]\nz = Conv(q, u)\n-> z, y, p" },
        { "Split", "x : 2,6,8\np, q = Split(x) axis=2\nt = Transpose(q) perm=0,2,1\ny = MatMul(p, t)\n-> y, p" },
        { "Reshape", "x : 2,8,6,5\nw = [12,8,3,3]\nc = Conv(x, w) pads=1,1,1,1\ns = i[3] 2,12,30\na = Reshape(c, s)\n"
                     "t = Transpose(a) perm=0,2,1\nm = [12,9]\ny = MatMul(t, m)\nr = i[2] 2,-1\n"
                     "f = Reshape(c, r)\n-> y, f" },
        { "Reshape", "x : 1,16,24,24\nw = [64,16,3,3]\nc = Conv(x, w) pads=1,1,1,1\ns = i[4] 1,64,12,48\n"
                     "a = Reshape(c, s)\nv = i[3] 8,8,-1\nb = Reshape(c, v)\ny = Relu(a)\nz = Abs(b)\n-> y, z" },
        { "Slice", "x : N,6,H,W\nw = [32,6,3,3]\nc = Conv(x, w) pads=1,1,1,1\np, q = Split(c) axis=1\nb = i[1] "
                   "-2\ne = i[1] 100\na = i[1] 2\ny = Slice(p, b, e, a)\nz = GlobalAveragePool(q)\n-> y, z" },
    };

    (void)state;
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        compare_expect(&rows[i], 13, NULL);
}

/* Means of whole images in any layout, with as many channels as the kernel's block has, and other counts. */
static void means(void **state)
{
    static const char *const scripts[] = {
        "x : 2,5,H,W\ny = GlobalAveragePool(x)\n-> y",
        "x : 3,7,40\nz = ReduceMean(x) axes=2, keepdims=0\n-> z",
        "x : 2,6,5,4,3\nw = [20,6,1,1,1]\na = Conv(x, w)\ny = GlobalAveragePool(a)\n-> y",
        "x : 2,6,9,31\nw = [8,6,1,1]\na = Conv(x, w)\ny = GlobalAveragePool(a)\n-> y",
        "x : 1,6,9,31\nw = [12,6,1,1]\na = Conv(x, w)\ny = GlobalAveragePool(a)\n-> y, a",
        "x : 1,6,9,31\nw = [20,6,1,1]\na = Conv(x, w)\ny = ReduceMean(a) axes=2,3 keepdims=0\n-> y",
        "x : 2,6,17,8\nw = [40,6,1,1]\na = Conv(x, w)\ny = AveragePool(a) kernel_shape=17,8\n-> y",
        "x : 2,6,17,8\nw = [96,6,1,1]\na = Conv(x, w)\ny = AveragePool(a) kernel_shape=17,8 strides=3,3\n-> y",
        "x : 1,6,17,8\nw = [72,6,1,1]\na = Conv(x, w)\ny = AveragePool(a) kernel_shape=17,8 pads=1,1,1,1\n-> y",
        "x : 1,6,3,2\nw = [300,6,1,1]\na = Conv(x, w)\ny = GlobalAveragePool(a)\n-> y",
        "x : 1,3,6,40\nw = [24,1,3,3]\na = Conv(x, w) group=3 pads=1,1,1,1\ny = GlobalAveragePool(a)\n-> y",
        "x : 1,100,1,1\nw = [70,100,1,1]\na = Conv(x, w)\ny = GlobalAveragePool(a)\n-> y",
    };

    (void)state;
    for (uint32_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
        compare_expect(&(compare_case){ NULL, scripts[i] }, 13, NULL);
}

/* Pools of images in the layout of the layer before, with whole and incomplete vectors of channels. */
static void pools(void **state)
{
    static const int channels[] = { 8, 16, 37, 64, 136 };
    static const char *const windows[] = {
        "MaxPool(a) kernel_shape=3,3 strides=2,2",
        "MaxPool(a) kernel_shape=3,3 pads=1,1,1,1",
        "MaxPool(a) kernel_shape=2,2 strides=2,2 ceil_mode=1",
        "MaxPool(a) kernel_shape=4,5 pads=2,1,1,3 dilations=2,1",
        "MaxPool(a) kernel_shape=2,3 dilations=1,2 strides=2,1",
        "MaxPool(a) kernel_shape=2,2 strides=3,4",
        "MaxPool(a) kernel_shape=2,150 pads=0,70,0,149",
        "MaxPool(a) kernel_shape=13,131",
        "AveragePool(a) kernel_shape=3,3 strides=2,2",
        "AveragePool(a) kernel_shape=3,3 strides=2,2 pads=1,1,1,1 ceil_mode=1",
        "AveragePool(a) kernel_shape=3,3 pads=1,1,1,1",
        "AveragePool(a) kernel_shape=3,3 pads=1,1,1,1 count_include_pad=1",
        "AveragePool(a) kernel_shape=2,2 strides=2,2 pads=1,1,0,0",
        "AveragePool(a) kernel_shape=7,7 pads=3,2,1,0 count_include_pad=1",
        "AveragePool(a) kernel_shape=1,4 strides=1,3",
        "AveragePool(a) kernel_shape=13,1",
        "AveragePool(a) kernel_shape=5,130 strides=2,1",
        "AveragePool(a) kernel_shape=2,3 auto_pad=SAME_UPPER strides=3,2",
    };
    char script[256];

    (void)state;
    for (uint32_t i = 0; i < sizeof windows / sizeof windows[0]; i++)
        for (uint32_t k = 0; k < sizeof channels / sizeof channels[0]; k++) {
            snprintf(script, sizeof script, "x : 2,6,13,131\nw = [%d,6,1,1]\na = Conv(x, w)\ny = %s\n-> y", channels[k],
                     windows[i]);
            compare_expect(&(compare_case){ NULL, script }, 19, NULL);
        }
    for (uint32_t k = 0; k < sizeof channels / sizeof channels[0]; k++) { /* of a row */
        snprintf(script, sizeof script,
                 "x : 3,6,300\nw = [%d,6,1]\na = Conv(x, w)\ny = AveragePool(a) kernel_shape=6, strides=2, pads=3,5\n"
                 "z = MaxPool(a) kernel_shape=6, strides=5, pads=3,5\n-> y, z",
                 channels[k]);
        compare_expect(&(compare_case){ NULL, script }, 19, NULL);
    }
}

/* Pools of volumes, row-major and channels-last: windows inside, across the sides, and with slices in the padding
 * only. */
static void volumes(void **state)
{
    static const int channels[] = { 3, 37 };
    static const char *const windows[] = {
        "Pool(a) kernel_shape=2,2,2 strides=2,2,2",
        "Pool(a) kernel_shape=3,3,3 strides=2,2,2",
        "Pool(a) kernel_shape=3,3,3 pads=1,1,1,1,1,1",
        "Pool(a) kernel_shape=3,3,3 strides=2,3,2 pads=2,1,0,2,1,2 ceil_mode=1",
        "Pool(a) kernel_shape=2,1,1 strides=1,2,1",
        "Pool(a) kernel_shape=1,3,3 strides=2,1,1 pads=0,1,1,0,1,1",
        "Pool(a) kernel_shape=4,5,2 strides=1,1,3 auto_pad=SAME_LOWER",
        "Pool(a) kernel_shape=5,9,33",
        "AveragePool(a) kernel_shape=3,3,3 strides=2,1,2 pads=1,1,1,1,1,1 count_include_pad=1",
        "MaxPool(a) kernel_shape=3,2,3 dilations=2,3,2 pads=2,1,2,0,1,1",
        "GlobalMaxPool(a)",
        "GlobalAveragePool(a)",
    };
    char script[256];

    (void)state;
    for (uint32_t i = 0; i < sizeof windows / sizeof windows[0]; i++)
        for (uint32_t k = 0; k < 4 * sizeof channels / sizeof channels[0]; k++) {
            const char *kind = windows[i][0] != 'P' ? "" : k / 2 % 2 == 0 ? "Max" : "Average";
            char op[32];

            snprintf(op, sizeof op, "%s%.*s", kind, (int)strcspn(windows[i], "("), windows[i]);
            if (k % 2 == 0)
                snprintf(script, sizeof script, "x : 2,%d,5,9,33\na = Tanh(x)\ny = %s%s\n-> y", channels[k / 4], kind,
                         windows[i]);
            else
                snprintf(script, sizeof script,
                         "x : 2,5,9,33,%d\na = Transpose(x) perm=0,4,1,2,3\nb = %s%s\ny = Transpose(b) "
                         "perm=0,2,3,4,1\n-> y",
                         channels[k / 4], kind, windows[i]);
            compare_expect(&(compare_case){ op, script }, 19, NULL);
        }
    for (int pads = 0; pads < 2; pads++) { /* any numbers: maxima of planes that contain NaN and infinities */
        snprintf(script, sizeof script,
                 "x : 2,16,4,9,12\na = Log(x)\ny = MaxPool(a) kernel_shape=2,3,2 pads=1,%d,1,0,1,%d\nt = Transpose(a) "
                 "perm=0,4,2,3,1\nz = MaxPool(t) kernel_shape=2,3,2\n-> y, z",
                 pads, pads);
        compare_expect(&(compare_case){ "MaxPool", script }, 19, NULL);
    }
}

/* Row-major images, whose size is even or odd, with windows of 2x2 inside them and across their sides. */
static void squares(void **state)
{
    static const int sizes[][2] = { { 2, 2 }, { 3, 3 }, { 5, 33 }, { 8, 64 }, { 6, 131 }, { 4, 38 } };
    static const char *const pads[] = { "", "ceil_mode=1", "pads=1,1,0,0", "count_include_pad=1 pads=0,0,1,1" };
    char script[200];

    (void)state;
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint32_t k = 0; k < sizeof pads / sizeof pads[0]; k++) {
            snprintf(script, sizeof script, "x : 2,5,%d,%d\ny = AveragePool(x) kernel_shape=2,2 strides=2,2 %s\n-> y",
                     sizes[i][0], sizes[i][1], pads[k]);
            compare_expect(&(compare_case){ "AveragePool", script }, 19, NULL);
            if (k > 0)
                continue;
            /* the logarithm of negative numbers is NaN */
            snprintf(script, sizeof script,
                     "x : 2,5,%d,%d\na = Log(x)\ny = MaxPool(x) kernel_shape=2,2 strides=2,2\n"
                     "z = MaxPool(a) kernel_shape=2,2 strides=2,2\n-> y, z",
                     sizes[i][0], sizes[i][1]);
            compare_expect(&(compare_case){ "MaxPool", script }, 19, NULL);
        }
}

/* Random windows of row-major images and volumes of few pixels, and of some more. */
static void small_planes(void **state)
{
    uint64_t seed = 4711;
    char script[256];

    (void)state;
    for (uint32_t i = 0; i < 64; i++) {
        int kernel[3], step[3], begin[3], end[3], in[3];
        const bool maximum = i % 2 == 0;

        for (int axis = 0; axis < 3; axis++) {
            kernel[axis] = (int)random_between(&seed, 1, axis == 0 ? 3 : 4);
            step[axis] = (int)random_between(&seed, 1, 3);
            begin[axis] = (int)random_between(&seed, 0, kernel[axis] - 1);
            end[axis] = (int)random_between(&seed, 0, kernel[axis] - 1);
            in[axis] = kernel[axis] + (int)random_between(&seed, 0, axis == 0 ? 3 : i % 3 == 0 ? 90 : 30);
        }
        if (i / 2 % 2 == 0)
            snprintf(script, sizeof script,
                     "x : 1,3,%d,%d\ny = %sPool(x) kernel_shape=%d,%d strides=%d,%d pads=%d,%d,%d,%d %s\n-> y", in[1],
                     in[2], maximum ? "Max" : "Average", kernel[1], kernel[2], step[1], step[2], begin[1], begin[2],
                     end[1], end[2], maximum || i / 4 % 2 == 0 ? "ceil_mode=1" : "count_include_pad=1");
        else
            snprintf(script, sizeof script,
                     "x : 1,3,%d,%d,%d\ny = %sPool(x) kernel_shape=%d,%d,%d strides=%d,%d,%d pads=%d,%d,%d,%d,%d,%d "
                     "%s\n-> y",
                     in[0], in[1], in[2], maximum ? "Max" : "Average", kernel[0], kernel[1], kernel[2], step[0],
                     step[1], step[2], begin[0], begin[1], begin[2], end[0], end[1], end[2],
                     maximum || i / 4 % 2 == 0 ? "ceil_mode=1" : "count_include_pad=1");
        compare_expect(&(compare_case){ maximum ? "MaxPool" : "AveragePool", script }, 19, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resize),       cmocka_unit_test(resize_unsupported),
        cmocka_unit_test(transposed),   cmocka_unit_test(computed_weights),
        cmocka_unit_test(prelu),        cmocka_unit_test(views),
        cmocka_unit_test(means),        cmocka_unit_test(pools),
        cmocka_unit_test(squares),      cmocka_unit_test(volumes),
        cmocka_unit_test(small_planes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
