/* plan/create/fallback.h - fallback programs, for shapes at which a provider declined a region.
 *
 * If specialize declines a region for the shapes of a run, the program keeps its partition. Another program of the same
 * graph, created without the declined offers, runs these shapes from then on. Regions that are the same in both are
 * compiled once. A fallback program may have fallbacks, too. */
#ifndef PLAN_FALLBACK_H
#define PLAN_FALLBACK_H
#include "plan/plan.h"

/* The fallback program for these shapes, created on first use; *out is NULL if the program itself runs them.
 * INLAY_UNSUPPORTED: no other provider can; diag has the reason of the provider that declined. Thread-safe. */
INLAY_NODISCARD inlay_status fallback_find(struct program *program, const plan_input *inputs, uint32_t count,
                                           struct program **out, inlay_diag *diag);
/* The same after a run in which offers ([program->parts.offer_count] 1 = declined) were declined at these shapes;
 * `text` is the reason. */
INLAY_NODISCARD inlay_status fallback_without(struct program *program, const plan_input *inputs, uint32_t count,
                                              const uint8_t *offers, const char *text, struct program **out,
                                              inlay_diag *diag);
/* The fallback program without these offers, for a single run: later runs at the same shapes use the program itself. */
INLAY_NODISCARD inlay_status fallback_once(struct program *program, const uint8_t *offers, const char *text,
                                           struct program **out, inlay_diag *diag);
#endif
