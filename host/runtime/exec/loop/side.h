/* exec/loop/side.h - branches of a run side by side: the waves of its plan (plan/layout/waves.c), on the threads of the
 * pool. */
#ifndef EXEC_SIDE_H
#define EXEC_SIDE_H
#include "exec/run/run.h"

/* Which way the next run goes, and what both took so far. */
struct side {
    inlay_diag *diags;       /* [most branches of a wave] */
    struct branch *branches; /* likewise */
    uint64_t best_ns[2];     /* least of the trial: one after the other, side by side */
    uint32_t runs;           /* of this round */
    bool beside;             /* this run's waves go side by side */
};

/* For the waves of a plan that is bound; none: bound->side stays NULL. Not INLAY_OK: no memory. */
INLAY_NODISCARD inlay_status side_create(struct bound *bound, inlay_diag *diag);
/* Chooses for the run that begins. Where the option leaves it open, a few runs are timed both ways, now and then again,
 * and the faster way is taken: prices say where it may pay, and only the clock knows where it does. Returns when the
 * run began, 0: it is not timed. */
uint64_t side_begin(const struct runner *runner, struct side *side);
/* The run is over, and went well. */
void side_end(struct side *side, uint64_t began_ns);
/* Runs the wave; *out_failed is the step that failed first in the order of the plan, whose diag is in the shared one.
 */
INLAY_NODISCARD inlay_status side_run(struct runner *runner, struct bound *bound, const plan_wave *wave,
                                      bound_step **out_failed);
#endif
