/* A provider of LeakyRelu, built with the recorded headers and kit of a released ABI minor version. */
#include "inlay/kit.h"

static inlay_status run(const kit_call *call)
{
    const float *input = call->in[0].data;
    float *output = call->out[0].data;

    for (int64_t i = 0; i < call->in[0].count; i++)
        output[i] = input[i] < 0 ? 0.01f * input[i] : input[i];
    return INLAY_OK;
}

static bool supports(const kit_node *node, kit_refusal *why)
{
    if ((float)kit_attr_float(node->info, "alpha", 0.01f) == 0.01f)
        return true;
    return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "alpha 0.01", "another alpha than the default");
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    (void)node, (void)shapes;
    out->ns = 1; /* to be chosen */
}

static const kit_kernel kernels[] = { { .op_type = "LeakyRelu",
                                        .in_types = { KIT_BIT(FLOAT) },
                                        .supports = supports,
                                        .cost = cost,
                                        .flags = KIT_IN_PLACE,
                                        .run = run } };
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const kit_provider provider = {
    .name = "recorded_kit", .description = "built with a recorded kit", .tables = tables, .table_count = 1
};
static const kit_plugin plugin = { .name = "recorded_kit", .version = "1", .provider = &provider };
KIT_PLUGIN(plugin)
