/* A provider whose Tan is very fast while the same node runs again and again, as in measurements of single kernels, and
 * slow if another node ran in between, as in runs of a model: like a device that loads a program for each node. */
#include "inlay/kit.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

static _Atomic(void *) loaded; /* the state of the node that ran last */

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    (void)node, (void)diag;
    *out_state = malloc(1);
    return *out_state != NULL ? INLAY_OK : INLAY_OUT_OF_MEMORY;
}

static void release(void *state)
{
    free(state);
}

static inlay_status run(const kit_call *call)
{
    if (atomic_exchange(&loaded, call->state) != call->state)
        (void)nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    *(float *)call->out[0].data = 0; /* the values do not matter; fast with sanitizers, too */
    return INLAY_OK;
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    (void)node, (void)shapes;
    out->ns = 1;
}

static const kit_kernel kernels[] = { { .op_type = "Tan",
                                        .in_types = { KIT_BIT(FLOAT) },
                                        .prepare = prepare,
                                        .release = release,
                                        .cost = cost,
                                        .run = run } };
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const kit_provider provider = {
    .name = "alternating", .description = "slow if nodes alternate", .tables = tables, .table_count = 1
};
static const kit_plugin plugin = { .name = "alternating", .version = "1.0", .provider = &provider };
KIT_PLUGIN_NAMED(plugin, "alternating", "alternating", "")
