/* Cases that random tests found: shapes whose layout is ambiguous, or that a library treats differently, empty tensors,
 * operands of mismatched shapes. */
#define COMPARE_TOLERANCE 4e-6f
#include "compare.h"
#include "loops.h"

static void expect_all(const char *const *scripts, size_t count, int64_t opset, void (*feed)(struct rig *rig))
{
    for (size_t i = 0; i < count; i++)
        compare_expect(&(compare_case){ NULL, scripts[i] }, opset, feed);
}
#define EXPECT_ALL(scripts, opset, feed) expect_all(scripts, sizeof(scripts) / sizeof *(scripts), opset, feed)

/* Blocks of 8 channels: the output of a convolution with few channels a group. */
static void blocks_of_8(void **state)
{
    static const char *const scripts[] = {
        "x : 1,3,20\nw = [24,1,3]\na = Conv(x, w) group=3 pads=1,1\nb = Mul(a, a)\ny = Relu(b)\n-> a, y",
        "x : 2,3,9,7\nw = [24,1,3,3]\nc = [24,1,1]\na = Conv(x, w) group=3 pads=1,1,1,1\nb = Add(a, a)\n"
        "d = Mul(b, c)\ny = Tanh(d)\n-> a, y",
    };

    (void)state;
    EXPECT_ALL(scripts, 13, NULL);
}

/* The same function twice in an epilogue, with different parameters. */
static void repeated_functions(void **state)
{
    static const char *const scripts[] = {
        "x : 2,24,7,5\nw = [24,1,3,3]\na = Conv(x, w) group=24 pads=1,1,1,1\nb = HardSigmoid(a) alpha=0.3\ny = Neg(b)\n"
        "-> y",
        "x : 2,24,7,5\nw = [24,12,1,1]\na = Conv(x, w) group=2\nb = LeakyRelu(a) alpha=0.2\ny = Relu(b)\n-> y",
        "x : 2,24,7,5\nl = [] -0.7\nh = [] 1.3\na = Mul(x, x)\nb = Neg(a)\nc = Clip(b, l, h)\ny = HardSigmoid(c)\n"
        "-> y",
        "x : 2,24,7,5\na = Mul(x, x)\nb = HardSigmoid(a)\ny = Sub(x, b)\n-> y",
    };

    (void)state;
    EXPECT_ALL(scripts, 13, NULL);
}

/* Images of one pixel: their strides do not show whether the layout is channels last. */
static void one_pixel(void **state)
{
    static const char *const scripts[] = {
        "x : 2,32,1,1\nc = [1,32,1,1]\na = Add(x, x)\ny = Max(a, c)\n-> y",
        "x : 2,32,1,1\nz : 2,32,1,1\nc = [32,1,1]\na = Mul(x, z)\ny = Add(a, c)\n-> y",
        "x : 2,40,1\nc = [40,1]\na = Min(x, x)\ny = Div(a, c)\n-> y",
        "x : 8,3,1,1,1\nc = [1,3,1,1,1]\na = Add(x, x)\ny = Mul(a, c)\n-> y",
        "x : 1,32,1,1\nz : 1,32,1,1\nw = [32,1,3,3]\na = Conv(x, w) group=32 pads=1,1,1,1\ny = Mul(a, z)\n-> y",
        "x : 40,1\ns = i[2] -27,-3\ne = i[2] -5,100\na = i[2] 0,1\nt = i[2] 1,2\nb = Slice(x, s, e, a, t)\n"
        "c = Relu(b)\nd = Transpose(c)\ny = MatMul(c, d)\n-> y",
        "x : 2,64\nc = [1,2]\nt = Transpose(x)\na = Add(t, t)\ny = Add(c, a)\n-> y",
        "x : 1,1,20,7\nv = [5,20,1,1]\nw = [20,5,1,1]\nt = Transpose(x)\ng = GlobalAveragePool(t)\na = Conv(g, v)\n"
        "b = Conv(a, w)\ny = Mul(t, b)\n-> y",
    };

    (void)state;
    EXPECT_ALL(scripts, 13, NULL);
}

