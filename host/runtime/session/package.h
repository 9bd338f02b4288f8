/* session/package.h - sessions of model packages (base/model_package.h). A session runs the variants that it can run,
 * whatever execution provider they name, and chooses one by its price on this machine and by its error. */
#ifndef SESSION_PACKAGE_H
#define SESSION_PACKAGE_H
#include "base/model_package.h"
#include "session/session.h"

/* Opens a session with the variant that is cheapest on this machine: without option max_error among those with the
 * least error, otherwise among those whose error is at most max_error. If no variant states an error, among all. A less
 * exact one has to be cheaper by 3 %. Variants that cannot be run are left out; INLAY_UNSUPPORTED, with the reasons, if
 * none can. session_loading.chosen is a line about the choice.
 *
 * With option ladder, the session is that of the most exact of the listed variants, and holds one of each other
 * (session_ladder). INLAY_INVALID_ARGUMENT: a listed variant states no error, or a larger one than max_error. */
INLAY_NODISCARD inlay_status package_session(const char *path, const inlay_options *options,
                                             inlay_session **out_session, inlay_diag *diag);
#endif
