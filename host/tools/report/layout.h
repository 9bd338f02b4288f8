/* report/layout.h - places for the nodes of a graph: rows by the longest way from the inputs, ordered within a row so
 * that few edges cross. Private to this folder. */
#ifndef MODELKIT_LAYOUT_H
#define MODELKIT_LAYOUT_H
#include "graph/graph.h"

/* A box: a node, an input or an output of the graph. */
typedef struct layout_box {
    const graph_node *node; /* NULL: the value below comes in or goes out */
    uint32_t v;
    uint32_t row;
    bool is_free; /* a node that no input of the graph leads to */
    double x;     /* of its middle, in widths of a box */
} layout_box;

/* From box to box, by a value. */
typedef struct layout_edge {
    uint32_t from, to, v;
} layout_edge;

struct layout {
    layout_box *boxes; /* inputs, nodes in their order, outputs */
    layout_edge *edges;
    uint32_t box_count, edge_count, row_count;
    double width; /* boxes side by side */
};

/* Memory is the arena's. false: there is none. */
bool layout_graph(const struct graph *graph, struct arena *arena, struct layout *out);
#endif
