/* modelkit/lines.h - a model as lines of text that tell all there is of it, weights by a hash: what a difference is
 * made of. Each line stands for itself, so one change of the model changes one line. */
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

/* The model's lines. Check `failed`; release with lines_deinit(). */
void lines_of(graph_model *model, struct lines *out);
void lines_deinit(struct lines *lines);

/* The attributes of a node as text: " axis=1 pads=[0, 1]"; NULL: no memory. */
char *lines_attributes(struct arena *arena, const graph_node *node);
/* "float[N, 3]" of what is declared, or known where nothing is. NULL: no memory. */
char *lines_type(struct arena *arena, const graph_model *model, const graph_value *value);
#endif
