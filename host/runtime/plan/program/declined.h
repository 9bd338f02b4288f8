/* plan/program/declined.h - offers that their provider declines later: compile or specialize returns INLAY_UNSUPPORTED.
 *
 * Such an offer is never chosen again, its nodes get a refusal that quotes the provider, and the graph is partitioned
 * again (plan/create/create.h). compile declines for the whole session; specialize declines for the shapes of a run,
 * which are recorded here. */
#ifndef PLAN_DECLINED_H
#define PLAN_DECLINED_H
#include "plan/plan.h"

/* Shapes at which offers were declined. */
struct declined_shapes {
    declined_shapes *next;
    struct plan key; /* only its key is used */
    uint8_t *offers; /* [offer_count] 1 = declined */
    char *text;
    bool all;                 /* all shapes; key is empty */
    struct program *fallback; /* runs these shapes; NULL: not created yet, or impossible */
    bool impossible;
    struct arena arena;
};

/* Sets offers [program->parts.offer_count] for the declined offers of region `step`: those with the node that *why
 * names, otherwise all offers of the region. */
void declined_mark(const struct program *program, uint32_t step, const inlay_diag *why, uint8_t *offers);

inlay_status declined_no_memory(const struct program *program, inlay_diag *diag);
/* Records that these offers are declined at these shapes. program->kept.lock must be held. */
INLAY_NODISCARD inlay_status declined_add_shapes(struct program *program, const plan_input *inputs, uint32_t count,
                                                 const uint8_t *offers, const char *text, inlay_diag *diag);
/* Records offers that are declined for all shapes, in addition to earlier ones. Such offers are used nevertheless if no
 * other provider runs their nodes. Takes program->kept.lock. */
INLAY_NODISCARD inlay_status declined_add_all(struct program *program, const uint8_t *offers, const char *text,
                                              inlay_diag *diag);
/* The entry for these shapes; those for all shapes precede. NULL: none. program->kept.lock must be held. */
declined_shapes *declined_find(const struct program *program, const plan_input *inputs, uint32_t count);
/* Frees the recorded shapes. The fallback programs must be destroyed already. */
void declined_free(struct program *program);
#endif
