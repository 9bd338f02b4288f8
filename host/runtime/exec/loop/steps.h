/* exec/loop/steps.h - the loop over the steps of a bound plan. */
#ifndef EXEC_STEPS_H
#define EXEC_STEPS_H
#include "exec/run/run.h"

/* Runs the steps [first, end). */
inlay_status steps_walk(struct runner *r, struct bound *b, uint32_t first, uint32_t end, inlay_diag *diag);
/* Runs one step; asynchronous ones may be under way when it returns. */
inlay_status runner_step(struct runner *r, struct bound *b, bound_step *s, inlay_diag *diag);
#endif
