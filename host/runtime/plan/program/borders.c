/* plan/program/borders.c - what passes between regions: in which domain, and of which elements. */
#include "plan/program/borders.h"

/* What some offer of the region asks for value v: the best alternative that every pair of providers understands, or
 * (like not NULL) the one that is as `like`. NULL: nobody cares. */
static const inlay_placement *find_placement(const struct program *p, const part_region *r, uint32_t v,
                                             const inlay_placement *like)
{
    for (uint32_t k = 0; k < r->offer_count; k++) {
        const part_offer *o = &p->parts.offers[r->offers[k]];
        for (uint32_t m = 0; m < o->placement_count; m++)
            if (o->placements[m].value == v &&
                (like == NULL ? part_is_plain(&o->placements[m])
                              : o->placements[m].layout.kind == INLAY_LAYOUT_ROW_MAJOR &&
                                    o->placements[m].domain == like->domain && o->placements[m].dtype == like->dtype))
                return &o->placements[m];
    }
    return NULL;
}

static bool has_value(const uint32_t *list, uint32_t count, uint32_t v)
{
    while (count > 0)
        if (list[--count] == v)
            return true;
    return false;
}

/* Do the sizes of all that enters and leaves the region follow from those of the graph's inputs? */
static bool is_sized(const struct program *p, const part_region *r)
{
    for (uint32_t i = 0; i < r->input_count + r->output_count; i++) {
        const uint32_t v = i < r->input_count ? r->inputs[i] : r->outputs[i - r->input_count];
        const inlay_value_info *info = &p->graph->values[v].info;

        if (info->rank == INLAY_RANK_UNKNOWN)
            return false;
        for (uint32_t d = 0; d < info->rank; d++)
            if (info->dims[d].kind == INLAY_DIM_UNKNOWN)
                return false;
    }
    return true;
}

/* Do all regions that make or read v list what `wanted` asks for, and belong to one provider? */
static bool all_agree(const struct program *p, uint32_t provider, uint32_t v, const inlay_placement *wanted)
{
    bool made = false;

    if (wanted->domain == INLAY_DOMAIN_HOST || inlay_dtype_bits(wanted->dtype) < 8 || wanted->dtype == INLAY_STRING ||
        has_value(p->graph->outputs, p->graph->output_count, v))
        return false;
    for (uint32_t i = 0; i < p->parts.region_count; i++) {
        const part_region *r = &p->parts.regions[i];
        const bool makes = has_value(r->outputs, r->output_count, v);

        if (!makes && !has_value(r->inputs, r->input_count, v))
            continue;
        if (r->provider != provider || !is_sized(p, r) || find_placement(p, r, v, wanted) == NULL)
            return false;
        made |= makes;
    }
    return made;
}

/* Other elements than the model's that the regions around v agree on, the best for the one that makes it; NULL: they
 * do not. */
static const inlay_placement *find_agreed(const struct program *p, uint32_t v)
{
    const part_region *r = p->parts.regions, *end = r + p->parts.region_count;

    while (r < end && !has_value(r->outputs, r->output_count, v))
        r++;
    if (r == end || r->provider == INLAY_NONE)
        return NULL;
    for (uint32_t k = 0; k < r->offer_count; k++) {
        const part_offer *o = &p->parts.offers[r->offers[k]];

        for (uint32_t m = 0; m < o->placement_count; m++)
            if (o->placements[m].value == v && o->placements[m].dtype != INLAY_UNDEFINED &&
                o->placements[m].layout.kind == INLAY_LAYOUT_ROW_MAJOR &&
                all_agree(p, r->provider, v, &o->placements[m]))
                return &o->placements[m];
    }
    return NULL;
}

inlay_placement *borders_negotiate(const struct program *p, const part_region *r, struct arena *a)
{
    const part_provider *provider = &p->env->providers[r->provider];
    uint32_t count = r->input_count + r->output_count;
    inlay_placement *list = arena_array(a, (size_t)count + 1, sizeof *list);

    for (uint32_t i = 0; list != NULL && i < count; i++) {
        uint32_t v = i < r->input_count ? r->inputs[i] : r->outputs[i - r->input_count];
        const inlay_placement *wanted = find_agreed(p, v);

        if (wanted == NULL)
            wanted = find_placement(p, r, v, NULL);

        list[i] = wanted != NULL ? *wanted : (inlay_placement){ .value = v, .domain = part_default_domain(provider) };
    }
    return list;
}
