/* graph_text.h - the dump of a graph as a string. */
#ifndef GRAPH_TEXT_H
#define GRAPH_TEXT_H
#include "graph/graph.h"
#include "told.h"

/* The caller frees the result. */
static inline char *graph_to_text(const struct graph *graph)
{
    struct told text = { 0 };

    graph_dump(graph, told_keep, &text);
    return text.data;
}
#endif
