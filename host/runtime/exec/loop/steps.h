/* exec/loop/steps.h - the loop over the steps of a bound plan. */
#ifndef EXEC_STEPS_H
#define EXEC_STEPS_H
#include "exec/run/run.h"

/* Runs the steps [first, end). */
inlay_status steps_walk(struct runner *runner, struct bound *bound, uint32_t first, uint32_t end, inlay_diag *diag);
/* Runs one step. An asynchronous step may still be in flight when it returns. */
inlay_status runner_step(struct runner *runner, struct bound *bound, bound_step *step, inlay_diag *diag);
#endif
