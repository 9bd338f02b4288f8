/* measure/runs.h - predicted and recorded times of the runs of a context. */
#ifndef MEASURE_RUNS_H
#define MEASURE_RUNS_H
#include "measure/timings.h"
#include "session/session.h"

/* Predicted nanoseconds of the last run of runner, at its sizes; 0 before the first run. Bodies count as often as
 * they ran. Called by the thread that runs. */
double predict_run(const struct runner *runner);

/* Stores the times of a context's runs, which the observer `measured` has (timings.h), as measurements of the kernels
 * that ran, see inlay_context_record(). Called by the thread that runs. */
INLAY_NODISCARD inlay_status record_runs(const inlay_session *session, const struct runner *runner,
                                         const run_observer *measured, uint32_t *out_count, inlay_diag *diag);
#endif
