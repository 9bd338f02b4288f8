/* partition/problem/flow.h - the least cost of many yes-or-no choices of which some depend on each other: a minimum
 * cut.
 *
 * Choice n costs cost0 when it stays 0 and cost1 when it becomes 1; a pair (from, to) costs something when from stays 0
 * while to becomes 1. Such sums, and no others, can be minimised exactly in little time. Costs are whole numbers, so
 * that the answer is the same everywhere; FLOW_NEVER forbids.
 *
 * The algorithm is that of Boykov and Kolmogorov ("An experimental comparison of min-cut/max-flow algorithms", 2004):
 * search trees grow from both ends and are repaired, not rebuilt, after every augmentation. */
#ifndef PARTITION_FLOW_H
#define PARTITION_FLOW_H
#include "base/arena.h"
#include <stdbool.h>

/* All finite costs together must stay below. */
#define FLOW_NEVER (INT64_C(1) << 61)

typedef struct flow_node flow_node;
typedef struct flow_arc flow_arc;
struct flow {
    struct arena *arena; /* set by the owner; the arrays grow in it and are kept from one problem to the next */
    flow_node *nodes;
    flow_arc *arcs;
    uint32_t *orphans; /* queue, as long as there are nodes */
    uint32_t node_count, node_capacity;
    uint32_t arc_count, arc_capacity;
    uint32_t orphan_capacity;
    uint32_t active_first, active_last; /* nodes that may still grow */
    uint32_t orphan_first, orphan_count;
    uint32_t clock;
    bool failed; /* no memory: the answers are void */
};

/* Forgets the last problem. */
void flow_clear(struct flow *flow);
/* A new choice; its number. */
uint32_t flow_add(struct flow *flow);
void flow_cost(struct flow *flow, uint32_t node, int64_t cost0, int64_t cost1);
void flow_pair(struct flow *flow, uint32_t from, uint32_t to, int64_t cost);
/* False: out of memory, at any point since flow_clear. */
bool flow_solve(struct flow *flow);
/* The choice made. Where both cost the same it is 0. */
bool flow_is_one(const struct flow *flow, uint32_t node);
#endif
