/* quantize/node_errors.h - measures what each matrix multiplication and convolution saves and changes in a cheaper
 * arithmetic: the work of `inlay explain --errors`.
 *
 * The change is the difference of the model's outputs on samples between two sessions: the plain one, and one in which
 * this node alone is reduced (option reduce). Later nodes magnify or damp it as they do in a run. The gradient would
 * give the same to first order with fewer sessions, but many operators have no rule for it, and it needs the error of
 * the node itself, too. Times are sums over all nodes with equal sizes, because the time of one node is lost in the
 * noise of a run. */
#ifndef QUANTIZE_NODE_ERRORS_H
#define QUANTIZE_NODE_ERRORS_H
#include "data/samples.h"
#include "session/error_table.h"

typedef struct node_errors_args {
    const char *model;
    const inlay_options *options; /* of all sessions; reduce, max_error and error_table are ignored */
    const struct samples *data;
    double limit;                                                   /* 0: choose nothing */
    int (*progress)(void *user, double fraction, const char *what); /* non-zero stops */
    void *progress_user;
} node_errors_args;

/* A node in one arithmetic. */
typedef struct node_error {
    const char *op;
    int64_t sizes[3]; /* depth and columns of the weights; elements of the result, -1: unknown */
} node_error;

/* The result; memory is the arena's. */
typedef struct node_errors {
    struct arena arena;
    error_table table;
    node_error *nodes;     /* [table.count] */
    const char **left_out; /* [left_out_count] names of nodes with a weight that is NaN or infinite */
    uint32_t left_out_count;
    /* with a limit: the number of chosen rows, the bound of their error, and what they give together */
    uint32_t chosen;
    double bound, measured, chosen_ms, float_ms;
} node_errors;

/* Release *out with node_errors_deinit(), also after a failure. */
INLAY_NODISCARD inlay_status node_errors_measure(const node_errors_args *args, node_errors *out, inlay_diag *diag);
void node_errors_deinit(node_errors *errors);
#endif
