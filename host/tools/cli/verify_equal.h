/* cli/verify_equal.h - compares the outputs of two model files. */
#ifndef CLI_VERIFY_EQUAL_H
#define CLI_VERIFY_EQUAL_H
#include "cli/cli.h"

/* Run times of the two models. */
typedef struct verify_equal_times {
    double a_ms, b_ms; /* lower quartile of interleaved runs; 0 if not timed */
    uint32_t samples;
} verify_equal_times;

/* Runs both models on `samples` random inputs with the sizes that b accepts, and compares every output element by
 * element, with these tolerances. Outputs of b are found by name, or by index if the name is missing. A difference is
 * INLAY_RESULTS_DIFFER with its location. Then times both for at most `seconds` (0: not at all). */
INLAY_NODISCARD inlay_status verify_equal_outputs(const cli_common *common, const char *a, const char *b,
                                                  uint32_t samples, double rtol, double atol, double seconds,
                                                  verify_equal_times *out, inlay_diag *diag);
#endif
