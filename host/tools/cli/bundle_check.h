/* cli/bundle_check.h - compares the results of a bundle with those of `inlay run`. */
#ifndef CLI_BUNDLE_CHECK_H
#define CLI_BUNDLE_CHECK_H
#include "bundle/make.h"
#include "cli/cli.h"

typedef struct bundle_check {
    double rtol;    /* in: largest difference relative to the largest element of the output; negative: by its type */
    bool ran;       /* this machine, or an emulator on it, could run the bundle */
    bool same;      /* every output is bitwise equal */
    double largest; /* largest difference, relative to the largest element of that output */
} bundle_check;

/* Runs the bundle and the session on the same inputs and compares their outputs. The first inputs are random, as `inlay
 * run` makes them. The second ones have integers from the whole range of types up to 16 bits, the third ones integers
 * at the ends of this range, and the last ones floats of another magnitude. Inputs that the model refuses are skipped,
 * except the first. INLAY_RESULTS_DIFFER: an output differs by more than the tolerance. The files of the inputs and
 * outputs are in job->dir. */
INLAY_NODISCARD inlay_status bundle_check_run(const cli_common *common, const bundle_job *job, inlay_session *session,
                                              bundle_check *out, inlay_diag *diag);
#endif
