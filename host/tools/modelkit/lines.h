/* modelkit/lines.h - a model as lines of text that describe it completely, with hashes for weights; the input of `inlay
 * diff`. Lines are independent: one change of the model changes one line. */
#ifndef MODELKIT_LINES_H
#define MODELKIT_LINES_H
#include "graph/graph.h"

typedef struct lines_part {
    const char *title; /* "model", "graph 'g' nodes" */
    char **lines;      /* [count] without newline */
    uint32_t count;
} lines_part;

struct lines {
    struct arena arena;
    lines_part *parts; /* [count] */
    uint32_t count;
    bool failed;
};

/* Creates the model's lines. Check `failed`; release with lines_deinit(). */
void lines_of(graph_model *model, struct lines *out);
void lines_deinit(struct lines *lines);

/* The attributes of a node as text: " axis=1 pads=[0, 1]"; NULL: out of memory. */
char *lines_attributes(struct arena *arena, const graph_node *node);
/* "float[N, 3]": the declared type, or the inferred one if none is declared. NULL: out of memory. */
char *lines_type(struct arena *arena, const graph_model *model, const graph_value *value);
#endif