/* Steps that go past the end; the last row of such a slice seems to overlap the next one. */
static void long_steps(void **state)
{
    static const char *const scripts[] = {
        "x : 4,5,16\ns = i[1] 0\ne = i[1] 9223372036854775807\na = i[1] 1\nt = i[1] 3\nr = Relu(x)\n"
        "y = Slice(r, s, e, a, t)\nz = Add(y, y)\n-> y, z",
        "x : 4,5,16\ns = i[1] 0\ne = i[1] 100\na = i[1] 1\nt = i[1] 3\nr = Relu(x)\ny = Slice(r, s, e, a, t)\n"
        "z = Transpose(y) perm=0,2,1\nm = MatMul(y, z)\n-> m",
        "x : 4,5,16\ns = i[1] 2\ne = i[1] 100\na = i[1] 1\nt = i[1] 9223372036854775807\nr = Relu(x)\n"
        "y = Slice(r, s, e, a, t)\n-> y",
        "x : 2,5,17,3\ns = i[2] -1,0\ne = i[2] 3,100\na = i[2] 0,2\nt = i[2] 1,3\ny = Slice(x, s, e, a, t)\n-> y",
    };

    (void)state;
    EXPECT_ALL(scripts, 13, NULL);
}

/* A copy of a transposed tensor is read again after an op that could have overwritten it. */
static void shared_copy(void **state)
{
    static const char *const scripts[] = {
        "x : 3,5,64\nc = [192]\nh = i[4] 5,2,3,32\nt = Transpose(x) perm=1,0,2\nf = Flatten(t)\na = Add(f, c)\n"
        "b = Relu(a)\ny = Reshape(t, h)\nz = Neg(y)\n-> b, z",
        "x : 3,5,64\nc = [192]\nh = i[2] 5,192\nt = Transpose(x) perm=1,0,2\nf = Reshape(t, h)\na = Softmax(f)\n"
        "b = Mul(a, c)\ny = Reshape(t, h)\nz = Exp(y)\n-> b, z",
    };

    (void)state;
    EXPECT_ALL(scripts, 13, NULL);
}

static void feed_empty(struct rig *rig)
{
    script_feed_sized(rig, 0, 1, 0);
}

static void empty_tensors(void **state)
{
    static const char *const scripts[] = {
        "x : 3,N\nt = Transpose(x)\nc = [3]\na = MatMul(x, t)\nb = Add(a, c)\ny = Relu(b)\n-> y",
        "x : 2,3,N\ny = ReduceMean(x) axes=2,\n-> y",
        "x : 2,3,N\na = i[1] 2\ny = ReduceSum(x, a) keepdims=0\n-> y",
        "x : 2,3,N,4\nw = [5,3,1,1]\nb = [5]\ng = GlobalAveragePool(x)\ny = Conv(g, w, b)\n-> y",
        "x : 2,3,N,4\nw = [5,3,2,2]\nb = [5]\ny = Conv(x, w, b) pads=2,0,1,0\nz = Relu(y)\n-> z",
        "x : 2,8,N,4\nw = [8,1,1,1]\ny = Conv(x, w) group=8 strides=3,3\n-> y",
        "x : 2,8,N,4\nw = [8,4,2,2]\ny = ConvTranspose(x, w) strides=2,2 pads=1,1,1,1\n-> y",
        "x : N,5,16\nw = [16,8]\ny = MatMul(x, w)\nz = Softmax(y)\n-> z",
        ("x : 1,4,N,4\ns = [] 0.05\nw = [5,4,3,3]\nq = QuantizeLinear(x, s)\nd = DequantizeLinear(q, s)\n"
         "v = QuantizeLinear(w, s)\nu = DequantizeLinear(v, s)\nc = Conv(d, u) pads=2,1,2,1\np = QuantizeLinear(c, s)\n"
         "y = DequantizeLinear(p, s)\n-> y"),
        "x : N,16\nk = [] 0.5\nq, s, z = DynamicQuantizeLinear(x)\ny = Mul(s, k)\n-> y",
    };
    /* no other provider takes what this one declines */
    static const char alone[] = "x : 1,3,N\nw = int8[2,3,1] 1,-2,3,127,-128,4\nq, s, z = DynamicQuantizeLinear(x)\n"
                                "i = ConvInteger(q, w, z) pads=2,2\nf = Cast(i) to=1\ny = Mul(f, s)\n-> y";
    struct rig rig;

    (void)state;
    EXPECT_ALL(scripts, 13, feed_empty);
    if (is_below_avx2())
        return; /* no kernel for ConvInteger */
    rig = compare_open(alone, 13, "cpu", "1", NULL);
    feed_empty(&rig);
    rig_run(&rig);
    rig_close(&rig);
}

