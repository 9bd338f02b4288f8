#include "data/samples.h"
#include "inlay/check.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

inlay_status samples_load(const struct samples *samples, uint32_t i, inlay_value ***out_values, inlay_diag *diag)
{
    const uint32_t count = inlay_session_input_count(samples->of);
    inlay_value **values = calloc((size_t)count + 1, sizeof(inlay_value *));
    inlay_status status;

    INLAY_CHECK(samples->load != NULL);
    *out_values = NULL;
    if (values == NULL)
        return no_memory(diag, "for %u inputs", count);
    status = samples->load(samples->ctx, i, values, diag);
    if (status != INLAY_OK)
        samples_release(samples, values);
    else
        *out_values = values;
    return status;
}

void samples_release(const struct samples *samples, inlay_value **values)
{
    for (uint32_t i = 0; values != NULL && i < inlay_session_input_count(samples->of); i++)
        inlay_value_unref(values[i]);
    free((void *)values);
}

/* The index of the samples' input for input `index` of the session; INLAY_NONE: none. */
static uint32_t source_of(const struct samples *samples, const inlay_session *session, uint32_t index,
                          const inlay_io_info *info)
{
    const uint32_t named = inlay_session_find_input(samples->of, info->name);

    if (named != INLAY_NONE || session == samples->of)
        return named;
    /* Inputs are matched by index only if no name matches. */
    for (uint32_t i = 0; i < inlay_session_input_count(session); i++) {
        inlay_io_info other = { .struct_size = sizeof other };

        if (inlay_session_input(session, i, &other) != INLAY_OK ||
            inlay_session_find_input(samples->of, other.name) != INLAY_NONE)
            return INLAY_NONE;
    }
    return index < inlay_session_input_count(samples->of) ? index : INLAY_NONE;
}

inlay_status samples_fit(const struct samples *samples, const inlay_session *session, inlay_diag *diag)
{
    for (uint32_t i = 0; i < inlay_session_input_count(session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        inlay_status status = inlay_session_input(session, i, &info);

        if (status != INLAY_OK)
            return status;
        if (info.optional == 0 && source_of(samples, session, i, &info) == INLAY_NONE)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "input '%s' of the second model: the first model has no input with that name", info.name);
    }
    return INLAY_OK;
}

/* Puts the file of the sample before the text of a failed run. */
static void add_path(const struct samples *samples, inlay_status status, inlay_diag *diag)
{
    const char *path = samples->path_of_loaded != NULL ? samples->path_of_loaded(samples->ctx) : NULL;

    if (path != NULL && diag != NULL && status != INLAY_CANCELLED && status != INLAY_DEADLINE_EXCEEDED) {
        const inlay_diag why = *diag;

        (void)inlay_fail(diag, status, "%.200s: %s", path, why.text);
        diag->error_class = why.error_class;
        memcpy(diag->node, why.node, sizeof diag->node);
        memcpy(diag->tensor, why.tensor, sizeof diag->tensor);
    }
}

inlay_status samples_run(const struct samples *samples, inlay_value *const *values, const inlay_session *session,
                         inlay_context *context, inlay_diag *diag)
{
    const inlay_run_options run = { .struct_size = sizeof run, .cancel = samples->cancel };
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < inlay_session_input_count(session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        uint32_t from;

        INLAY_TRY(inlay_session_input(session, i, &info));
        from = source_of(samples, session, i, &info);
        INLAY_TRY(inlay_context_set_input(context, i, from == INLAY_NONE ? NULL : values[from], diag));
    }
    status = inlay_context_run(context, &run, diag);
    if (status != INLAY_OK)
        add_path(samples, status, diag);
done:
    return status;
}
