/* watchdog/create_api.c - inlay.h: creates sessions, which option watchdog may observe. */
#include "watchdog/watchdog.h"

inlay_status inlay_session_create(const char *path, const inlay_options *options, inlay_session **out_session,
                                  inlay_diag *diag)
{
    session_source source = { .path = path, .fd = -1 };

    return session_open(&source, options, watchdog_attach, out_session, diag);
}

inlay_status inlay_session_create_from_bytes(const void *data, uint64_t bytes, const inlay_options *options,
                                             inlay_session **out_session, inlay_diag *diag)
{
    session_source source = { .data = data != NULL ? data : "", .bytes = data != NULL ? bytes : 0, .fd = -1 };

    return session_open(&source, options, watchdog_attach, out_session, diag);
}

inlay_status inlay_session_create_from_fd(int fd, const inlay_options *options, inlay_session **out_session,
                                          inlay_diag *diag)
{
    session_source source = { .fd = fd };

    return session_open(&source, options, watchdog_attach, out_session, diag);
}
