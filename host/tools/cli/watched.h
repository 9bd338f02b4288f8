/* cli/watched.h - prints the values of nodes after a run: --watch NODE. The values become further outputs of the
 * session, after the model's own, so they are those of the optimised model. */
#ifndef CLI_WATCHED_H
#define CLI_WATCHED_H
#include "cli/cli.h"
#include "model/model.h"

struct watched {
    const char **patterns; /* [count] arguments of --watch */
    uint32_t count;
    uint32_t own_outputs;     /* number of outputs of the model */
    graph_model *model;       /* owns the nodes */
    const graph_node **nodes; /* [node_count] that match a pattern, in execution order */
    uint32_t node_count;
};

/* Appends an argument of --watch. ENOMEM: no memory. */
error_t watched_add(const cli_option *option, void *field, char *pattern, struct argp_state *state);
void watched_deinit(struct watched *watched);
/* Finds the matching nodes of the main graph, with functions inlined, and adds their values to the outputs of a session
 * with these options. INLAY_INVALID_ARGUMENT: no node matches. */
INLAY_NODISCARD inlay_status watched_tap(struct watched *watched, cli_common *common, const char *path,
                                         inlay_diag *diag);
/* After a run: prints the values of each node, one per line. max: number of elements shown. */
void watched_print(const struct watched *watched, const inlay_session *session, inlay_context *context, uint32_t max);
/* [{"node", "op", "inputs", "outputs"}]; NULL: no memory. */
json_t *watched_json(const struct watched *watched, const inlay_session *session, inlay_context *context, uint32_t max);
#endif
