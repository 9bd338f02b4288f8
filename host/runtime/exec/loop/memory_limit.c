/* exec/loop/memory_limit.c - keeps a run within the limit of host memory (option memory_limit, host=BYTES). */
#include "exec/loop/bound.h"
#include <stdio.h>

/* Bytes of the session's memory that this runner already holds: the run reuses them, or frees them before it allocates
 * more. */
static uint64_t own_bytes(const struct runner *runner)
{
    uint64_t bytes = runner->plans.slab_bytes;

    for (uint32_t k = 0; k < runner->prog->graph->output_count; k++) {
        const inlay_value *value = runner->out.values[k];

        if (value != NULL && value->from != NULL && value_is_reusable(value))
            bytes += value->capacity;
    }
    return bytes;
}

inlay_status runner_enforce_memory_limit(struct runner *runner, const struct bound *bound, inlay_diag *diag)
{
    run_memory *memory = runner->shared->tensors.memory;
    const uint64_t need = run_memory_held(memory) == NULL ? 0 : plan_run_bytes(bound->plan);
    uint64_t least;
    char what[200];

    if (run_memory_fits(memory, need, own_bytes(runner), &least))
        return INLAY_OK;
    for (uint32_t i = 0; i < MAX_BOUND_PLANS; i++) {
        struct bound *other = runner->plans.kept[i];

        if (other == NULL || other == bound)
            continue;
        if (runner->plans.now == other)
            runner->plans.now = NULL;
        runner->plans.kept[i] = NULL;
        bound_destroy(runner, other);
    }
    for (uint32_t k = 0; k < runner->prog->graph->output_count; k++) {
        value_unref(runner->out.spares[k]);
        runner->out.spares[k] = NULL;
    }
    run_shared_drop(runner->shared);
    plan_drop_idle(runner->prog, true);
    if (run_memory_fits(memory, need, own_bytes(runner), &least))
        return INLAY_OK;
    (void)snprintf(what, sizeof what, "graph '%.100s' at these sizes", runner->prog->graph->name);
    return run_memory_limit_error(memory, what, least, false, diag);
}
