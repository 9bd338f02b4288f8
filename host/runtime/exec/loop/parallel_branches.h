/* exec/loop/parallel_branches.h - runs the concurrent branches of a plan (plan/layout/concurrent_branches.c) on the
 * threads of the pool. */
#ifndef EXEC_PARALLEL_BRANCHES_H
#define EXEC_PARALLEL_BRANCHES_H
#include "exec/run/run.h"

/* Execution mode of the next run, and the times measured so far. */
typedef struct parallel_branches {
    inlay_diag *diags;       /* [branches of the widest group] */
    struct branch *branches; /* [branches of the widest group] */
    uint64_t best_ns[2];     /* shortest time in the trial: [0] sequential, [1] concurrent */
    uint32_t runs;           /* of this round */
    bool concurrent;         /* this run executes the branches concurrently */
} parallel_branches;

/* For a bound plan. bound->parallel stays NULL if the plan has no concurrent branches. Fails only if out of memory. */
INLAY_NODISCARD inlay_status parallel_branches_create(struct bound *bound, inlay_diag *diag);
/* Chooses the mode of the run that begins. Unless option inter_threads forces concurrency, a few runs of every round
 * are timed in both modes, and the faster mode is used: cost estimates show where concurrency may pay, and only a
 * measurement shows where it does. Returns the start time; 0: this run is not timed. */
uint64_t parallel_branches_choose(const struct runner *runner, parallel_branches *parallel);
/* Records the time of a run that succeeded. */
void parallel_branches_record(parallel_branches *parallel, uint64_t began_ns);
/* Runs a group of branches. *out_failed: the first failed step in the order of the plan; its diag is copied to the
 * shared one. */
INLAY_NODISCARD inlay_status parallel_branches_run(struct runner *runner, struct bound *bound,
                                                   const branch_group *group, bound_step **out_failed);
#endif
