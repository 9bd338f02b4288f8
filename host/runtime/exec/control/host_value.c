/* exec/control/host_value.c - what nodes of the host read. */
#include "exec/control/host_node.h"

rt_value host_value(const host_call *c, uint32_t v)
{
    rt_value x = runner_value(c->b, v);
    const part_region *r = c->s->plan->step->region;
    const struct plan *p = c->b->plan;
    const plan_place *pl = x.kind == INLAY_KIND_TENSOR ? &p->places[p->values[v].place] : NULL;

    if (pl == NULL || (x.buffer.domain == INLAY_DOMAIN_HOST && plan_is_ready(pl)))
        return x;
    if (pl->source == PLACE_DYNAMIC)
        return program_hands_on(c->s->plan->step, v) ? x : rt_from_value(c->b->made.twins[v]);
    /* A device made it: the plan has put a copy before this step, unless bodies read it where it is. */
    for (uint32_t i = 0; i < r->input_count; i++)
        if (r->inputs[i] == v) {
            x.buffer = c->b->memory.buffers[c->s->plan->in[i]];
            x.alias = bound_alias(c->b, c->s->plan->in[i]);
            x.owner = x.buffer.domain != INLAY_DOMAIN_HOST ? x.owner : NULL;
        }
    return x;
}

void host_give(host_call *c, uint32_t v, inlay_value *value)
{
    if (v == INLAY_NONE)
        value_unref(value);
    else
        runner_set(c->r, c->b, v, value);
}
