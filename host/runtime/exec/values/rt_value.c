/* exec/values/rt_value.c - values of a run, which borrow. */
#include "exec/values/value.h"
#include <string.h>

rt_value rt_from_value(inlay_value *v)
{
    rt_value x = { 0 };

    if (v == NULL)
        return x;
    x = (rt_value){
        .kind = v->kind, .dtype = v->dtype, .rank = v->rank, .dims = v->dims, .buffer = v->buffer, .owner = v
    };
    (void)value_is_shared(v, INLAY_NONE, &x.alias);
    return x;
}

inlay_status rt_to_value(const rt_value *r, inlay_value **out_value, inlay_diag *diag)
{
    inlay_status status;

    *out_value = NULL;
    /* The texts of a string tensor may live in the run's arena, so a reference would not do. */
    if (r->owner != NULL && (r->kind != INLAY_KIND_TENSOR || r->dtype != INLAY_STRING)) {
        *out_value = value_ref(r->owner);
        return INLAY_OK;
    }
    if (r->dtype == INLAY_STRING)
        return value_create_strings(r->rank, r->dims, inlay_buffer_host(&r->buffer), out_value, diag);
    status = value_create(r->dtype, r->rank, r->dims, false, out_value, diag);
    if (status == INLAY_OK && (*out_value)->buffer.bytes > 0)
        memcpy(inlay_buffer_host(&(*out_value)->buffer), inlay_buffer_host(&r->buffer), (*out_value)->buffer.bytes);
    return status;
}

int64_t rt_count(const rt_value *r)
{
    int64_t n = 1;

    for (uint32_t i = 0; i < r->rank; i++)
        n *= r->dims[i];
    return n;
}

const char *rt_describe(const rt_value *r, char text[128])
{
    static const char *const kinds[] = { "nothing", "tensor", "sequence", "optional", "map" };
    size_t at;

    if (r->kind != INLAY_KIND_TENSOR) {
        (void)snprintf(text, 128, "%s of %s", kinds[r->kind <= 4 ? r->kind : 0], inlay_dtype_name(r->dtype));
        return text;
    }
    at = (size_t)snprintf(text, 128, "%s[", inlay_dtype_name(r->dtype));
    for (uint32_t i = 0; i < r->rank && at < 100; i++)
        at += (size_t)snprintf(text + at, 128 - at, "%s%lld", i > 0 ? "," : "", (long long)r->dims[i]);
    (void)snprintf(text + at, 128 - at, "]");
    return text;
}
