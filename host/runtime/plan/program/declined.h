/* plan/program/declined.h - offers that their provider takes back: compile or specialize answers INLAY_UNSUPPORTED.
 *
 * Such an offer is never chosen again, its nodes get a refusal that quotes the provider, and the graph is
 * assigned again (plan/create/create.h). What compile declines, it declines for the session; what specialize declines,
 * it declines for the shapes at hand, which are remembered here. */
#ifndef PLAN_DECLINED_H
#define PLAN_DECLINED_H
#include "plan/plan.h"

/* Shapes for which something was declined. */
struct declined_shapes {
    declined_shapes *next;
    struct plan key; /* its key alone */
    uint8_t *offers; /* [offer_count] 1 = declined */
    char *text;
    struct program *fallback; /* runs these shapes; NULL: not made yet, or no other provider can */
    bool impossible;
    struct arena arena;
};

/* The offers of region `step` that *why is about: of the region's node that it names, otherwise all of the region's.
 * Sets offers [program->parts.offer_count] for them. */
void declined_mark(const struct program *program, uint32_t step, const inlay_diag *why, uint8_t *offers);

inlay_status declined_no_memory(const struct program *program, inlay_diag *diag);
/* Remembers that these offers are declined at these shapes. program->kept.lock is held. */
INLAY_NODISCARD inlay_status declined_remember(struct program *program, const plan_input *inputs, uint32_t count,
                                               const uint8_t *offers, const char *text, inlay_diag *diag);
/* Frees what was remembered; the programs that stand in for program are gone. */
void declined_forget(struct program *program);
#endif
