/* pipe/pipe.h - operators before and after a model, from a line of steps: "decode,resize:48,normalise". */
#ifndef PIPE_PIPE_H
#define PIPE_PIPE_H
#include "graph/graph.h"

typedef struct pipe_request {
    const char *input;      /* of the model, that the steps before it make; NULL = by the steps, or the only one */
    const char *output;     /* that the steps behind it read; NULL = the first */
    const char *pre, *post; /* steps, or NULL */
} pipe_request;

/* Adds the steps to the model. All memory is the model's; nothing is bound or inferred. A failure names the step. */
INLAY_NODISCARD inlay_status pipe_join(graph_model *model, const pipe_request *request, inlay_diag *diag);

/* One line for each step that there is, for --help: its form, a tab, what it does. NULL ends it. */
extern const char *const pipe_steps[];
#endif
