/* Regions are compiled concurrently, and some of them are declined. Whichever compile ends first, the result is the
 * same as if the regions were compiled one after the other. The provider faulty makes the calls end in a given order
 * (FAULTY_ORDER). */
#include "rig.h"
#include "session/session.h"
#include <stdlib.h>

enum { REGIONS = 4, COLUMNS = 3, ORDERS = 24 };

/* Relu for each region, separated by Neg. The names of regions 1 and 2 begin with no: faulty declines them. */
static void write_chain(struct wire *wire)
{
    static const char *const names[REGIONS] = { "yes0", "no1", "no2", "yes3" };
    const char *from = "x";
    char next[16];
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", INLAY_FLOAT, "1,3");
    for (int i = 0; i < REGIONS; i++) {
        mw_node(wire, "Relu", from, names[i]);
        (void)snprintf(next, sizeof next, "neg%d", i);
        mw_node(wire, i + 1 < REGIONS ? "Neg" : "Abs", names[i], next); /* zeros without a sign */
        from = next;
    }
    mw_value(wire, MW_OUTPUT, next, INLAY_FLOAT, "1,3");
    wire_end(wire, mark);
}

/* What a session came to: the provider of each step, the refusals in their order, the error. */
struct outcome {
    char steps[256], refusals[1024], error[512];
};

static struct outcome open_chain(const char *order, const char *threads, bool with_reference)
{
    const char *const settings[][2] = { { "providers", "faulty,reference" },
                                        { "plugin_dirs", FAULTY_DIR },
                                        { "probe", "never" },
                                        { "cache_dir", "" },
                                        { "policy", "priority" },
                                        { "level", "0" },
                                        { "intra_threads", threads },
                                        { "forbid", with_reference ? "" : "op:Relu=reference" } };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options;
    struct outcome out = { .steps = "" };
    struct rig rig = { 0 };
    struct wire wire = { 0 };

    assert_int_equal(setenv("FAULTY_ORDER", order, 1), 0);
    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        assert_int_equal(inlay_options_set(options, settings[i][0], settings[i][1], &diag), INLAY_OK);
    write_chain(&wire);
    if (inlay_session_create_from_bytes(wire.bytes, wire.count, options, &rig.session, &diag) != INLAY_OK) {
        (void)snprintf(out.error, sizeof out.error, "%s", diag.text);
    } else {
        assert_int_equal(inlay_context_create(rig.session, &rig.context, &diag), INLAY_OK);
        for (uint32_t i = 0; i < rig.session->main->step_count; i++)
            (void)strncat(strncat(out.steps, rig.session->main->steps[i].provider->name, 16), " ", 2);
        for (uint32_t i = 0; i < rig.session->main->parts.refusal_count; i++)
            (void)strncat(out.refusals, rig.session->main->parts.refusals[i].text, 128);
        rig_floats(&rig, 0, "1,3", (float[]){ -1, 0, 2 });
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "1,3", (float[]){ 0, 0, 0 });
    }
    inlay_context_destroy(rig.context);
    inlay_session_destroy(rig.session);
    inlay_options_destroy(options);
    wire_deinit(&wire);
    return out;
}

/* Writes permutation k of the digits of the regions. */
static void write_order(uint32_t k, char order[REGIONS + 1])
{
    char left[REGIONS + 1] = "0123";

    for (uint32_t i = 0; i < REGIONS; i++) {
        const uint32_t one = k % (REGIONS - i);

        k /= REGIONS - i;
        order[i] = left[one];
        memmove(left + one, left + one + 1, strlen(left + one));
    }
    order[REGIONS] = '\0';
}

static void compare_orders(bool with_reference, const struct outcome *want)
{
    for (uint32_t k = 0; k < ORDERS; k++) {
        char order[REGIONS + 1];
        struct outcome got;

        write_order(k, order);
        got = open_chain(order, "4", with_reference);
        if (strcmp(got.steps, want->steps) != 0 || strcmp(got.refusals, want->refusals) != 0 ||
            strcmp(got.error, want->error) != 0)
            fail_msg("order %s: %s\n%s%s\nand not: %s\n%s%s", order, got.steps, got.refusals, got.error, want->steps,
                     want->refusals, want->error);
    }
}

/* Another provider runs the declined regions. */
static void assignments(void **state)
{
    const struct outcome alone = open_chain("", "1", true);

    (void)state;
    assert_string_equal(alone.steps, "faulty reference reference reference reference reference faulty reference ");
    assert_non_null(strstr(alone.refusals, "'no1' begins with no"));
    compare_orders(true, &alone);
}

/* No other provider does: the error is that of the first region. */
static void errors(void **state)
{
    const struct outcome alone = open_chain("", "1", false);

    (void)state;
    assert_non_null(strstr(alone.error, "'no1' begins with no"));
    compare_orders(false, &alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(assignments), cmocka_unit_test(errors) };

    if (setenv("FAULTY_DECLINES", "named", 1) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
