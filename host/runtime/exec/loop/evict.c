/* exec/loop/evict.c - frees memory of a device that is full: drops cached plans and results, and moves values to the
 * host. */
#include "exec/loop/evict.h"
#include "exec/device/residency.h"
#include "exec/loop/bound.h"
#include "exec/loop/ports.h"

static bool step_reads(const bound_step *step, uint32_t value)
{
    const partition_region *region = step != NULL ? step->plan->step->region : NULL;

    for (uint32_t i = 0; region != NULL && i < region->input_count; i++)
        if (region->inputs[i] == value)
            return true;
    return false;
}

/* Moves values that later steps read, but not the current step, to host memory. */
static void move_values_to_host(struct runner *runner, struct bound *bound)
{
    for (uint32_t value = 0; bound->dynamic.mirrors != NULL && value < runner->prog->graph->value_count; value++) {
        run_value *current = &bound->dynamic.values[value];
        inlay_value *mirror = bound->dynamic.mirrors[value], *host_copy = NULL;

        if (step_reads(bound->current_step, value) || prefetch_wait(runner, bound, value, NULL) != INLAY_OK)
            continue;
        if (mirror != NULL && mirror->buffer.domain != INLAY_DOMAIN_HOST) {
            value_unref(mirror);
            bound->dynamic.mirrors[value] = mirror = NULL;
        }
        if (current->owner == NULL || current->kind != INLAY_KIND_TENSOR ||
            !device_value_is_exclusive(current->owner, current->buffer.domain))
            continue;
        if (mirror != NULL)
            host_copy = value_ref(mirror);
        else if (copy_to_domain(runner, current, INLAY_DOMAIN_HOST, &host_copy, NULL) != INLAY_OK)
            return;
        runner_set(runner, bound, value, host_copy);
    }
}

void evict_device_values(struct runner *runner, bool idle, bool all)
{
    const program_step *at = NULL;

    if (runner->shared->hang.abandoned)
        return;
    if (!idle && runner->plans.busy != NULL && runner->plans.busy->current_step != NULL)
        at = runner->plans.busy->current_step->plan->step;
    for (uint32_t i = 0; i < MAX_BOUND_PLANS; i++) {
        if (runner->plans.kept[i] == NULL || runner->plans.kept[i] == runner->plans.busy)
            continue;
        if (runner->plans.now == runner->plans.kept[i])
            runner->plans.now = NULL;
        bound_destroy(runner, runner->plans.kept[i]);
        runner->plans.kept[i] = NULL;
    }
    release_device_values(runner, runner->out.spares);
    if (idle)
        release_device_values(runner, runner->out.values);
    if (all && runner->plans.busy != NULL)
        move_values_to_host(runner, runner->plans.busy);
    for (uint32_t i = 0; i < runner->prog->step_count; i++)
        for (uint32_t k = 0; runner->children[i] != NULL && k < runner->prog->steps[i].node->body_count; k++)
            if (runner->children[i][k] != NULL)
                evict_device_values(runner->children[i][k], &runner->prog->steps[i] != at, all);
    for (struct runner *fallback = runner->fallback.runners; fallback != NULL; fallback = fallback->fallback.next)
        evict_device_values(fallback, idle, all);
}
