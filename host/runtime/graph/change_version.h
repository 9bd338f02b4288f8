/* graph/change_version.h - changes a node to another version of its operator. */
#ifndef GRAPH_CHANGE_VERSION_H
#define GRAPH_CHANGE_VERSION_H
#include "graph/graph.h"

/* Changes a bound node to `row`, another version of its operator, if that preserves its results. An attribute that the
 * row does not have is dropped if the row implies its value; otherwise the conversion fails. A default that differs in
 * the row becomes an explicit attribute. Counts and types of inputs and outputs must be valid for the row. node->row
 * does not change; the caller binds the node again, or writes it to a file.
 *
 * adapted: the caller has compensated for different semantics of the two versions. Otherwise the conversion fails for
 * operators whose semantics changed.
 *
 * False: the node is unchanged, and *out_why (static, or owned by the model) is the reason; NULL: out of memory. */
bool graph_change_version(struct graph *graph, graph_node *node, const op_row *row, bool adapted, const char **out_why);
#endif
