/* exec/control/host_node.h - the nodes that the host runs itself: control flow, sequences, optionals, maps. */
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

/* Value v in host memory, or where stay_domain() leaves it; kind 0 when v is INLAY_NONE or absent. */
rt_value host_value(const host_call *call, uint32_t v);
/* Makes value v of the graph; takes over the reference, which goes when v is INLAY_NONE. */
void host_give(host_call *call, uint32_t v, inlay_value *value);

/* Each runs the node if it is of its kind and says so in *out_handled. */
INLAY_NODISCARD inlay_status control_run(host_call *call, bool *out_handled);
INLAY_NODISCARD inlay_status sequence_run(host_call *call, bool *out_handled);
INLAY_NODISCARD inlay_status map_run(host_call *call, bool *out_handled);
#endif
