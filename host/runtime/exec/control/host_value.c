/* exec/control/host_value.c - what nodes of the host read. */
#include "exec/control/host_node.h"

rt_value host_value(const host_call *call, uint32_t value)
{
    rt_value x = runner_value(call->b, value);
    const part_region *region = call->s->plan->step->region;
    const struct plan *plan = call->b->plan;
    const plan_place *pl = x.kind == INLAY_KIND_TENSOR ? &plan->places[plan->values[value].place] : NULL;

    if (pl == NULL || (x.buffer.domain == INLAY_DOMAIN_HOST && plan_is_ready(pl)))
        return x;
    if (pl->source == PLACE_DYNAMIC)
        return program_hands_on(call->s->plan->step, value) ? x : rt_from_value(call->b->made.twins[value]);
    /* A device made it: the plan has put a copy before this step, unless bodies read it where it is. */
    for (uint32_t i = 0; i < region->input_count; i++)
        if (region->inputs[i] == value) {
            x.buffer = call->b->memory.buffers[call->s->plan->in[i]];
            x.alias = bound_alias(call->b, call->s->plan->in[i]);
            x.owner = x.buffer.domain != INLAY_DOMAIN_HOST ? x.owner : NULL;
        }
    return x;
}

void host_give(host_call *call, uint32_t value_index, inlay_value *value)
{
    if (value_index == INLAY_NONE)
        value_unref(value);
    else
        runner_set(call->r, call->b, value_index, value);
}
