/* api/session_api.c - inlay.h: sessions: checks arguments and calls session/. */
#include "api/context.h"
#include "base/sized_struct.h"
#include "session/update.h"
#include <string.h>

const char *inlay_version(void)
{
    return INLAY_VERSION;
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

    return status == INLAY_OK ? session_update(session, count, names, values, diag) : status;
}

inlay_status inlay_session_memory(const inlay_session *session, inlay_memory_info *out_info)
{
    inlay_memory_info info;

    run_memory_get_info(session->memory, &info);
    return sized_struct_write(out_info, &info, sizeof info) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}

inlay_status inlay_session_value_create(inlay_session *session, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                        inlay_value **out_value, inlay_diag *diag)
{
    return value_create_from(session->memory, dtype, rank, dims, false, out_value, diag);
}

inlay_status inlay_plugin_register(inlay_status (*open)(const struct inlay_host *host,
                                                        const struct inlay_plugin **out_plugin, inlay_diag *diag),
                                   inlay_diag *diag)
{
    return plugin_register(open, diag);
}
