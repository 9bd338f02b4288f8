/* Strings in tensors; sequences and maps. */
#include "ort.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ tensors of strings */

OrtStatus *ort_strings_new(const int64_t *shape, size_t rank, OrtValue **out)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;
    inlay_str *strings;
    inlay_status status;
    size_t count;
    OrtStatus *failed;

    *out = NULL;
    ORT_TRY(ort_check_shape(shape, rank, &count));
    strings = calloc(count + 1, sizeof *strings);
    if (strings == NULL)
        return ort_no_memory();
    for (size_t i = 0; i < count; i++)
        strings[i].data = NULL;
    status = inlay_value_borrow(INLAY_STRING, (uint32_t)rank, shape, strings, count * sizeof *strings, &value, &diag);
    failed = status == INLAY_OK ? ort_value_wrap(value, out) : ort_from(status, &diag);
    if (failed != NULL)
        free(strings);
    else
        (*out)->strings = strings;
    return failed;
}

void ort_strings_free(OrtValue *value)
{
    INLAY_CHECK(value->strings == NULL || value->value != NULL);
    for (int64_t i = 0; value->strings != NULL && i < inlay_value_count(value->value); i++)
        free((char *)(uintptr_t)value->strings[i].data);
    free(value->strings);
    value->strings = NULL;
}

/* The strings of a string tensor. */
static OrtStatus *texts_of(const OrtValue *value, const inlay_str **out, size_t *out_count)
{
    ORT_NEED(value);
    if (value->type != ONNX_TYPE_TENSOR || inlay_value_dtype(value->value) != INLAY_STRING)
        return ort_fail(ORT_INVALID_ARGUMENT, "the value is not a tensor of strings");
    *out = inlay_value_data(value->value);
    *out_count = (size_t)inlay_value_count(value->value);
    return NULL;
}

static OrtStatus *check_index(size_t index, size_t count)
{
    if (index >= count)
        return ort_fail(ORT_INVALID_ARGUMENT, "element index is out of bounds: %zu of %zu", index, count);
    return NULL;
}

/* Replaces an element by a string of `bytes` zero bytes. */
static OrtStatus *resize_text(OrtValue *value, size_t index, size_t bytes, char **out)
{
    const inlay_str *texts;
    size_t count;
    char *text;

    ORT_TRY(texts_of(value, &texts, &count));
    ORT_TRY(check_index(index, count));
    INLAY_CHECK(value->strings == NULL || value->strings == texts);
    if (value->strings == NULL)
        return ort_fail(ORT_INVALID_ARGUMENT, "strings of an output of a run cannot be changed");
    text = bytes < SIZE_MAX ? calloc(1, bytes + 1) : NULL;
    if (text == NULL)
        return ort_no_memory();
    free((char *)(uintptr_t)value->strings[index].data);
    value->strings[index] = (inlay_str){ text, bytes };
    *out = text;
    return NULL;
}

OrtStatus *ort_strings_set(OrtValue *value, size_t index, const char *text, size_t bytes)
{
    char *copy = NULL;

    ORT_TRY(resize_text(value, index, bytes, &copy));
    if (bytes > 0)
        memcpy(copy, text, bytes);
    return NULL;
}

OrtStatus *ort_FillStringTensor(OrtValue *value, const char *const *s, size_t s_len)
{
    const inlay_str *texts;
    size_t count;

    ORT_TRY(texts_of(value, &texts, &count));
    if (s_len != count)
        return ort_fail(ORT_INVALID_ARGUMENT, "input array doesn't equal tensor size: %zu texts for %zu elements",
                        s_len, count);
    if (count > 0)
        ORT_NEED(s);
    for (size_t i = 0; i < count; i++) {
        ORT_NEED(s[i]);
        ORT_TRY(ort_strings_set(value, i, s[i], strlen(s[i])));
    }
    return NULL;
}

OrtStatus *ort_FillStringTensorElement(OrtValue *value, const char *s, size_t index)
{
    ORT_NEED(s);
    return ort_strings_set(value, index, s, strlen(s));
}