/* Scale has one element for all channels. */
static void broadcast_scale(void **state)
{
    static const char *const scripts[] = {
        "x : 2,3,N\ns = [1]\nb = [1]\ny = LayerNormalization(x, s, b)\n-> y",
        "x : 2,3,16\ns = [16]\nb = [1]\ny = LayerNormalization(x, s, b)\n-> y",
        "x : 2,3,1\ns = [1]\nb = [1]\ny = LayerNormalization(x, s, b)\n-> y",
    };

    (void)state;
    EXPECT_ALL(scripts, 17, NULL);
}

/* Mismatched operands are an error of the run, with either provider; N is 3. */
static void mismatched_operands(void **state)
{
    static const char *const scripts[] = {
        "x : 2,N\ns = [16]\ny = LayerNormalization(x, s)\n-> y",
        "x : N,4\ns = [2,4]\ny = PRelu(x, s)\n-> y",
        "x : N,4\nw = [4,8]\nc = [2,1]\ny = Gemm(x, w, c)\n-> y",
        "x : 2,N,4,4\ns = [5]\ny = BatchNormalization(x, s, s, s, s)\n-> y",
        "x : 2,N,4,4\nw = [5,4,2,2]\ny = ConvTranspose(x, w)\n-> y",
        "q : N,2,4,8\nk : 5,2,4,8\na = Transpose(k) perm=0,1,3,2\nb = MatMul(q, a)\np = Softmax(b)\n-> p",
    };

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        for (int side = 0; side < 2; side++) {
            struct rig rig = compare_open(scripts[i], 17, side == 0 ? "cpu,reference" : "reference", "1", NULL);
            inlay_diag diag = INLAY_DIAG_INIT;

            script_feed(&rig, 1);
            if (inlay_context_run(rig.context, NULL, &diag) != INLAY_SHAPE_MISMATCH)
                fail_msg("the run succeeded, or failed with another status (%s):\n%s", diag.text, scripts[i]);
            rig_close(&rig);
        }
    }
}

/* A symbolic size is estimated as that of an image; the weights would then be read far beyond their end. */
static void estimated_sizes(void **state)
{
    static const char *const scripts[] = {
        "x : M,2,N,W\nw = [16,17,3,5]\nb = [17]\nt = Transpose(x) perm=1,2,0,3\ny = ConvTranspose(t, w, b)\n-> y",
        "x : M,2,N,W\nw = [17,16,3,3]\nt = Transpose(x) perm=1,2,0,3\ny = Conv(t, w) pads=1,1,1,1\n-> y",
        "x : 1,C,8,8\nw = [1000,2]\nf = Flatten(x)\ny = MatMul(f, w)\n-> y",
    };

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        struct rig rig = compare_open(scripts[i], 13, "cpu,reference", "2", NULL);

        rig_close(&rig);
    }
}

static void feed_nonfinite(struct rig *rig)
{
    script_feed_odd(rig, 11, 0.01f);
}

