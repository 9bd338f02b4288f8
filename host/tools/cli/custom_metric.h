/* cli/custom_metric.h - a score that a user's command computes: --metric custom:COMMAND.
 *
 * /bin/sh runs the command for each sample. Its last arguments are two folders, with the outputs of the first and of
 * the second model as <name>.npy; it must print one number. */
#ifndef CLI_CUSTOM_METRIC_H
#define CLI_CUSTOM_METRIC_H
#include "cli/cli.h"

struct custom_metric {
    const char *command;
    char dir[4096]; /* temporary, with folders a and b; "" = not created yet */
};

/* The score of one sample; the outputs are those of the last run of each context. */
INLAY_NODISCARD inlay_status custom_metric_score(struct custom_metric *custom, const inlay_session *a,
                                                 inlay_context *run_a, const inlay_session *b, inlay_context *run_b,
                                                 double *out_score, inlay_diag *diag);
void custom_metric_end(struct custom_metric *custom); /* removes the folder */
#endif
