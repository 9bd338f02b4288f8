/* passes/body_nodes.h - the nodes of a body put into the graph around it, once or several times. */
#ifndef PASSES_BODY_NODES_H
#define PASSES_BODY_NODES_H
#include "passes/pass.h"

typedef struct body_nodes {
    pass_ctx *ctx;
    graph *to;
    const graph *from;
    const graph_node *node; /* whose body it is */
    uint32_t *map;          /* [from->value_count] the value of `to`, INLAY_NONE = none yet */
    int64_t copy;           /* the number of this copy of the nodes; -1: there is one only, as after body_nodes_begin */
} body_nodes;

/* Room for the map, with nothing in it but what the body captures. false: no memory. */
bool body_nodes_begin(body_nodes *b, pass_ctx *ctx, graph *to, const graph_node *node, const graph_body *body);
/* Forgets what is mapped, for one more copy. */
void body_nodes_again(body_nodes *b, const graph_body *body);
/* Puts the nodes at the end of `to`, named "<node>/<name>" or "<node>/<copy>/<name>"; what is not mapped yet becomes a
 * new value. Bodies of the nodes move: nodes that have some can be put once only. false: no memory. */
bool body_nodes_put(body_nodes *b);
/* Value y of `to` becomes a copy of value v of `to`. false: no memory. */
bool body_nodes_copy_value(body_nodes *b, uint32_t v, uint32_t y);
#endif
