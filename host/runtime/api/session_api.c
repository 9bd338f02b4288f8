/* api/session_api.c - inlay.h: sessions: checks arguments and calls session/. */
#include "api/context.h"
#include "api/insight.h"
#include "base/sized_struct.h"
#include "base/strbuf.h"
#include "session/package.h"
#include "session/update.h"
#include <string.h>
#include <unistd.h>

const char *inlay_version(void)
{
    return INLAY_VERSION;
}

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
    const bool logs = options != NULL && options_int(options, OPTION_placement) != 0;
    inlay_status status;

    *out_session = NULL;
    if (options_text(options, OPTION_ladder)[0] != '\0' &&
        (source->path == NULL || (access(source->path, F_OK) == 0 && !package_is(source->path))))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "option ladder names variants of a model package, which the model is not; make one with "
                          "inlay pack");
    if (logs && api_insight("option placement: inlay_session_explain", diag) == NULL)
        return INLAY_UNSUPPORTED;
    status = source->path != NULL && package_is(source->path)
                 ? package_session(source->path, options, out_session, diag)
                 : session_open(source, options, out_session, diag);
    if (status == INLAY_OK && logs)
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

void inlay_session_destroy(inlay_session *session)
{
    session_close(session);
}

uint32_t inlay_session_input_count(const inlay_session *session)
{
    return session->model->main->input_count;
}

uint32_t inlay_session_output_count(const inlay_session *session)
{
    return session->model->main->output_count;
}

static inlay_status copy_info(const inlay_io_info *list, uint32_t count, uint32_t index, inlay_io_info *out_info)
{
    if (index >= count)
        return INLAY_NOT_FOUND;
    return sized_struct_write(out_info, &list[index], sizeof *list) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}

inlay_status inlay_session_input(const inlay_session *session, uint32_t index, inlay_io_info *out_info)
{
    return copy_info(session->inputs, inlay_session_input_count(session), index, out_info);
}

inlay_status inlay_session_output(const inlay_session *session, uint32_t index, inlay_io_info *out_info)
{
    return copy_info(session->outputs, inlay_session_output_count(session), index, out_info);
}

static uint32_t find_io(const inlay_io_info *list, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return i;
    return INLAY_NONE;
}

uint32_t inlay_session_find_input(const inlay_session *session, const char *name)
{
    return find_io(session->inputs, inlay_session_input_count(session), name);
}

uint32_t inlay_session_find_output(const inlay_session *session, const char *name)
{
    return find_io(session->outputs, inlay_session_output_count(session), name);
}

inlay_status inlay_session_update(inlay_session *session, uint32_t count, const char *const *names,
                                  inlay_value *const *values, inlay_diag *diag)
{
    const inlay_status status = session_check_process(session, diag);

    if (status == INLAY_OK && session->ladder.count > 0 && count > 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "weights of a session with option ladder cannot be replaced");
    return status == INLAY_OK ? session_update(session, count, names, values, diag) : status;
}

inlay_status inlay_session_memory(const inlay_session *session, inlay_memory_info *out_info)
{
    inlay_memory_info info;

    INLAY_CHECK(session_check(session));
    run_memory_get_info(session->limits.memory, &info);
    for (uint32_t i = 1; i < session->ladder.count; i++) {
        inlay_memory_info more;

        run_memory_get_info(session->ladder.variants[i]->limits.memory, &more);
        info.used_bytes += more.used_bytes;
        info.peak_bytes += more.peak_bytes;
        info.allocations += more.allocations;
    }
    return sized_struct_write(out_info, &info, sizeof info) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}

inlay_status inlay_session_value_create(inlay_session *session, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                        inlay_value **out_value, inlay_diag *diag)
{
    INLAY_CHECK(session_check(session));
    return value_create_from(session->limits.memory, dtype, rank, dims, false, out_value, diag);
}

inlay_status inlay_plugin_register(inlay_status (*open)(const struct inlay_host *host,
                                                        const struct inlay_plugin **out_plugin, inlay_diag *diag),
                                   inlay_diag *diag)
{
    return plugin_register(open, diag);
}
