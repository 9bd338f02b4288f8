/* plan/program/fold_node.h - runs a single node once on host tensors. */
#ifndef PLAN_FOLD_NODE_H
#define PLAN_FOLD_NODE_H
#include "plan/program.h"

/* A node that is run alone, once. */
typedef struct node_run {
    program_folder *folder;
    const partition_provider *provider; /* NULL: the first one that offers the node */
    const struct graph *graph;
    const graph_node *node;
    /* [value_count] describes the values of the graph, with the sizes and elements of the node's inputs and the sizes
     * of its outputs, as far as they are known. NULL: as the graph describes them, and all inputs are constants */
    const inlay_value_info *values;
    uint32_t dying; /* see pass_fold_fn; INLAY_NONE with `values` */
    uint32_t max_threads;
    uint64_t max_bytes;     /* limit for all outputs together */
    const uint32_t *cancel; /* see fold_run */
    graph_model *owner;     /* see fold_run */
    struct arena *arena;
} node_run;
/* Compiles and runs the node. results: its outputs without the omitted ones, in the arena. INLAY_UNSUPPORTED: no
 * provider offers the node for host memory. */
INLAY_NODISCARD inlay_status program_run_node(const node_run *run, inlay_tensor_view *results, inlay_diag *diag);
#endif
