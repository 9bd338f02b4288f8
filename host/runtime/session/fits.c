/* session/fits.c - compares values with the declared types and shapes of inputs and outputs. */
#include "session/session.h"
#include "inlay/check.h"
#include <stdio.h>

/* Writes the declared type of an input or output: "float[N,3,224,224]". */
static void describe_declared(const inlay_io_info *info, char *text, size_t bytes)
{
    size_t at = (size_t)snprintf(text, bytes, "%s[", inlay_dtype_name(info->dtype));

    for (uint32_t d = 0; info->rank != INLAY_RANK_UNKNOWN && d < info->rank && at < bytes; d++) {
        const char *name = info->dim_names[d][0] != '\0' ? info->dim_names[d] : "?";
        if (info->dims[d] >= 0)
            at += (size_t)snprintf(text + at, bytes - at, "%s%lld", d > 0 ? "," : "", (long long)info->dims[d]);
        else
            at += (size_t)snprintf(text + at, bytes - at, "%s%s", d > 0 ? "," : "", name);
    }
    if (at < bytes)
        (void)snprintf(text + at, bytes - at, info->rank == INLAY_RANK_UNKNOWN ? "...]" : "]");
}

/* Does a value match the declared type and shape? */
static bool matches(const inlay_io_info *info, const inlay_value *value)
{
    if (info->dtype != INLAY_UNDEFINED && info->dtype != value->dtype)
        return false;
    if (info->kind != value->kind)
        return info->kind == INLAY_KIND_OPTIONAL; /* an optional input also accepts its contents directly */
    if (value->kind != INLAY_KIND_TENSOR)
        return true;
    if (info->rank == INLAY_RANK_UNKNOWN)
        return true;
    if (info->rank != value->rank)
        return false;
    for (uint32_t d = 0; d < value->rank; d++)
        if (info->dims[d] >= 0 && info->dims[d] != value->dims[d])
            return false;
    return true;
}

inlay_status session_misfit(const inlay_io_info *info, const inlay_value *value, const char *role, inlay_diag *diag)
{
    run_value view = run_value_of((inlay_value *)(uintptr_t)value);
    inlay_status code = INLAY_SHAPE_MISMATCH;
    char got[128], want[160];

    describe_declared(info, want, sizeof want);
    (void)inlay_fail(diag, code, "%s '%s' is %s; the model expects %s%s", role, info->name,
                     run_value_describe(&view, got), info->kind == INLAY_KIND_SEQUENCE ? "a sequence of " : "", want);
    if (diag != NULL)
        (void)snprintf(diag->tensor, sizeof diag->tensor, "%s", info->name);
    return code;
}

inlay_status session_input_fits(const inlay_session *session, uint32_t index, const inlay_value *value,
                                inlay_diag *diag)
{
    INLAY_CHECK(index < session->model->main->input_count);
    return matches(&session->inputs[index], value) ? INLAY_OK
                                                   : session_misfit(&session->inputs[index], value, "input", diag);
}
