/* cli/watched.h - nodes whose values a run shows: --watch NODE. They become further outputs of the session, behind its
 * own, so what is shown is what the optimised model computes. */
#ifndef CLI_WATCHED_H
#define CLI_WATCHED_H
#include "cli/cli.h"
#include "model/model.h"

struct watched {
    const char **patterns; /* [count] arguments of --watch */
    uint32_t count;
    uint32_t own_outputs;     /* of the model */
    graph_model *model;       /* that the nodes are of */
    const graph_node **nodes; /* [node_count] that fit a pattern, in the order of the run */
    uint32_t node_count;
};

/* Keeps an argument of --watch. ENOMEM: no memory. */
error_t watched_add(const cli_option *option, void *field, char *arg, struct argp_state *state);
void watched_deinit(struct watched *watched);
/* Finds the nodes of the main graph, its functions inlined, and has a session of these options show their values.
 * INLAY_INVALID_ARGUMENT: no node fits. */
INLAY_NODISCARD inlay_status watched_tap(struct watched *watched, cli_common *common, const char *path,
                                         inlay_diag *diag);
/* After a run: the values of each node, a line each. max: elements shown of each. */
void watched_print(const struct watched *watched, const inlay_session *session, inlay_context *context, uint32_t max);
/* [{"node", "op", "inputs", "outputs"}]; NULL: no memory. */
json_t *watched_json(const struct watched *watched, const inlay_session *session, inlay_context *context, uint32_t max);
#endif
