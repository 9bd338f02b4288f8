/* model/datum.c - reads files that contain one value: TensorProto, SequenceProto, OptionalProto, MapProto. */
#include "model/load.h"
#include "base/memory.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

struct reader {
    tensor_source source;
    struct arena *arena;
    inlay_diag *diag;
};

static inlay_status read_sequence(const struct reader *reader, const Onnx__Sequence *sequence, model_datum *out);
static inlay_status read_map(const struct reader *reader, const Onnx__Map *map, model_datum *out);
static inlay_status read_optional(const struct reader *reader, const Onnx__Optional *optional, model_datum *out);

static inlay_status set_name(const struct reader *reader, const char *name, model_datum *out)
{
    out->name = arena_string(reader->arena, text_of(name));
    return out->name == NULL ? no_memory(reader->diag, "for a value") : INLAY_OK;
}

static inlay_status finish_tensor(model_datum *out, inlay_status status)
{
    out->kind = INLAY_VALUE_TENSOR;
    out->dims = out->tensor.dims;
    return status;
}

static inlay_status read_dense(const struct reader *reader, const Onnx__Tensor *proto, model_datum *out)
{
    inlay_status status = set_name(reader, proto->name, out);

    if (status == INLAY_OK)
        status = tensor_read(&reader->source, proto, &out->tensor, reader->diag);
    return finish_tensor(out, status);
}

static inlay_status read_sparse(const struct reader *reader, const Onnx__SparseTensor *proto, model_datum *out)
{
    inlay_status status = set_name(reader, proto->values == NULL ? NULL : proto->values->name, out);

    if (status == INLAY_OK)
        status = tensor_read_sparse(&reader->source, proto, &out->tensor, reader->diag);
    return finish_tensor(out, status);
}

static inlay_status make_items(const struct reader *reader, size_t count, model_datum *out)
{
    out->items = arena_array(reader->arena, count, sizeof *out->items);
    out->item_count = (uint32_t)count;
    return out->items == NULL ? no_memory(reader->diag, "for a value") : INLAY_OK;
}

/* Ignores elem_type, because only one of the lists has elements. */
static inlay_status read_sequence(const struct reader *reader, const Onnx__Sequence *sequence, model_datum *out)
{
    model_datum *item;
    inlay_status status = INLAY_OK;

    out->kind = INLAY_VALUE_SEQUENCE;
    INLAY_TRY(set_name(reader, sequence->name, out));
    INLAY_TRY(make_items(reader,
                         sequence->n_tensor_values + sequence->n_sparse_tensor_values + sequence->n_sequence_values +
                             sequence->n_map_values + sequence->n_optional_values,
                         out));
    item = out->items;
    for (size_t i = 0; i < sequence->n_tensor_values; i++)
        INLAY_TRY(read_dense(reader, sequence->tensor_values[i], item++));
    for (size_t i = 0; i < sequence->n_sparse_tensor_values; i++)
        INLAY_TRY(read_sparse(reader, sequence->sparse_tensor_values[i], item++));
    for (size_t i = 0; i < sequence->n_sequence_values; i++)
        INLAY_TRY(read_sequence(reader, sequence->sequence_values[i], item++));
    for (size_t i = 0; i < sequence->n_map_values; i++)
        INLAY_TRY(read_map(reader, sequence->map_values[i], item++));
    for (size_t i = 0; i < sequence->n_optional_values; i++)
        INLAY_TRY(read_optional(reader, sequence->optional_values[i], item++));
    INLAY_CHECK(item == out->items + out->item_count);
done:
    return status;
}

