/* Pass quantized_ops queries the providers before it creates an operator on integers; quantized_functions expands
 * those of com.microsoft. */
#include "rewrite_rows.h"
#include <math.h>

#define CONSTANTS "sc = [] 0.05\nze = [] 0.0\nz8 = Cast(ze) to=3\nzu = Cast(ze) to=2\n"
#define WEIGHTS(shape) "f = " shape "\nw = QuantizeLinear(f, sc, z8)\nwd = DequantizeLinear(w, sc, z8)\n"
#define INPUT "q = QuantizeLinear(x, sc, zu)\nd = DequantizeLinear(q, sc, zu)\n"
/* A convolution of 4 channels, weights [4, 4 / group, 3, 3], between QuantizeLinear and DequantizeLinear. */
#define CONV(group, weights)                                                                                           \
    "x : 1,4,6,6\n" CONSTANTS WEIGHTS(weights) INPUT                                                                   \
        "c = Conv(d, wd) group=" group "\n"                                                                            \
        "p = QuantizeLinear(c, sc, zu)\ny = DequantizeLinear(p, sc, zu)\n-> y"
#define PRODUCT(terms) "x : 3," terms "\n" CONSTANTS WEIGHTS("[" terms ",5]") INPUT "y = MatMul(d, wd)\n-> y"

static void expect_ops_of(int64_t opset, const char *script, const char *const *options, const char *want)
{
    const struct row row = { want, script, want, opset };
    struct rig rig = open_row(&row, options);
    char ops[512];

    list_ops(rig.session->model->main, ops, sizeof ops);
    if (strcmp(ops, want) != 0)
        fail_msg("the operators are '%s', expected '%s'", ops, want);
    rig_close(&rig);
}

static void expect_ops(const char *script, const char *const *options, const char *want)
{
    expect_ops_of(0, script, options, want);
}

static void queries_each(void **state)
{
    static const char *const levels[] = { "0", "99" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *const options[] = { "plugin_dirs", INTEGERS_DIR, "providers", "integers,reference",
                                        "level",       levels[i],    NULL };

        expect_ops(CONV("1", "[4,4,3,3]"), options, "QuantizeLinear QLinearConv DequantizeLinear");
        expect_ops(CONV("2", "[4,2,3,3]"), options,
                   i == 0 ? "DequantizeLinear QuantizeLinear DequantizeLinear Conv QuantizeLinear DequantizeLinear"
                          : "QuantizeLinear DequantizeLinear Conv QuantizeLinear DequantizeLinear");
        expect_ops(PRODUCT("16"), options, "QuantizeLinear MatMulInteger Cast Mul");
        expect_ops(PRODUCT("17"), options,
                   i == 0 ? "DequantizeLinear QuantizeLinear DequantizeLinear MatMul"
                          : "QuantizeLinear DequantizeLinear MatMul");
    }
}

/* MaxPool runs on int8 after an int8 convolution if intermediate values have no other consumer. */
static void pools_bytes(void **state)
{
    static const char *const asked[] = { "plugin_dirs", INTEGERS_DIR, "providers", "integers,reference", NULL };

    (void)state;
#define POOLED(between, out)                                                                                           \
    "x : 1,4,6,6\n" CONSTANTS WEIGHTS("[4,4,3,3]") INPUT                                                               \
        "c = Conv(d, wd)\n" between "p = QuantizeLinear(m, sc, zu)\ny = DequantizeLinear(p, sc, zu)\n-> y" out
    expect_ops(POOLED("r = Relu(c)\nm = MaxPool(r) kernel_shape=2,2 strides=2,1 pads=1,0,0,1\n", ""), asked,
               "QuantizeLinear QLinearConv MaxPool DequantizeLinear");
    expect_ops(POOLED("m = MaxPool(c) kernel_shape=2,2\n", ""), asked,
               "QuantizeLinear QLinearConv MaxPool DequantizeLinear");
    expect_ops(POOLED("r = Relu(c)\nm = MaxPool(r) kernel_shape=2,2\n", ", r"), asked,
               "QuantizeLinear DequantizeLinear Conv Relu MaxPool QuantizeLinear DequantizeLinear");
    expect_ops(POOLED("r = Exp(c)\nm = MaxPool(r) kernel_shape=2,2\n", ""), asked,
               "QuantizeLinear DequantizeLinear Conv Exp MaxPool QuantizeLinear DequantizeLinear");
#undef POOLED
    /* likewise after DequantizeLinear */
    expect_ops("x : 1,4,6,6\n" CONSTANTS INPUT "m = MaxPool(d) kernel_shape=2,2\np = QuantizeLinear(m, sc, zu)\n"
               "y = DequantizeLinear(p, sc, zu)\n-> y",
               asked, "QuantizeLinear MaxPool DequantizeLinear");
}