OrtStatus *ort_GetResizedStringTensorElementBuffer(OrtValue *value, size_t index, size_t length_in_bytes, char **buffer)
{
    ORT_NEED(buffer);
    return resize_text(value, index, length_in_bytes, buffer);
}

OrtStatus *ort_GetStringTensorDataLength(const OrtValue *value, size_t *len)
{
    const inlay_str *texts;
    size_t count, sum = 0;

    ORT_NEED(len);
    ORT_TRY(texts_of(value, &texts, &count));
    for (size_t i = 0; i < count; i++)
        sum += (size_t)texts[i].bytes;
    *len = sum;
    return NULL;
}

OrtStatus *ort_GetStringTensorContent(const OrtValue *value, void *s, size_t s_len, size_t *offsets, size_t offsets_len)
{
    const inlay_str *texts;
    size_t count, at = 0, total;

    ORT_TRY(texts_of(value, &texts, &count));
    ORT_TRY(ort_GetStringTensorDataLength(value, &total));
    if (offsets_len < count)
        return ort_fail(ORT_FAIL, "offsets buffer is too small: %zu for %zu texts", offsets_len, count);
    if (s_len < total)
        return ort_fail(ORT_FAIL, "output buffer is too small: %zu bytes for %zu", s_len, total);
    if (count > 0)
        ORT_NEED(offsets);
    if (total > 0)
        ORT_NEED(s);
    for (size_t i = 0; i < count; i++) {
        offsets[i] = at;
        if (texts[i].bytes > 0)
            memcpy((char *)s + at, texts[i].data, (size_t)texts[i].bytes);
        at += (size_t)texts[i].bytes;
    }
    INLAY_CHECK(at == total);
    return NULL;
}

OrtStatus *ort_GetStringTensorElementLength(const OrtValue *value, size_t index, size_t *out)
{
    const inlay_str *texts;
    size_t count;

    ORT_NEED(out);
    ORT_TRY(texts_of(value, &texts, &count));
    ORT_TRY(check_index(index, count));
    *out = (size_t)texts[index].bytes;
    return NULL;
}

OrtStatus *ort_GetStringTensorElement(const OrtValue *value, size_t s_len, size_t index, void *s)
{
    const inlay_str *texts;
    size_t count;

    ORT_TRY(texts_of(value, &texts, &count));
    ORT_TRY(check_index(index, count));
    if (s_len < texts[index].bytes)
        return ort_fail(ORT_FAIL, "buffer size is too small for string element: %zu bytes for %llu", s_len,
                        (unsigned long long)texts[index].bytes);
    if (texts[index].bytes > 0) {
        ORT_NEED(s);
        memcpy(s, texts[index].data, (size_t)texts[index].bytes);
    }
    return NULL;
}

/* ------------------------------------------------------------------ sequences and maps */

static OrtStatus *keep_items(OrtValue *list, const OrtValue *const *in, size_t count)
{
    INLAY_CHECK(list->items == NULL);
    list->items = calloc(count + 1, sizeof(OrtValue *));
    if (list->items == NULL)
        return ort_no_memory();
    for (size_t i = 0; i < count; i++)
        list->items[i] = ort_value_ref((OrtValue *)(uintptr_t)in[i]);
    list->item_count = count;
    return NULL;
}

static OrtStatus *fill_sequence(OrtValue *list, const OrtValue *const *in, size_t count)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value **items;
    inlay_status status;
    INLAY_CHECK(count > 0);

    for (size_t i = 0; i < count; i++) {
        ORT_NEED(in[i]);
        if (in[i]->type != in[0]->type || (in[i]->type != ONNX_TYPE_TENSOR && in[i]->type != ONNX_TYPE_MAP))
            return ort_fail(ORT_FAIL,
                            "At least one element in the sequence is of a type different from others: item %zu", i);
        if (in[i]->type == ONNX_TYPE_TENSOR && in[i]->element != in[0]->element)
            return ort_fail(ORT_FAIL, "item %zu of the sequence is %s, item 0 %s", i, ort_type_text(in[i]->element),
                            ort_type_text(in[0]->element));
    }
    ORT_TRY(keep_items(list, in, count));
    list->element = in[0]->element;
    if (in[0]->type == ONNX_TYPE_MAP)
        return NULL; /* no operator of inlay takes sequences of maps */
    items = calloc(count, sizeof(inlay_value *));
    if (items == NULL)
        return ort_no_memory();
    for (size_t i = 0; i < count; i++)
        items[i] = in[i]->value;
    status = inlay_value_create_list(INLAY_KIND_SEQUENCE, list->element, items, (uint32_t)count, &list->value, &diag);
    free(items);
    return ort_from(status, &diag);
}

