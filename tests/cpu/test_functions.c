/* Unary functions over their whole range, with small results and the ends of the range, and operators that are
 * expanded: sums of any number of tensors, powers, Gemm with factors. Compared with the reference. */
#define COMPARE_TOLERANCE 1e-6f
#include "compare.h"

/* Logarithmic steps of both signs, then even steps around 0, then NaN and infinity. */
static void feed_range(struct rig *rig)
{
    inlay_io_info info = { .struct_size = sizeof info };
    inlay_value *value = NULL;
    const float odd[] = { 0, -0.0f, INFINITY, -INFINITY, NAN, 1, -1, 1.5f, 2.5f, -0.5f };
    float *input;

    (void)inlay_session_input(rig->session, 0, &info);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, info.rank, info.dims, &value, NULL), INLAY_OK);
    assert_int_equal(inlay_value_count(value), 3 * 1024);
    input = inlay_value_data(value);
    for (int i = 0; i < 1024; i++) {
        input[i] = (i % 2 == 0 ? 1.0f : -1.0f) * powf(10, (float)i / 1024 * 50 - 30);
        input[1024 + i] = (float)(i - 512) / 5;
        input[2048 + i] = odd[i % 10];
    }
    rig_bind(rig, 0, value);
}

/* Checks the relative error. oneDNN's own functions have an absolute error, and flush subnormal numbers to zero. */
static void exactly(const char *script, const char *const *options)
{
    static const char *const reference[] = { "providers", "reference", NULL };
    struct rig side[2];

    for (int i = 0; i < 2; i++) {
        struct wire wire = { 0 };

        script_model(&wire, 24, script);
        side[i] = rig_open(&wire, i == 0 ? options : reference);
        feed_range(&side[i]);
        rig_run(&side[i]);
    }
    for (int64_t k = 0; k < 3 * 1024; k++) {
        const float a = ((const float *)inlay_value_data(inlay_context_output(side[0].context, 0)))[k];
        const float b = ((const float *)inlay_value_data(inlay_context_output(side[1].context, 0)))[k];

        if (!(fabsf(a - b) <= 1e-6f * fabsf(b) + 2e-36f) && a != b && !(isnan(a) && isnan(b)))
            fail_msg("element %lld is %g, not %g: %s", (long long)k, (double)a, (double)b,
                     script + strlen(script) - 60);
    }
    rig_close(&side[0]);
    rig_close(&side[1]);
}

static void ranges(void **state)
{
    static const char *const calls[] = {
        "Softplus(x)",
        "HardSwish(x)",
        "Abs(x)",
        "Sqrt(x)",
        "Exp(x)",
        "Log(x)",
        "Erf(x)",
        "Reciprocal(x)",
        "Floor(x)",
        "Ceil(x)",
        "Round(x)",
        "Sign(x)",
        "Softsign(x)",
        "Sin(x)",
        "Cos(x)",
        "Selu(x) alpha=1.2 gamma=0.7",
        "Celu(x) alpha=0.6",
        "ThresholdedRelu(x) alpha=0.3",
        "Shrink(x) lambd=0.4 bias=0.2",
        "Neg(x)",
        "LeakyRelu(x) alpha=0.3",
        "Elu(x)",
        "Elu(x) alpha=0.3",
        "Tanh(x)",
        "Sigmoid(x)",
        "Swish(x)",
        "Mish(x)",
    };
    /* Alone, and in the epilogue of layers that change only infinities. */
    static const char *const before[] = {
        "a : 3,1024\nx = Identity(a)",
        "a : 1,16,12,16\nx = Conv(a, w)",
        "a : 12,16,16\nx = MatMul(a, w)",
    };
    static const char *const options[][9] = {
        { "providers", "cpu,reference", "policy", "priority", "intra_threads", "2" },
        { "providers", "cpu,reference", "policy", "priority", "level", "0" },
    };
    char unit[600] = "";

    (void)state;
    for (int i = 0; i < 16 * 16; i++)
        (void)strcat(unit, i % 17 == 0 ? "1," : "0,");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (size_t k = 0; k < sizeof before / sizeof *before; k++)
            for (size_t option = 0; option < sizeof options / sizeof *options; option++) {
                char script[900];

                if (k > 0 && strcmp(calls[i], "HardSwish(x)") == 0)
                    continue; /* fused, the absolute error is that of results near 3: 4e-8 at x = -3 */
                (void)snprintf(script, sizeof script, "w = [%s] %s\n%s\ny = %s\n-> y", k == 1 ? "16,16,1,1" : "16,16",
                               unit, before[k], calls[i]);
                exactly(script, options[option]);
            }
}

