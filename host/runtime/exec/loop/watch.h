/* exec/loop/watch.h - what happens in a run, step by step, for those who want to watch.
 *
 * A hook hears of every step of every program of a run, bodies included, with its begin and end. The run loop of
 * runner.c knows nothing of it: a run that is watched goes through a loop of its own, watch_walk(), which waits for
 * devices after each step so that its time is the step's. What a profiler needs is in the event; the collector below is
 * the first user: medians over runs, for `inlay explain --measure`. */
#ifndef EXEC_WATCH_H
#define EXEC_WATCH_H
#include "base/clock.h"
#include "exec/run/run.h"

/* One step that has run, without an error. */
typedef struct watch_event {
    const struct program *program;
    struct plan *plan;         /* the sizes; a hook that keeps it takes a reference */
    const plan_step *step;     /* its kind; its region, or what is copied */
    uint64_t begin_ns, end_ns; /* on CLOCK_MONOTONIC; what a device took is included */
    uint32_t node;             /* INLAY_NONE: the whole step; otherwise of the program's graph, a kernel within it */
} watch_event;

/* Called by the thread that runs, after each step; it must not fail and should not allocate. A step of the host's that
 * runs bodies comes after all their steps. */
typedef struct watch_hook {
    void (*event)(void *ctx, const watch_event *event);
    void *ctx;
    /* Hears of the kernels within a region, where its provider tells (inlay_ext_steps), before the region's event.
     * NULL: does not want to, which spares looking at the clock. */
    void (*part)(void *ctx, const watch_event *event);
} watch_hook;

/* Walks the steps of bound and tells runner->shared->hook of each; otherwise what runner.c does without one. */
INLAY_NODISCARD inlay_status watch_walk(struct runner *runner, struct bound *bound, inlay_diag *diag);

/* ------------------------------------------------------------------ medians over runs */

enum { TIMINGS_KEPT = 64 }; /* runs that count: the latest */

struct timings;

/* For the runs of a program and its bodies, which must outlive it. All memory is taken here. */
INLAY_NODISCARD inlay_status timings_create(const struct program *main, struct timings **out_timings, inlay_diag *diag);
void timings_destroy(struct timings *timings); /* NULL is a no-op */
const watch_hook *timings_hook(const struct timings *timings);
/* The run that began with the last call of it is over and took ns, the watching included, which is taken off. ok: it
 * counts; otherwise it is forgotten. */
void timings_end_run(struct timings *timings, uint64_t ns, bool ok);

/* How many runs the figures below come from. */
uint32_t timings_runs(const struct timings *timings);
/* Median nanoseconds of a whole run; 0 without runs. */
double timings_run_ns(const struct timings *timings);
/* Of a run, what step `step` of the program took: the median of the sums over the times it was executed (a body's many
 * times). *out_calls (may be NULL): how often that was in the last run. 0 when it did not run: known while planning, or
 * in the branch not taken. Negative: the program is not watched, or there was no run. */
double timings_step_ns(const struct timings *timings, const struct program *program, uint32_t step,
                       uint32_t *out_calls);
/* Of a run, what copying the value between domains took. Negative likewise. */
double timings_copy_ns(const struct timings *timings, const struct program *program, uint32_t value);
#endif
