/* pipe/pipe.h - adds operators before and after a model, given as a list of steps: "decode,resize:48,normalise". */
#ifndef PIPE_PIPE_H
#define PIPE_PIPE_H
#include "graph/graph.h"

/* The domains of the operators that steps add. */
#define PIPE_DOMAIN "inlay.prepost"
#define PIPE_EXTENSIONS "com.microsoft.extensions"

typedef struct pipe_request {
    const char *input;  /* input of the model that the steps replace; NULL = the steps determine it, or the first one */
    const char *output; /* output that the post steps read; NULL = the first */
    const char *pre, *post; /* lists of steps, or NULL */
} pipe_request;

/* Adds the steps to the model, which owns all memory; nothing is bound or inferred. A failure names the step. */
INLAY_NODISCARD inlay_status pipe_join(graph_model *model, const pipe_request *request, inlay_diag *diag);

/* One line for each step, for --help: its syntax, a tab, its function. NULL-terminated. */
extern const char *const pipe_steps[];
#endif