/* Built-in kernels keep NaN and infinity, where oneDNN's primitives may lose them. */
static void nan_and_infinity(void **state)
{
    static const char *const scripts[] = {
        "x : 1,16,24,24\nw = [32,16,1,1]\na = Conv(x, w)\ny = Relu(a)\n-> y",
        "x : 1,16,24,24\nw = [32,16,3,3]\nl = [] 0.0\nh = [] 6.0\na = Conv(x, w) strides=2,2\ny = Clip(a, l, h)\n-> y",
        "x : 40,32\nw = [32,48]\na = MatMul(x, w)\ny = Relu(a)\n-> y",
        "x : 40,32\nw = [32,48]\nl = [] -0.5\nh = [] 0.5\na = MatMul(x, w)\ny = Clip(a, l, h)\n-> y",
        "x : 1,8,9,9\nw = [8,4,2,2]\na = ConvTranspose(x, w) strides=2,2\ny = Relu(a)\n-> y",
        "x : 7,96\ng = [96]\nb = [96]\ny = LayerNormalization(x, g, b)\n-> y",
        "x : 7,96\ny = ReduceMean(x) axes=-1, keepdims=1\n-> y",
    };

    (void)state;
#ifdef __x86_64__
    if (!__builtin_cpu_supports("avx512f")) /* the built-in kernels require AVX-512 */
        skip();
#endif
    EXPECT_ALL(scripts, 17, feed_nonfinite);
}

static void feed_many_nonfinite(struct rig *rig)
{
    script_feed_odd(rig, 5, 0.05f);
}

