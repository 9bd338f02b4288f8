/* exec/control/host_value.c - what nodes of the host read. */
#include "exec/control/host_node.h"

rt_value host_value(const host_call *call, uint32_t value)
{
    rt_value x = runner_value(call->bound, value);
    const partition_region *region = call->step->plan->step->region;
    const struct plan *plan = call->bound->plan;
    const plan_place *pl = x.kind == INLAY_KIND_TENSOR ? &plan->places[plan->values[value].place] : NULL;

    if (pl == NULL || (x.buffer.domain == INLAY_DOMAIN_HOST && plan_is_ready(pl)))
        return x;
    if (pl->source == PLACE_DYNAMIC)
        return program_hands_on(call->step->plan->step, value) ? x : rt_from_value(call->bound->made.twins[value]);
    /* A device made it: the plan has put a copy before this step, unless bodies read it where it is. */
    for (uint32_t i = 0; i < region->input_count; i++)
        if (region->inputs[i] == value) {
            x.buffer = call->bound->memory.buffers[call->step->plan->in[i]];
            x.alias = bound_alias(call->bound, call->step->plan->in[i]);
            x.owner = x.buffer.domain != INLAY_DOMAIN_HOST ? x.owner : NULL;
        }
    return x;
}

void host_give(host_call *call, uint32_t value_index, inlay_value *value)
{
    if (value_index == INLAY_NONE)
        value_unref(value);
    else
        runner_set(call->runner, call->bound, value_index, value);
}