static OrtStatus *fill_map(OrtValue *map, const OrtValue *const *in, size_t count)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *items[2];

    if (count != 2)
        return ort_fail(ORT_INVALID_ARGUMENT, "a map consists of keys and values, not of %zu values", count);
    for (size_t i = 0; i < 2; i++) {
        ORT_NEED(in[i]);
        if (in[i]->type != ONNX_TYPE_TENSOR)
            return ort_fail(ORT_INVALID_ARGUMENT, "keys and values of a map must be tensors");
    }
    if (in[0]->element != INLAY_INT64 && in[0]->element != INLAY_STRING)
        return ort_fail(ORT_INVALID_ARGUMENT, "the keys of a map must be int64 or strings, not %s",
                        ort_type_text(in[0]->element));
    if (inlay_value_count(in[0]->value) != inlay_value_count(in[1]->value))
        return ort_fail(ORT_INVALID_ARGUMENT, "Number of keys and values don't match: %lld and %lld",
                        (long long)inlay_value_count(in[0]->value), (long long)inlay_value_count(in[1]->value));
    ORT_TRY(keep_items(map, in, count));
    for (size_t i = 0; i < 2; i++)
        items[i] = in[i]->value;
    return ort_from(inlay_value_create_list(INLAY_KIND_MAP, in[1]->element, items, 2, &map->value, &diag), &diag);
}

OrtStatus *ort_CreateValue(const OrtValue *const *in, size_t num_values, ONNXType value_type, OrtValue **out)
{
    OrtStatus *failed;

    ORT_NEED(in);
    ORT_NEED(out);
    *out = NULL;
    if (num_values == 0)
        return ort_fail(ORT_FAIL, "Number of values should be at least 1.");
    if (value_type != ONNX_TYPE_SEQUENCE && value_type != ONNX_TYPE_MAP)
        return ort_fail(ORT_FAIL, "Input is not of type sequence or map.");
    ORT_TRY(ort_value_bare(value_type, out));
    failed = value_type == ONNX_TYPE_MAP ? fill_map(*out, in, num_values) : fill_sequence(*out, in, num_values);
    if (failed != NULL) {
        ort_ReleaseValue(*out);
        *out = NULL;
    }
    return failed;
}

OrtStatus *ort_GetValueCount(const OrtValue *value, size_t *out)
{
    ORT_NEED(value);
    ORT_NEED(out);
    if (value->type != ONNX_TYPE_SEQUENCE && value->type != ONNX_TYPE_MAP)
        return ort_fail(ORT_FAIL, "Input is not of type sequence or map.");
    *out = value->items != NULL ? value->item_count : (size_t)inlay_value_count(value->value);
    return NULL;
}

OrtStatus *ort_GetValue(const OrtValue *value, int index, OrtAllocator *allocator, OrtValue **out)
{
    size_t count;

    (void)allocator; /* items are shared, not copied */
    ORT_NEED(out);
    *out = NULL;
    ORT_TRY(ort_GetValueCount(value, &count));
    if (index < 0 || (size_t)index >= count)
        return ort_fail(ORT_FAIL, "index %d of a value with %zu items", index, count);
    if (value->items != NULL) {
        *out = ort_value_ref(value->items[index]);
        return NULL;
    }
    return ort_value_wrap(inlay_value_ref((inlay_value *)(uintptr_t)inlay_value_item(value->value, (uint32_t)index)),
                          out);
}
