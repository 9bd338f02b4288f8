/* exec/control/host_node.h - nodes that the host executes itself: control flow, sequences, optionals and maps. */
#ifndef EXEC_HOST_NODE_H
#define EXEC_HOST_NODE_H
#include "exec/loop/ports.h"

typedef struct host_call {
    struct runner *runner;
    struct bound *bound;
    bound_step *step;
    const graph_node *node;
    inlay_diag *diag;
} host_call;

/* Runs a HOST step. */
INLAY_NODISCARD inlay_status host_node_run(struct runner *runner, struct bound *bound, bound_step *step,
                                           inlay_diag *diag);

/* Reports a fault of the node: "ZipMap node 'n': what". Returns code. */
inlay_status host_fail(const host_call *call, inlay_status code, const char *what);

/* Returns the value in host memory, or in its current domain if the node only passes it to its bodies
 * (program_passes_to_bodies()). kind 0 if `value` is INLAY_NONE or absent. */
run_value host_value(const host_call *call, uint32_t value);
/* Sets value `value_index` of the graph; takes over the reference. The value is dropped if value_index is
 * INLAY_NONE. */
void host_set_value(host_call *call, uint32_t value_index, inlay_value *value);

/* Each function runs the node if it implements the operator; *out_handled: whether it does. */
INLAY_NODISCARD inlay_status control_run(host_call *call, bool *out_handled);
INLAY_NODISCARD inlay_status sequence_run(host_call *call, bool *out_handled);
INLAY_NODISCARD inlay_status map_run(host_call *call, bool *out_handled);
#endif
