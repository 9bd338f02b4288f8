/* graph_text.h - the dump of a graph as a string. */
#ifndef GRAPH_TEXT_H
#define GRAPH_TEXT_H
#include "modelkit/dump.h"
#include "text_buffer.h"

/* The caller frees the result. */
static inline char *graph_to_text(const struct graph *graph)
{
    struct text_buffer text = { 0 };

    graph_dump(graph, text_buffer_append, &text);
    return text.data;
}
#endif
