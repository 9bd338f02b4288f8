/* modelkit/dump.h - a graph as text: one line for each input, constant and node, bodies indented below their node. */
#ifndef MODELKIT_DUMP_H
#define MODELKIT_DUMP_H
#include "graph/graph.h"

/* Writes the graph through `write`, which gets ctx. */
void graph_dump(const struct graph *graph, void (*write)(void *ctx, const char *text, size_t bytes), void *ctx);
#endif
