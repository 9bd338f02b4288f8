/* A second provider for an operator that another plugin defines: com.example.MovingAverage with two additions per
 * element instead of `window`, on several threads.
 *
 * This file refers to the operator only by name. For small windows the algorithm is slower than the plain loop. The
 * cost function takes this into account, so the host assigns such a node to the other provider. */
#define INLAY_NOTE_VERSION "1.0.0" /* of two versions in one folder, the host takes the higher one */
#include "inlay/kit.h"
#include <stdlib.h>

static bool supports(const kit_node *node, kit_refusal *why)
{
    int64_t window = kit_attr_int(node->info, "window", 3);

    if (window >= 1)
        return true;
    return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "set window to 1 or more", "window is %lld", (long long)window);
}

/* Rows are distributed over threads only if the work exceeds this. */
enum { SHARE_NS = 20000 };

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *x = &shapes->in[0];
    bool known = x->count >= 0 && x->rank > 0; /* if not, assume a row of a thousand elements */
    double count = known ? (double)x->count : 1000, window = (double)kit_attr_int(node->info, "window", 3);
    double rows = known && count > 0 ? count / (double)x->dims[x->rank - 1] : 1, threads = shapes->max_threads;

    cost->flops = 2 * count;
    cost->ns = 100 + (0.7 + 1 / (window * window)) * count; /* many short blocks are slower than a few long ones */
    if (cost->ns > SHARE_NS && rows > 1)
        cost->ns = SHARE_NS + (cost->ns - SHARE_NS) / (rows < threads ? rows : threads);
    cost->confidence = known ? INLAY_CONFIDENCE_MODEL : INLAY_CONFIDENCE_GUESS;
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    int64_t *window = malloc(sizeof *window); /* freed by the kit */

    if (window == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "MovingAverage");
    *window = kit_attr_int(node->info, "window", 3);
    *out_state = window;
    return INLAY_OK;
}

/* Values that depend on the shapes, computed once for all runs with them. */
struct sizes {
    int64_t rows, length;
    int64_t window; /* at most length */
};

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *x = &plan->in[0];
    struct sizes *sizes = malloc(sizeof *sizes); /* freed by the kit */

    if (sizes == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "MovingAverage");
    sizes->length = x->dims[x->rank - 1];
    sizes->rows = x->count > 0 ? x->count / sizes->length : 0;
    sizes->window = *(const int64_t *)state;
    if (sizes->window > sizes->length)
        sizes->window = sizes->length;
    /* This cannot overflow: the window is at most a row, and rows of x fit into memory. */
    plan->workspace_bytes = (uint64_t)plan->max_threads * (uint64_t)sizes->window * sizeof(double);
    plan->plan = sizes;
    return INLAY_OK;
}

#define T float
#define FAST_ROW average_floats
#include "fast_row.inc"
#define T double
#define FAST_ROW average_doubles
#include "fast_row.inc"

static inlay_status run_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const struct sizes *sizes = call->plan;
    const kit_tensor *x = &call->in[0], *y = &call->out[0];
    double *tail = (double *)call->workspace + (int64_t)worker * sizes->window;

    for (int64_t r = begin; r < end; r++) {
        int64_t at = r * sizes->length;

        if (x->dtype == INLAY_FLOAT)
            average_floats((const float *)x->data + at, (float *)y->data + at, sizes->length, sizes->window, tail);
        else
            average_doubles((const double *)x->data + at, (double *)y->data + at, sizes->length, sizes->window, tail);
    }
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    const struct sizes *sizes = call->plan;

    /* Ranges of at least 8192 elements: less work does not justify a second thread. */
    return kit_parallel(call, sizes->rows, 1 + 8192 / (sizes->length + 1), run_rows, (void *)(uintptr_t)call);
}

static const kit_kernel kernels[] = {
    { .domain = "com.example",
      .op_type = "MovingAverage",
      .since_max = 1,
      .in_types = { KIT_BIT(FLOAT) | KIT_BIT(DOUBLE) },
      .supports = supports,
      .cost = cost,
      .prepare = prepare,
      .shape = shape,
      .run = run },
};
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const kit_provider provider = { .name = "fast_average",
                                       .description = "com.example.MovingAverage for wide windows",
                                       .tables = tables,
                                       .table_count = KIT_COUNT(tables) };
static const kit_plugin fast_average = { .name = "fast_average", .version = INLAY_NOTE_VERSION, .provider = &provider };
KIT_PLUGIN_NAMED(fast_average, "fast_average", "fast_average", "")
