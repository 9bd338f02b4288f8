/* watchdog/create_api.c - inlay.h: creates sessions, which option watchdog may observe. */
#include "watchdog/watchdog.h"
#include <stdio.h>
#include <string.h>

struct line {
    char text[1024];
    size_t bytes;
};

static void add_to_line(void *user, const char *text, size_t bytes)
{
    struct line *line = user;

    if (bytes > sizeof line->text - 1 - line->bytes)
        bytes = sizeof line->text - 1 - line->bytes;
    memcpy(line->text + line->bytes, text, bytes);
    line->bytes += bytes;
}

/* Option placement: one line in the log. It is a warning, because logs show these by default. */
static void log_placement(const inlay_session *session)
{
    const inlay_explain_options one = { .struct_size = sizeof one, .format = "line" };
    inlay_diag why = INLAY_DIAG_INIT;
    struct line line = { .bytes = 0 };

    if (inlay_session_explain(session, &one, add_to_line, &line, &why) != INLAY_OK)
        (void)snprintf(line.text, sizeof line.text, "option placement: %s", why.text);
    else
        line.text[line.bytes > 0 ? line.bytes - 1 : 0] = '\0'; /* the line feed */
    session->env.log(session->env.log_ctx, INLAY_LOG_WARNING, line.text);
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
