/* graph/history.h - records the nodes that the optimiser removes from a graph, so that a rewrite can be undone.
 *
 * Undoing a rewrite removes the nodes that the rewrite created, and restores, for each value that then has no producer,
 * the removed node that produced the value before; likewise for the inputs of restored nodes. Rewrites can be undone in
 * any order: a restored node may belong to an older rewrite, which can be undone next. */
#ifndef GRAPH_HISTORY_H
#define GRAPH_HISTORY_H
#include "graph/graph.h"

/* The next two functions record changes while a pass runs (graph_model.pass is set); otherwise they do nothing. If
 * memory is exhausted, nothing is recorded, and rewrites that depend on the record cannot be undone. */
void history_removed(struct graph *graph, graph_node *node); /* the pass removes node */
/* Readers of `value` now read `instead`, which has the same contents. */
void history_value_replaced(struct graph *graph, uint32_t value, uint32_t instead);

/* The i-th node that the rewrite removed; NULL after the last. */
const graph_node *history_replaced(const struct graph *graph, int64_t rewrite, uint32_t i);

/* Nodes that a pass has removed because nothing reads their results. These nodes are no longer run, but they may refuse
 * the sizes of a run, for instance if a window is larger than the padded image: every plan infers their shapes
 * (plan/layout/plan.c), so that a model is refused with or without the optimiser. The last function returns the value
 * that is read in place of `value`, or `value` itself. */
void history_keep_check(struct graph *graph, graph_node *node); /* in the order of the graph */
graph_node *const *history_checks(const struct graph *graph, uint32_t *out_count);
uint32_t history_resolve(const struct graph *graph, uint32_t value);

/* A saved state of a graph. Undoing a rewrite does not modify nodes and values, so lists of them are sufficient. */
typedef struct graph_saved {
    graph_node **nodes;
    graph_value *values;
    uint32_t node_count, node_capacity, value_count;
} graph_saved;

/* Saves a graph without its bodies. False: out of memory. */
bool history_save(const struct graph *graph, struct arena *arena, graph_saved *out);
void history_restore(struct graph *graph, const graph_saved *saved);

/* Restores the nodes that the rewrite removed from graph, and removes the nodes that the rewrite created. False: the
 * rewrite cannot be undone, or out of memory; graph is unchanged then. Otherwise the caller calls graph_finish() and
 * graph_infer(), and history_restore() if one of them fails. */
bool history_undo(struct graph *graph, int64_t rewrite);
#endif
