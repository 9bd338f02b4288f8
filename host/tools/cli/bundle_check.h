/* cli/bundle_check.h - does a bundle compute what `inlay run` computes? */
#ifndef CLI_BUNDLE_CHECK_H
#define CLI_BUNDLE_CHECK_H
#include "bundle/make.h"
#include "cli/cli.h"

typedef struct bundle_check {
    bool ran;       /* there was something to run it */
    bool same;      /* every bit */
    double largest; /* difference, over the largest element of that output */
} bundle_check;

/* Runs both with the same random inputs; files go to job->dir. */
INLAY_NODISCARD inlay_status bundle_check_run(const cli_common *common, const bundle_job *job, inlay_session *session,
                                              bundle_check *out, inlay_diag *diag);
#endif
