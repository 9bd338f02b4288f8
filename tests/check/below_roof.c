/* A MatMul whose price is that of 30 operations in a nanosecond, above the peak of the kind of CPU `wasm`. */
#include "inlay/kit.h"
#include <string.h>

static inlay_status run(const kit_call *call)
{
    const int64_t m = call->in[0].dims[0], k = call->in[0].dims[1], n = call->in[1].dims[1];
    const float *a = call->in[0].data, *b = call->in[1].data;
    float *c = call->out[0].data;

    memset(c, 0, (size_t)(m * n) * sizeof *c);
    for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; l < k; l++)
            for (int64_t j = 0; j < n; j++)
                c[i * n + j] += a[i * k + l] * b[l * n + j];
    return INLAY_OK;
}

static bool is_small_matrix(const kit_node *node, kit_refusal *why)
{
    for (uint32_t i = 0; i < 2; i++)
        if (kit_input(node, i)->rank != 2 || kit_input(node, i)->dims[0].value > 64)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "two small matrices", "other shapes");
    return true;
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    (void)node;
    out->flops = 2.0 * (double)(shapes->in[0].count * shapes->in[1].dims[1]);
    out->ns = out->flops / 30;
    out->confidence = INLAY_CONFIDENCE_MODEL;
}

static const kit_kernel kernels[] = {
    { .op_type = "MatMul", .in_types = { KIT_BIT(FLOAT) }, .supports = is_small_matrix, .cost = cost, .run = run },
};
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const kit_provider provider = {
    .name = "below_roof", .description = "too cheap to be true", .tables = tables, .table_count = 1
};
static const kit_plugin plugin = { .name = "below_roof", .version = "1.0", .provider = &provider };
KIT_PLUGIN_NAMED(plugin, "below_roof", "below_roof", "")
