#include "partition/cost.h"

/* Copies between domains cost this much until a machine profile knows better. */
static const double COPY_LATENCY_NS = 10000, COPY_BYTES_PER_NS = 8;

const char *cost_source_name(uint32_t source)
{
    static const char *const names[] = { "none", "guess", "model", "calibrated", "measured" };

    return source < sizeof names / sizeof names[0] ? names[source] : "none";
}

uint32_t cost_of_offer(const cost_book *book, const cost_question *q, inlay_cost *out)
{
    const part_offer *o = q->offer;
    inlay_offer offer = { .struct_size = sizeof offer, .cookie = o->cookie, .nodes = o->nodes,
                          .node_count = o->node_count, .flags = o->flags, .placements = o->placements,
                          .placement_count = o->placement_count, .placement_stride = sizeof(inlay_placement),
                          .workspace_bytes = o->workspace_bytes, .resident_bytes = o->resident_bytes };
    inlay_cost_request ask = { .struct_size = sizeof ask, .graph = q->graph, .offer = &offer, .values = q->values,
                               .value_count = q->graph->value_count, .value_stride = sizeof *q->values,
                               .max_threads = q->max_threads };

    (void)book;
    *out = (inlay_cost){ .struct_size = sizeof *out };
    if (q->provider->table->cost(q->provider->state, &ask, out) != INLAY_OK || !(out->ns >= 0)) {
        *out = (inlay_cost){ .struct_size = sizeof *out, .ns = 1e12 };
        return COST_NONE;
    }
    return out->confidence == INLAY_CONFIDENCE_GUESS ? COST_GUESS : COST_MODEL;
}

double cost_copy_ns(const cost_book *book, const part_provider *providers, uint32_t provider_count, uint32_t from,
                    uint32_t to, uint64_t bytes)
{
    (void)book;
    (void)providers;
    (void)provider_count;
    return from == to ? 0 : COPY_LATENCY_NS + (double)bytes / COPY_BYTES_PER_NS;
}

double cost_launch_ns(const cost_book *book, const part_provider *provider)
{
    (void)book;
    (void)provider;
    return 0;
}

uint64_t cost_value_bytes(const inlay_value_state *v)
{
    uint64_t bits = inlay_dtype_bits(v->dtype);

    for (uint32_t d = 0; v->rank != INLAY_RANK_UNKNOWN && d < v->rank; d++) {
        uint64_t size = v->dims[d] < 0 ? 1 : (uint64_t)v->dims[d];
        if (__builtin_mul_overflow(bits, size, &bits))
            return UINT64_MAX / 8;
    }
    return bits / 8 + (bits % 8 != 0);
}
