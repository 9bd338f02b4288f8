/* timing/callers.h - timed runs of a session, by one or several concurrent threads. */
#ifndef TIMING_CALLERS_H
#define TIMING_CALLERS_H
#include "timing/timing.h"

struct callers {
    uint32_t count;                   /* number of threads, including the calling one; at least 1 */
    double seconds;                   /* after that time, no caller begins another run */
    double interval_ms;               /* pause of each caller before a run */
    size_t warmup;                    /* untimed runs of each caller */
    size_t most;                      /* limit of the timed runs of all callers together */
    const inlay_run_options *options; /* with `cancel` */
    inlay_progress_fn progress;       /* called by the calling thread; may be NULL */
};

struct calls {
    run_times times;   /* sorted; the caller of the function frees the memory */
    double elapsed_ms; /* of all runs together */
    double cpu_ms;     /* CPU time of the process per run, of all threads */
};

/* Each caller runs the model: the first one in `context`, every other one in a new context with the same inputs. Each
 * runs it at least once, unless `most` is less. The first failure ends all callers; *out then has the times so far. */
INLAY_NODISCARD inlay_status callers_run(const struct callers *how, inlay_session *session, inlay_value *const *inputs,
                                         inlay_context *context, struct calls *out, inlay_diag *diag);
#endif
