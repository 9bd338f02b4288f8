/* weights.h - where the weights of a model are when a node reads them: they were last read a run ago, and all others
 * since then. For cost models. */
#ifndef COMMON_WEIGHTS_H
#define COMMON_WEIGHTS_H
#include "inlay/plugin.h"

#define KEPT_WEIGHTS 32e6  /* bytes of a graph that stay in the last cache; of half as many all, of more ever less */
#define CORE_WEIGHTS 65536 /* bytes of one node: they go through in a breath wherever they are near */
#define FAR_WEIGHTS_PER_NS 60.0 /* bytes that memory brings, beyond what the same take from the last cache */

/* Bytes of all constants of the graph; 0 from a host that does not tell. */
static inline double weights_of_graph(const inlay_graph *graph)
{
    return INLAY_HAS(graph, constant_bytes) ? (double)graph->constant_bytes : 0;
}

/* Nanoseconds that `bytes` of weights take longer than from the last cache, in a graph with `all` bytes of them: of
 * those that memory brings a part comes from there, the more the larger all of them are. */
static inline double weights_far_ns(double all, double bytes)
{
    double far = 2 * all / KEPT_WEIGHTS - 1;

    far = far < 0 ? 0 : far > 1 ? 1 : far;
    return far * bytes / (bytes < CORE_WEIGHTS ? 2 * FAR_WEIGHTS_PER_NS : FAR_WEIGHTS_PER_NS);
}
#endif
