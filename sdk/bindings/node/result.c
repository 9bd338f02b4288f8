/* Results of a run: typed arrays over the runtime's memory, and JavaScript strings. */
#include "addon.h"
#include <string.h>

/* JavaScript's array type of an element type; an array of bytes if there is none. */
static napi_typedarray_type array_type(inlay_dtype dtype)
{
    switch (dtype) {
    case INLAY_FLOAT:
        return napi_float32_array;
    case INLAY_DOUBLE:
        return napi_float64_array;
    case INLAY_INT8:
        return napi_int8_array;
    case INLAY_INT16:
        return napi_int16_array;
    case INLAY_UINT16:
    case INLAY_FLOAT16:
    case INLAY_BFLOAT16:
        return napi_uint16_array;
    case INLAY_INT32:
        return napi_int32_array;
    case INLAY_UINT32:
        return napi_uint32_array;
    case INLAY_INT64:
        return napi_bigint64_array;
    case INLAY_UINT64:
        return napi_biguint64_array;
    default:
        return napi_uint8_array;
    }
}

static void finalize_value(napi_env env, void *data, void *hint)
{
    (void)env, (void)data;
    inlay_value_unref(hint);
}

/* Returns the elements as a typed array over the value's memory, or as a copy if the JavaScript engine does not support
 * external memory. */
static napi_value make_elements(napi_env env, inlay_value *value)
{
    napi_typedarray_type type = array_type(inlay_value_dtype(value));
    size_t bytes = (size_t)inlay_value_bytes(value), count = (size_t)inlay_value_count(value);
    napi_value buffer = NULL, array = NULL;
    void *copy;

    if (type == napi_uint8_array)
        count = bytes;
    if (bytes > 0 && napi_create_external_arraybuffer(env, inlay_value_data(value), bytes, finalize_value,
                                                      inlay_value_ref(value), &buffer) != napi_ok) {
        inlay_value_unref(value);
        buffer = NULL;
    }
    if (buffer == NULL && napi_create_arraybuffer(env, bytes, &copy, &buffer) == napi_ok && bytes > 0)
        memcpy(copy, inlay_value_data(value), bytes);
    (void)napi_create_typedarray(env, type, count, buffer, 0, &array);
    return array;
}

static napi_value make_texts(napi_env env, const inlay_value *value)
{
    const inlay_str *texts = inlay_value_data(value);
    napi_value list;

    (void)napi_create_array(env, &list);
    for (int64_t i = 0; i < inlay_value_count(value); i++)
        (void)napi_set_element(env, list, (uint32_t)i, js_text(env, texts[i].data, (size_t)texts[i].bytes));
    return list;
}

napi_value result_make(napi_env env, inlay_value *value)
{
    napi_value result, dims;

    (void)napi_create_array(env, &result);
    (void)napi_create_array(env, &dims);
    (void)napi_set_element(env, result, 0, js_number(env, inlay_value_dtype(value)));
    (void)napi_set_element(
        env, result, 1, inlay_value_dtype(value) == INLAY_STRING ? make_texts(env, value) : make_elements(env, value));
    for (uint32_t d = 0; d < inlay_value_rank(value); d++)
        (void)napi_set_element(env, dims, d, js_number(env, (double)inlay_value_dims(value)[d]));
    (void)napi_set_element(env, result, 2, dims);
    return result;
}
