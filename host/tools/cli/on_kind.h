/* cli/on_kind.h - sessions whose prices are those of another kind of CPU (base/core_kind.h). */
#ifndef CLI_ON_KIND_H
#define CLI_ON_KIND_H
#include "cli/cli.h"

/* Creates the session with the prices of that kind, and with its instruction set. Once in a process, before any other
 * session. INLAY_NOT_FOUND, with the known names: there is no such kind. */
INLAY_NODISCARD inlay_status on_kind_open(const char *kind, cli_common *common, const char *model,
                                          inlay_session **out_session, inlay_diag *diag);
#endif
