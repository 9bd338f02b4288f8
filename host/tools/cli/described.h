/* cli/described.h - samples for verbs that quantize a model. */
#ifndef CLI_DESCRIBED_H
#define CLI_DESCRIBED_H
#include "cli/cli.h"
#include "data/dataset.h"

/* A session that knows inputs and outputs but compiles nothing and loads no weights, which is sufficient to read
 * inputs, and to make random ones. The caller destroys it. */
INLAY_NODISCARD inlay_status described_session(cli_common *common, const char *path, inlay_session **out_session,
                                               inlay_diag *diag);
/* Opens the samples of `data` (NULL: random ones), at most `samples` of them (0: all; 8 random ones), and a session
 * that describes the model's inputs, which they need. The caller closes both, also after a failure. */
INLAY_NODISCARD inlay_status described_open(cli_common *common, const char *model, const char *data, uint32_t samples,
                                            inlay_session **out_session, struct dataset **out_set, inlay_diag *diag);
#endif
