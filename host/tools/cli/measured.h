/* cli/measured.h - runs whose steps are timed, and what `inlay explain --json` says afterwards. */
#ifndef CLI_MEASURED_H
#define CLI_MEASURED_H
#include "cli/cli.h"
#include "data/feed.h"

/* Runs the model for so many seconds, at least three times, beyond one run that does not count. given is not changed.
 */
INLAY_NODISCARD inlay_status measured_runs(const struct feed *given, double seconds, const cli_common *common,
                                           inlay_session *session, inlay_context *context, inlay_diag *diag);
/* The explanation as JSON, with the times of such runs where context is not NULL; the caller releases it. */
INLAY_NODISCARD inlay_status measured_explain(const inlay_session *session, const inlay_context *context,
                                              json_t **out_json, inlay_diag *diag);
#endif
