/* A provider whose Relu returns the number of threads that its run may use. */
#include "inlay/kit.h"

static inlay_status run(const kit_call *call)
{
    float *output = call->out[0].data;

    for (int64_t i = 0; i < call->out[0].count; i++)
        output[i] = (float)call->host->thread_count(call->host->ctx, call->run);
    return INLAY_OK;
}

/* A cost so low that the host always chooses this provider. */
static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    (void)node, (void)shapes;
    out->ns = 0.001;
}

static const kit_kernel kernels[] = { { .op_type = "Relu", .in_types = { KIT_BIT(FLOAT) }, .cost = cost, .run = run } };
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const kit_provider provider = {
    .name = "counting", .description = "threads of runs", .tables = tables, .table_count = 1
};
static const kit_plugin plugin = { .name = "counting", .version = "1.0", .provider = &provider };
KIT_PLUGIN_NAMED(plugin, "counting", "counting", "")
