/* measure/runs.h - what the runs of a context should have taken, and what they took. */
#ifndef MEASURE_RUNS_H
#define MEASURE_RUNS_H
#include "session/session.h"

/* Nanoseconds that the last run of runner should have taken, at its sizes; 0 before the first. Bodies count as often as
 * they ran. Used by the thread that runs. */
double predict_run(const struct runner *runner);

/* Files the times of a context's runs (exec/loop/watch.h) as measurements of the kernels that ran, see
 * inlay_context_record(). Used by the thread that runs. */
INLAY_NODISCARD inlay_status record_runs(const inlay_session *session, const struct runner *runner,
                                         const struct timings *timings, uint32_t *out_count, inlay_diag *diag);
#endif
