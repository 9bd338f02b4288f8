/* exec/loop/bound.h - creates and destroys bound plans, that is, plans with memory and addresses. Implemented in
 * bind.c, unbind.c and memory_limit.c. */
#ifndef EXEC_BOUND_H
#define EXEC_BOUND_H
#include "exec/run/run.h"

/* Allocates the memory of a plan in the runner's context. Takes over the reference to the plan, also when it fails. */
INLAY_NODISCARD inlay_status bound_create(struct runner *runner, struct plan *plan, struct bound **out_bound,
                                          inlay_diag *diag);
void bound_destroy(struct runner *runner, struct bound *bound); /* NULL is a no-op */
/* Makes a bound plan ready to run: enforces the memory limit, grows the slab if it is too small, and writes all
 * addresses again if the slab has moved. Called before each run, because binding another plan may have replaced the
 * slab. */
INLAY_NODISCARD inlay_status bound_prepare(struct runner *runner, struct bound *bound, inlay_diag *diag);

/* Checks that a run of the bound plan fits into the limit of host memory. Always INLAY_OK without a limit. Frees the
 * bound plans and spare outputs of other shapes first if necessary. INLAY_LIMIT_EXCEEDED: the message names the minimum
 * limit. In memory_limit.c. */
INLAY_NODISCARD inlay_status runner_enforce_memory_limit(struct runner *runner, const struct bound *bound,
                                                         inlay_diag *diag);
/* Releases the provider's binding of the step's addresses. */
void bound_release_binding(bound_step *step);
#endif
