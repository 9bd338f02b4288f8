/* report/layout.h - positions for the nodes of a graph: rows by the longest path from the inputs, ordered within a row
 * to reduce crossings. Private to this folder. */
#ifndef REPORT_LAYOUT_H
#define REPORT_LAYOUT_H
#include "graph/graph.h"

/* A box: a node, an input or an output of the graph. */
typedef struct layout_box {
    const graph_node *node; /* NULL: an input or output of the graph, the value below */
    uint32_t value;
    uint32_t row;
    bool is_free; /* a node that does not depend on inputs of the graph */
    double x;     /* of its centre, in widths of a box */
} layout_box;

/* An edge between boxes, for a value. */
typedef struct layout_edge {
    uint32_t from, to, value;
} layout_edge;

struct layout {
    layout_box *boxes; /* inputs, nodes in their order, outputs */
    layout_edge *edges;
    uint32_t box_count, edge_count, row_count;
    double width; /* in boxes */
};

/* The arena owns the memory. false: out of memory. */
bool layout_graph(const struct graph *graph, struct arena *arena, struct layout *out);
#endif
