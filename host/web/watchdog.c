/* There are no idle CPUs that could compute executions again: watchdog/watchdog.h. */
#include "config/checks.h"
#include "watchdog/watchdog.h"

inlay_status watchdog_attach(inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    double rate;

    (void)session;
    if (!option_share(options_text(options, OPTION_watchdog), &rate) || rate == 0)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_UNSUPPORTED, "option watchdog: WebAssembly has no background threads");
}
