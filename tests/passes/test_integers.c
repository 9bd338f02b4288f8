/* Pass quantized_ops asks the providers before it makes an operator on integers. */
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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(asks_for_each), cmocka_unit_test(nobody_wants_them) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