/* Without a provider that is faster on integers, the pass does nothing unless it is requested by name. */
static void unwanted_integers(void **state)
{
    (void)state;
    expect_ops(CONV("1", "[4,4,3,3]"), (const char *const[]){ "providers", "reference", NULL },
               "QuantizeLinear DequantizeLinear Conv QuantizeLinear DequantizeLinear");
    expect_ops(CONV("2", "[4,2,3,3]"), (const char *const[]){ "providers", "reference", "pass", "quantized_ops", NULL },
               "QuantizeLinear QLinearConv DequantizeLinear");
}

/* Convolutions with float results; weights that fit into int8 after subtracting their zero points, and others. */
static void float_results(void **state)
{
    static const char *const by_name[] = { "providers", "reference", "pass", "quantized_ops", NULL };
    static const char *const asked[] = { "plugin_dirs", INTEGERS_DIR, "providers", "integers,reference", NULL };

    (void)state;
#define FLOATS(weights, bias) "x : 1,4,6,6\n" CONSTANTS "st = [] 0.0001\n" weights INPUT "y = Conv(d, wd" bias ")\n-> y"
    expect_ops(FLOATS(WEIGHTS("[4,4,3,3]"), ""), by_name, "QuantizeLinear ConvInteger Cast Mul");
    expect_ops(FLOATS(WEIGHTS("[4,4,3,3]") "b = [4]\n", ", b"), by_name, "QuantizeLinear ConvInteger Cast Mul Add");
    expect_ops(FLOATS("f = [4,4,3,3]\nw = QuantizeLinear(f, sc, zu)\nwd = DequantizeLinear(w, sc, zu)\n", ""), by_name,
               "QuantizeLinear ConvInteger Cast Mul");
    expect_ops(FLOATS("f = [4,4,3,3]\nw = QuantizeLinear(f, st, zu)\nwd = DequantizeLinear(w, st, zu)\n", ""), by_name,
               "QuantizeLinear ConvInteger Cast Mul ConvInteger Cast Mul Add");
    expect_ops(FLOATS(WEIGHTS("[4,4,3,3]"), ""), asked, "QuantizeLinear DequantizeLinear Conv");
#undef FLOATS
}

#define HALF "x : 3,4\nh = Cast(x) to=10\nf = [4,5]\nw = Cast(f) to=10\n"

/* Matrix multiplications in float16 and the pointwise operators after them become float32 if a provider is faster in
 * float32. */
static void float16_multiplications(void **state)
{
    static const char *const beside[] = { "plugin_dirs", INTEGERS_DIR, "providers", "integers,reference", NULL };
    static const char *const alone[] = { "providers", "reference", NULL };
    static const char *const never[] = { "plugin_dirs", INTEGERS_DIR,   "providers", "integers,reference",
                                         "no_pass",     "widen_halves", NULL };
    static const char two[] = HALF "m = MatMul(h, w)\nr = Relu(m)\na = Add(r, r)\ny = Cast(a) to=1\n-> y";

    (void)state;
    expect_ops(two, beside, "Cast Cast MatMul Relu Add Cast Cast");
    expect_ops(two, alone, "Cast MatMul Relu Add Cast");
    expect_ops(two, never, "Cast MatMul Relu Add Cast");
    /* values with two consumers and outputs are converted back; pointwise operators that do not follow a matrix
     * multiplication do not change */
    expect_ops(HALF "m = MatMul(h, w)\nr = Relu(m)\ny = Cast(m) to=1\nz = Cast(r) to=1\n-> y, z", beside,
               "Cast Cast MatMul Cast Relu Cast Cast Cast");
    expect_ops("x : 3,4\nh = Cast(x) to=10\nr = Relu(h)\ny = Cast(r) to=1\n-> y", beside, "Cast Relu Cast");
    expect_ops("x : 1,2,5,5\nh = Cast(x) to=10\nf = [3,2,3,3]\nw = Cast(f) to=10\nc = Conv(h, w)\n"
               "t = Transpose(c) perm=0,2,3,1\ny = Cast(t) to=1\n-> y",
               beside, "Cast Cast Conv Transpose Cast Cast");
}

