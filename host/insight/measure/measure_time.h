/* measure/measure_time.h - timed runs on a machine that is shared with other processes.
 *
 * A run counts as calm if no thread of the process lost its CPU involuntarily during it; the kernel counts such
 * context switches. Other runs are delayed by an unknown time, above all with several threads, which wait for each
 * other. They are repeated, up to a limit. */
#ifndef MEASURE_TIME_H
#define MEASURE_TIME_H
#include "measure/measure.h"

/* Involuntary context switches of this process so far. */
uint64_t measure_switches(void);

/* One run: *out_ns is its time, *out_calm whether it was calm. */
typedef inlay_status (*measure_fn)(void *ctx, double *out_ns, bool *out_calm);

/* Limit for runs that are not calm, and for their time, as a multiple of the plan. */
enum { MEASURE_RETRY_FACTOR = 4 };

enum { MEASURE_SHORTEST = 0 }; /* instead of a quantile */

/* Reports the quantile 1/at_quantile of the calm runs, after one warm-up run: 2 is the median; 4 is the lower
 * quartile, for several threads, which seldom start at the same moment; MEASURE_SHORTEST: the shortest calm run. If no
 * run was calm, reports the shortest run. out->calm is true if enough runs were calm. Returns the status of the run, or
 * INLAY_CANCELLED if the plan's stop returns true. */
INLAY_NODISCARD inlay_status measure_runs(measure_fn run, void *ctx, const measure_plan *plan, uint32_t at_quantile,
                                          struct measurement *out, inlay_diag *diag);
#endif
