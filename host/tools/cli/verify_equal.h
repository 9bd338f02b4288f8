/* cli/same.h - do two model files compute the same? */
#ifndef CLI_VERIFY_EQUAL_H
#define CLI_VERIFY_EQUAL_H
#include "cli/cli.h"

/* What two models took. */
typedef struct verify_equal_times {
    double a_ms, b_ms; /* lower quartile of a run each, in turn; 0 where not timed */
    uint32_t samples;
} verify_equal_times;

/* Runs both on `samples` made-up inputs, of the sizes that b takes, and compares every output, element by element, with
 * these tolerances; the outputs of b are found by name, or in order where the name is another. A difference is
 * INLAY_INTERNAL and says where. Then times both for at most seconds (0 = not at all). */
INLAY_NODISCARD inlay_status verify_equal_outputs(const cli_common *common, const char *a, const char *b,
                                                  uint32_t samples, double rtol, double atol, double seconds,
                                                  verify_equal_times *out, inlay_diag *diag);
#endif
