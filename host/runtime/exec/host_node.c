#include "exec/host_node.h"

rt_value host_value(const host_call *c, uint32_t v)
{
    rt_value x = runner_value(c->b, v);
    const part_region *r = c->s->plan->step->region;
    const plan *p = c->b->plan;
    const plan_place *pl = x.kind == INLAY_KIND_TENSOR ? &p->places[p->values[v].place] : NULL;

    if (pl == NULL || (x.buffer.domain == INLAY_DOMAIN_HOST && plan_is_ready(pl)))
        return x;
    if (pl->source == PLACE_DYNAMIC)
        return program_hands_on(c->s->plan->step, v) ? x : rt_from_value(c->b->twins[v]);
    /* A device made it: the plan has put a copy before this step, unless bodies read it where it is. */
    for (uint32_t i = 0; i < r->input_count; i++)
        if (r->inputs[i] == v) {
            x.buffer = c->b->buffers[c->s->plan->in[i]];
            x.alias = bound_alias(c->b, c->s->plan->in[i]);
            x.owner = x.buffer.domain != INLAY_DOMAIN_HOST ? x.owner : NULL;
        }
    return x;
}

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

inlay_status host_node_run(runner *r, bound *b, bound_step *s, inlay_diag *diag)
{
    host_call c = { .r = r, .b = b, .s = s, .node = s->plan->step->node, .diag = diag };
    bool handled = false;
    inlay_status status;

    arena_reset(&b->scratch); /* what the node needs while it runs; bodies have bounds, and scratch, of their own */
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
