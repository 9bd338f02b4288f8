/* passes/same_body.h - do two bodies (of If, Loop, Scan) compute the same? */
#ifndef PASSES_SAME_BODY_H
#define PASSES_SAME_BODY_H
#include "passes/rewrite.h"

/* All attributes are equal; strings, lists and tensors by their elements. Kinds that only the host reads never are. */
bool same_attrs(const graph_node *a, const graph_node *b);

/* Do the nodes, of one graph, have equal bodies that capture the same values in the same order? Nodes are compared as
 * they stand, in order; nothing random may be among them. Memory of the visit; out of it, they differ. */
bool same_bodies(struct rewrite *rewrite, const graph_node *a, const graph_node *b);
#endif
