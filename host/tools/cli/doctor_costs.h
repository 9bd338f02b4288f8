/* cli/doctor_costs.h - costs of a model's findings, taken from a session, and findings that need a session. */
#ifndef CLI_DOCTOR_COSTS_H
#define CLI_DOCTOR_COSTS_H
#include "cli/cli.h"
#include "data/feed.h"
#include "modelkit/doctor.h"

typedef struct doctor_costs {
    double run_ms; /* time of a run; negative = unknown */
    bool measured;
} doctor_costs;

/* Opens the model at path, runs it on random inputs for `seconds` (0: only predicts the costs), and sets the costs of
 * the findings of doctor. Adds the findings about the opset and about regions. */
INLAY_NODISCARD inlay_status doctor_costs_find(struct doctor *doctor, const char *path, const struct feed *given,
                                               double seconds, cli_common *common, doctor_costs *out, inlay_diag *diag);
#endif
