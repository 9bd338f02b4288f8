/* passes/body_nodes.h - copies the nodes of a body into the enclosing graph, once or several times. */
#ifndef PASSES_BODY_NODES_H
#define PASSES_BODY_NODES_H
#include "passes/pass.h"

typedef struct body_nodes {
    pass_ctx *ctx;
    struct graph *to;
    const struct graph *from;
    const graph_node *node; /* owner of the body */
    uint32_t *map;          /* [from->value_count] matching value of `to`; INLAY_NONE: none yet */
    int64_t copy;           /* number of this copy; -1 (set by body_nodes_begin): the nodes are copied once */
} body_nodes;

/* Allocates the map and enters the captures of the body. Returns false if out of memory. */
bool body_nodes_begin(body_nodes *nodes, pass_ctx *ctx, struct graph *to, const graph_node *node,
                      const graph_body *body);
/* Resets the map to the captures before the next copy. */
void body_nodes_reset(body_nodes *nodes, const graph_body *body);
/* Appends the nodes to `to`, named "<node>/<name>" or "<node>/<copy>/<name>". Values that are not mapped yet become new
 * values. Bodies of the copied nodes are moved when the graph is finished, so nodes with bodies can be copied only
 * once. Returns false if out of memory. */
bool body_nodes_put(body_nodes *nodes);
/* Makes value `output` of `to` a copy of value `value` of `to` (Identity). Returns false if out of memory. */
bool body_nodes_copy_value(body_nodes *nodes, uint32_t value, uint32_t output);
/* Removes each of the first `count` nodes of graph whose flag in drop[count] is set. Their bodies have been copied, so
 * the removal is not recorded in the history and cannot be undone. */
void body_nodes_drop(struct graph *graph, const bool *drop, uint32_t count);

/* Building nodes and bodies.
 *
 * For passes that replace a node by several nodes, possibly with bodies. A failed allocation sets `failed`, which the
 * pass checks once at the end. INLAY_NONE as an input is safe and gives an unusable node. */
typedef struct node_maker {
    pass_ctx *ctx;
    const graph_node *like; /* the node being replaced; names of new nodes start with its name */
    bool failed;            /* an allocation failed */
} node_maker;

/* Appends a node to graph with the given opset and new outputs. domain NULL means ai.onnx. Returns NULL if out of
 * memory. */
graph_node *make_node(node_maker *maker, struct graph *graph, const char *domain, const char *op, int64_t opset,
                      const uint32_t *inputs, uint32_t input_count, uint32_t output_count);
/* Appends a node of ai.onnx with one output and returns the output. `attr` is an integer attribute; NULL: none. */
uint32_t make_value(node_maker *maker, struct graph *graph, const char *op, int64_t opset, const uint32_t *inputs,
                    uint32_t count, const char *attr, int64_t value);
/* Adds a constant of rank 0 or 1. The data is copied. */
uint32_t make_constant(node_maker *maker, struct graph *graph, inlay_dtype dtype, uint32_t rank, int64_t count,
                       const void *data, size_t bytes);
/* Inlines a body that runs once. outputs[outputs of the body] receives its results. */
void make_body(node_maker *maker, struct graph *graph, const graph_body *body, const uint32_t *inputs,
               uint32_t *outputs);
#endif
