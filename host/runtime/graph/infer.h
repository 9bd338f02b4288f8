/* graph/infer.h - declarations shared by infer*.c. */
#ifndef GRAPH_INFER_H
#define GRAPH_INFER_H
#include "graph/graph.h"

/* State of one call of graph_infer(). */
struct inference {
    graph_model *model;
    inlay_diag *diag;
    uint32_t depth; /* number of enclosing loop bodies */
};

/* Infers all nodes of graph in order. */
INLAY_NODISCARD inlay_status infer_graph(struct inference *inf, struct graph *graph);

/* For a node with bodies: sets the types of the bodies' inputs and captures, infers the bodies, and sets the node's
 * outputs. */
INLAY_NODISCARD inlay_status infer_bodies(struct inference *inf, struct graph *graph, const graph_node *node);

/* For planning: sets the output shapes of an If as far as the shapes of its branches' outputs are fixed. Leaves the
 * outputs of other nodes with bodies unknown. out as in graph_infer_node(). */
INLAY_NODISCARD inlay_status infer_body_outputs(const graph_node *node, inlay_value_info *const *out,
                                                struct arena *scratch);

/* The trip count of a Loop of graph if it is a constant and the condition stays true; otherwise -1. */
int64_t infer_loop_trip_count(const struct graph *graph, const graph_node *node);

/* Infers a node whose operator a plugin defines. In infer_custom.c. */
INLAY_NODISCARD inlay_status infer_custom(op_infer *infer, const inlay_operator *op);

/* The functions below are in infer_types.c. */
op_value_type infer_type_of(const graph_value *value);
/* Sets output types that depend on the node's inputs and attributes and not on the schema alone: operators for
 * sequences, optionals and maps. */
void infer_derive_type(const struct graph *graph, const graph_node *node, op_value_type *out);

/* Copies type, rank and dims (not elements, data, name or flags). */
void infer_copy_type(graph_value *to, const graph_value *from);
/* Resets the type and shape to a tensor of unknown type and rank. */
void infer_forget(graph_value *value);
/* Uses the type and shape that the file declares for a value where they are still unknown. */
void infer_use_declared(const struct graph *graph, graph_value *value);
#endif
