/* measure/tune_variant.h - timed runs of one assignment of the tuned model; only for tune*.c. */
#ifndef MEASURE_TUNE_VARIANT_H
#define MEASURE_TUNE_VARIANT_H
#include "measure/tune.h"

typedef struct tune_variant tune_variant;

/* Prepares runs of a compiled program on inputs [input_count of its graph], which are borrowed like the program.
 * *out_variant may be set after a failure, too; close it. */
INLAY_NODISCARD inlay_status tune_variant_open(struct tuning *tuning, struct program *program, inlay_value **inputs,
                                               tune_variant **out_variant);
/* Runs the program for some time; *out_ns is the lower quartile of its runs. stop: see measure_plan, called with the
 * tuning; NULL = never. INLAY_CANCELLED: stop returned true. */
INLAY_NODISCARD inlay_status tune_variant_block(tune_variant *variant, bool (*stop)(void *ctx), double *out_ns);
/* The best of the blocks so far; negative: none. */
double tune_variant_best(const tune_variant *variant);
/* Leaks everything that a hanging device may still use. A device that was lost sets the diag of the tuning. NULL is a
 * no-op. */
void tune_variant_close(tune_variant *variant);
#endif
