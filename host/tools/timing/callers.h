/* timing/callers.h - timed runs of a session, by one thread or several at once. */
#ifndef TIMING_CALLERS_H
#define TIMING_CALLERS_H
#include "timing/timing.h"

struct callers {
    uint32_t count;     /* threads, the calling one among them; at least 1 */
    double seconds;     /* then none begins another run */
    double interval_ms; /* that each caller sleeps before a run */
    size_t warmup;      /* runs of each caller that do not count */
    size_t most;        /* timed runs of all together */
    const inlay_run_options *options;
    inlay_progress_fn progress; /* of the calling thread; may be NULL */
};

struct calls {
    run_times times;   /* sorted; its memory is owned by the caller of the function */
    double elapsed_ms; /* for all of them */
    double cpu_ms;     /* of the process, for one run, all threads together */
};

/* Runs context, and one more of the session with the same inputs for each further caller; at least one run each, unless
 * `most` is less. The first failure ends all; then *out has what was timed so far. */
INLAY_NODISCARD inlay_status callers_run(const struct callers *how, inlay_session *session, inlay_value *const *inputs,
                                         inlay_context *context, struct calls *out, inlay_diag *diag);
#endif
