/* exec/values/run_value.c - values of a run, which borrow their memory. */
#include "exec/values/value.h"
#include <string.h>

run_value run_value_of(inlay_value *value)
{
    run_value described = { 0 };

    if (value == NULL)
        return described;
    described = (run_value){ .kind = value->kind,
                             .dtype = value->dtype,
                             .rank = value->rank,
                             .dims = value->dims,
                             .buffer = value->buffer,
                             .owner = value };
    (void)value_is_shared(value, INLAY_NONE, &described.alias);
    return described;
}

inlay_status run_value_to_object(const run_value *value, inlay_value **out_value, inlay_diag *diag)
{
    inlay_status status;

    *out_value = NULL;
    /* The elements of a string tensor may be in the run's arena, so they are copied. */
    if (value->owner != NULL && (value->kind != INLAY_KIND_TENSOR || value->dtype != INLAY_STRING)) {
        *out_value = value_ref(value->owner);
        return INLAY_OK;
    }
    if (value->dtype == INLAY_STRING)
        return value_create_strings(value->rank, value->dims, inlay_buffer_host(&value->buffer), out_value, diag);
    status = value_create(value->dtype, value->rank, value->dims, false, out_value, diag);
    if (status == INLAY_OK && (*out_value)->buffer.bytes > 0)
        memcpy(inlay_buffer_host(&(*out_value)->buffer), inlay_buffer_host(&value->buffer), (*out_value)->buffer.bytes);
    return status;
}

int64_t run_value_count(const run_value *value)
{
    int64_t count = 1;

    for (uint32_t i = 0; i < value->rank; i++)
        count *= value->dims[i];
    return count;
}

const char *run_value_describe(const run_value *value, char text[128])
{
    static const char *const kinds[] = { "nothing", "tensor", "sequence", "optional", "map" };
    size_t at;

    if (value->kind != INLAY_KIND_TENSOR) {
        (void)snprintf(text, 128, "%s of %s", kinds[value->kind <= 4 ? value->kind : 0],
                       inlay_dtype_name(value->dtype));
        return text;
    }
    at = (size_t)snprintf(text, 128, "%s[", inlay_dtype_name(value->dtype));
    for (uint32_t i = 0; i < value->rank && at < 100; i++)
        at += (size_t)snprintf(text + at, 128 - at, "%s%lld", i > 0 ? "," : "", (long long)value->dims[i]);
    (void)snprintf(text + at, 128 - at, "]");
    return text;
}
