/* Layers with every precision, known and unknown sizes, and many numbers of channels: a session runs all sizes,
 * whatever kernels its weights were packed for before, and the results are those of the reference.
 *
 *     test_cpu_precisions [all]       all numbers of channels from 1 to 64 */
#include "compare.h"

static bool all_channels;

static char script[1 << 19];
static size_t used;
static uint64_t seed = 3;

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    used += (size_t)vsnprintf(script + used, sizeof script - used, format, list);
    va_end(list);
    assert_true(used < sizeof script);
}

/* Adds a constant of small integers; zeros: all are 0. */
static void add_codes(const char *name, const char *type, const char *shape, int count, bool zeros)
{
    add("%s = %s[%s] ", name, type, shape);
    for (int i = 0; i < count; i++)
        add("%s%d", i > 0 ? "," : "", zeros ? 0 : (int)random_below(&seed, 100));
    add("\n");
}

static void add_image(int channels, bool known)
{
    add(known ? "x : 1,%d,14,14\n" : "x : 1,%d,H,W\n", channels);
}

static void conv(int channels, bool known)
{
    add_image(channels, known);
    add("w = [%d,%d,3,3]\nv = [16,%d,3,3]\na = Conv(x, w) pads=1,1,1,1\ny = Conv(a, v) pads=1,1,1,1\n", channels,
        channels, channels);
}

static void pointwise(int channels, bool known)
{
    add_image(channels, known);
    add("w = [64,%d,1,1]\nb = [64]\na = Conv(x, w, b)\ny = Relu(a)\n", channels);
}

static void depthwise(int channels, bool known)
{
    add_image(channels, known);
    add("w = [%d,1,3,3]\nv = [64,%d,1,1]\na = Conv(x, w) pads=1,1,1,1 group=%d\ny = Conv(a, v)\n", channels, channels,
        channels);
}

static void wide_conv(int channels, bool known)
{
    add_image(channels, known);
    add("w = [8,%d,9,9]\ny = Conv(x, w) pads=4,4,4,4\n", channels);
}

static void transposed(int channels, bool known)
{
    add_image(channels, known);
    add("w = [%d,16,4,4]\ny = ConvTranspose(x, w) strides=2,2 pads=1,1,1,1\n", channels);
}

static void half_conv(int channels, bool known)
{
    char shape[32];

    (void)snprintf(shape, sizeof shape, "32,%d,3,3", channels);
    add_image(channels, known);
    add_codes("h", "float16", shape, 32 * channels * 9, false); /* the bits of denormals */
    add("f = Cast(h) to=1\ns = [] 32768\nw = Mul(f, s)\ny = Conv(x, w) pads=1,1,1,1\n");
}

static void low_bit_conv(int channels, bool known)
{
    char shape[32];

    (void)snprintf(shape, sizeof shape, "32,%d,3,3", channels);
    add_image(channels, known);
    add_codes("q", "int8", shape, 32 * channels * 9, false);
    add_codes("z", "int8", "32", 32, false);
    add("s = [32]\nw = DequantizeLinear(q, s, z) axis=0\ny = Conv(x, w) pads=1,1,1,1\n");
}

static void gemm(int channels, bool known)
{
    add(known ? "x : 12,%d\n" : "x : N,%d\n", channels);
    add("w = [96,%d]\nb = [96]\ny = Gemm(x, w, b) transB=1\n", channels);
}

static void low_bit(int channels, bool known)
{
    char shape[32];

    (void)snprintf(shape, sizeof shape, "%d,96", channels);
    add(known ? "x : 12,%d\n" : "x : N,%d\n", channels);
    add_codes("q", "uint8", shape, channels * 96, false);
    add("s = [96]\nw = DequantizeLinear(q, s) axis=1\ny = MatMul(x, w)\n");
}

static void n_bits(int channels, bool known)
{
    const int blocks = (channels + 31) / 32;
    char shape[32];

    (void)snprintf(shape, sizeof shape, "64,%d,16", blocks);
    add(known ? "x : 12,%d\n" : "x : N,%d\n", channels);
    add_codes("q", "uint8", shape, 64 * blocks * 16, false);
    add("s = [%d]\ny = ms.MatMulNBits(x, q, s) K=%d N=64 bits=4 block_size=32\n", 64 * blocks, channels);
}

static void add_quantized_input(void)
{
    add("xs = [] 0.05\nxz = uint8[] 128\nxq = QuantizeLinear(x, xs, xz)\nys = [] 20.0\nyz = uint8[] 100\n");
}

static void quantized_conv(int channels, bool known)
{
    char shape[32];

    (void)snprintf(shape, sizeof shape, "48,%d,3,3", channels);
    add_image(channels, known);
    add_quantized_input();
    add_codes("w", "int8", shape, 48 * channels * 9, false);
    add_codes("wz", "int8", "48", 48, true);
    add_codes("b", "int32", "48", 48, false);
    add("ws = [48]\nyq = QLinearConv(xq, xs, xz, w, ws, wz, ys, yz, b) pads=1,1,1,1\n"
        "y = DequantizeLinear(yq, ys, yz)\n");
}

static void quantized_depthwise(int channels, bool known)
{
    char shape[32];

    (void)snprintf(shape, sizeof shape, "%d,1,3,3", channels);
    add_image(channels, known);
    add_quantized_input();
    add_codes("w", "uint8", shape, channels * 9, false);
    add("ws = [] 0.1\nwz = uint8[] 20\n"
        "yq = QLinearConv(xq, xs, xz, w, ws, wz, ys, yz) pads=1,1,1,1 group=%d\ny = DequantizeLinear(yq, ys, yz)\n",
        channels);
}

