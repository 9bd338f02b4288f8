/* measure/timings.h - median times of steps and copies over the runs of a context, for inlay_context_measure(). */
#ifndef MEASURE_TIMINGS_H
#define MEASURE_TIMINGS_H
#include "exec/run/run.h"

enum { TIMINGS_KEPT = 64 }; /* runs that count: the latest ones */

struct timings;

/* An observer that measures the runs of a program and of its bodies; the program must outlive it. Allocates all
 * memory. The cost of measuring is subtracted; a run that fails does not count. */
INLAY_NODISCARD inlay_status timings_create(const struct program *main, run_observer **out_observer, inlay_diag *diag);
/* The timings of such an observer; NULL: it is another one, or NULL. */
const struct timings *timings_of(const run_observer *observer);

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
