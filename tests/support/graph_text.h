/* graph_text.h - the dump of a graph as a string, to compare and to search in. */
#ifndef GRAPH_TEXT_H
#define GRAPH_TEXT_H
#include "graph/graph.h"
#include "told.h"

/* free() it. */
static inline char *graph_to_text(const struct graph *graph)
{
    struct told told = { 0 };

    graph_dump(graph, told_keep, &told);
    return told.data;
}
#endif
