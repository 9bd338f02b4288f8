/* whole.h - translates graphs with bodies from a snapshot and interprets them, for provider `whole`. */
#ifndef WHOLE_H
#define WHOLE_H
#include "inlay/extensions.h"
#include <stdbool.h>
#include <string.h>

enum { WHOLE_RANK = 6, WHOLE_OPERANDS = 12 };

/* A tensor. The elements are doubles, which represent float and small integers exactly. */
typedef struct whole_value {
    inlay_dtype dtype; /* INLAY_UNDEFINED: no value */
    uint32_t rank;
    int64_t dims[WHOLE_RANK];
    double *elements; /* owned; NULL without elements */
} whole_value;

typedef struct whole_graph whole_graph;
typedef struct whole_node {
    uint32_t op;
    uint32_t inputs[WHOLE_OPERANDS], outputs[WHOLE_OPERANDS]; /* INLAY_NONE = omitted */
    uint32_t input_count, output_count;
    inlay_dtype to; /* attribute of Cast */
    uint32_t scan_inputs;
    whole_graph *bodies[2]; /* then_branch and else_branch, or body */
    uint32_t *capture_outer[2], *capture_inner[2], capture_count[2];
} whole_node;
struct whole_graph {
    whole_node *nodes;
    whole_value *constants; /* [value_count] */
    uint32_t *inputs, *outputs;
    uint32_t node_count, value_count, input_count, output_count;
};

/* Can the node and all nodes in its bodies be interpreted? If not, writes the reason to why[200]. */
bool whole_knows(const inlay_graph *graph, const inlay_node_info *node, bool strict, char *why);
/* Copies these nodes of the graph with their bodies and constants. Aborts if out of memory: only tests call it. */
whole_graph *whole_translate(const inlay_graph *graph, const uint32_t *nodes, uint32_t node_count,
                             const uint32_t *inputs, uint32_t input_count, const uint32_t *outputs,
                             uint32_t output_count);
void whole_free(whole_graph *graph);
inlay_status whole_execute(const whole_graph *graph, const inlay_host *host, const inlay_exec_args *args);
#endif
