/* partition/problem/flow.h - minimises a sum of costs of binary variables and of pairs of them: a minimum cut.
 *
 * Variable n costs cost0 if it is 0 and cost1 if it is 1. A pair (from, to) costs its price if `from` is 0 and `to` is
 * 1. Exactly such sums can be minimised in polynomial time. Costs are integers, so that the result is the same on every
 * machine; FLOW_NEVER forbids an assignment.
 *
 * The algorithm is that of Boykov and Kolmogorov ("An experimental comparison of min-cut/max-flow algorithms", 2004):
 * search trees grow from both ends and are repaired, not rebuilt, after every augmentation. */
#ifndef PARTITION_FLOW_H
#define PARTITION_FLOW_H
#include "base/arena.h"
#include <stdbool.h>

/* The sum of all finite costs must be smaller. */
#define FLOW_NEVER (INT64_C(1) << 61)

typedef struct flow_node flow_node;
typedef struct flow_arc flow_arc;
struct flow {
    struct arena *arena; /* set by the owner; the arrays grow in it and are reused for the next problem */
    flow_node *nodes;
    flow_arc *arcs;
    uint32_t *orphans; /* ring of node_count entries */
    uint32_t node_count, node_capacity;
    uint32_t arc_count, arc_capacity;
    uint32_t orphan_capacity;
    uint32_t active_first, active_last; /* queue of active nodes */
    uint32_t orphan_first, orphan_count;
    uint32_t clock;
    bool failed; /* out of memory: results are invalid */
};

/* Starts a new problem. */
void flow_clear(struct flow *flow);
/* Adds a variable; returns its index. */
uint32_t flow_add(struct flow *flow);
void flow_cost(struct flow *flow, uint32_t node, int64_t cost0, int64_t cost1);
void flow_pair(struct flow *flow, uint32_t from, uint32_t to, int64_t cost);
/* False: out of memory, at any point since flow_clear. */
bool flow_solve(struct flow *flow);
/* The value of the variable. 0 if both values cost the same. */
bool flow_is_one(const struct flow *flow, uint32_t node);
#endif
