/* graph/history.h - what the optimiser took out of a graph, so that a rewrite can be undone.
 *
 * A node that a pass removes still says how its outputs were computed. So to undo a rewrite, the nodes that it made go,
 * and for each value that is then missing the node comes back that made it before; likewise for what that node reads.
 * Rewrites are undone in any order: a node that comes back may itself be of an older rewrite, which can be undone next.
 */
#ifndef GRAPH_HISTORY_H
#define GRAPH_HISTORY_H
#include "graph/graph.h"

/* Called while a pass runs (graph_model.pass); otherwise, and without memory, nothing is remembered, and what would
 * need it can't be undone. */
void history_removed(struct graph *graph, graph_node *node);          /* n goes */
void history_same(struct graph *graph, uint32_t v, uint32_t instead); /* readers of v read `instead`, its equal */

/* The i-th node that the rewrite took out; NULL past the last. */
const graph_node *history_replaced(const struct graph *graph, int64_t rewrite, uint32_t i);

/* A graph as it was; undone rewrites leave nodes and values as they were, so this is a list of them. */
typedef struct graph_saved {
    graph_node **nodes;
    graph_value *values;
    uint32_t node_count, node_capacity, value_count;
} graph_saved;

/* Without its bodies. False: no memory. */
bool history_save(const struct graph *graph, struct arena *arena, graph_saved *out);
void history_restore(struct graph *graph, const graph_saved *saved);

/* Puts back what the rewrite replaced in graph, and drops what it made. False: it can't be undone, or no memory; then
 * graph is as it was. Otherwise graph_finish and graph_infer are the caller's; should they fail, so is history_restore.
 */
bool history_undo(struct graph *graph, int64_t rewrite);
#endif
