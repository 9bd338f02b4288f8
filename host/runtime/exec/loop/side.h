/* exec/loop/parallel_branches.h - runs the concurrent branches of a plan (plan/layout/concurrent_branches.c) on the
 * threads of the pool. */
#ifndef EXEC_SIDE_H
#define EXEC_SIDE_H
#include "exec/run/run.h"

/* Execution mode of the next run, and the times measured so far. */
typedef struct parallel_branches {
    inlay_diag *diags;       /* [branches of the widest group] */
    struct branch *branches; /* [branches of the widest group] */
    uint64_t best_ns[2];     /* shortest time in the trial: [0] sequential, [1] concurrent */
    uint32_t runs;           /* of this round */
    bool beside;             /* this run executes the branches concurrently */
} parallel_branches;

/* For a bound plan. bound->parallel stays NULL if the plan has no concurrent branches. Fails only if out of memory. */
INLAY_NODISCARD inlay_status side_create(struct bound *bound, inlay_diag *diag);
/* Chooses for the run that begins. Where the option leaves it open, a few runs are timed both ways, now and then again,
 * and the faster way is taken: prices say where it may pay, and only the clock knows where it does. Returns when the
 * run began, 0: it is not timed. */
uint64_t side_begin(const struct runner *runner, struct side *side);
/* Records the time of a run that succeeded. */
void side_end(struct side *side, uint64_t began_ns);
/* Runs a group of branches. *out_failed: the first failed step in the order of the plan; its diag is copied to the
 * shared one. */
INLAY_NODISCARD inlay_status side_run(struct runner *runner, struct bound *bound, const plan_wave *wave,
                                      bound_step **out_failed);
#endif
