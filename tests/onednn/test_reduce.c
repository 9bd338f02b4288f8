/* Reductions over axes of one element, which oneDNN does not take for reductions, and what stands behind them. */
#include "graph_script.h"
#include <math.h>

static rig open_on(const char *script, const char *providers)
{
    wire w = { 0 };

    script_model(&w, script, 13);
    return rig_open(&w, (const char *const[]){ "providers", providers, "policy", "priority", NULL });
}

static void expect_equal(const char *script)
{
    rig a = open_on(script, "onednn,reference"), b = open_on(script, "reference");

    script_feed(&a, 1);
    script_feed(&b, 1);
    rig_run(&a);
    rig_run(&b);
    for (uint32_t i = 0; i < inlay_session_output_count(a.session); i++) {
        inlay_value *got = inlay_context_output(a.context, i), *want = inlay_context_output(b.context, i);

        assert_int_equal(inlay_value_bytes(got), inlay_value_bytes(want));
        for (int64_t k = 0; k < inlay_value_count(got); k++)
            if (fabsf(((float *)inlay_value_data(got))[k] - ((float *)inlay_value_data(want))[k]) > 1e-5f)
                fail_msg("element %lld differs in\n%s", (long long)k, script);
    }
    rig_close(&a);
    rig_close(&b);
}

static void one_element(void **state)
{
    (void)state;
    expect_equal("x : 4,1\ny = ReduceMean(x) axes=-1, keepdims=1\n-> y");
    expect_equal("x : 4,1\na = Neg(x)\nb = ReduceMean(a) axes=1, keepdims=1\ny = Relu(b)\n-> y");
    expect_equal("x : 4,1\na = ReduceMean(x) axes=1, keepdims=0\ny = Exp(a)\n-> y, a");
    expect_equal("x : 2,3,1,1\ns = i[2] 2,3\na = ReduceSum(x, s) keepdims=0\ny = Add(a, a)\n-> y, a");
    expect_equal("x : 4,N\ny = ReduceMean(x) axes=-1, keepdims=1\n-> y");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_element) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