static void quantized_matrix(int channels, bool known)
{
    char shape[32];

    (void)snprintf(shape, sizeof shape, "%d,128", channels);
    add(known ? "x : 12,%d\n" : "x : N,%d\n", channels);
    add_quantized_input();
    add_codes("w", "uint8", shape, channels * 128, false);
    add("ws = [] 0.1\nwz = uint8[] 50\nyq = QLinearMatMul(xq, xs, xz, w, ws, wz, ys, yz)\n"
        "y = DequantizeLinear(yq, ys, yz)\n");
}

static void dynamic_matrix(int channels, bool known)
{
    char shape[32];

    (void)snprintf(shape, sizeof shape, "%d,1200", channels);
    add(known ? "x : 12,%d\n" : "x : N,%d\n", channels);
    add_codes("w", "int8", shape, channels * 1200, false);
    add("ws = [1200]\nxq, xs, xz = DynamicQuantizeLinear(x)\np = MatMulInteger(xq, w, xz)\nf = Cast(p) to=1\n"
        "s = Mul(ws, xs)\ny = Mul(f, s)\n");
}

static const struct layer {
    const char *name;
    void (*write)(int channels, bool known);
    bool image;
} layers[] = {
    { "conv", conv, true },
    { "pointwise", pointwise, true },
    { "depthwise", depthwise, true },
    { "wide_conv", wide_conv, true },
    { "transposed", transposed, true },
    { "half_conv", half_conv, true },
    { "low_bit_conv", low_bit_conv, true },
    { "gemm", gemm, false },
    { "low_bit", low_bit, false },
    { "n_bits", n_bits, false },
    { "quantized_conv", quantized_conv, true },
    { "quantized_depthwise", quantized_depthwise, true },
    { "quantized_matrix", quantized_matrix, false },
    { "dynamic_matrix", dynamic_matrix, false },
};

static struct rig open_with(const char *providers, const char *precision, const struct layer *layer, int channels)
{
    struct wire wire = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    script_model(&wire, 21, script);
    if (rig_try_open(&wire,
                     (const char *const[]){ "providers", providers, "policy", "priority", "intra_threads", "1",
                                            "cache_dir", "", "precision", precision, NULL },
                     &rig, &diag) != INLAY_OK)
        fail_msg("%s of %d channels, precision %s: %s", layer->name, channels, precision, diag.text);
    return rig;
}

/* Results of 16-bit activations and of Winograd's algorithm without its check differ by the largest element. */
static void compare(const struct rig *got, const struct rig *want, const char *precision, const struct layer *layer,
                    int channels, int64_t size)
{
    const inlay_value *a = inlay_context_output(got->context, 0), *b = inlay_context_output(want->context, 0);
    const float *x = inlay_value_data(a), *y = inlay_value_data(b);
    const float share = strcmp(precision, "f32") == 0 || strcmp(precision, "strict") == 0 ? 2e-5f : 2e-2f;
    const float step = strncmp(layer->name, "quantized", 9) == 0 ? 20.0f : 0; /* of QuantizeLinear */
    float peak = 1e-3f;

    assert_int_equal(inlay_value_bytes(a), inlay_value_bytes(b));
    for (int64_t i = 0; i < inlay_value_count(b); i++)
        peak = fmaxf(peak, fabsf(y[i]));
    for (int64_t i = 0; i < inlay_value_count(b); i++)
        if (!(fabsf(x[i] - y[i]) <= share * peak + 1.01f * step))
            fail_msg("%s of %d channels, precision %s, size %lld: element %lld is %g, not %g", layer->name, channels,
                     precision, (long long)size, (long long)i, (double)x[i], (double)y[i]);
}

static void check_layer(const struct layer *layer, int channels, bool known)
{
    static const char *const precisions[] = { "f32", "fast", "reduced", "strict" };
    static const int64_t sizes[] = { 14, 5, 33, 1 };
    struct rig want;

    used = 0;
    layer->write(channels, known);
    add("-> y");
    want = open_with("reference", "strict", layer, channels);
    for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++) {
        struct rig got = open_with("cpu,reference", precisions[p], layer, channels);
        inlay_diag diag = INLAY_DIAG_INIT;

        for (size_t i = 0; i < (known ? 1 : sizeof sizes / sizeof *sizes); i++) {
            script_feed_sized(&got, sizes[i], 1, 0);
            script_feed_sized(&want, sizes[i], 1, 0);
            if (inlay_context_run(got.context, NULL, &diag) != INLAY_OK)
                fail_msg("%s of %d channels, precision %s, size %lld: %s", layer->name, channels, precisions[p],
                         (long long)sizes[i], diag.text);
            rig_run(&want);
            compare(&got, &want, precisions[p], layer, channels, sizes[i]);
        }
        rig_close(&got);
    }
    rig_close(&want);
}

static void every_precision(void **state)
{
    static const int few[] = { 3, 8, 16, 17, 32, 64 };

    (void)state;
    for (size_t l = 0; l < sizeof layers / sizeof *layers; l++)
        for (int i = 0; i < (all_channels ? 64 : (int)(sizeof few / sizeof *few)); i++)
            for (int known = 0; known < 2; known++)
                if (random_takes(l + (size_t)i + (size_t)known))
                    check_layer(&layers[l], all_channels ? i + 1 : few[i], known != 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_precision) };

    all_channels = argc > 1 && strcmp(argv[1], "all") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
