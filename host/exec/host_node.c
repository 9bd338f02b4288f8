#include "exec/host_node.h"

rt_value host_value(const host_call *c, uint32_t v)
{
    rt_value x = runner_value(c->b, v);
    const part_region *r = c->s->plan->step->region;

    /* A device made it: the plan has put a copy before this step, unless bodies read it where it is. */
    for (uint32_t i = 0; x.kind == INLAY_KIND_TENSOR && x.buffer.domain != INLAY_DOMAIN_HOST && i < r->input_count; i++)
        if (r->inputs[i] == v) {
            x.buffer = c->b->buffers[c->s->plan->in[i]];
            x.owner = x.buffer.domain != INLAY_DOMAIN_HOST ? x.owner : NULL;
        }
    return x;
}

inlay_status host_node_run(runner *r, bound *b, bound_step *s, inlay_diag *diag)
{
    host_call c = { .r = r, .b = b, .s = s, .node = s->plan->step->node, .diag = diag };
    bool handled = false;
    inlay_status status;

    arena_reset(&b->scratch); /* what the node needs while it runs; bodies have bounds, and scratch, of their own */
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
