/* Inputs of a run: strings are copied, typed arrays are used without a copy. */
#include "addon.h"
#include <stdlib.h>

static inlay_status read_texts(napi_env env, napi_value data, uint32_t rank, const int64_t *dims, struct feed *feed,
                               inlay_diag *diag)
{
    uint32_t count = js_length(env, data);
    inlay_str *texts = calloc((size_t)count + 1, sizeof *texts);
    inlay_status status = INLAY_OK;
    int64_t element_count = 1;
    bool fits = true;

    for (uint32_t d = 0; d < rank; d++)
        fits = !__builtin_mul_overflow(element_count, dims[d], &element_count) && fits;
    if (texts == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for %u strings", count);
    if (!fits)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "dims state more strings than memory can hold");
    else if (element_count != (int64_t)count)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%u strings for a tensor of %lld elements", count,
                            (long long)element_count);
    for (uint32_t i = 0; i < count && status == INLAY_OK; i++) {
        size_t bytes = 0;

        texts[i].data = js_get_text(env, js_element(env, data, i), &bytes);
        texts[i].bytes = bytes;
        if (texts[i].data == NULL)
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "element %u of a tensor of strings is not a string", i);
    }
    if (status == INLAY_OK)
        status = inlay_value_create_strings(rank, dims, texts, &feed->value, diag);
    for (uint32_t i = 0; i < count; i++)
        free((char *)(uintptr_t)texts[i].data);
    free(texts);
    return status;
}

inlay_status feed_read(napi_env env, napi_value from, struct feed *feed, inlay_diag *diag)
{
    napi_value data = js_element(env, from, 2), list = js_element(env, from, 3), memory;
    uint32_t rank = js_length(env, list);
    size_t length = 0, offset, bytes;
    int64_t dims[INLAY_MAX_RANK];
    napi_typedarray_type type;
    bool is_array = false;
    int32_t dtype = 0;
    void *elements;

    if (napi_get_value_uint32(env, js_element(env, from, 0), &feed->index) != napi_ok ||
        napi_get_value_int32(env, js_element(env, from, 1), &dtype) != napi_ok || rank > INLAY_MAX_RANK)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "a feed must be [index, kind, data, dims]");
    for (uint32_t d = 0; d < rank; d++)
        if (napi_get_value_int64(env, js_element(env, list, d), &dims[d]) != napi_ok)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "dims[%u] is not a number", d);
    if (dtype == INLAY_STRING)
        return read_texts(env, data, rank, dims, feed, diag);
    if (napi_is_typedarray(env, data, &is_array) != napi_ok || !is_array ||
        napi_get_typedarray_info(env, data, &type, &length, &elements, &memory, &offset) != napi_ok)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the data of a tensor must be a typed array");
    bytes = length * (type == napi_float64_array || type == napi_bigint64_array || type == napi_biguint64_array ? 8
                      : type == napi_float32_array || type == napi_int32_array || type == napi_uint32_array     ? 4
                      : type == napi_int16_array || type == napi_uint16_array                                   ? 2
                                                                                                                : 1);
    if (napi_create_reference(env, data, 1, &feed->memory) != napi_ok)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a reference");
    return inlay_value_borrow(dtype, rank, dims, elements, bytes, &feed->value, diag);
}
