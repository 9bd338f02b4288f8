/* The host restores the floating-point environment of its threads after each call of a plugin. */
#include "inlay/inlay.h"
#include "cmocka_all.h"
#include <fenv.h>
#include <stdlib.h>

static inlay_session *open_session(const char *providers, inlay_diag *diag)
{
    inlay_options *options = NULL;
    inlay_session *session = NULL;

    assert_int_equal(inlay_options_create(&options, diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "providers", providers, diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "plugin_dirs", FAULTY_DIR, diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "probe", "never", diag), INLAY_OK);
    (void)!inlay_session_create(ONNX_TEST_DATA "/node/test_relu/model.onnx", options, &session, diag);
    inlay_options_destroy(options);
    return session;
}

static double third(void)
{
    volatile double one = 1, three = 3;

    return one / three;
}

static double tiny(void)
{
    volatile double least = 2.2250738585072014e-308, half = 0.5;

    return least * half;
}

static void changed_floats(void **unused)
{
    static const char *const faults[] = { "create:0:float",     "assess:0:float",  "compile:0:float",
                                          "specialize:0:float", "execute:0:float", "execute:13:float" };
    double want = third();

    (void)unused;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_session *session;
        inlay_context *context = NULL;

        assert_int_equal(setenv("FAULTY", faults[i], 1), 0);
        session = open_session("faulty", &diag);
        if (session == NULL)
            fail_msg("%s: %s", faults[i], diag.text);
        assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
        for (int run = 0; run < 2; run++) {
            inlay_value *value = NULL;
            const int64_t dims[3] = { 3, 4, 5 };

            assert_int_equal(inlay_value_create(INLAY_FLOAT, 3, dims, &value, &diag), INLAY_OK);
            assert_int_equal(inlay_context_set_input(context, 0, value, &diag), INLAY_OK);
            (void)!inlay_context_run(context, NULL, &diag);
            inlay_value_unref(value);
        }
        inlay_context_destroy(context);
        inlay_session_destroy(session);
        assert_int_equal(fegetround(), FE_TONEAREST);
        assert_true(third() == want);
        assert_true(tiny() > 0);
    }
    (void)unsetenv("FAULTY");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(changed_floats) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
