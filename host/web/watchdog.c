/* There are no idle CPUs that could compute executions again: watchdog/watchdog.h. */
#include "watchdog/watchdog.h"

inlay_status watchdog_create(const watchdog_settings *settings, struct watchdog **out_watchdog, inlay_diag *diag)
{
    (void)settings;
    *out_watchdog = NULL;
    return inlay_fail(diag, INLAY_UNSUPPORTED, "option watchdog: WebAssembly has no background threads");
}

void watchdog_destroy(struct watchdog *watchdog)
{
    (void)watchdog;
}

inlay_status watchdog_observer(const struct watchdog *watchdog, run_observer **out_observer, inlay_diag *diag)
{
    (void)watchdog;
    *out_observer = NULL;
    return inlay_fail(diag, INLAY_UNSUPPORTED, "option watchdog: WebAssembly has no background threads");
}

void watchdog_forget(struct watchdog *watchdog)
{
    (void)watchdog;
}

void watchdog_inherit(struct watchdog *watchdog)
{
    (void)watchdog;
}
