/* plan/program/borders.c - negotiates domain and element type of the values passed between regions. */
#include "plan/program/borders.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include <stdlib.h>

/* Returns whether some offer of the region requests the placement `like` for the value. */
static bool supports(const struct program *program, const partition_region *region, uint32_t value,
                     const inlay_placement *like)
{
    for (uint32_t k = 0; k < region->offer_count; k++) {
        const partition_offer *offer = &program->parts.offers[region->offers[k]];
        for (uint32_t m = 0; m < offer->placement_count; m++)
            if (offer->placements[m].value == value && offer->placements[m].domain == like->domain &&
                offer->placements[m].dtype == like->dtype)
                return true;
    }
    return false;
}

static bool has_value(const uint32_t *list, uint32_t count, uint32_t value)
{
    while (count > 0)
        if (list[--count] == value)
            return true;
    return false;
}

/* Returns whether all boundary sizes of the region follow from the sizes of the graph's inputs. */
static bool is_sized(const struct program *program, const partition_region *region)
{
    for (uint32_t i = 0; i < region->input_count + region->output_count; i++) {
        const uint32_t value = i < region->input_count ? region->inputs[i] : region->outputs[i - region->input_count];
        const inlay_value_info *info = &program->graph->values[value].info;

        if (info->rank == INLAY_RANK_UNKNOWN)
            return false;
        for (uint32_t d = 0; d < info->rank; d++)
            if (info->dims[d].kind == INLAY_DIM_UNKNOWN)
                return false;
    }
    return true;
}

/* Returns whether all regions that compute or read the value belong to the provider and support the placement
 * `wanted`. */
static bool all_support(const struct program *program, uint32_t provider, uint32_t value, const inlay_placement *wanted)
{
    bool made = false;

    if (wanted->domain == INLAY_DOMAIN_HOST || inlay_dtype_bits(wanted->dtype) < 8 || wanted->dtype == INLAY_STRING ||
        has_value(program->graph->outputs, program->graph->output_count, value))
        return false;
    for (uint32_t i = 0; i < program->parts.region_count; i++) {
        const partition_region *region = &program->parts.regions[i];
        const bool makes = has_value(region->outputs, region->output_count, value);

        if (!makes && !has_value(region->inputs, region->input_count, value))
            continue;
        if (region->provider != provider || !is_sized(program, region) || !supports(program, region, value, wanted))
            return false;
        made |= makes;
    }
    return made;
}

/* Another element type than the model's that all regions around the value support, the best one for the region that
 * computes it; NULL: none. */
static const inlay_placement *find_agreed(const struct program *program, uint32_t value)
{
    const partition_region *region = program->parts.regions, *end = region + program->parts.region_count;

    while (region < end && !has_value(region->outputs, region->output_count, value))
        region++;
    if (region == end || region->provider == INLAY_NONE)
        return NULL;
    for (uint32_t k = 0; k < region->offer_count; k++) {
        const partition_offer *offer = &program->parts.offers[region->offers[k]];

        for (uint32_t m = 0; m < offer->placement_count; m++)
            if (offer->placements[m].value == value && offer->placements[m].dtype != INLAY_UNDEFINED &&
                all_support(program, region->provider, value, &offer->placements[m]))
                return &offer->placements[m];
    }
    return NULL;
}

/* A placement that an offer of a region requests. */
struct offered {
    const inlay_placement *placement;
    uint32_t order;
};

static int compare_offered(const void *a, const void *b)
{
    const struct offered *first = a, *second = b;

    if (first->placement->value != second->placement->value)
        return first->placement->value < second->placement->value ? -1 : 1;
    return first->order < second->order ? -1 : first->order > second->order;
}

/* The placements of the region's offers, sorted by value. NULL: out of memory. */
static struct offered *sort_offered(const struct program *program, const partition_region *region, struct arena *arena,
                                    uint32_t *out_count)
{
    struct offered *list;
    uint32_t count = 0;

    for (uint32_t k = 0; k < region->offer_count; k++)
        count += program->parts.offers[region->offers[k]].placement_count;
    list = arena_array(arena, (size_t)count + 1, sizeof *list);
    *out_count = 0;
    for (uint32_t k = 0; list != NULL && k < region->offer_count; k++) {
        const partition_offer *offer = &program->parts.offers[region->offers[k]];

        for (uint32_t m = 0; m < offer->placement_count; m++, ++*out_count)
            list[*out_count] = (struct offered){ &offer->placements[m], *out_count };
    }
    if (list != NULL && count > 1)
        qsort(list, count, sizeof *list, compare_offered);
    return list;
}

/* The index of the value's first placement; `count` if it has none. */
static uint32_t first_offered(const struct offered *list, uint32_t count, uint32_t value)
{
    uint32_t low = 0, high = count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (list[middle].placement->value < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && list[low].placement->value == value ? low : count;
}

/* The placement of the value: one that all regions around it support, or the region's own first one. */
static const inlay_placement *choose_placement(const struct program *program, const struct offered *list,
                                               uint32_t count, uint32_t value)
{
    const inlay_placement *wanted = NULL, *agreed = NULL;
    bool converts = false;

    for (uint32_t i = first_offered(list, count, value); i < count && list[i].placement->value == value; i++) {
        if (wanted == NULL && partition_is_plain(list[i].placement))
            wanted = list[i].placement;
        converts |= !partition_is_plain(list[i].placement);
    }
    if (converts) /* otherwise this region supports no other element type than the model's */
        agreed = find_agreed(program, value);
    return agreed != NULL ? agreed : wanted;
}

inlay_placement *borders_negotiate(const struct program *program, const partition_region *region, struct arena *arena)
{
    const partition_provider *provider = &program->env->providers[region->provider];
    uint32_t count = region->input_count + region->output_count, offered_count;
    const struct offered *offered = sort_offered(program, region, arena, &offered_count);
    inlay_placement *list = arena_array(arena, (size_t)count + 1, sizeof *list);

    INLAY_CHECK(region->provider < program->env->provider_count);
    for (uint32_t i = 0; offered != NULL && list != NULL && i < count; i++) {
        uint32_t value = i < region->input_count ? region->inputs[i] : region->outputs[i - region->input_count];
        const inlay_placement *wanted = choose_placement(program, offered, offered_count, value);

        list[i] = wanted != NULL ? *wanted
                                 : (inlay_placement){ .value = value, .domain = partition_default_domain(provider) };
    }
    return offered != NULL ? list : NULL;
}
