/* measure/measure_time.h - runs of one thing, timed on a machine that others use too.
 *
 * A run counts as calm when none of the process's threads lost its CPU to anybody while it lasted: the kernel counts
 * such switches. One that was not calm took as long as somebody else wanted, above all with several threads, that wait
 * for each other; it is repeated, within patience. */
#ifndef MEASURE_TIME_H
#define MEASURE_TIME_H
#include "measure/measure.h"

/* How often threads of this process were made to give up their CPU so far. */
uint64_t measure_switches(void);

/* One run: *out_ns is what it took, *out_calm whether it was. */
typedef inlay_status (*measure_fn)(void *ctx, double *out_ns, bool *out_calm);

/* Of runs that were not calm and of time they take, so many times what the plan says is endured. */
enum { MEASURE_PATIENCE = 4 };

/* The quantile 1/at_quantile of the calm runs after one that is not counted: 2 is the median; 4 the lower quartile, for
 * several threads, that seldom start at the same moment. The shortest of all when none was calm; out->calm says
 * whether enough were.
 * Statuses of the run, and INLAY_CANCELLED when the plan's stop says so. */
INLAY_NODISCARD inlay_status measure_runs(measure_fn once, void *ctx, const measure_plan *plan, uint32_t at_quantile,
                                          struct measurement *out, inlay_diag *diag);
#endif
