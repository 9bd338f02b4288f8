/* graph_text.h - the dump of a graph as a string, to compare and to search in. */
#ifndef GRAPH_TEXT_H
#define GRAPH_TEXT_H
#include "graph/graph.h"
#include <stdlib.h>
#include <string.h>

typedef struct graph_text {
    char *text;
    size_t count, capacity;
} graph_text;

static inline void graph_text_add(void *ctx, const char *text, size_t bytes)
{
    graph_text *t = ctx;

    if (t->count + bytes + 1 > t->capacity) {
        t->capacity = (t->count + bytes + 1) * 2;
        t->text = realloc(t->text, t->capacity);
        if (t->text == NULL)
            abort();
    }
    memcpy(t->text + t->count, text, bytes);
    t->count += bytes;
    t->text[t->count] = '\0';
}

/* free() it. */
static inline char *graph_to_text(const graph *g)
{
    graph_text t = { 0 };

    graph_dump(g, graph_text_add, &t);
    return t.text;
}
#endif