/* Low-bit weights with float16 scales get float32 scales at every level, and their matrix multiplications become
 * float32, also across a Cast in either direction. */
static void float16_scales(void **state)
{
    static const char *const levels[] = { "0", "1", "99" };

    (void)state;
#define WEIGHTS_16                                                                                                     \
    "x : 3,4\n" CONSTANTS                                                                                              \
    "f = [4,5]\nw = QuantizeLinear(f, sc, z8)\ns = Cast(sc) to=10\nd = DequantizeLinear(w, s, z8)\n"
    for (int i = 0; i < 3; i++) {
        const char *const options[] = { "plugin_dirs", INTEGERS_DIR, "providers", "integers,reference",
                                        "level",       levels[i],    NULL };

        expect_ops_of(21, WEIGHTS_16 "h = Cast(x) to=10\nm = MatMul(h, d)\ny = Cast(m) to=1\n-> y", options,
                      i == 0 ? "Cast Cast DequantizeLinear MatMul Cast Cast" : "Cast Cast MatMul Cast Cast");
        expect_ops_of(21, WEIGHTS_16 "c = Cast(d) to=1\ny = MatMul(x, c)\n-> y", options,
                      i == 0 ? "DequantizeLinear MatMul" : "MatMul");
    }
#undef WEIGHTS_16
}

/* A matrix multiplication whose result exceeds float16 and is scaled down afterwards gives no infinity. */
static void no_overflow(void **state)
{
    static const char script[] = "x : 2,300\nk = [] 300\nb = Mul(x, k)\nh = Cast(b) to=10\nt = Transpose(h)\n"
                                 "s = [] 0.0001\nsh = Cast(s) to=10\nm = MatMul(h, t)\nu = Mul(m, sh)\n"
                                 "y = Cast(u) to=1\n-> y";
    const struct row row = { "halves", script, NULL, 0 };
    bool finite[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *const options[] = {
            "plugin_dirs",  INTEGERS_DIR, "providers", "integers,reference", i == 0 ? "no_pass" : NULL,
            "widen_halves", NULL
        };
        struct rig rig = open_row(&row, options);
        const float *output;

        script_feed(&rig, 3);
        rig_run(&rig);
        output = inlay_value_data(inlay_context_output(rig.context, 0));
        finite[i] = isfinite(output[0]) && isfinite(output[3]);
        rig_close(&rig);
    }
    assert_false(finite[0]);
    assert_true(finite[1]);
}

/* Two int8 tensors, scales, zero points; the result p has scale s3 and zero point z3. */
#define CONTRIBUTED                                                                                                    \
    "x : 2,4,6,6\nx2 : 1,4,1,1\ns1 = [] 0.05\ns2 = [] 0.03\ns3 = [] 0.07\nf1 = [] 90\nf2 = [] 120\nf3 = [] 100\n"      \
    "z1 = Cast(f1) to=2\nz2 = Cast(f2) to=2\nz3 = Cast(f3) to=2\nq = QuantizeLinear(x, s1, z1)\n"                      \
    "r = QuantizeLinear(x2, s2, z2)\n"
#define SPELLED CONTRIBUTED "d = DequantizeLinear(q, s1, z1)\ne = DequantizeLinear(r, s2, z2)\n"
#define END "y = DequantizeLinear(p, s3, z3)\n-> y"
#define ENDS "p = QuantizeLinear(a, s3, z3)\n" END

static void expect_same_outputs(const char *ours, const char *spelled, const char *providers, const char *level)
{
    const char *const options[] = { "providers", providers, "level", level, NULL };
    struct rig rig[2];

    for (int i = 0; i < 2; i++) {
        const struct row one = { ours, i == 0 ? ours : spelled, NULL, 0 };

        rig[i] = open_row(&one, options);
        script_feed(&rig[i], 11);
        rig_run(&rig[i]);
    }
    {
        inlay_value *got = inlay_context_output(rig[0].context, 0), *want = inlay_context_output(rig[1].context, 0);

        assert_int_equal(inlay_value_bytes(got), inlay_value_bytes(want));
        if (memcmp(inlay_value_data(got), inlay_value_data(want), inlay_value_bytes(got)) != 0)
            fail_msg("results differ at level %s from the expanded functions, in\n%s", level, ours);
    }
    rig_close(&rig[0]);
    rig_close(&rig[1]);
}

