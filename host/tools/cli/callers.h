/* cli/callers.h - timed runs of a session, by one thread or several at once. */
#ifndef CLI_CALLERS_H
#define CLI_CALLERS_H
#include "inlay/inlay.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct callers {
    uint32_t count;     /* threads, the calling one among them; at least 1 */
    double seconds;     /* then none begins another run */
    double interval_ms; /* that each caller sleeps before a run */
    size_t warmup;      /* runs of each caller that do not count */
    size_t most;        /* timed runs of all together */
    const inlay_run_options *options;
    bool silent; /* the verb says how far it is */
} callers;

typedef struct calls {
    double *times; /* [runs] milliseconds, sorted; owned by the caller of the function */
    size_t runs;
    double elapsed_ms; /* for all of them */
    double cpu_ms;     /* of the process, for one run, all threads together */
} calls;

/* Runs context, and one more of the session with the same inputs for each further caller; at least one run each, unless
 * `most` is less. Says on a terminal how far it is. The first failure ends all; then *out has what was timed so far. */
inlay_status callers_run(const callers *how, inlay_session *session, inlay_value *const *inputs, inlay_context *context,
                         calls *out, inlay_diag *diag);
#endif