/* Small tensors never use oneDNN's functions, and are as accurate. */
static void few_elements(void **state)
{
    static const compare_case rows[] = {
        { "Sigmoid", "x : 2,5\ny = Sigmoid(x)\n-> y" },
        { "Tanh", "x : 2,5\ny = Tanh(x)\n-> y" },
        { "Gelu", "x : 2,5\ny = Gelu(x) approximate=tanh\n-> y" },
        { "Gelu", "x : 2,5\ny = Gelu(x)\n-> y" },
        { "Mish", "x : 2,5\ny = Mish(x)\n-> y" },
        { "Elu", "x : 2,5\ny = Elu(x) alpha=0.5\n-> y" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        compare_expect(&rows[i], 20, NULL);
}

static void expanded_operators(void **state)
{
    static const compare_case rows[] = {
        { "Sum", "x : 2,3,4\nz : 2,3,4\nc = [4]\nd = [3,1]\ny = Sum(d, x, c, z)\n-> y" },
        { "Sum", "x : 4\nz : 3,1\nv : 2,3,4\ny = Sum(x, z, v)\n-> y" }, /* the shape grows on the way */
        { NULL, "x : 2,3\ny = Sum(x)\nz = Relu(y)\n-> z" },
        { "Mean", "x : 2,N\nz : 2,N\nc = [2,1]\ny = Mean(x, z, c)\nz2 = Mean(x, z)\n-> y, z2" },
        { NULL, "x : 2,5\ny = Mean(x)\n-> y" },
        { "Max", "x : 2,5\nz : 2,5\nc = [5]\ny = Max(x, c, z)\nv = Min(x)\n-> y, v" },
        { "Min", "x : 1,8,5,5\nw = [8,8,1,1]\nc = Conv(x, w)\nd = Conv(c, w)\ny = Min(c, d, x)\n-> y" },
        { "Pow", "x : 2,5\na = Abs(x)\ne = [] 2\nf = [1] 3\ng = [] 0.5\ny = Pow(x, e)\nz = Pow(x, f)\nv = Pow(a, g)\n"
                 "-> y, z, v" },
        { "Gemm", "x : 3,7\nw = [7,5]\nc = [5]\ny = Gemm(x, w, c) alpha=0.5 beta=-2.0\nz = Relu(y)\n-> z" },
        { "Gemm", "x : 7,3\nw : 5,7\nc : 3,1\ny = Gemm(x, w, c) alpha=2.0 beta=0.25 transA=1 transB=1\n-> y" },
        { "Gemm", "x : 3,7\nw = [7,5]\ny = Gemm(x, w) alpha=-1.5\n-> y" },
        { "Gemm", "x : 3,7\nw = [7,5]\nc : 3,5\ny = Gemm(x, w, c) beta=0.0\n-> y" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        compare_expect(&rows[i], 13, NULL);
}

/* More functions after Gemm than a group can hold, counting its C. */
static void many_posts(void **state)
{
    char script[1024] = "x : 3,7\nw = [7,5]\nc : 3,5\ny0 = Gemm(x, w, c)\n";

    (void)state;
    for (int i = 0; i < 15; i++) {
        char line[48];

        (void)snprintf(line, sizeof line, "y%d = %s(y%d)\n", i + 1, i % 2 == 0 ? "Softsign" : "Neg", i);
        (void)strcat(script, line);
    }
    (void)strcat(script, "-> y15");
    compare_expect(&(compare_case){ "Gemm", script }, 13, NULL);
    for (char *s = script; (s = strstr(s, "Softsign")) != NULL;)
        memcpy(s, "Tanh    ", 8);
    compare_expect(&(compare_case){ "Gemm", script }, 13, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(ranges), cmocka_unit_test(few_elements),
                                        cmocka_unit_test(expanded_operators), cmocka_unit_test(many_posts) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
