/* timing/timing.h - the loop that times runs, for all verbs; quantiles of times; memory. */
#ifndef TIMING_TIMING_H
#define TIMING_TIMING_H
#include "inlay/inlay.h"
#include <stdbool.h>
#include <stddef.h>

/* One time in milliseconds per run. {0} is an empty list; free(ms) releases it. */
typedef struct run_times {
    double *ms; /* [count] */
    size_t count;
} run_times;

/* The end of the loop: after `most` rounds, or after `seconds` and at least `least` rounds. */
typedef struct timing_plan {
    double seconds;
    size_t least, most;
    bool (*stop)(void *user); /* called before each round; may be NULL */
    void *stop_user;
    inlay_progress_fn progress; /* called after each round, with a NULL user; may be NULL */
    const char *what;           /* text of the progress bar */
} timing_plan;

/* Runs a subject once. *out_ms: its time; negative: the run does not count. */
typedef inlay_status (*timing_fn)(void *subject, double *out_ms, inlay_diag *diag);

/* Runs each of `count` subjects once per round and appends its time to out[subject]. The first subject changes from
 * round to round, so that slow changes of the machine affect all alike. Stops at the first failure; earlier times are
 * kept. */
INLAY_NODISCARD inlay_status timing_rounds(const timing_plan *plan, timing_fn run, void *const *subjects,
                                           uint32_t count, run_times *out, inlay_diag *diag);
/* The same for the runs of one context. */
INLAY_NODISCARD inlay_status timing_context(const timing_plan *plan, inlay_context *context,
                                            const inlay_run_options *options, run_times *out, inlay_diag *diag);
/* One run of a context. */
INLAY_NODISCARD inlay_status timing_run(inlay_context *context, const inlay_run_options *options, double *out_ms,
                                        inlay_diag *diag);
/* Runs a context `runs` times without timing it. */
INLAY_NODISCARD inlay_status timing_warm_up(inlay_context *context, const inlay_run_options *options, size_t runs,
                                            inlay_diag *diag);

/* Sorts times, ascending. */
void timing_sort(run_times *times);
/* The q-quantile (0 to 1) of sorted times, at least one: the smallest time that at least a share q does not exceed. */
double timing_quantile(const run_times *sorted, double q);

/* The peak memory of the process, in MiB. */
double timing_peak_mb(void);
#endif
