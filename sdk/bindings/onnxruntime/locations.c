/* SetOutputModelGetInitializerLocationFunc: the program decides for each initializer of a compiled model whether it is
 * in the model or in a file, which the program writes. */
#include "wire.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRY_KEY = 1, ENTRY_VALUE = 2, LOCATION_EXTERNAL = 1 };

/* A TensorProto whose elements are in field raw_data. */
struct stored {
    int64_t dims[INLAY_MAX_RANK];
    size_t rank; /* beyond INLAY_MAX_RANK: the dims are not complete */
    int64_t type;
    char *name; /* malloc */
    wire_span raw;
    bool has_raw, bad;
};

static OrtStatus *read_tensor(wire_span tensor, struct stored *stored)
{
    wire_field field;

    while (wire_next(&tensor, &field)) {
        if (field.number == TENSOR_DIMS) {
            stored->bad |= !ort_read_dims(&field, stored->dims, &stored->rank);
        } else if (field.number == TENSOR_TYPE) {
            stored->type = (int64_t)field.value;
        } else if (field.number == TENSOR_NAME) {
            free(stored->name);
            stored->name = strndup((const char *)field.data.at, field.data.count);
            if (stored->name == NULL)
                return ort_no_memory();
        } else if (field.number == TENSOR_RAW) {
            stored->raw = field.data;
            stored->has_raw = true;
        }
    }
    stored->bad |= tensor.count > 0;
    return NULL;
}

static OrtStatus *make_value(const struct stored *stored, OrtValue **out)
{
    void *data;

    ORT_TRY(ort_CreateTensorAsOrtValue(ort_allocator(), stored->dims, stored->rank,
                                       (ONNXTensorElementDataType)stored->type, out));
    if (inlay_value_bytes((*out)->value) != stored->raw.count)
        return ort_fail(ORT_INVALID_PROTOBUF, "initializer %s has %zu bytes of data, its shape needs %llu",
                        stored->name, stored->raw.count, (unsigned long long)inlay_value_bytes((*out)->value));
    ORT_TRY(ort_GetTensorMutableData(*out, &data));
    if (stored->raw.count > 0)
        memcpy(data, stored->raw.at, stored->raw.count);
    return NULL;
}

static void put_entry(ort_writer *tensor, const char *key, const char *value)
{
    ort_writer entry = { 0 };

    ort_put_text(&entry, ENTRY_KEY, key);
    ort_put_text(&entry, ENTRY_VALUE, value);
    ort_put_message(tensor, TENSOR_EXTERNAL, &entry);
}

/* The tensor without its elements, and with their place. */
static void put_external(ort_writer *graph, wire_span from, const OrtExternalInitializerInfo *info)
{
    ort_writer tensor = { 0 };
    wire_field field;
    char number[24];

    while (wire_next(&from, &field))
        if (field.number != TENSOR_RAW && field.number != TENSOR_EXTERNAL && field.number != TENSOR_LOCATION)
            ort_put(&tensor, field.whole.at, field.whole.count);
    put_entry(&tensor, "location", ort_ExternalInitializerInfo_GetFilePath(info));
    (void)snprintf(number, sizeof number, "%lld", (long long)ort_ExternalInitializerInfo_GetFileOffset(info));
    put_entry(&tensor, "offset", number);
    (void)snprintf(number, sizeof number, "%zu", ort_ExternalInitializerInfo_GetByteSize(info));
    put_entry(&tensor, "length", number);
    ort_put_number(&tensor, TENSOR_LOCATION, LOCATION_EXTERNAL);
    ort_put_message(graph, GRAPH_INITIALIZER, &tensor);
}

static OrtStatus *place(ort_writer *graph, const wire_field *tensor, const struct stored *stored,
                        OrtGetInitializerLocationFunc locate, void *state)
{
    OrtExternalInitializerInfo *info = NULL;
    OrtValue *value = NULL;
    OrtStatus *failed = make_value(stored, &value);

    if (failed == NULL)
        failed = locate(state, stored->name, value, NULL, &info);
    if (failed == NULL && info != NULL)
        put_external(graph, tensor->data, info);
    else if (failed == NULL)
        ort_put(graph, tensor->whole.at, tensor->whole.count);
    ort_ReleaseExternalInitializerInfo(info);
    ort_ReleaseValue(value);
    return failed;
}

static OrtStatus *place_initializer(ort_writer *graph, const wire_field *tensor, OrtGetInitializerLocationFunc locate,
                                    void *state)
{
    struct stored stored = { .rank = 0 };
    OrtStatus *failed = read_tensor(tensor->data, &stored);

    if (failed == NULL && stored.bad)
        failed = ort_fail(ORT_INVALID_PROTOBUF, "the compiled model has a malformed initializer");
    if (failed == NULL && stored.has_raw && stored.name != NULL)
        failed = place(graph, tensor, &stored, locate, state);
    else if (failed == NULL) /* strings cannot be in files */
        ort_put(graph, tensor->whole.at, tensor->whole.count);
    free(stored.name);
    return failed;
}

static OrtStatus *place_all(ort_writer *graph, wire_span *from, OrtGetInitializerLocationFunc locate, void *state)
{
    OrtStatus *failed = NULL;
    wire_field field;

    while (failed == NULL && wire_next(from, &field)) {
        if (field.number == GRAPH_INITIALIZER)
            failed = place_initializer(graph, &field, locate, state);
        else
            ort_put(graph, field.whole.at, field.whole.count);
    }
    return failed;
}

OrtStatus *ort_locations_apply(OrtGetInitializerLocationFunc locate, void *state, const void *data, size_t bytes,
                               void **out_data, size_t *out_bytes)
{
    wire_span rest = { data, bytes };
    ort_writer file = { 0 };
    OrtStatus *failed = NULL;
    bool bad = false;
    wire_field field;

    while (failed == NULL && !bad && wire_next(&rest, &field)) {
        ort_writer graph = { 0 };

        if (field.number != MODEL_GRAPH) {
            ort_put(&file, field.whole.at, field.whole.count);
            continue;
        }
        failed = place_all(&graph, &field.data, locate, state);
        bad = field.data.count > 0;
        ort_put_message(&file, MODEL_GRAPH, &graph);
    }
    if (failed == NULL && file.failed)
        failed = ort_no_memory();
    if (failed == NULL && (bad || rest.count > 0))
        failed = ort_fail(ORT_INVALID_PROTOBUF, "the compiled model is malformed");
    if (failed != NULL) {
        free(file.data);
        return failed;
    }
    *out_data = file.data;
    *out_bytes = file.count;
    return NULL;
}
