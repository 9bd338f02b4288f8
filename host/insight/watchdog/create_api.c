/* watchdog/create_api.c - inlay.h: creates sessions, which option watchdog may observe. */
#include "base/strbuf.h"
#include "watchdog/watchdog.h"

/* Option placement: one line in the log. It is a warning, because logs show these by default. */
static void log_placement(const inlay_session *session)
{
    const inlay_explain_options one = { .struct_size = sizeof one, .format = "line" };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct strbuf line = { 0 };
    inlay_status status = inlay_session_explain(session, &one, strbuf_write, &line, &diag);

    if (status == INLAY_OK && !line.failed && line.size > 0)
        line.data[line.size - 1] = '\0'; /* the line feed */
    session->env.log(session->env.log_ctx, INLAY_LOG_WARNING,
                     status != INLAY_OK ? diag.text
                     : line.failed      ? "option placement: out of memory"
                                        : line.data);
    strbuf_deinit(&line);
}

static inlay_status create(const session_source *source, const inlay_options *options, inlay_session **out_session,
                           inlay_diag *diag)
{
    inlay_status status = session_open(source, options, watchdog_attach, out_session, diag);

    if (status == INLAY_OK && options != NULL && options_int(options, OPTION_placement) != 0)
        log_placement(*out_session);
    return status;
}

inlay_status inlay_session_create(const char *path, const inlay_options *options, inlay_session **out_session,
                                  inlay_diag *diag)
{
    session_source source = { .path = path, .fd = -1 };

    return create(&source, options, out_session, diag);
}

inlay_status inlay_session_create_from_bytes(const void *data, uint64_t bytes, const inlay_options *options,
                                             inlay_session **out_session, inlay_diag *diag)
{
    session_source source = { .data = data != NULL ? data : "", .bytes = data != NULL ? bytes : 0, .fd = -1 };

    return create(&source, options, out_session, diag);
}

inlay_status inlay_session_create_from_fd(int fd, const inlay_options *options, inlay_session **out_session,
                                          inlay_diag *diag)
{
    session_source source = { .fd = fd };

    return create(&source, options, out_session, diag);
}
