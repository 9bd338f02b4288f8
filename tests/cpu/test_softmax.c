/* Softmax and LogSoftmax along every axis, in the versions that flatten and in the later ones, of tensors that are row-
 * major, transposed or in a convolution's layout. */
#include "compare.h"

static void feed_nonfinite(struct rig *rig)
{
    script_feed_odd(rig, 3, 0.02f);
}

static void run(const char *tail, int64_t opset, bool odd)
{
    static const char *const ops[] = { "Softmax", "LogSoftmax" };

    for (int o = 0; o < 2; o++) {
        char script[256];

        (void)snprintf(script, sizeof script, tail, ops[o]);
        compare_expect(&(compare_case){ ops[o], script }, opset, odd ? feed_nonfinite : NULL);
    }
}

static void axes(void **state)
{
    char script[160];

    (void)state;
    for (int axis = -4; axis < 4; axis++) {
        (void)snprintf(script, sizeof script, "x : 2,19,5,N\ny = %%s(x) axis=%d\n-> y", axis);
        run(script, 13, true);
        if (axis >= 0)
            run(script, 7, true);
        (void)snprintf(script, sizeof script,
                       "x : 2,19,5,70\nt = Transpose(x) perm=0,2,3,1\na = Neg(t)\n"
                       "s = %%s(a) axis=%d\ny = Neg(s)\n-> y",
                       axis);
        run(script, 13, true);
        (void)snprintf(script, sizeof script, "x : 2,6,9,7\nk = [21,6,3,3]\nc = Conv(x, k)\ny = %%s(c) axis=%d\n-> y",
                       axis);
        run(script, 13, false);
    }
}

static void shapes(void **state)
{
    (void)state;
    run("x : 9\ny = %s(x) axis=0\n-> y", 13, true);
    run("x : 9\ny = %s(x) axis=0\n-> y", 11, true);
    run("x : 3,4\ny = %s(x)\n-> y", 11, true);
    run("x : 3,1\ny = %s(x) axis=1\n-> y", 13, false);
    run("x : 1,2,3,2,3,5\ny = %s(x) axis=3\n-> y", 13, true);
    run("x : 2,300,1000\ny = %s(x) axis=2\n-> y", 13, false);
    run("x : 2,1000,130\ny = %s(x) axis=1\n-> y", 13, false);
}

static void feed_certain(struct rig *rig)
{
    inlay_value *value = NULL;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, (const int64_t[]){ 2, 3 }, &value, NULL), INLAY_OK);
    memcpy(inlay_value_data(value), (const float[]){ 9000, -20, 3, 1e-3f, -14, -15 }, 6 * sizeof(float));
    rig_bind(rig, 0, value);
}

/* For a probability of 1 the logarithm is 0; for one near 1 it is small, without the rounding error of 1. */
static void exact_log_softmax(void **state)
{
    struct rig rig =
        compare_open("x : 2,3\ny = LogSoftmax(x) axis=1\nt = Transpose(x) perm=1,0\nz = LogSoftmax(t) axis=0\n-> y, z",
                     13, "cpu,reference", "1", NULL);

    (void)state;
    feed_certain(&rig);
    rig_run(&rig);
    for (uint32_t o = 0; o < 2; o++) {
        const float *output = inlay_value_data(inlay_context_output(rig.context, o));
        const int64_t next = o == 0 ? 3 : 1;

        assert_true(output[0] == 0);
        assert_true(fabsf(output[next] + 1.1364e-6f) < 2e-7f);
    }
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(axes), cmocka_unit_test(shapes),
                                        cmocka_unit_test(exact_log_softmax) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
