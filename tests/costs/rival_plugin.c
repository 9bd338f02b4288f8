/* A provider whose price is the environment variable RIVAL_NS, in nanoseconds, or one second if it is not set. A run
 * takes a millisecond. */
#include "inlay/kit.h"
#include <stdlib.h>
#include <time.h>

static inlay_status run(const kit_call *call)
{
    (void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    memset(call->out[0].data, 0, (size_t)call->out[0].count * sizeof(float));
    return INLAY_OK;
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    const char *price = getenv("RIVAL_NS");

    (void)node, (void)shapes;
    out->ns = price != NULL ? atof(price) : 1e9;
    out->confidence = INLAY_CONFIDENCE_MODEL;
}

static const kit_kernel kernels[] = {
    { .op_type = "Exp", .in_types = { KIT_BIT(FLOAT) }, .cost = cost, .run = run },
    { .op_type = "Tan", .in_types = { KIT_BIT(FLOAT) }, .cost = cost, .run = run },
};
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const kit_provider provider = { .name = "a_rival",
                                       .description = "has the price that the environment states",
                                       .tables = tables,
                                       .table_count = 1,
                                       .flags = INLAY_PROVIDER_REFERENCE_CORE };
static const kit_plugin plugin = { .name = "a_rival", .version = "1.0", .provider = &provider };
KIT_PLUGIN_NAMED(plugin, "a_rival", "a_rival", "")
