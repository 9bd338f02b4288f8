/* The provider of samples/provider_rust: a model with each of its ten operators, and a constant operand. */
#include "rig.h"
#include <math.h>

static void ten_operators(void **state)
{
    const char *options[] = { "plugin_dirs", RUST_PLUGIN, "providers", "oxide", NULL };
    const float constant[] = { 0.5f, -1, 2, 3, -0.25f, 1 }, x[] = { 1, -2, 3, -0.5f, 0, 2 };
    static char chain[8][16] = { "Neg", "Abs", "Sqrt", "Exp", "Tanh", "Sigmoid", "Relu" };
    const int64_t dims[] = { 2, 3 };
    struct wire wire = { 0 };
    wire_mark graph = mw_begin(&wire, 8, 17), mark;
    char from[16] = "m", to[16];
    struct rig rig;
    const float *got;

    (void)state;
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "N,3");
    mark = wire_begin(&wire, MW_INITIALIZER);
    mw_tensor_head(&wire, "c", INLAY_FLOAT, 2, dims);
    wire_bytes(&wire, 9, constant, sizeof constant);
    wire_end(&wire, mark);
    mw_value(&wire, MW_INPUT, "z", INLAY_FLOAT, "2,3");
    mw_node(&wire, "Add", "z,c", "a"); /* a constant */
    mw_node(&wire, "Sub", "a,z", "s");
    mw_node(&wire, "Mul", "s,s", "m0"); /* one input twice */
    mw_node(&wire, "Add", "x,x", "d");  /* a symbolic size */
    mw_node(&wire, "Mul", "m0,a", "m");
    for (int i = 0; i < 7; i++) {
        (void)snprintf(to, sizeof to, i == 6 ? "y" : "t%d", i);
        mw_node(&wire, chain[i], from, to);
        (void)strcpy(from, to);
    }
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "2,3");
    mw_value(&wire, MW_OUTPUT, "d", INLAY_FLOAT, "N,3");
    wire_end(&wire, graph);
    rig = rig_open(&wire, options);
    rig_floats(&rig, 0, "1,3", x);
    rig_floats(&rig, 1, "2,3", x);
    rig_run(&rig);
    rig_expect_floats(&rig, 1, "1,3", (float[]){ 2, -4, 6 });
    got = inlay_value_data(inlay_context_output(rig.context, 0));
    for (int i = 0; i < 6; i++) {
        const float sum = x[i] + constant[i], rest = sum - x[i];
        const float want = 1 / (1 + expf(-tanhf(expf(sqrtf(fabsf(-(rest * rest * sum)))))));

        if (!(fabsf(got[i] - want) <= 1e-6f))
            fail_msg("element %d is %g, not %g", i, got[i], want);
    }
    rig_close(&rig);
}

/* A node that the provider refuses names the reason and the fix. */
static void refusals(void **state)
{
    const char *options[] = { "plugin_dirs", RUST_PLUGIN, "providers", "oxide", NULL };
    struct wire wire = { 0 };
    wire_mark graph = mw_begin(&wire, 8, 17);
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "2,3");
    mw_value(&wire, MW_INPUT, "y", INLAY_FLOAT, "3");
    mw_node(&wire, "Add", "x,y", "z");
    mw_value(&wire, MW_OUTPUT, "z", INLAY_FLOAT, "2,3");
    wire_end(&wire, graph);
    assert_int_not_equal(rig_try_open(&wire, options, &rig, &diag), INLAY_OK);
    if (strstr(diag.text, "the kernel does not broadcast") == NULL)
        fail_msg("%s", diag.text);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(ten_operators), cmocka_unit_test(refusals) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
