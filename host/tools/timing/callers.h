/* timing/callers.h - timed runs of a session, by one or several concurrent threads. */
#ifndef TIMING_CALLERS_H
#define TIMING_CALLERS_H
#include "timing/timing.h"

struct callers {
    uint32_t count;                   /* number of threads, including the calling one; at least 1 */
    double seconds;                   /* after that time, no caller begins another run */
    double interval_ms;               /* pause of each caller before a run */
    double rate;                      /* requests a second, which the callers share; 0 = as many as they can run */
    double deadline_ms;               /* of each run after its request, or without `rate` after its start; 0 = none */
    size_t warmup;                    /* untimed runs of each caller */
    size_t most;                      /* limit of the timed runs of all callers together */
    const inlay_run_options *options; /* with `cancel` */
    inlay_progress_fn progress;       /* called by the calling thread; may be NULL */
};

/* The runs of one variant of a model package. */
struct variant_calls {
    char *name;   /* owned; NULL: the model is not of a package */
    double error; /* negative: not stated */
    size_t count;
};

/* The caller of callers_run() frees it with calls_deinit(). */
struct calls {
    run_times times;                /* sorted, from the request to the result with `rate` */
    double elapsed_ms;              /* of all runs together */
    double cpu_ms;                  /* CPU time of the process per run, of all threads */
    size_t late;                    /* runs that ended after their deadline */
    struct variant_calls *variants; /* [variant_count] with deadline_ms */
    uint32_t variant_count;
};
void calls_deinit(struct calls *calls);

/* Each caller runs the model: the first one in `context`, every other one in a new context with the same inputs. Each
 * runs it at least once, unless `most` is less. The first failure ends all callers; *out then has the times so far. */
INLAY_NODISCARD inlay_status callers_run(const struct callers *how, inlay_session *session, inlay_value *const *inputs,
                                         inlay_context *context, struct calls *out, inlay_diag *diag);
#endif
