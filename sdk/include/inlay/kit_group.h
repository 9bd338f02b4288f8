/* inlay/kit_group.h - groups of nodes that a provider offers as a whole, by patterns in text.
 *
 *     uint32_t *readers = kit_readers(graph);
 *     for (uint32_t n = 0; readers != NULL && n < graph->node_count; n++) {
 *         uint32_t nodes[KIT_GROUP_NODES];
 *         uint32_t count = kit_group_match(graph, readers, candidates, "Conv Relu|Clip? Add?", n, nodes);
 *         // count > 0: offer nodes [count], once their attributes and shapes fit
 *     }
 *     free(readers); */
#ifndef INLAY_KIT_GROUP_H
#define INLAY_KIT_GROUP_H
#include "inlay/graph_view.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KIT_GROUP_NODES = 16 };

/* Returns, for each value, the only node that reads it: [value_count] indices, INLAY_NONE if no node or several nodes
 * read it, or the graph returns it. A node that reads it twice is one node. The caller passes the memory to free().
 * NULL: out of memory. */
uint32_t *kit_readers(const inlay_graph *graph);

/* Finds a chain of nodes that begins with node `first` and fits a pattern: names of operators with blanks between them,
 * each with alternatives after '|', and a '?' behind those that may be absent, which are taken where they fit.
 * Operators are those of domain ai.onnx, or "DOMAIN:OPERATOR". Each node after the first reads output 0 of the node
 * before it, at any input, and is its only reader; all are candidates (candidates NULL: all nodes are). Returns the
 * number of nodes, ascending in nodes; 0: no chain fits, or the chain is longer than KIT_GROUP_NODES. */
uint32_t kit_group_match(const inlay_graph *graph, const uint32_t *readers, const uint8_t *candidates,
                         const char *pattern, uint32_t first, uint32_t nodes[KIT_GROUP_NODES]);

#ifdef __cplusplus
}
#endif
#endif
