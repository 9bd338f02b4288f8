/* passes/body_nodes.h - the nodes of a body put into the graph around it, once or several times. */
#ifndef PASSES_BODY_NODES_H
#define PASSES_BODY_NODES_H
#include "passes/pass.h"

typedef struct body_nodes {
    pass_ctx *ctx;
    struct graph *to;
    const struct graph *from;
    const graph_node *node; /* whose body it is */
    uint32_t *map;          /* [from->value_count] the value of `to`, INLAY_NONE = none yet */
    int64_t copy;           /* the number of this copy of the nodes; -1: there is one only, as after body_nodes_begin */
} body_nodes;

/* Room for the map, with nothing in it but what the body captures. false: no memory. */
bool body_nodes_begin(body_nodes *nodes, pass_ctx *ctx, struct graph *to, const graph_node *node,
                      const graph_body *body);
/* Forgets what is mapped, for one more copy. */
void body_nodes_again(body_nodes *nodes, const graph_body *body);
/* Puts the nodes at the end of `to`, named "<node>/<name>" or "<node>/<copy>/<name>"; what is not mapped yet becomes a
 * new value. Bodies of the nodes move once the graph is finished: nodes that
 * have some can be put once only. false: no memory. */
bool body_nodes_put(body_nodes *nodes);
/* Value y of `to` becomes a copy of value v of `to`. false: no memory. */
bool body_nodes_copy_value(body_nodes *nodes, uint32_t v, uint32_t y);
/* Removes those of the first `count` nodes of graph, whose bodies were put, for which drop is set. They do not come
 * back.
 */
void body_nodes_drop(struct graph *graph, const bool *drop, uint32_t count);

/* ------------------------------------------------------------------ nodes and bodies by hand
 *
 * For passes that write several nodes in the place of one, bodies among them. Want of memory is remembered; what is
 * made of INLAY_NONE is of no use, but does no harm. */
typedef struct node_maker {
    pass_ctx *ctx;
    const graph_node *like; /* what they stand for: their names begin with its */
    bool failed;            /* memory is out */
} node_maker;

/* A node at the end of graph, at that opset, whose outputs are new; domain NULL: ai.onnx. NULL: no memory. */
graph_node *make_node(node_maker *maker, struct graph *graph, const char *domain, const char *op, int64_t opset,
                      const uint32_t *inputs, uint32_t input_count, uint32_t output_count);
/* The output of such a node of ai.onnx, with attribute `attr` unless that is NULL. */
uint32_t make_value(node_maker *maker, struct graph *graph, const char *op, int64_t opset, const uint32_t *inputs,
                    uint32_t count, const char *attr, int64_t value);
/* rank 0 or 1; data is copied. */
uint32_t make_constant(node_maker *maker, struct graph *graph, inlay_dtype dtype, uint32_t rank, int64_t count,
                       const void *data, size_t bytes);
/* The nodes of a body that runs once; outputs: [outputs of the body] its results. */
void make_body(node_maker *maker, struct graph *graph, const graph_body *body, const uint32_t *inputs,
               uint32_t *outputs);
#endif
