/* cli/doctor_costs.h - what a session says of a model's findings: times of nodes, and findings that only it can have.
 */
#ifndef CLI_DOCTOR_COSTS_H
#define CLI_DOCTOR_COSTS_H
#include "cli/cli.h"
#include "data/feed.h"
#include "modelkit/doctor.h"

typedef struct doctor_costs {
    double run_ms; /* of a run; negative = not known */
    bool measured;
} doctor_costs;

/* Opens the model at path, runs it on made-up inputs for `seconds` (0 = only prices it), and gives the findings of
 * doctor their costs; adds those about the opset and about regions. */
INLAY_NODISCARD inlay_status doctor_costs_find(struct doctor *doctor, const char *path, const struct feed *given,
                                               double seconds, cli_common *common, doctor_costs *out, inlay_diag *diag);
#endif
