/* plan/create/fallback.h - programs that stand in for another one, at shapes for which a provider declined a region.
 *
 * What specialize declines, it declines for the shapes of a run: the program keeps its assignment, and another program
 * of the same graph, made without the offers in question, runs these shapes from then on. Regions that are the same in
 * both are compiled once. A fallback program may have fallbacks of its own. */
#ifndef PLAN_FALLBACK_H
#define PLAN_FALLBACK_H
#include "plan/plan.h"

/* The program that runs these shapes in place of program, made when it is first asked for; *out is NULL when program
 * itself runs them. INLAY_UNSUPPORTED: no other provider can; diag has the reason of the one that declined.
 * Thread-safe. */
INLAY_NODISCARD inlay_status fallback_find(struct program *program, const plan_input *inputs, uint32_t count,
                                           struct program **out, inlay_diag *diag);
/* The same after a run in which offers ([program->parts.offer_count] 1 = that one) proved to be declined at these
 * shapes, for the reason in text. */
INLAY_NODISCARD inlay_status fallback_without(struct program *program, const plan_input *inputs, uint32_t count,
                                              const uint8_t *offers, const char *text, struct program **out,
                                              inlay_diag *diag);
#endif
