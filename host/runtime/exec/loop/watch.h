/* exec/loop/watch.h - per-step events of a run, for profilers and measurements.
 *
 * A hook receives an event with begin and end for every step of every program of a run, bodies included. The run loop
 * of runner.c is not affected: a run with a hook, or with option check_finite, uses watch_walk() instead, which waits
 * for the device after each step, so that the measured time belongs to the step. The collector below computes medians
 * over runs, for `inlay explain --measure`. */
#ifndef EXEC_WATCH_H
#define EXEC_WATCH_H
#include "base/clock.h"
#include "exec/run/run.h"

/* One step that succeeded. */
typedef struct watch_event {
    const struct program *program;
    struct plan *plan;         /* has the sizes; a hook that stores it takes a reference */
    const plan_step *step;     /* its kind; its region, or the copied value */
    uint64_t begin_ns, end_ns; /* on CLOCK_MONOTONIC; includes the time on the device */
    uint32_t node; /* INLAY_NONE: the whole step; otherwise a kernel within it, for this node of the program's graph */
    const char *name; /* of a kernel that has one, valid during the call; otherwise NULL */
} watch_event;

/* Called by the thread that runs, after each step. It must not fail and should not allocate. The event of a host step
 * that runs bodies follows the events of their steps. */
typedef struct watch_hook {
    void (*event)(void *ctx, const watch_event *event);
    void *ctx;
    /* Receives an event for each kernel within a region, before the region's event, if the provider reports kernels
     * (inlay_ext_steps). NULL: not wanted; the provider then need not read the clock. */
    void (*part)(void *ctx, const watch_event *event);
} watch_hook;

/* Runs the steps of the bound plan; after each, calls runner->shared->hook if there is one, and checks its results if
 * runner->shared->finite is set. Otherwise equivalent to steps_walk(). */
INLAY_NODISCARD inlay_status watch_walk(struct runner *runner, struct bound *bound, inlay_diag *diag);

enum { TIMINGS_KEPT = 64 }; /* runs that count: the latest ones */

struct timings;

/* Measures the runs of a program and of its bodies; the program must outlive it. Allocates all memory. */
INLAY_NODISCARD inlay_status timings_create(const struct program *main, struct timings **out_timings, inlay_diag *diag);
void timings_destroy(struct timings *timings); /* NULL is a no-op */
const watch_hook *timings_hook(const struct timings *timings);
/* Ends a run that took `ns` nanoseconds; the cost of measuring, which is included in ns, is subtracted. ok: the run
 * counts; otherwise its times are discarded. */
void timings_end_run(struct timings *timings, uint64_t ns, bool ok);

/* Number of runs that the medians below are computed from. */
uint32_t timings_runs(const struct timings *timings);
/* Median nanoseconds of a whole run; 0 without runs. */
double timings_run_ns(const struct timings *timings);
/* Median time of step `step` of the program per run, in nanoseconds; the times of all its executions in a run are
 * added, since a body may run many times. *out_calls (may be NULL): number of executions in the last run. 0 if it did
 * not run: computed while planning, or in a branch that was not taken. Negative: the program is not measured, or there
 * was no run. */
double timings_step_ns(const struct timings *timings, const struct program *program, uint32_t step,
                       uint32_t *out_calls);
/* Median time per run of copying the value between domains. Negative: as above. */
double timings_copy_ns(const struct timings *timings, const struct program *program, uint32_t value);
#endif
