/* A plugin that is linked into the program (inlay_plugin_register). */
#define FAULTY_WITHIN
#include "faulty.c"
#include "rig.h"

static struct rig open_relu(inlay_diag *diag, inlay_status want)
{
    const char *options[] = { "providers", "faulty", "probe", "never", "cache_dir", "", NULL };
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    struct rig rig;

    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "2,3");
    mw_node(&wire, "Relu", "x", "y");
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "2,3");
    wire_end(&wire, mark);
    assert_int_equal(rig_try_open(&wire, options, &rig, diag), want);
    return rig;
}

static inlay_status refuse(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    (void)host, (void)out_plugin;
    (void)snprintf(diag->text, sizeof diag->text, "not in this program");
    return INLAY_UNSUPPORTED;
}

static void registered(void **unused)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)unused;
    rig = open_relu(&diag, INLAY_INVALID_ARGUMENT); /* not registered yet */
    rig_close(&rig);
    assert_int_equal(inlay_plugin_register(refuse, &diag), INLAY_UNSUPPORTED);
    assert_int_equal(diag.code, INLAY_UNSUPPORTED);
    assert_string_equal(diag.text, "not in this program");
    assert_int_equal(inlay_plugin_register(NULL, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_plugin_register(inlay_plugin_open, &diag), INLAY_OK);
    assert_int_equal(inlay_plugin_register(inlay_plugin_open, &diag), INLAY_OK); /* registering twice is allowed */
    for (int i = 0; i < 2; i++) {
        rig = open_relu(&diag, INLAY_OK);
        rig_floats(&rig, 0, "2,3", (float[]){ -1, 2, -3, 4, -5, 6 });
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "2,3", (float[]){ 0, 2, 0, 4, 0, 6 });
        rig_close(&rig);
    }
}

/* INLAY_RUN_OUTPUTS_BOUND: a run writes into the bound output or fails. */
static void bound_outputs(void **unused)
{
    inlay_run_options must = INLAY_RUN_OPTIONS_INIT;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *large = NULL, *small = NULL;
    float room[3] = { 0 };
    struct rig rig;

    (void)unused;
    rig = open_relu(&diag, INLAY_OK);
    must.flags = INLAY_RUN_OUTPUTS_BOUND;
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, (int64_t[]){ 2, 3 }, &large, &diag), INLAY_OK);
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, (int64_t[]){ 1, 3 }, room, sizeof room, &small, &diag),
                     INLAY_OK);
    rig_floats(&rig, 0, "2,3", (float[]){ -1, 2, -3, 4, -5, 6 });
    assert_int_equal(inlay_context_set_output(rig.context, 0, large, &diag), INLAY_OK);
    assert_int_equal(inlay_context_run(rig.context, &must, &diag), INLAY_OK);
    assert_ptr_equal(inlay_context_output(rig.context, 0), large);
    assert_int_equal(inlay_context_set_output(rig.context, 0, small, &diag), INLAY_OK);
    assert_int_equal(inlay_context_run(rig.context, &must, &diag), INLAY_SHAPE_MISMATCH);
    assert_non_null(strstr(diag.text, "output 0 ('y') needs 24 bytes"));
    assert_int_equal(inlay_context_run(rig.context, NULL, &diag),
                     INLAY_OK); /* without the flag: allocates other memory */
    assert_ptr_not_equal(inlay_context_output(rig.context, 0), small);
    must.flags = 1u << 9;
    assert_int_equal(inlay_context_run(rig.context, &must, &diag), INLAY_INVALID_ARGUMENT);
    inlay_value_unref(large);
    inlay_value_unref(small);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(registered), cmocka_unit_test(bound_outputs) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
