/* passes/same_body.h - compares bodies of If, Loop and Scan. */
#ifndef PASSES_SAME_BODY_H
#define PASSES_SAME_BODY_H
#include "passes/rewrite.h"

/* Returns true if all attributes are equal; strings, lists and tensors are compared by element. Attribute kinds that
 * only the host reads never compare equal. */
bool same_attrs(const graph_node *a, const graph_node *b);

/* Returns true if two nodes of one graph have equal bodies that capture the same values in the same order. Nodes are
 * compared in their stored order; random operators never compare equal. Uses scratch memory; returns false if it is
 * out. */
bool same_bodies(struct rewrite *rewrite, const graph_node *a, const graph_node *b);
#endif
