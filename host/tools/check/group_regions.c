/* Compiles regions of unusual shape, for providers whose offers may be merged: unconnected parts, nodes of different
 * shapes, values with several consumers, many outputs, nodes outside of the region in between. The results of a region
 * are compared with the results of its nodes, run one by one on the same provider. */
#include "check/region_run.h"
#include <stdlib.h>

enum { REGIONS = 400, QUICK_REGIONS = 60, RANDOM_PARTS = 7 };

static void try_region(struct regions *regions)
{
    const uint32_t parts = 2 + region_roll(regions, RANDOM_PARTS - 1);
    case_instance built = { .model = NULL };

    while (regions->part_count < parts && region_add_part(regions))
        continue;
    if (regions->part_count >= 2 && region_make_model(regions, &built) && region_make_states(&built) &&
        region_assess(regions, &built) && region_choose(regions, &built.snapshot, 2))
        region_run(regions, &built);
    case_instance_deinit(&built);
    region_drop_parts(regions);
}

static void try_provider(struct check *check, const struct fixture *fixture, const loaded_provider *provider,
                         const inlay_operator *const *custom, uint32_t custom_count)
{
    struct regions *regions = calloc(1, sizeof *regions);
    const uint32_t count = check->args->quick ? QUICK_REGIONS : REGIONS;

    if (regions == NULL)
        return;
    *regions = (struct regions){ .check = check,
                                 .name = "regions",
                                 .fixture = fixture,
                                 .provider = provider,
                                 .pool = calloc(MAX_POOL, sizeof *regions->pool) };
    if (regions->pool != NULL)
        generate_sources(custom, custom_count, check->args->op, true, region_take_source, regions);
    for (uint32_t i = 0; regions->count > 0 && i < count && regions->failed < 4; i++) {
        regions->state = check->args->seed * 1000 + i;
        if (check_unit(check, "%s: region %u", provider->name, i))
            try_region(regions);
    }
    if (regions->count == 0)
        check_skip(check, "regions", provider->name, "no offer may be merged: each is compiled alone");
    else if (regions->tried > 0 && regions->declined == regions->tried)
        check_warn(check, "regions", provider->name, "a region of several offers compiles",
                   "do not set INLAY_OFFER_MERGE on offers that can only be compiled alone",
                   "all %u regions were declined", regions->tried);
    else if (regions->failed == 0 && regions->tried > 0)
        check_pass(check, "regions", provider->name,
                   "%u regions of %u kinds of node, %u of them not connected, %u declined: same "
                   "results as the nodes alone",
                   regions->tried, regions->count, regions->unconnected, regions->declined);
    for (uint32_t i = 0; i < regions->count; i++)
        case_deinit(&regions->pool[i]);
    free(regions->pool);
    free(regions);
}

void check_group_regions(struct check *check)
{
    fixture_each(check, "regions", try_provider);
}
