/* api/watchdog_api.c - inlay.h: what option watchdog found. A session has a client with that option only. */
#include "base/parts.h"
#include "base/sized_struct.h"
#include "session/insight.h"

static bool is_watched(const inlay_session *session)
{
    return session->client != NULL && session_check_process(session, NULL) == INLAY_OK;
}

inlay_status inlay_session_watchdog(inlay_session *session, uint32_t wait, inlay_watchdog_info *out_info)
{
    inlay_watchdog_info info = { 0 };

    if (is_watched(session))
        library_parts.watchdog->get_info(session, wait != 0, &info);
    return sized_struct_write(out_info, &info, sizeof info) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}

inlay_status inlay_session_watchdog_finding(inlay_session *session, uint32_t index, inlay_watchdog_finding *out_finding)
{
    inlay_watchdog_finding finding;

    if (!is_watched(session) || !library_parts.watchdog->get_finding(session, index, &finding))
        return INLAY_NOT_FOUND;
    return sized_struct_write(out_finding, &finding, sizeof finding) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}
