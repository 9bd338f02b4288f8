/* api/sparse_api.c - inlay.h: converts tensors from and to the sparse form (values and indices). Runs use dense
 * tensors. */
#include "base/checked.h"
#include "exec/values/value.h"
#include "inlay/check.h"
#include <string.h>

static bool is_plain(const inlay_value *value)
{
    return value->kind == INLAY_KIND_TENSOR && value->buffer.domain == INLAY_DOMAIN_HOST &&
           value->dtype != INLAY_STRING && inlay_dtype_bits(value->dtype) >= 8;
}

inlay_status inlay_value_from_sparse(const inlay_value *values, const inlay_value *indices, uint32_t rank,
                                     const int64_t *dims, inlay_value **out_value, inlay_diag *diag)
{
    const bool linear = indices->rank == 1;
    const int64_t *index;
    inlay_value *dense = NULL;
    inlay_status status;
    size_t bytes;

    *out_value = NULL;
    if (!is_plain(values) || values->rank != 1 || indices->kind != INLAY_KIND_TENSOR || indices->dtype != INLAY_INT64 ||
        indices->buffer.domain != INLAY_DOMAIN_HOST || indices->rank > 2 || indices->rank < 1 ||
        indices->dims[0] != values->count || (!linear && indices->dims[1] != (int64_t)rank))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "a sparse tensor has values [n] of at least 8 bits, no strings, "
                          "and indices int64[n] or [n, %u]",
                          rank);
    status = value_create(values->dtype, rank, dims, true, &dense, diag);
    if (status != INLAY_OK)
        return status;
    bytes = inlay_dtype_bits(values->dtype) / 8;
    index = inlay_value_data(indices);
    for (int64_t i = 0; i < values->count; i++) {
        int64_t at = linear ? index[i] : 0;
        bool inside = linear ? at >= 0 && at < dense->count : true;

        for (uint32_t d = 0; !linear && d < rank; d++) {
            const int64_t coordinate = index[i * (int64_t)rank + d];

            inside &= coordinate >= 0 && coordinate < dims[d];
            at = inside ? at * dims[d] + coordinate : 0;
        }
        if (!inside) {
            inlay_value_unref(dense);
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "index %lld of a sparse tensor is out of range",
                              (long long)i);
        }
        memcpy((char *)inlay_value_data(dense) + (size_t)at * bytes,
               (const char *)inlay_value_data(values) + (size_t)i * bytes, bytes);
    }
    *out_value = dense;
    return INLAY_OK;
}

inlay_status inlay_value_to_sparse(const inlay_value *value, inlay_value **out_values, inlay_value **out_indices,
                                   inlay_diag *diag)
{
    static const char zero[16];
    const char *data;
    int64_t dims[2] = { 0, 0 }, *index;
    inlay_status status;
    size_t bytes;
    char *to;

    *out_values = *out_indices = NULL;
    if (!is_plain(value))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "only tensors of numbers in host memory have a sparse form");
    bytes = inlay_dtype_bits(value->dtype) / 8;
    data = inlay_value_data(value);
    for (int64_t i = 0; i < value->count; i++)
        dims[0] += memcmp(data + (size_t)i * bytes, zero, bytes) != 0;
    dims[1] = value->rank;
    status = value_create(value->dtype, 1, dims, false, out_values, diag);
    if (status == INLAY_OK)
        status = value_create(INLAY_INT64, 2, dims, false, out_indices, diag);
    if (status != INLAY_OK) {
        inlay_value_unref(*out_values);
        *out_values = NULL;
        return status;
    }
    to = inlay_value_data(*out_values);
    index = inlay_value_data(*out_indices);
    for (int64_t i = 0; i < value->count; i++) {
        int64_t rest = i;

        if (memcmp(data + (size_t)i * bytes, zero, bytes) == 0)
            continue;
        memcpy(to, data + (size_t)i * bytes, bytes);
        to += bytes;
        for (uint32_t d = value->rank; d-- > 0; rest /= value->dims[d])
            index[d] = rest % value->dims[d];
        index += value->rank;
    }
    INLAY_CHECK(to == (char *)inlay_value_data(*out_values) + (size_t)dims[0] * bytes);
    return INLAY_OK;
}
