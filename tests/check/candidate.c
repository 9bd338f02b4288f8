/* A Softsign for `inlay admit`. The name of the file says how it is: `rival`, which computes the result several times;
 * candidate_fast; candidate_slow, slower than rival; candidate_faulty, whose last element of many is wrong. NAME: of
 * the provider. */
#include "defect.h"
#include "inlay/kit.h"
#include <math.h>

enum { RIVAL_REPEATS = 20, SLOW_REPEATS = 100, MANY = 1000 };

/* Sizes at which a kernel is slow: not those of most checks. */
enum { SLOW_FROM = 20000, SLOW_TO = 60000 };

static inlay_status run(const kit_call *call)
{
    const int64_t count = call->out[0].count;
    const bool is_quick = count < SLOW_FROM || count > SLOW_TO;
    const int repeats = is_quick ? 1 : is("candidate_slow") ? SLOW_REPEATS : is("rival") ? RIVAL_REPEATS : 1;

    for (int i = 0; i < repeats; i++) {
        const float *x = call->in[0].data;
        float *y = call->out[0].data;

        for (int64_t k = 0; k < count; k++)
            y[k] = x[k] / (1 + fabsf(x[k]));
        __asm__ volatile("" ::: "memory"); /* each time */
        if (is("candidate_faulty") && count > MANY)
            y[count - 1] = 0;
    }
    return INLAY_OK;
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    const double count = shapes->in[0].count > 0 ? (double)shapes->in[0].count : 0; /* -1: not known */

    (void)node;
    out->flops = 2 * count;
    out->ns = 0.5 * count;
    out->confidence = INLAY_CONFIDENCE_MODEL;
}

static const kit_kernel kernels[] = {
    { .op_type = "Softsign", .in_types = { KIT_BIT(FLOAT) }, .cost = cost, .run = run },
};
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };

static inlay_status open_provider(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    (void)host, (void)args, (void)diag;
    read_defect();
    *out = NULL;
    return INLAY_OK;
}

static const kit_provider provider = { .name = NAME,
                                       .description = "one kernel that someone has written",
                                       .tables = tables,
                                       .table_count = 1,
                                       .open = open_provider };
static const kit_plugin plugin = { .name = NAME, .version = "1.0", .provider = &provider };
KIT_PLUGIN_NAMED(plugin, NAME, NAME, "")
