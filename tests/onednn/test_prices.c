/* The providers cpu and onednn state prices of their own, so that a node goes to the one whose kernels are faster. */
#include "region_models.h"

struct convolution {
    int64_t channels, kernel, side, group;
};

static void write_convolution(region_model *m, const struct convolution *c)
{
    const int64_t weights[] = { c->channels, c->channels / c->group, c->kernel, c->kernel };
    const int64_t pads[] = { c->kernel / 2, c->kernel / 2, c->kernel / 2, c->kernel / 2 };
    wire_mark g = mw_begin(&m->w, 8, 17), n;
    char inputs[48], shape[48];

    (void)snprintf(shape, sizeof shape, "1,%lld,%lld,%lld", (long long)c->channels, (long long)c->side,
                   (long long)c->side);
    mw_value(&m->w, MW_INPUT, "x", RIG_FLOAT, shape);
    (void)snprintf(inputs, sizeof inputs, "x,%s", model_constant(m, 4, weights, 0.1f, 0));
    n = mw_node_begin(&m->w, "Conv", inputs, "y");
    rig_attr_ints(&m->w, "pads", 4, pads);
    rig_attr_int(&m->w, "group", c->group);
    wire_end(&m->w, n);
    mw_value(&m->w, MW_OUTPUT, "y", RIG_FLOAT, shape);
    wire_end(&m->w, g);
}

/* The time that the provider predicts for a run on one thread, by its own model: nothing has been measured. */
static double price(const struct convolution *c, const char *providers)
{
    const int64_t dims[] = { 1, c->channels, c->side, c->side };
    inlay_plan_info plan = { .struct_size = sizeof plan };
    region_model m = { .d = { 1 } };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *x = NULL;
    struct rig r;

    write_convolution(&m, c);
    r = model_open(&m.w, (const char *const[]){ "providers", providers, "intra_threads", "1", NULL });
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 4, dims, &x, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(r.context, 0, x, &diag), INLAY_OK);
    if (inlay_context_run(r.context, NULL, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_value_unref(x);
    assert_int_equal(inlay_context_plan(r.context, &plan), INLAY_OK);
    rig_close(&r);
    wire_deinit(&m.w);
    return plan.predicted_ns;
}

/* oneDNN's direct convolutions do without Winograd's algorithm and need channels last, but its grouped ones of few
 * channels are the faster. */
static void each_has_its_price(void **state)
{
    static const struct convolution winograd = { 64, 3, 56, 1 }, depthwise = { 96, 3, 56, 96 },
                                    thin = { 128, 3, 28, 32 };

    (void)state;
    assert_true(price(&winograd, "cpu,reference") < price(&winograd, "onednn,reference"));
    assert_true(price(&depthwise, "cpu,reference") < price(&depthwise, "onednn,reference"));
    assert_true(price(&thin, "cpu,reference") > price(&thin, "onednn,reference"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_has_its_price) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
