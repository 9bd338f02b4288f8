/* weights.h - the weights of a graph. Between two reads of a node's weights, a run reads all other weights of the
 * model. The caches therefore keep the weights of small models only; large models read them from memory. */
#ifndef COMMON_WEIGHTS_H
#define COMMON_WEIGHTS_H
#include "inlay/graph_view.h"

/* Bytes of all constants of the graph; 0 if the host does not report it. */
static inline double weights_of_graph(const inlay_graph *graph)
{
    return INLAY_HAS(graph, constant_bytes) ? (double)graph->constant_bytes : 0;
}
#endif
