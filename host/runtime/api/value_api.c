/* api/value_api.c - inlay.h: values. */
#include "exec/values/value.h"

inlay_status inlay_value_create(inlay_dtype dtype, uint32_t rank, const int64_t *dims, inlay_value **out_value,
                                inlay_diag *diag)
{
    return value_create(dtype, rank, dims, true, out_value, diag);
}

inlay_status inlay_value_create_list(uint32_t kind, inlay_dtype dtype, inlay_value *const *items, uint32_t count,
                                     inlay_value **out_value, inlay_diag *diag)
{
    *out_value = NULL;
    if (kind != INLAY_KIND_SEQUENCE && kind != INLAY_KIND_OPTIONAL && kind != INLAY_KIND_MAP)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "kind %u is not a list; use INLAY_KIND_SEQUENCE, OPTIONAL or MAP", kind);
    if (kind == INLAY_KIND_MAP &&
        (count != 2 || items[0] == NULL || items[1] == NULL || items[0]->kind != INLAY_KIND_TENSOR ||
         items[0]->rank != 1 || (items[0]->dtype != INLAY_INT64 && items[0]->dtype != INLAY_STRING) ||
         items[1]->kind != INLAY_KIND_TENSOR || items[1]->rank != 1 || items[1]->count != items[0]->count))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "a map has two items: keys (int64 or string, rank 1) and the same number of values");
    if (kind == INLAY_KIND_OPTIONAL && count > 1)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "an optional holds at most one value, not %u", count);
    for (uint32_t i = 0; i < count; i++) {
        if (items[i] == NULL)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "items[%u] is NULL", i);
        if (items[i]->kind == INLAY_KIND_TENSOR && items[i]->buffer.domain != INLAY_DOMAIN_HOST)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "items[%u] is on a device; lists contain tensors in host memory",
                              i);
        if (items[i]->dtype != dtype && (kind != INLAY_KIND_MAP || i == 1))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "items[%u] has element type %s, the list %s", i,
                              inlay_dtype_name(items[i]->dtype), inlay_dtype_name(dtype));
    }
    return value_create_list(kind, dtype, items, count, out_value, diag);
}

uint32_t inlay_value_kind(const inlay_value *value)
{
    return value->kind;
}

inlay_dtype inlay_value_dtype(const inlay_value *value)
{
    return value->dtype;
}

uint32_t inlay_value_rank(const inlay_value *value)
{
    return value->rank;
}

const int64_t *inlay_value_dims(const inlay_value *value)
{
    return value->dims;
}

int64_t inlay_value_count(const inlay_value *value)
{
    return value->count;
}

uint64_t inlay_value_bytes(const inlay_value *value)
{
    return value->buffer.bytes;
}

const inlay_value *inlay_value_item(const inlay_value *value, uint32_t index)
{
    return value->items != NULL && (int64_t)index < value->count ? value->items[index] : NULL;
}

inlay_status inlay_value_borrow(inlay_dtype dtype, uint32_t rank, const int64_t *dims, void *data, uint64_t bytes,
                                inlay_value **out_value, inlay_diag *diag)
{
    return value_borrow(dtype, rank, dims, data, bytes, out_value, diag);
}

inlay_status inlay_value_create_strings(uint32_t rank, const int64_t *dims, const inlay_str *texts,
                                        inlay_value **out_value, inlay_diag *diag)
{
    return value_create_strings(rank, dims, texts, out_value, diag);
}

inlay_value *inlay_value_ref(inlay_value *value)
{
    return value_ref(value);
}

void inlay_value_unref(inlay_value *value)
{
    value_unref(value);
}

void *inlay_value_data(const inlay_value *value)
{
    return value_data(value);
}
