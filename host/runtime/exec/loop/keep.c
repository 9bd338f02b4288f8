/* exec/loop/keep.c - a run within the limit of the host's memory (option memory_limit, host=BYTES). */
#include "exec/loop/bound.h"
#include <stdio.h>

/* What the runner has of the session's memory that the run uses again, or gives back before it takes other. */
static uint64_t own_bytes(const struct runner *r)
{
    uint64_t sum = r->plans.slab_bytes;

    for (uint32_t k = 0; k < r->prog->graph->output_count; k++) {
        const inlay_value *v = r->out.values[k];

        if (v != NULL && v->from != NULL && value_is_reusable(v))
            sum += v->capacity;
    }
    return sum;
}

inlay_status runner_keep_limit(struct runner *r, const struct bound *b, inlay_diag *diag)
{
    run_memory *m = r->shared->tensors.memory;
    const uint64_t need = run_memory_held(m) == NULL ? 0 : plan_run_bytes(b->plan);
    uint64_t least;
    char what[200];

    if (run_memory_fits(m, need, own_bytes(r), &least))
        return INLAY_OK;
    for (uint32_t i = 0; i < BOUNDS_KEPT; i++) {
        struct bound *other = r->plans.kept[i];

        if (other == NULL || other == b)
            continue;
        if (r->plans.now == other)
            r->plans.now = NULL;
        r->plans.kept[i] = NULL;
        bound_destroy(r, other);
    }
    for (uint32_t k = 0; k < r->prog->graph->output_count; k++) {
        value_unref(r->out.spares[k]);
        r->out.spares[k] = NULL;
    }
    run_shared_drop(r->shared);
    plan_drop_idle(r->prog);
    if (run_memory_fits(m, need, own_bytes(r), &least))
        return INLAY_OK;
    (void)snprintf(what, sizeof what, "graph '%.100s' at these sizes", r->prog->graph->name);
    return run_memory_over(m, what, least, diag);
}
