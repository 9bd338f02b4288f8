/* graph/infer.h - what infer*.c share. */
#ifndef GRAPH_INFER_H
#define GRAPH_INFER_H
#include "graph/graph.h"

/* State of one graph_infer(). */
struct inference {
    graph_model *model;
    inlay_diag *diag;
    uint32_t depth; /* of bodies that iterate, around where we are */
};

/* Infers all nodes of graph in order. */
INLAY_NODISCARD inlay_status infer_graph(struct inference *inf, struct graph *graph);

/* A node with bodies: gives the bodies' inputs and captures their types, infers them, and states the node's outputs. */
INLAY_NODISCARD inlay_status infer_bodies(struct inference *inf, struct graph *graph, const graph_node *node);

/* The shapes of the outputs of a node with bodies as far as they follow from the bodies' outputs and are fixed; for use
 * when planning. out as in graph_infer_node(). */
INLAY_NODISCARD inlay_status infer_body_outputs(const graph_node *node, inlay_value_info *const *out,
                                                struct arena *scratch);

/* How often a Loop of graph runs, where that is fixed: the number is a constant, and its condition stays true. -1: it
 * is not. */
int64_t infer_loop_turns(const struct graph *graph, const graph_node *node);

/* A node whose operator a plugin brings. In infer_custom.c. */
INLAY_NODISCARD inlay_status infer_custom(op_infer *infer, const inlay_operator *op);

op_value_type infer_type_of(const graph_value *value);
/* The outputs whose type the schema leaves open and the node's inputs and attributes settle: the operators on
 * sequences, optionals and maps. */
void infer_derive_type(const struct graph *graph, const graph_node *node, op_value_type *out);

/* Copies type, rank and dims (not elements, data, name or flags). In infer_types.c, as are the others here. */
void infer_copy_type(graph_value *to, const graph_value *from);
/* Forgets type and shape: a tensor of unknown type and rank. */
void infer_forget(graph_value *value);
/* Takes what the file declares about value value of graph where nothing better is known. */
void infer_use_declared(const struct graph *graph, graph_value *value);
#endif
