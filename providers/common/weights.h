/* weights.h - cost model of reading weights. Between two reads of a node's weights, a run reads all other weights of
 * the model. The caches therefore keep the weights of small models only; large models read them from memory. */
#ifndef COMMON_WEIGHTS_H
#define COMMON_WEIGHTS_H
#include "inlay/graph_view.h"

/* Weights of the graph up to half of this size stay in the last-level cache. Above that, a growing share of all weights
 * is read from memory: from this size on, all of them. */
#define CACHED_WEIGHT_BYTES 32e6
#define SMALL_NODE_WEIGHT_BYTES 65536 /* weights of a node below this size are read at twice the speed */
#define FAR_WEIGHTS_PER_NS 60.0       /* bytes per nanosecond from memory, beyond the time from the last-level cache */

/* Bytes of all constants of the graph; 0 if the host does not report it. */
static inline double weights_of_graph(const inlay_graph *graph)
{
    return INLAY_HAS(graph, constant_bytes) ? (double)graph->constant_bytes : 0;
}

/* Additional nanoseconds to read `bytes` of weights compared with the last-level cache, in a graph with `all` bytes
 * of weights. The share that comes from memory grows with `all`. */
static inline double weights_memory_ns(double all, double bytes)
{
    double far = 2 * all / CACHED_WEIGHT_BYTES - 1;

    far = far < 0 ? 0 : far > 1 ? 1 : far;
    return far * bytes / (bytes < SMALL_NODE_WEIGHT_BYTES ? 2 * FAR_WEIGHTS_PER_NS : FAR_WEIGHTS_PER_NS);
}
#endif
