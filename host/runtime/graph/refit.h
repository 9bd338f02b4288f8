/* graph/refit.h - a node as one of another version of its operator. */
#ifndef GRAPH_REFIT_H
#define GRAPH_REFIT_H
#include "graph/graph.h"

/* Makes a bound node one of `row`, another version of its operator, where it means the same there. An attribute that
 * the row does not have is dropped when its value is the one that the row implies, and refused otherwise; a default
 * that is another one there is stated. Counts and types of inputs and outputs must fit the row. The node's row stays;
 * the caller binds the node again, or writes it.
 *
 * adapted: the caller has made up for what the versions compute differently from the same node. Otherwise a node of an
 * operator that computes something else there is refused.
 *
 * False: the node is as it was, and *out_why (static, or the model's) says what does not fit; NULL: no memory. */
bool graph_refit(struct graph *graph, graph_node *node, const op_row *row, bool adapted, const char **out_why);
#endif
