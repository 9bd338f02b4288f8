/* partition/assign/partition_check.c - invariants of the regions of a graph, which come from a solver, a saved plan, or
 * a solution after its prices have changed. */
#include "inlay/check.h"
#include "partition/assign/assign.h"
#include <string.h>

/* Each node is in exactly one region. */
static void check_nodes(const struct partition *partition, const struct graph *graph, uint32_t *region_of)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < partition->region_count; i++) {
        const partition_region *region = &partition->regions[i];

        INLAY_CHECK(region->node_count > 0);
        for (uint32_t k = 0; k < region->node_count; k++) {
            INLAY_CHECK(region->nodes[k] < graph->node_count && region_of[region->nodes[k]] == INLAY_NONE);
            region_of[region->nodes[k]] = i;
        }
        count += region->node_count;
    }
    INLAY_CHECK(count == graph->node_count);
}

/* A region reads what earlier ones compute. */
static void check_order(const struct partition *partition, const struct graph *graph, const uint32_t *region_of)
{
    for (uint32_t i = 0; i < partition->region_count; i++) {
        const partition_region *region = &partition->regions[i];

        for (uint32_t k = 0; k < region->input_count; k++) {
            const uint32_t producer = partition_producer_of(graph, region->inputs[k]);

            INLAY_CHECK(producer == INLAY_NONE || region_of[producer] < i);
        }
        for (uint32_t k = 0; k < region->output_count; k++)
            INLAY_CHECK(region_of[partition_producer_of(graph, region->outputs[k])] == i);
    }
    for (uint32_t i = 0; i < partition->copy_count; i++) {
        const partition_copy *copy = &partition->copies[i];

        INLAY_CHECK(copy->from_domain != copy->to_domain);
        INLAY_CHECK(copy->from_region == INLAY_NONE || copy->to_region == INLAY_NONE ||
                    copy->from_region < copy->to_region);
    }
}

bool partition_check(const struct partition *partition, const struct graph *graph, uint32_t *region_of)
{
    memset(region_of, 0xff, graph->node_count * sizeof *region_of);
    check_nodes(partition, graph, region_of);
    check_order(partition, graph, region_of);
    return true;
}