/* Feeds rows that begin with -infinity, followed by numbers. */
static void feed_negative_infinity(struct rig *rig)
{
    for (uint32_t i = 0; i < inlay_session_input_count(rig->session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        inlay_value *value = NULL;

        (void)inlay_session_input(rig->session, i, &info);
        assert_int_equal(inlay_value_create(INLAY_FLOAT, info.rank, info.dims, &value, NULL), INLAY_OK);
        for (int64_t k = 0; k < inlay_value_count(value); k++)
            ((float *)inlay_value_data(value))[k] = k < inlay_value_count(value) / 2 ? -INFINITY : (float)(k % 13) - 5;
        rig_bind(rig, i, value);
    }
}

/* NaN and infinity on any CPU. */
static void nan_and_infinity_any_cpu(void **state)
{
    static const char *const scripts[] = {
        "x : 2,16,7,5\ny = Relu(x)\n-> y",
        "x : 2,16,7,5\ny = Exp(x)\n-> y",
        "x : 2,16,7,5\ny = Neg(x)\n-> y",
        "x : 2,16,7,5\ny = HardSigmoid(x)\n-> y",
        "x : 2,16,7,5\nl = [] -0.5\ny = Clip(x, l)\n-> y",
        "x : 2,16,7,5\nz : 2,16,7,5\ny = Max(x, z)\n-> y",
        "x : 2,16,7,5\nz : 2,16,7,5\ny = Min(x, z)\n-> y",
        "x : 2,16,7,5\nc = [16,1,1]\ny = Max(x, c)\n-> y",
        "x : 40,70\ny = Softmax(x) axis=1\n-> y",
        "x : 2,16,7,5\ny = Softmax(x) axis=1\n-> y",
        "x : 2,16,7,5\ny = Softmax(x) axis=2\n-> y",
        "x : 40,70\ny = LogSoftmax(x) axis=1\n-> y",
        "x : 2,16,9,9\ny = MaxPool(x) kernel_shape=3,3 strides=2,2 pads=1,1,1,1\n-> y",
        "x : 2,16,9,9\ny = MaxPool(x) kernel_shape=2,2\n-> y",
        "x : 2,16,9,12\ny = MaxPool(x) kernel_shape=4,3 strides=1,2 pads=0,2,3,1 dilations=2,3 ceil_mode=1\n-> y",
        "x : 2,24,9,9\nr = Relu(x)\ny = MaxPool(r) kernel_shape=5,5 pads=2,2,2,2\n-> y",
        "x : 2,3,9,9\ny = MaxPool(x) kernel_shape=3,3 pads=1,1,1,1\n-> y",
        "x : 2,3,9,99\ny = MaxPool(x) kernel_shape=9,99\n-> y",
        "x : 2,16,9,19\ny = GlobalMaxPool(x)\n-> y",
        "x : 2,3,9,19\ny = GlobalMaxPool(x)\n-> y",
        "x : 2,16,9,19\nt = Transpose(x) perm=0,3,1,2\ny = GlobalMaxPool(t)\n-> y",
    };

    (void)state;
    EXPECT_ALL(scripts, 17, feed_many_nonfinite);
    EXPECT_ALL(scripts, 17, feed_negative_infinity);
}

/* Clip with min above max, which are attributes before opset 11. */
static void crossed_bounds(void **state)
{
    static const char *const attributes[] = {
        "x : 2,16,7,5\ny = Clip(x) min=1.5 max=0.5\n-> y",
        "x : 1,16,7,5\nw = [16,16,3,3]\nc = Conv(x, w)\ny = Clip(c) min=2.0 max=1.0\n-> y",
    };
    static const char *const inputs[] = {
        "x : 2,16,7,5\nl = [] 1.5\nh = [] 0.5\ny = Clip(x, l, h)\n-> y",
        "x : 1,16,7,5\nw = [16,16,3,3]\nl = [] 2.0\nh = [] 1.0\nc = Conv(x, w)\ny = Clip(c, l, h)\n-> y",
    };

    (void)state;
    EXPECT_ALL(attributes, 7, NULL);
    EXPECT_ALL(inputs, 13, NULL);
}

/* Windows with one, two and three axes and different sides, and with kernel_shape given or derived. Those with three
 * axes run on another provider. */
static void windows(void **state)
{
    static const char *const scripts[] = {
        "x : 2,16,40\ny = MaxPool(x) kernel_shape=7, strides=2,\n-> y",
        "x : 2,5,6,7,8\ny = MaxPool(x) kernel_shape=2,3,4\n-> y",
        "x : 2,16,6,7,8\ny = MaxPool(x) kernel_shape=2,3,4 strides=1,2,2 pads=1,1,1,0,1,2\n-> y",
        "x : 2,16,6,7,8\ny = AveragePool(x) kernel_shape=2,3,4 strides=1,2,2 pads=1,1,1,0,1,2\n-> y",
        "x : 2,16,6,7,8\ny = AveragePool(x) kernel_shape=3,1,2 count_include_pad=1 pads=1,0,1,1,0,1\n-> y",
    };

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        compare_expect(&(compare_case){ i > 0 ? NULL : "MaxPool", scripts[i] }, 17, NULL);
}

/* Transposed convolutions with one channel per group and with several, with one tap per output pixel and with several,
 * in one to three axes, and with a function after them. Inputs have both signs, so Relu makes zeros. */
static void transposed(void **state)
{
    static const char *const scripts[] = {
        ("x : 2,16,7,5\nw = [16,1,3,3]\nb = [16]\na = ConvTranspose(x, w, b) group=16 strides=2,2 pads=1,1,1,1\n"
         "y = Relu(a)\n-> y"),
        "x : 2,16,7,5\nw = [16,1,2,2]\na = ConvTranspose(x, w) group=16 strides=2,2\ny = LeakyRelu(a) alpha=0.3\n-> y",
        "x : 2,16,7,5\nw = [16,1,4,4]\ny = ConvTranspose(x, w) group=16 strides=2,2 pads=1,1,1,1\n-> y",
        "x : 2,16,9\nw = [16,1,4]\nb = [16]\na = ConvTranspose(x, w, b) group=16 strides=2,\ny = Relu(a)\n-> y",
        "x : 2,16,7,5\nw = [16,8,4,4]\nb = [8]\na = ConvTranspose(x, w, b) strides=2,2 pads=1,1,1,1\ny = Relu(a)\n-> y",
        "x : 2,16,7,5\nw = [16,8,2,2]\nb = [8]\na = ConvTranspose(x, w, b) strides=2,2\ny = Relu(a)\n-> y",
        "x : 2,16,7,5\nw = [16,8,3,3]\na = ConvTranspose(x, w) dilations=2,1\ny = LeakyRelu(a) alpha=0.3\n-> y",
        "x : 2,16,7,5\nw = [16,4,3,3]\nb = [8]\na = ConvTranspose(x, w, b) group=2 strides=2,1\ny = Relu(a)\n-> y",
        "x : 1,8,4,5,3\nw = [8,6,2,3,2]\nb = [6]\na = ConvTranspose(x, w, b) strides=2,1,2\ny = Relu(a)\n-> y",
    };

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        compare_expect(&(compare_case){ "ConvTranspose", scripts[i] }, 13, NULL);
}

/* The same with sizes that are divided into several units of work: along each axis, by channels, within and between
 * groups, with windows that overlap and that do not, and with few output channels. The inputs are channels-last. */
static void transposed_units(void **state)
{
    static const char *const scripts[] = {
        ("x : 3,24,20,33\nv = [24,24,1,1]\nw = [24,150,2,2]\nb = [150]\nc = Conv(x, v)\n"
         "a = ConvTranspose(c, w, b) strides=2,2\ny = Relu(a)\n-> y"),
        ("x : 2,12,19,40\nv = [12,12,1,1]\nw = [12,72,5,4]\nc = Conv(x, v)\n"
         "a = ConvTranspose(c, w) strides=3,2 pads=2,1,0,3\ny = Relu(a)\n-> y"),
        ("x : 2,12,17,31\nv = [12,12,1,1]\nw = [12,70,3,3]\nc = Conv(x, v)\n"
         "a = ConvTranspose(c, w) dilations=3,2\ny = LeakyRelu(a) alpha=0.3\n-> y"),
        ("x : 1,30,21,20\nv = [30,30,1,1]\nw = [30,50,4,4]\nb = [150]\nc = Conv(x, v)\n"
         "a = ConvTranspose(c, w, b) group=3 strides=2,2\ny = Relu(a)\n-> y"),
        ("x : 1,30,21,20\nv = [30,30,1,1]\nw = [30,30,4,4]\nc = Conv(x, v)\n"
         "a = ConvTranspose(c, w) group=6 strides=3,3\ny = Relu(a)\n-> y"),
        ("x : 2,20,701\nv = [20,20,1]\nw = [20,96,16]\nb = [96]\nc = Conv(x, v)\n"
         "a = ConvTranspose(c, w, b) strides=8, pads=4,4\ny = Relu(a)\n-> y"),
        ("x : 2,16,60,90\nv = [16,16,1,1]\nw = [16,3,6,6]\nb = [3]\nc = Conv(x, v)\n"
         "a = ConvTranspose(c, w, b) strides=2,2 pads=2,2,2,2\ny = Relu(a)\n-> y"),
        ("x : 1,16,3001\nv = [16,16,1]\nw = [16,2,15]\nc = Conv(x, v)\n"
         "a = ConvTranspose(c, w) strides=3, dilations=2,\ny = Relu(a)\n-> y"),
        "x : 1,9,9,14,15\nw = [9,72,2,3,2]\nb = [72]\na = ConvTranspose(x, w, b) strides=2,1,2\ny = Relu(a)\n-> y",
        "x : 1,9,15,18,25\nw = [9,4,3,3,3]\na = ConvTranspose(x, w) strides=2,2,2 pads=1,1,1,1,1,1\ny = Relu(a)\n-> y",
    };

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        compare_expect(&(compare_case){ "ConvTranspose", scripts[i] }, 13, NULL);
}

/* Sizes that overflow oneDNN's integers, or for which it would run for minutes: another provider runs the node, or
 * there is an error. */
static void huge_sizes(void **state)
{
    static const char *const scripts[] = {
        "x : 2,4,10\nw = [5,4,3]\ny = Conv(x, w) pads=0,1073741824\n-> y",
        "x : 1,16,1,10\nw = [16,16,1,3]\ny = Conv(x, w) dilations=1,268435456 pads=0,0,0,536870912\n-> y",
        "x : 1,16,1,2\nw = [16,16,1,3]\ny = ConvTranspose(x, w) strides=1,1073741824\n-> y",
        "x : 1,2147483648,28,28\ny = MaxPool(x) kernel_shape=3,3 pads=2,2,2,2\n-> y",
        "x : 1,2147483648,32,2\ny = AveragePool(x) kernel_shape=2,2\n-> y",
        "x : 1,1073741824,3,3\ny = GlobalAveragePool(x)\n-> y",
        "x : 1,1,2147483648\nw = [16,1,3]\ny = Conv(x, w)\n-> y",
        "x : 1,16,67108864\nw = [16,16,3]\ny = Conv(x, w)\n-> y",
    };

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        inlay_options *options = NULL;
        inlay_session *session = NULL;
        inlay_diag diag = INLAY_DIAG_INIT;
        struct wire wire = { 0 };

        script_model(&wire, 13, scripts[i]);
        assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
        assert_int_equal(inlay_options_set(options, "providers", "cpu,reference", &diag), INLAY_OK);
        assert_int_equal(inlay_options_set(options, "policy", "priority", &diag), INLAY_OK);
        if (inlay_session_create_from_bytes(wire.bytes, wire.count, options, &session, &diag) != INLAY_OK)
            fail_msg("%s in\n%s", diag.text, scripts[i]);
        inlay_session_destroy(session);
        inlay_options_destroy(options);
        free(wire.bytes);
    }
}

