/* cli/custom.h - a score that a command of the user's computes: --metric custom:COMMAND.
 *
 * The command is run by /bin/sh for each sample with two folders as its last arguments, which hold the outputs of the
 * first and of the second model as <name>.npy; it prints one number. */
#ifndef CLI_CUSTOM_METRIC_H
#define CLI_CUSTOM_METRIC_H
#include "cli/cli.h"

struct custom_metric {
    const char *command;
    char dir[4096]; /* temporary, with folders a and b; "" = not made yet */
};

/* The score of one sample; the outputs are those of the last run of each context. */
INLAY_NODISCARD inlay_status custom_metric_score(struct custom_metric *custom, const inlay_session *a,
                                                 inlay_context *run_a, const inlay_session *b, inlay_context *run_b,
                                                 double *out_score, inlay_diag *diag);
void custom_metric_end(struct custom_metric *custom); /* removes the folder */
#endif
