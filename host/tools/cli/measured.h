/* cli/measured.h - runs with timed steps, and the JSON of `inlay explain` for them. */
#ifndef CLI_MEASURED_H
#define CLI_MEASURED_H
#include "cli/cli.h"
#include "data/feed.h"

/* Runs the model for `seconds`, at least three times, after one run that is not counted. *given is not changed. */
INLAY_NODISCARD inlay_status measured_runs(const struct feed *given, double seconds, const cli_common *common,
                                           inlay_session *session, inlay_context *context, inlay_diag *diag);
/* The explanation as JSON; with the times of the runs if context is not NULL. The caller releases it. */
INLAY_NODISCARD inlay_status measured_explain(const inlay_session *session, const inlay_context *context,
                                              json_t **out_json, inlay_diag *diag);
#endif
