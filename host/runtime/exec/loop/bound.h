/* exec/loop/bound.h - a plan with memory: bind.c, unbind.c, keep.c. */
#ifndef EXEC_BOUND_H
#define EXEC_BOUND_H
#include "exec/run/run.h"

/* Gives the plan memory in the runner's context. Takes over the reference to plan, also when it fails. */
INLAY_NODISCARD inlay_status bound_create(struct runner *runner, struct plan *plan, struct bound **out_bound,
                                          inlay_diag *diag);
void bound_destroy(struct runner *runner, struct bound *bound); /* NULL is a no-op */
/* The slab has room for the plan, and its steps know where it is: before each run, for other plans may have had it
 * made anew. */
INLAY_NODISCARD inlay_status bound_settle(struct runner *runner, struct bound *bound, inlay_diag *diag);

/* Does a run of the bound plan fit into what the host's memory is limited to? What is kept for other sizes and results
 * goes for it. INLAY_LIMIT_EXCEEDED names the limit that would do. Always where there is none. In keep.c. */
INLAY_NODISCARD inlay_status runner_keep_limit(struct runner *runner, const struct bound *bound, inlay_diag *diag);
/* What its provider keeps for the addresses of a step goes. */
void bound_release_binding(bound_step *step);
#endif