static void contributed(void **state)
{
    static const char *const rows[][2] = {
        { CONTRIBUTED "p = ms.QLinearAdd(q, s1, z1, r, s2, z2, s3, z3)\n" END, SPELLED "a = Add(d, e)\n" ENDS },
        { CONTRIBUTED "p = ms.QLinearMul(r, s2, z2, q, s1, z1, s3, z3)\n" END, SPELLED "a = Mul(e, d)\n" ENDS },
        { CONTRIBUTED "p = ms.QLinearSigmoid(q, s1, z1, s3, z3)\n" END, SPELLED "a = Sigmoid(d)\n" ENDS },
        { CONTRIBUTED "p = ms.QLinearLeakyRelu(q, s1, z1, s3, z3) alpha=0.3\n" END,
          SPELLED "a = LeakyRelu(d) alpha=0.3\n" ENDS },
        { CONTRIBUTED "p = ms.QLinearSoftmax(q, s1, z1, s3, z3) axis=1 opset=13\n" END,
          SPELLED "a = Softmax(d) axis=1\n" ENDS },
        { CONTRIBUTED "p = ms.QLinearAveragePool(q, s1, z1, s3, z3) kernel_shape=2,2 strides=2,1\n" END,
          SPELLED "a = AveragePool(d) kernel_shape=2,2 strides=2,1\n" ENDS },
        { CONTRIBUTED "p = ms.QLinearGlobalAveragePool(q, s1, z1, s3, z3) channels_last=0\n" END,
          SPELLED "a = GlobalAveragePool(d)\n" ENDS },
        { CONTRIBUTED "p = ms.QLinearReduceMean(q, s1, z1, s3, z3) axes=2, keepdims=0\n" END,
          SPELLED "a = ReduceMean(d) axes=2, keepdims=0\n" ENDS },
        { CONTRIBUTED "c = Greater(x, x2)\np = ms.QLinearWhere(c, q, s1, z1, r, s2, z2, s3, z3)\n" END,
          SPELLED "c = Greater(x, x2)\na = Where(c, d, e)\n" ENDS },
        { CONTRIBUTED "p = ms.QLinearConcat(s3, z3, q, s1, z1, q, s1, z1) axis=1\n" END,
          SPELLED "a = Concat(d, d) axis=1\n" ENDS },
        { CONTRIBUTED "g = Flatten(r)\nw = [3,4]\nu = QuantizeLinear(w, s2, z2)\n"
                      "p = ms.QGemm(g, s2, z2, u, s2, z2, _, s3, z3) transB=1\n" END,
          SPELLED "g = Flatten(e)\nw = [3,4]\nu = QuantizeLinear(w, s2, z2)\nv = DequantizeLinear(u, s2, z2)\n"
                  "a = Gemm(g, v) transB=1\n" ENDS },
        { CONTRIBUTED "g = Flatten(r)\nw = [4,3]\nu = QuantizeLinear(w, s2, z2)\nfb = [3] 100,-200,300\n"
                      "b = Cast(fb) to=6\ny = ms.QGemm(g, s2, z2, u, s2, z2, b)\n-> y",
          CONTRIBUTED "g = Flatten(r)\nw = [4,3]\nu = QuantizeLinear(w, s2, z2)\nfb = [3] 100,-200,300\n"
                      "b = Cast(fb) to=6\nm = MatMulInteger(g, u, z2, z2)\nn = Add(m, b)\nf = Cast(n) to=1\n"
                      "s5 = Mul(s2, s2)\ny = Mul(f, s5)\n-> y" }, /* exact sums */
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect_same_outputs(rows[i][0], rows[i][1], "reference", "0");
        expect_same_outputs(rows[i][0], rows[i][1], "reference", "99");
    }
    expect_ops(rows[0][0], (const char *const[]){ "providers", "reference", NULL },
               "QuantizeLinear QuantizeLinear DequantizeLinear DequantizeLinear Add QuantizeLinear DequantizeLinear");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(queries_each),      cmocka_unit_test(pools_bytes),
                                        cmocka_unit_test(unwanted_integers), cmocka_unit_test(float_results),
                                        cmocka_unit_test(contributed),       cmocka_unit_test(float16_multiplications),
                                        cmocka_unit_test(float16_scales),    cmocka_unit_test(no_overflow) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
