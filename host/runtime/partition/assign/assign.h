/* partition/assign/assign.h - from chosen offers to regions, for one graph and for all graphs of a session.
 *
 * - partition.c: one graph
 * - region_prices.c: prices of formed regions
 * - regions.c: boundaries of regions, and copies
 * - partition_check.c: what holds for regions
 * - assign_session.c: all graphs of a session, with the rules that hold for them together
 * - saved.c: writes and follows saved plans */
#ifndef PARTITION_ASSIGN_H
#define PARTITION_ASSIGN_H
#include "partition/search/search.h"

/* Forms the regions of the same choice again after the boundary placements of the request have changed: updates copies
 * and their prices. */
INLAY_NODISCARD inlay_status partition_form_again(const partition_job *job, inlay_diag *diag);

/* Asks providers for the prices of their regions (inlay_provider.cost_region), and distributes them over the offers of
 * the regions. *out_changed: some price changed; the partition then has its offers, but no choice. INLAY_OUT_OF_MEMORY:
 * nothing else is lost. */
INLAY_NODISCARD inlay_status partition_price_regions(const partition_request *request, struct partition *partition,
                                                     bool *out_changed);

/* Forms the regions of the choice, with their boundaries, copies and memory. */
INLAY_NODISCARD inlay_status partition_form_regions(struct problem *problem, const uint32_t *choice,
                                                    struct arena *arena, inlay_diag *diag);

/* Checks what holds for formed regions, as INLAY_CHECK(partition_check(partition, graph, region_of)): returns true, or
 * the process ends at the condition that does not hold. Each node is in one region, and regions read what earlier ones
 * compute. region_of: [node_count], overwritten. */
bool partition_check(const struct partition *partition, const struct graph *graph, uint32_t *region_of);
#endif
