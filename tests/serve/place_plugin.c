/* A provider whose kernels tell where their tensors are. In rows of 12 numbers, Neg writes the address of its output's
 * row into the first 4, and Abs copies these and writes the address of its input's row into the next 4: 16 bits in each
 * number. */
#include "inlay/kit.h"
#include <string.h>

enum { ROW = 12, WORDS = 4 };

static void write_address(float *to, const void *address)
{
    for (int i = 0; i < WORDS; i++)
        to[i] = (float)((uint64_t)(uintptr_t)address >> (16 * i) & 0xffff);
}

static inlay_status run_neg(const kit_call *call)
{
    float *y = call->out[0].data;

    for (int64_t i = 0; i < call->out[0].count; i++)
        y[i] = 0;
    for (int64_t i = 0; i + ROW <= call->out[0].count; i += ROW)
        write_address(y + i, y + i);
    return INLAY_OK;
}

static inlay_status run_abs(const kit_call *call)
{
    const float *x = call->in[0].data;
    float *y = call->out[0].data;

    for (int64_t i = 0; i < call->out[0].count; i++)
        y[i] = x[i];
    for (int64_t i = 0; i + ROW <= call->out[0].count; i += ROW)
        write_address(y + i + WORDS, x + i);
    return INLAY_OK;
}

/* Low enough to always win. */
static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    (void)node, (void)shapes;
    out->ns = 0.001;
}

static const kit_kernel kernels[] = {
    { .op_type = "Neg", .in_types = { KIT_BIT(FLOAT) }, .cost = cost, .run = run_neg },
    { .op_type = "Abs", .in_types = { KIT_BIT(FLOAT) }, .cost = cost, .run = run_abs },
};
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const kit_provider provider = {
    .name = "place", .description = "addresses of tensors", .tables = tables, .table_count = 1
};
static const kit_plugin plugin = { .name = "place", .version = "1.0", .provider = &provider };
KIT_PLUGIN_NAMED(plugin, "place", "place", "")
