/* SetOutputModelGetInitializerLocationFunc: the program decides for each initializer of a compiled model whether it is
 * in the model or in a file, which the program writes. */
#include "wire.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANK = 64, ENTRY_KEY = 1, ENTRY_VALUE = 2, LOCATION_EXTERNAL = 1 };

/* A TensorProto whose elements are in field raw_data. */
struct stored {
    int64_t dims[MAX_RANK];
    size_t rank;
    int64_t type;
    char *name; /* malloc */
    ort_field raw;
    bool has_raw, bad;
};

static void read_dims(struct stored *stored, const ort_field *field)
{
    const ort_field packed = *field;
    uint64_t dim = 0;
    unsigned shift = 0;

    if (field->wire_type == WIRE_VARINT && stored->rank < MAX_RANK)
        stored->dims[stored->rank++] = (int64_t)field->value;
    else if (field->wire_type == WIRE_VARINT)
        stored->bad = true;
    for (size_t i = 0; field->wire_type == WIRE_BYTES && i < packed.bytes; i++) {
        dim |= (uint64_t)(packed.data[i] & 0x7f) << shift;
        shift += 7;
        if (shift < 64 && (packed.data[i] & 0x80) != 0)
            continue;
        stored->bad |= stored->rank == MAX_RANK || (packed.data[i] & 0x80) != 0;
        if (stored->bad)
            return;
        stored->dims[stored->rank++] = (int64_t)dim;
        dim = shift = 0;
    }
}

static OrtStatus *read_tensor(const ort_field *tensor, struct stored *stored)
{
    const unsigned char *at = tensor->data;
    ort_field field;

    while (ort_next_field(&at, tensor->data + tensor->bytes, &field, &stored->bad)) {
        if (field.number == TENSOR_DIMS) {
            read_dims(stored, &field);
        } else if (field.number == TENSOR_TYPE) {
            stored->type = (int64_t)field.value;
        } else if (field.number == TENSOR_NAME) {
            free(stored->name);
            stored->name = strndup((const char *)field.data, field.bytes);
            if (stored->name == NULL)
                return ort_no_memory();
        } else if (field.number == TENSOR_RAW) {
            stored->raw = field;
            stored->has_raw = true;
        }
    }
    return NULL;
}

static OrtStatus *make_value(const struct stored *stored, OrtValue **out)
{
    void *data;

    ORT_TRY(ort_CreateTensorAsOrtValue(ort_allocator(), stored->dims, stored->rank,
                                       (ONNXTensorElementDataType)stored->type, out));
    if (inlay_value_bytes((*out)->value) != stored->raw.bytes)
        return ort_fail(ORT_INVALID_PROTOBUF, "initializer %s has %zu bytes of data, its shape needs %llu",
                        stored->name, stored->raw.bytes, (unsigned long long)inlay_value_bytes((*out)->value));
    ORT_TRY(ort_GetTensorMutableData(*out, &data));
    if (stored->raw.bytes > 0)
        memcpy(data, stored->raw.data, stored->raw.bytes);
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
static void put_external(ort_writer *graph, const ort_field *from, const OrtExternalInitializerInfo *info)
{
    const unsigned char *at = from->data;
    ort_writer tensor = { 0 };
    bool bad = false;
    ort_field field;
    char number[24];

    while (ort_next_field(&at, from->data + from->bytes, &field, &bad))
        if (field.number != TENSOR_RAW && field.number != TENSOR_EXTERNAL && field.number != TENSOR_LOCATION)
            ort_put(&tensor, field.whole, field.whole_bytes);
    put_entry(&tensor, "location", ort_ExternalInitializerInfo_GetFilePath(info));
    (void)snprintf(number, sizeof number, "%lld", (long long)ort_ExternalInitializerInfo_GetFileOffset(info));
    put_entry(&tensor, "offset", number);
    (void)snprintf(number, sizeof number, "%zu", ort_ExternalInitializerInfo_GetByteSize(info));
    put_entry(&tensor, "length", number);
    ort_put_number(&tensor, TENSOR_LOCATION, LOCATION_EXTERNAL);
    ort_put_message(graph, GRAPH_INITIALIZER, &tensor);
}

static OrtStatus *place(ort_writer *graph, const ort_field *tensor, const struct stored *stored,
                        OrtGetInitializerLocationFunc locate, void *state)
{
    OrtExternalInitializerInfo *info = NULL;
    OrtValue *value = NULL;
    OrtStatus *failed = make_value(stored, &value);

    if (failed == NULL)
        failed = locate(state, stored->name, value, NULL, &info);
    if (failed == NULL && info != NULL)
        put_external(graph, tensor, info);
    else if (failed == NULL)
        ort_put(graph, tensor->whole, tensor->whole_bytes);
    ort_ReleaseExternalInitializerInfo(info);
    ort_ReleaseValue(value);
    return failed;
}

static OrtStatus *place_initializer(ort_writer *graph, const ort_field *tensor, OrtGetInitializerLocationFunc locate,
                                    void *state)
{
    struct stored stored = { .rank = 0 };
    OrtStatus *failed = read_tensor(tensor, &stored);

    if (failed == NULL && stored.bad)
        failed = ort_fail(ORT_INVALID_PROTOBUF, "the compiled model has a malformed initializer");
    if (failed == NULL && stored.has_raw && stored.name != NULL)
        failed = place(graph, tensor, &stored, locate, state);
    else if (failed == NULL) /* strings cannot be in files */
        ort_put(graph, tensor->whole, tensor->whole_bytes);
    free(stored.name);
    return failed;
}

static OrtStatus *place_all(ort_writer *graph, const ort_field *from, OrtGetInitializerLocationFunc locate, void *state)
{
    const unsigned char *at = from->data;
    OrtStatus *failed = NULL;
    bool bad = false;
    ort_field field;

    while (failed == NULL && ort_next_field(&at, from->data + from->bytes, &field, &bad)) {
        if (field.number == GRAPH_INITIALIZER)
            failed = place_initializer(graph, &field, locate, state);
        else
            ort_put(graph, field.whole, field.whole_bytes);
    }
    return failed;
}

OrtStatus *ort_locations_apply(OrtGetInitializerLocationFunc locate, void *state, const void *data, size_t bytes,
                               void **out_data, size_t *out_bytes)
{
    const unsigned char *at = data, *const end = at + bytes;
    ort_writer file = { 0 };
    OrtStatus *failed = NULL;
    bool bad = false;
    ort_field field;

    while (failed == NULL && ort_next_field(&at, end, &field, &bad)) {
        ort_writer graph = { 0 };

        if (field.number != MODEL_GRAPH) {
            ort_put(&file, field.whole, field.whole_bytes);
            continue;
        }
        failed = place_all(&graph, &field, locate, state);
        ort_put_message(&file, MODEL_GRAPH, &graph);
    }
    if (failed == NULL && file.failed)
        failed = ort_no_memory();
    if (failed == NULL && bad)
        failed = ort_fail(ORT_INVALID_PROTOBUF, "the compiled model is malformed");
    if (failed != NULL) {
        free(file.data);
        return failed;
    }
    *out_data = file.data;
    *out_bytes = file.count;
    return NULL;
}