static inlay_status read_optional(const struct reader *reader, const Onnx__Optional *optional, model_datum *out)
{
    bool present = optional->tensor_value != NULL || optional->sparse_tensor_value != NULL ||
                   optional->sequence_value != NULL || optional->map_value != NULL || optional->optional_value != NULL;
    inlay_status status = INLAY_OK;

    out->kind = INLAY_VALUE_OPTIONAL;
    INLAY_TRY(set_name(reader, optional->name, out));
    INLAY_TRY(make_items(reader, present ? 1 : 0, out));
    if (optional->tensor_value != NULL)
        status = read_dense(reader, optional->tensor_value, out->items);
    else if (optional->sparse_tensor_value != NULL)
        status = read_sparse(reader, optional->sparse_tensor_value, out->items);
    else if (optional->sequence_value != NULL)
        status = read_sequence(reader, optional->sequence_value, out->items);
    else if (optional->map_value != NULL)
        status = read_map(reader, optional->map_value, out->items);
    else if (optional->optional_value != NULL)
        status = read_optional(reader, optional->optional_value, out->items);
done:
    return status;
}

static inlay_status read_keys(const struct reader *reader, const Onnx__Map *map, model_datum *out)
{
    bool texts = map->n_string_keys > 0 || map->key_type == INLAY_STRING;
    size_t count = texts ? map->n_string_keys : map->n_keys,
           bytes = count * (texts ? sizeof(inlay_str) : sizeof(int64_t));
    int64_t *dims = arena_alloc(reader->arena, sizeof *dims);
    void *data = arena_alloc(reader->arena, bytes);

    if (dims == NULL || data == NULL)
        return no_memory(reader->diag, "for a value");
    dims[0] = (int64_t)count;
    out->name = "keys";
    out->tensor = (inlay_tensor_view){
        .data = data, .bytes = bytes, .dims = dims, .rank = 1, .dtype = texts ? INLAY_STRING : INLAY_INT64
    };
    for (size_t i = 0; i < count && texts; i++) {
        const ProtobufCBinaryData *key = &map->string_keys[i];
        inlay_str *to = (inlay_str *)data + i;

        *to = (inlay_str){ arena_string_n(reader->arena, (const char *)key->data, key->len), key->len };
        if (to->data == NULL)
            return no_memory(reader->diag, "for a value");
    }
    if (!texts && count > 0)
        memcpy(data, map->keys, bytes);
    return finish_tensor(out, INLAY_OK);
}

/* Concatenates the values of a map to one tensor of rank 1. */
static inlay_status join_values(const struct reader *reader, int64_t count, model_datum *out)
{
    const inlay_dtype dtype = out->item_count > 0 ? out->items[0].tensor.dtype : INLAY_FLOAT;
    uint64_t bytes = 0, at = 0;
    int64_t *dims = arena_alloc(reader->arena, sizeof *dims);
    char *data;

    for (uint32_t i = 0; i < out->item_count; i++) {
        const model_datum *item = &out->items[i];

        if (item->kind != INLAY_VALUE_TENSOR || item->tensor.dtype != dtype || inlay_dtype_bits(dtype) % 8 != 0)
            return inlay_fail(reader->diag, INLAY_UNSUPPORTED, "the values of a map must be tensors of one type");
        bytes += item->tensor.bytes;
    }
    data = arena_alloc(reader->arena, (size_t)bytes);
    if (dims == NULL || data == NULL)
        return no_memory(reader->diag, "for a value");
    for (uint32_t i = 0; i < out->item_count; at += out->items[i++].tensor.bytes)
        if (out->items[i].tensor.bytes > 0)
            memcpy(data + at, out->items[i].tensor.data, (size_t)out->items[i].tensor.bytes);
    dims[0] = (int64_t)(bytes * 8 / inlay_dtype_bits(dtype));
    *out = (model_datum){ .name = out->name,
                          .tensor = { .data = data, .bytes = bytes, .dims = dims, .rank = 1, .dtype = dtype } };
    if (dims[0] != count)
        return inlay_fail(reader->diag, INLAY_INVALID_MODEL, "a map has %lld keys and %lld values", (long long)count,
                          (long long)dims[0]);
    return finish_tensor(out, INLAY_OK);
}

