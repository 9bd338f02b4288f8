/* plan/program/borders.c - negotiates domain and element type of the values passed between regions. */
#include "plan/program/borders.h"
#include "inlay/check.h"

/* The placement that some offer of the region requests for the value: the best one with the model's element type, or (like
 * not NULL) one equal to `like`. NULL: no request. */
static const inlay_placement *find_placement(const struct program *program, const partition_region *region,
                                             uint32_t value, const inlay_placement *like)
{
    for (uint32_t k = 0; k < region->offer_count; k++) {
        const partition_offer *offer = &program->parts.offers[region->offers[k]];
        for (uint32_t m = 0; m < offer->placement_count; m++)
            if (offer->placements[m].value == value && (like == NULL ? partition_is_plain(&offer->placements[m])
                                                                     : offer->placements[m].domain == like->domain &&
                                                                           offer->placements[m].dtype == like->dtype))
                return &offer->placements[m];
    }
    return NULL;
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
        if (region->provider != provider || !is_sized(program, region) ||
            find_placement(program, region, value, wanted) == NULL)
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

inlay_placement *borders_negotiate(const struct program *program, const partition_region *region, struct arena *arena)
{
    const partition_provider *provider = &program->env->providers[region->provider];
    uint32_t count = region->input_count + region->output_count;
    inlay_placement *list = arena_array(arena, (size_t)count + 1, sizeof *list);

    INLAY_CHECK(region->provider < program->env->provider_count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        uint32_t value = i < region->input_count ? region->inputs[i] : region->outputs[i - region->input_count];
        const inlay_placement *wanted = find_agreed(program, value);

        if (wanted == NULL)
            wanted = find_placement(program, region, value, NULL);
        list[i] = wanted != NULL ? *wanted
                                 : (inlay_placement){ .value = value, .domain = partition_default_domain(provider) };
    }
    return list;
}
