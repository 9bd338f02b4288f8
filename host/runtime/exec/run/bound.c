/* exec/run/bound.c - where a run finds its values. */
#include "exec/run/run.h"

inlay_buffer bound_in_slab(const struct runner *r, const struct bound *b, const plan_place *pl, uint32_t domain)
{
    inlay_buffer out = { .bytes = pl->bytes, .domain = domain };

    if (pl->lies_in == INLAY_DOMAIN_HOST) {
        /* A tensor without elements has an address too, so that nobody takes it for an omitted one. */
        out.handle = b->plan->slab_bytes[0] > 0 ? (uintptr_t)r->plans.slab + pl->offset : (uintptr_t)&b->memory.base;
    } else if (domain == INLAY_DOMAIN_HOST) {
        const void *map = b->memory.maps[pl->lies_in];

        out.handle = map != NULL ? (uintptr_t)map + pl->offset : (uintptr_t)&b->memory.base;
    } else {
        out.handle = b->memory.slabs[domain].handle;
        out.offset = b->memory.slabs[domain].offset + pl->offset;
    }
    return out;
}

inlay_buffer bound_alias(const struct bound *b, uint32_t place)
{
    const plan_place *pl = &b->plan->places[plan_bytes_of(b->plan, place)];

    if (pl->source == PLACE_INPUT)
        return b->plan->places[place].source == PLACE_VIEW ? b->ports.inputs[pl->index].buffer
                                                           : b->ports.inputs[pl->index].alias;
    if (pl->source != PLACE_SLAB || pl->lies_in == INLAY_DOMAIN_HOST || b->memory.maps[pl->lies_in] == NULL)
        return (inlay_buffer){ 0 };
    /* Not in the runner's slab, which is the host's alone. */
    return bound_in_slab(
        NULL, b, pl, b->plan->places[place].domain == INLAY_DOMAIN_HOST ? pl->lies_in : (uint32_t)INLAY_DOMAIN_HOST);
}

rt_value runner_value(const struct bound *b, uint32_t v)
{
    const struct plan *p = b->plan;
    uint32_t place = v == INLAY_NONE ? INLAY_NONE : p->values[v].place;
    const inlay_value_state *st;

    if (place == INLAY_NONE)
        return (rt_value){ 0 };
    st = &p->states[v];
    /* Objects and lists come in as dynamic values of an input place; so do optional inputs that are not there. */
    if (p->places[place].source == PLACE_DYNAMIC ||
        (p->places[place].source == PLACE_INPUT && (b->made.values[v].kind != 0 || st->rank == INLAY_RANK_UNKNOWN)))
        return b->made.values[v];
    return (rt_value){ .kind = INLAY_KIND_TENSOR,
                       .dtype = st->dtype,
                       .rank = st->rank,
                       .dims = st->dims,
                       .buffer = b->memory.buffers[place],
                       .alias = bound_alias(b, place) };
}
