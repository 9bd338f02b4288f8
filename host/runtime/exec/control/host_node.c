/* exec/control/host_node.c - runs the nodes that are the host's own. */
#include "exec/control/host_node.h"
#include "exec/device/stay.h"

/* What the run made on a device, and the host reads. */
static inlay_status bring_inputs(const host_call *c)
{
    const part_region *r = c->s->plan->step->region;

    for (uint32_t i = 0; i < r->input_count; i++) {
        const uint32_t v = r->inputs[i];
        rt_value x = runner_value(c->b, v);
        inlay_status status = INLAY_OK;

        if (x.buffer.domain != INLAY_DOMAIN_HOST && !program_hands_on(c->s->plan->step, v) &&
            c->b->plan->places[c->b->plan->values[v].place].source == PLACE_DYNAMIC)
            status = stay_read(c->r, c->b, v, INLAY_DOMAIN_HOST, &x, c->diag);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

inlay_status host_node_run(struct runner *r, struct bound *b, bound_step *s, inlay_diag *diag)
{
    host_call c = { .r = r, .b = b, .s = s, .node = s->plan->step->node, .diag = diag };
    bool handled = false;
    inlay_status status;

    arena_reset(
        &b->made.scratch); /* what the node needs while it runs; bodies have bounds, and scratch, of their own */
    status = bring_inputs(&c);
    if (status == INLAY_OK)
        status = control_run(&c, &handled);
    if (status == INLAY_OK && !handled)
        status = sequence_run(&c, &handled);
    if (status == INLAY_OK && !handled)
        status = map_run(&c, &handled);
    if (status == INLAY_OK && !handled)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the host does not run %s (node '%s')", c.node->info.op_type.data,
                          c.node->info.name.data);
    return status;
}
