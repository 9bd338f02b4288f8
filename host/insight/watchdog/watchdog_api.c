/* watchdog/watchdog_api.c - inlay.h: what option watchdog found. */
#include "base/sized_struct.h"
#include "watchdog/watchdog.h"

inlay_status inlay_session_watchdog(inlay_session *session, uint32_t wait, inlay_watchdog_info *out_info)
{
    struct watchdog *watchdog = watchdog_of(session);
    inlay_watchdog_info info = { 0 };

    if (watchdog != NULL && session_check_process(session, NULL) == INLAY_OK) {
        if (wait != 0)
            watchdog_wait(watchdog);
        watchdog_get_info(watchdog, &info);
    }
    return sized_struct_write(out_info, &info, sizeof info) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}

inlay_status inlay_session_watchdog_finding(inlay_session *session, uint32_t index, inlay_watchdog_finding *out_finding)
{
    const struct watchdog *watchdog = watchdog_of(session);
    inlay_watchdog_finding finding;

    if (watchdog == NULL || session_check_process(session, NULL) != INLAY_OK ||
        !watchdog_get_finding(watchdog, index, &finding))
        return INLAY_NOT_FOUND;
    return sized_struct_write(out_finding, &finding, sizeof finding) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}
