/* exec/control/host_node.c - runs the nodes that the host executes itself. */
#include "exec/control/host_node.h"
#include "exec/device/residency.h"

/* Copies inputs that the run computed on a device to host memory. */
static inlay_status move_inputs_to_host(const host_call *call)
{
    const partition_region *region = call->step->plan->step->region;

    for (uint32_t i = 0; i < region->input_count; i++) {
        const uint32_t value = region->inputs[i];
        run_value current = runner_value(call->bound, value);
        inlay_status status = INLAY_OK;

        if (current.buffer.domain != INLAY_DOMAIN_HOST && !program_passes_to_bodies(call->step->plan->step, value) &&
            call->bound->plan->places[call->bound->plan->values[value].place].source == PLACE_DYNAMIC)
            status = read_in_domain(call->runner, call->bound, value, INLAY_DOMAIN_HOST, &current, call->diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

inlay_status host_node_run(struct runner *runner, struct bound *bound, bound_step *step, inlay_diag *diag)
{
    host_call call = { .runner = runner, .bound = bound, .step = step, .node = step->plan->step->node, .diag = diag };
    bool handled = false;
    inlay_status status;

    /* Bodies have their own bound plans and scratch memory. */
    arena_reset(&bound->dynamic.scratch);
    status = move_inputs_to_host(&call);
    if (status == INLAY_OK)
        status = control_run(&call, &handled);
    if (status == INLAY_OK && !handled)
        status = sequence_run(&call, &handled);
    if (status == INLAY_OK && !handled)
        status = map_run(&call, &handled);
    if (status == INLAY_OK && !handled)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the host does not run %s (node '%s')", call.node->info.op_type.data,
                          call.node->info.name.data);
    return status;
}
