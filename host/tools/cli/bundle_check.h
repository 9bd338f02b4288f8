/* cli/bundle_check.h - compares the results of a bundle with those of `inlay run`. */
#ifndef CLI_BUNDLE_CHECK_H
#define CLI_BUNDLE_CHECK_H
#include "bundle/make.h"
#include "cli/cli.h"

typedef struct bundle_check {
    bool ran;       /* this machine, or an emulator on it, could run the bundle */
    bool same;      /* every output is bitwise equal */
    double largest; /* largest difference, relative to the largest element of that output */
} bundle_check;

/* Runs the bundle and the session on the same random inputs and compares their outputs. The files of the inputs and
 * outputs are in job->dir. */
INLAY_NODISCARD inlay_status bundle_check_run(const cli_common *common, const bundle_job *job, inlay_session *session,
                                              bundle_check *out, inlay_diag *diag);
#endif
