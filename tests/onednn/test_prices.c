/* The providers cpu and onednn report different costs, so that a node is assigned to the one with the faster kernel. */
#include "region_models.h"
#include "run_context.h"

struct convolution {
    int64_t channels, kernel, side, group, dilation;
};

static void write_convolution(region_model *model, const struct convolution *convolution)
{
    const int64_t weights[] = { convolution->channels, convolution->channels / convolution->group, convolution->kernel,
                                convolution->kernel };
    const int64_t pad = convolution->kernel / 2 * convolution->dilation, pads[] = { pad, pad, pad, pad };
    const int64_t dilations[] = { convolution->dilation, convolution->dilation };
    wire_mark mark = mw_begin(&model->wire, 8, 17), n;
    char inputs[48], shape[48];

    (void)snprintf(shape, sizeof shape, "1,%lld,%lld,%lld", (long long)convolution->channels,
                   (long long)convolution->side, (long long)convolution->side);
    mw_value(&model->wire, MW_INPUT, "x", RIG_FLOAT, shape);
    (void)snprintf(inputs, sizeof inputs, "x,%s", model_constant(model, 4, weights, 0.1f, 0));
    n = mw_node_begin(&model->wire, "Conv", inputs, "y");
    mw_attr_ints(&model->wire, "pads", 4, pads);
    mw_attr_ints(&model->wire, "dilations", 2, dilations);
    mw_attr_int(&model->wire, "group", convolution->group);
    wire_end(&model->wire, n);
    mw_value(&model->wire, MW_OUTPUT, "y", RIG_FLOAT, shape);
    wire_end(&model->wire, mark);
}

/* The predicted time of a run on one thread by the provider's model, without measurements. */
static double price(const struct convolution *convolution, const char *providers)
{
    const int64_t dims[] = { 1, convolution->channels, convolution->side, convolution->side };
    inlay_plan_info plan = { .struct_size = sizeof plan };
    region_model model = { .dice = 1 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;
    struct rig rig;

    write_convolution(&model, convolution);
    rig = model_open(&model.wire, (const char *const[]){ "providers", providers, "intra_threads", "1", NULL });
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 4, dims, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig.context, 0, value, &diag), INLAY_OK);
    run_context(rig.context);
    inlay_value_unref(value);
    assert_int_equal(inlay_context_plan(rig.context, &plan), INLAY_OK);
    rig_close(&rig);
    wire_deinit(&model.wire);
    return plan.predicted_ns;
}

/* Provider cpu is cheaper for ordinary convolutions, because oneDNN's direct convolutions do not use Winograd's
 * algorithm and need channels last. Provider onednn is cheaper if most taps are in the padding. */
static void costs_differ(void **state)
{
    static const struct convolution winograd = { 64, 3, 56, 1, 1 }, depthwise = { 96, 3, 56, 96, 1 },
                                    dilated = { 960, 3, 14, 1, 12 };

    (void)state;
    assert_true(price(&winograd, "cpu,reference") < price(&winograd, "onednn,reference"));
    assert_true(price(&depthwise, "cpu,reference") < price(&depthwise, "onednn,reference"));
    assert_true(price(&dilated, "cpu,reference") > price(&dilated, "onednn,reference"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(costs_differ) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
