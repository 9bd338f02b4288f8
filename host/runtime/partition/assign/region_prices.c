/* Prices of formed regions (inlay_provider.cost_region): offers that merge are priced one by one, but a provider may
 * know that they cost more or less together. */
#include "partition/assign/assign.h"
#include "inlay/plugin.h"
#include <math.h>
#include <stdlib.h>

/* Smaller relative changes of a price are ignored. */
#define SAME_PRICE 1e-3

/* The provider's price of the region at a number of threads in nanoseconds, with changes of layout at its borders;
 * negative: it has none, and the sum of its offers counts. cookies: room for one per node of the graph. */
static double ask(const partition_request *request, const struct partition *partition, const partition_region *region,
                  uint32_t threads, uint64_t *cookies)
{
    const partition_provider *provider = &request->providers[region->provider];
    const inlay_region_cost_request ask = { .struct_size = sizeof ask,
                                            .graph = request->snapshot,
                                            .nodes = region->nodes,
                                            .cookies = cookies,
                                            .inputs = region->inputs,
                                            .outputs = region->outputs,
                                            .node_count = region->node_count,
                                            .offer_count = region->offer_count,
                                            .input_count = region->input_count,
                                            .output_count = region->output_count,
                                            .values = partition->profile,
                                            .value_count = request->snapshot->value_count,
                                            .value_stride = sizeof *partition->profile,
                                            .max_threads = threads };
    inlay_cost cost = { .struct_size = sizeof cost };
    inlay_diag why = INLAY_DIAG_INIT;

    for (uint32_t i = 0; i < region->offer_count; i++)
        cookies[i] = partition->offers[region->offers[i]].cookie;
    if (provider->table->cost_region(provider->state, &ask, &cost, &why) != INLAY_OK || !isfinite(cost.ns))
        return -1;
    cost_convert_to_here(provider->table, &cost);
    return cost.ns;
}

/* Returns whether the prices of all offers are the provider's own estimates. Measured and calibrated prices are better
 * than its model of the region. */
static bool is_estimated(const struct partition *partition, const partition_region *region)
{
    for (uint32_t i = 0; i < region->offer_count; i++) {
        const uint32_t source = partition->offers[region->offers[i]].cost_source;

        if (source != COST_GUESS && source != COST_MODEL && source != COST_CLAIMED)
            return false;
    }
    return true;
}

/* Distributes the price of a region over its offers, in proportion to their own prices. */
static void distribute(struct partition *partition, const partition_region *region, double ns)
{
    const double sum = region->cost_ns + region->border_ns;

    for (uint32_t i = 0; i < region->offer_count; i++) {
        inlay_cost *cost = &partition->offers[region->offers[i]].cost;

        partition->offers[region->offers[i]].region_price = true;
        cost->ns = sum > 0 ? cost->ns * ns / sum : ns / region->offer_count;
        cost->enter_ns = sum > 0 ? cost->enter_ns * ns / sum : 0;
        cost->leave_ns = sum > 0 ? cost->leave_ns * ns / sum : 0;
    }
}

/* Prepares another choice among the offers. */
static void forget_choice(struct partition *partition)
{
    for (uint32_t i = 0; i < partition->offer_count; i++)
        partition->offers[i].chosen = false;
    partition->regions = NULL;
    partition->copies = NULL;
    partition->memory = NULL;
    partition->region_count = partition->copy_count = partition->import_count = partition->partition_count = 0;
    partition->cost_ns = partition->launch_ns = partition->once_ns = 0;
}

inlay_status partition_price_regions(const partition_request *request, struct partition *partition, bool *out_changed)
{
    uint64_t *cookies = NULL;

    *out_changed = false;
    for (uint32_t i = 0; i < partition->region_count; i++) {
        const partition_region *region = &partition->regions[i];
        const double sum = region->cost_ns + region->border_ns;
        double few, many;

        if (region->provider == INLAY_NONE || region->offer_count < 2 ||
            request->providers[region->provider].table->cost_region == NULL || !is_estimated(partition, region))
            continue;
        if (cookies == NULL)
            cookies = malloc(((size_t)request->graph->node_count + 1) * sizeof *cookies);
        if (cookies == NULL)
            return INLAY_OUT_OF_MEMORY;
        few = ask(request, partition, region, COST_FEW_THREADS, cookies);
        many = ask(request, partition, region, COST_THREADS, cookies);
        if (few < 0 || many < 0 || fabs((few + many) / 2 - sum) <= SAME_PRICE * sum)
            continue;
        distribute(partition, region, (few + many) / 2);
        *out_changed = true;
    }
    free(cookies);
    if (*out_changed)
        forget_choice(partition);
    return INLAY_OK;
}
