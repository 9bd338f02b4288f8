/* Pass quantized_ops asks the providers before it makes an operator on integers; quantized_functions spells out those
 * of com.microsoft. */
#include "rewrite_rows.h"

#define CONSTANTS "sc = [] 0.05\nze = [] 0.0\nz8 = Cast(ze) to=3\nzu = Cast(ze) to=2\n"
#define WEIGHTS(shape) "f = " shape "\nw = QuantizeLinear(f, sc, z8)\nwd = DequantizeLinear(w, sc, z8)\n"
#define INPUT "q = QuantizeLinear(x, sc, zu)\nd = DequantizeLinear(q, sc, zu)\n"
/* A convolution of 4 channels, weights [4, 4 / group, 3, 3], between Q and DQ. */
#define CONV(group, weights)                                                               \
    "x : 1,4,6,6\n" CONSTANTS WEIGHTS(weights) INPUT "c = Conv(d, wd) group=" group "\n"   \
    "p = QuantizeLinear(c, sc, zu)\ny = DequantizeLinear(p, sc, zu)\n-> y"
#define PRODUCT(terms) "x : 3," terms "\n" CONSTANTS WEIGHTS("[" terms ",5]") INPUT "y = MatMul(d, wd)\n-> y"

static void expect_ops(const char *script, const char *const *options, const char *want)
{
    const row r = { want, script, want, 0 };
    rig g = open_row(&r, options);
    char ops[512];

    list_ops(g.session->model->main, ops, sizeof ops);
    if (strcmp(ops, want) != 0)
        fail_msg("left are '%s', expected '%s'", ops, want);
    rig_close(&g);
}

static void asks_for_each(void **state)
{
    static const char *const levels[] = { "0", "99" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *const options[] = { "plugin_dirs", INTEGERS_DIR, "providers", "integers,reference", "level",
                                        levels[i], NULL };

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

/* Without a provider that wants integers, nothing is done unless somebody asks for it by name. */
static void nobody_wants_them(void **state)
{
    (void)state;
    expect_ops(CONV("1", "[4,4,3,3]"), (const char *const[]){ "providers", "reference", NULL },
               "QuantizeLinear DequantizeLinear Conv QuantizeLinear DequantizeLinear");
    expect_ops(CONV("2", "[4,2,3,3]"), (const char *const[]){ "providers", "reference", "pass", "quantized_ops", NULL },
               "QuantizeLinear QLinearConv DequantizeLinear");
}

/* ------------------------------------------------------------------ functions of com.microsoft */

/* Two tensors of bytes, scales, zero points; what follows makes bytes p with scale s3 and zero point z3. */
#define CONTRIBUTED                                                                                           \
    "x : 2,4,6,6\nx2 : 1,4,1,1\ns1 = [] 0.05\ns2 = [] 0.03\ns3 = [] 0.07\nf1 = [] 90\nf2 = [] 120\nf3 = [] 100\n" \
    "z1 = Cast(f1) to=2\nz2 = Cast(f2) to=2\nz3 = Cast(f3) to=2\nq = QuantizeLinear(x, s1, z1)\n"             \
    "r = QuantizeLinear(x2, s2, z2)\n"
#define SPELLED CONTRIBUTED "d = DequantizeLinear(q, s1, z1)\ne = DequantizeLinear(r, s2, z2)\n"
#define END "y = DequantizeLinear(p, s3, z3)\n-> y"
#define ENDS "p = QuantizeLinear(a, s3, z3)\n" END

static void expect_same_outputs(const char *ours, const char *spelled, const char *providers, const char *level)
{
    const char *const options[] = { "providers", providers, "level", level, NULL };
    rig r[2];

    for (int i = 0; i < 2; i++) {
        const row one = { ours, i == 0 ? ours : spelled, NULL, 0 };

        r[i] = open_row(&one, options);
        script_feed(&r[i], 11);
        rig_run(&r[i]);
    }
    {
        inlay_value *got = inlay_context_output(r[0].context, 0), *want = inlay_context_output(r[1].context, 0);

        assert_int_equal(inlay_value_bytes(got), inlay_value_bytes(want));
        if (memcmp(inlay_value_data(got), inlay_value_data(want), inlay_value_bytes(got)) != 0)
            fail_msg("results differ at level %s from the functions spelled out, in\n%s", level, ours);
    }
    rig_close(&r[0]);
    rig_close(&r[1]);
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
          SPELLED "g = Flatten(e)\nw = [4,3]\nu = QuantizeLinear(w, s2, z2)\nv = DequantizeLinear(u, s2, z2)\n"
                  "s5 = Mul(s2, s2)\nfb = [3] 100,-200,300\nb = Mul(fb, s5)\ny = Gemm(g, v, b)\n-> y" },
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
    const struct CMUnitTest tests[] = { cmocka_unit_test(asks_for_each), cmocka_unit_test(nobody_wants_them),
                                        cmocka_unit_test(contributed) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
