/* exec/run/locate.c - locates the values of a run. */
#include "exec/run/run.h"
#include "inlay/check.h"

/* The slab of domain `from` as domain `to` addresses it. */
static const inlay_buffer *slab_in(const struct bound *bound, uint32_t from, uint32_t to)
{
    uint32_t i = 0;

    if (from == to || bound->memory.slabs[from].handle == 0) /* without elements */
        return &bound->memory.slabs[from];
    while (i < bound->memory.import_count &&
           (bound->memory.imports[i].from != from || bound->memory.imports[i].buffer.domain != to))
        i++;
    INLAY_CHECK(i < bound->memory.import_count);
    return &bound->memory.imports[i].buffer;
}

inlay_buffer bound_in_slab(const struct runner *runner, const struct bound *bound, const plan_place *place,
                           uint32_t domain)
{
    inlay_buffer out = { .bytes = place->bytes, .domain = domain };

    if (place->memory_domain == INLAY_DOMAIN_HOST) {
        /* A tensor without elements has an address, too, so that it cannot be mistaken for an omitted one. */
        out.handle = bound->plan->slab_bytes[0] > 0 ? (uintptr_t)runner->plans.slab + place->offset
                                                    : (uintptr_t)&bound->memory.base;
    } else if (domain == INLAY_DOMAIN_HOST) {
        const void *map = bound->memory.maps[place->memory_domain];

        out.handle = map != NULL ? (uintptr_t)map + place->offset : (uintptr_t)&bound->memory.base;
    } else {
        const inlay_buffer *slab = slab_in(bound, place->memory_domain, domain);

        out.handle = slab->handle;
        out.offset = slab->offset + place->offset;
    }
    return out;
}

inlay_buffer bound_alias(const struct bound *bound, uint32_t place)
{
    const plan_place *slot = &bound->plan->places[plan_memory_place(bound->plan, place)];

    if (slot->source == PLACE_INPUT)
        return bound->plan->places[place].source == PLACE_VIEW ? bound->ports.inputs[slot->index].buffer
                                                               : bound->ports.inputs[slot->index].alias;
    if (slot->source != PLACE_SLAB || slot->memory_domain == INLAY_DOMAIN_HOST ||
        bound->memory.maps[slot->memory_domain] == NULL)
        return (inlay_buffer){ 0 };
    /* The place is in a device's slab, so the runner's slab is not needed. */
    INLAY_CHECK(slot->memory_domain < bound->plan->domain_count);
    return bound_in_slab(NULL, bound, slot,
                         bound->plan->places[place].domain == INLAY_DOMAIN_HOST ? slot->memory_domain
                                                                                : (uint32_t)INLAY_DOMAIN_HOST);
}

run_value runner_value(const struct bound *bound, uint32_t value)
{
    const struct plan *plan = bound->plan;
    uint32_t place = value == INLAY_NONE ? INLAY_NONE : plan->values[value].place;
    const inlay_value_state *state;

    if (place == INLAY_NONE)
        return (run_value){ 0 };
    state = &plan->states[value];
    /* Inputs that are objects or lists, and optional inputs that are absent, are dynamic values although they have an
     * input place. */
    if (plan->places[place].source == PLACE_DYNAMIC ||
        (plan->places[place].source == PLACE_INPUT &&
         (bound->dynamic.values[value].kind != 0 || state->rank == INLAY_RANK_UNKNOWN)))
        return bound->dynamic.values[value];
    return (run_value){ .kind = INLAY_KIND_TENSOR,
                        .dtype = state->dtype,
                        .rank = state->rank,
                        .dims = state->dims,
                        .buffer = bound->memory.buffers[place],
                        .alias = bound_alias(bound, place) };
}
