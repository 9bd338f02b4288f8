/* exec/control/host_value.c - values that host nodes read and write. */
#include "exec/control/host_node.h"

inlay_status host_fail(const host_call *call, inlay_status code, const char *what)
{
    return inlay_fail(call->diag, code, "%s node '%s': %s", call->node->info.op_type.data, call->node->info.name.data,
                      what);
}

run_value host_value(const host_call *call, uint32_t value)
{
    run_value current = runner_value(call->bound, value);
    const partition_region *region = call->step->plan->step->region;
    const struct plan *plan = call->bound->plan;
    const plan_place *place = current.kind == INLAY_KIND_TENSOR ? &plan->places[plan->values[value].place] : NULL;

    if (place == NULL || (current.buffer.domain == INLAY_DOMAIN_HOST && plan_is_ready(place)))
        return current;
    if (place->source == PLACE_DYNAMIC)
        return program_passes_to_bodies(call->step->plan->step, value)
                   ? current
                   : run_value_of(call->bound->dynamic.mirrors[value]);
    /* A device computes the value. The plan has a copy to the host before this step, unless bodies read the value on
     * the device. */
    for (uint32_t i = 0; i < region->input_count; i++)
        if (region->inputs[i] == value) {
            current.buffer = call->bound->memory.buffers[call->step->plan->in[i]];
            current.alias = bound_alias(call->bound, call->step->plan->in[i]);
            current.owner = current.buffer.domain != INLAY_DOMAIN_HOST ? current.owner : NULL;
        }
    return current;
}

void host_set_value(host_call *call, uint32_t value_index, inlay_value *value)
{
    if (value_index == INLAY_NONE)
        value_unref(value);
    else
        runner_set(call->runner, call->bound, value_index, value);
}