/* A tensor is added to a convolution, of which some windows see padding only: the result there is the bias. With
 * constant and computed weights, and for a transposed convolution, which may also have pixels without a tap. */
static void windows_in_padding(void **state)
{
    static const char *const windows[] = { "[%d,%d,2,1]\n^pads=1,0,1,0 dilations=2,1", "[%d,%d,1,2]\n^pads=0,3,0,3",
                                           "[%d,%d,2,2]\n^pads=1,1,1,1 dilations=2,2", "[%d,%d,3,1]\n^pads=4,0,4,0" };
    static const char *const forms[] = { "c = Conv(x, w, b) %s\n", "v = Neg(w)\nc = Conv(x, v, b) %s\n" };
    static const char *const makers[] = { "Softmax", "LogSoftmax", "Relu" };
    static const int channels[][2] = { { 1, 1 }, { 1, 16 }, { 4, 4 }, { 32, 64 } };

    (void)state;
    for (size_t i = 0; i < 4 * 4 * 2 * 3 * 2; i++) {
        const int *wide = channels[i % 4], image = i / 96 == 0 ? 1 : 2;
        const char *window = windows[i / 4 % 4], *attributes = strchr(window, '^') + 1;
        char script[512], weights[32], last[80];

        (void)snprintf(weights, sizeof weights, window, wide[1], wide[0]);
        *strchr(weights, '^') = '\0';
        (void)snprintf(last, sizeof last, forms[i / 16 % 2], attributes);
        (void)snprintf(script, sizeof script,
                       "x : 1,%d,%d,%d\nw = %sb = [%d]\na = Conv(x, w) %s\ns = %s(a)\n%sy = Add(c, s)\n-> y", wide[0],
                       image, image, weights, wide[1], attributes, makers[i / 32 % 3], last);
        EXPECT_ALL(((const char *const[]){ script }), 13, NULL);
    }
    EXPECT_ALL(((const char *const[]){
                   "x : 1,16,3,3\nw = [16,32,1,1]\nb = [32]\na = ConvTranspose(x, w) strides=3,2\ns = Softmax(a)\n"
                   "c = ConvTranspose(x, w, b) strides=3,2\ny = Add(c, s)\n-> y" }),
               13, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_pixel),        cmocka_unit_test(windows_in_padding),
        cmocka_unit_test(long_steps),       cmocka_unit_test(shared_copy),
        cmocka_unit_test(empty_tensors),    cmocka_unit_test(mismatched_operands),
        cmocka_unit_test(estimated_sizes),  cmocka_unit_test(broadcast_scale),
        cmocka_unit_test(blocks_of_8),      cmocka_unit_test(repeated_functions),
        cmocka_unit_test(huge_sizes),       cmocka_unit_test(nan_and_infinity_any_cpu),
        cmocka_unit_test(crossed_bounds),   cmocka_unit_test(nan_and_infinity),
        cmocka_unit_test(windows),          cmocka_unit_test(transposed),
        cmocka_unit_test(transposed_units),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
