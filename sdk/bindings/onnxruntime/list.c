/* Sequences and maps. */
#include "ort.h"
#include "inlay/check.h"
#include <stdlib.h>

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
        return ort_fail(ORT_FAIL, "Key type is not supported yet: %s; the keys of a map are int64 or strings",
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

    ORT_NEED(out);
    *out = NULL;
    if (num_values == 0)
        return ort_fail(ORT_FAIL, "Number of values should be at least 1.");
    ORT_NEED(in);
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