static inlay_status read_map(const struct reader *reader, const Onnx__Map *map, model_datum *out)
{
    inlay_status status = INLAY_OK;

    out->kind = INLAY_VALUE_MAP;
    INLAY_TRY(set_name(reader, map->name, out));
    INLAY_TRY(make_items(reader, 2, out));
    INLAY_TRY(read_keys(reader, map, &out->items[0]));
    out->items[1] = (model_datum){ .kind = INLAY_VALUE_SEQUENCE, .name = "values" };
    if (map->values != NULL)
        INLAY_TRY(read_sequence(reader, map->values, &out->items[1]));
    status = join_values(reader, out->items[0].dims[0], &out->items[1]);
done:
    return status;
}

static const struct {
    prescan_root root;
    const ProtobufCMessageDescriptor *message;
} kinds[] = { [INLAY_VALUE_TENSOR] = { PRESCAN_TENSOR, &onnx__tensor__descriptor },
              [INLAY_VALUE_SEQUENCE] = { PRESCAN_SEQUENCE, &onnx__sequence__descriptor },
              [INLAY_VALUE_OPTIONAL] = { PRESCAN_OPTIONAL, &onnx__optional__descriptor },
              [INLAY_VALUE_MAP] = { PRESCAN_MAP, &onnx__map__descriptor },
              [MODEL_DATUM_SPARSE] = { PRESCAN_SPARSE, &onnx__sparse_tensor__descriptor } };

static inlay_status read_bytes(const void *bytes, size_t count, uint32_t kind, struct arena *arena, model_datum *out,
                               inlay_diag *diag)
{
    struct arena parsed = { 0 };
    model_limits limits = model_limits_default();
    struct reader reader = { .arena = arena, .diag = diag };
    prescan_result scanned = { 0 };
    uint64_t densified = 0;
    ProtobufCMessage *message;
    inlay_status status;

    INLAY_CHECK(kind < sizeof kinds / sizeof kinds[0] && kinds[kind].message != NULL);
    reader.source = (tensor_source){ .file = bytes,
                                     .file_bytes = count,
                                     .limits = &limits,
                                     .arena = arena,
                                     .alloc = arena_alloc_callback,
                                     .alloc_ctx = arena,
                                     .copy = true,
                                     .densified = &densified };
    INLAY_TRY(prescan(bytes, count, kinds[kind].root, &limits, &scanned, diag));
    message = load_unpack(kinds[kind].message, &scanned, &parsed);
    if (message == NULL)
        status = no_memory(diag, "for a value");
    else if (kind == INLAY_VALUE_TENSOR)
        status = read_dense(&reader, (const Onnx__Tensor *)message, out);
    else if (kind == INLAY_VALUE_SEQUENCE)
        status = read_sequence(&reader, (const Onnx__Sequence *)message, out);
    else if (kind == INLAY_VALUE_OPTIONAL)
        status = read_optional(&reader, (const Onnx__Optional *)message, out);
    else if (kind == MODEL_DATUM_SPARSE)
        status = read_sparse(&reader, (const Onnx__SparseTensor *)message, out);
    else
        status = read_map(&reader, (const Onnx__Map *)message, out);
done:
    free(scanned.bytes);
    arena_deinit(&parsed);
    return status;
}

inlay_status model_datum_load(const char *path, uint32_t kind, struct arena *arena, model_datum *out, inlay_diag *diag)
{
    file_map map;
    inlay_status status;

    *out = (model_datum){ 0 };
    if (kind < INLAY_VALUE_TENSOR || kind > MODEL_DATUM_SPARSE)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%.200s: %u is not a kind of value", path, kind);
    status = file_map_path(path, 0, &map, diag);
    if (status == INLAY_OK) {
        status = read_bytes(map.bytes, map.count, kind, arena, out, diag);
        if (status == INLAY_OK && map.watch != NULL)
            status = mapped_file_check(map.watch, diag);
        file_unmap(&map);
    }
    if (status != INLAY_OK)
        load_prefix(diag, path);
    return status;
}
