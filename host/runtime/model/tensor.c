/* model/tensor.c - reads the elements of a TensorProto from one of its seven data fields or an external file. */
#include "base/checked.h"
#include "model/load.h"
#include "model/prescan.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "payloads of the file are used without conversion: little-endian");

enum {
    FLOAT_DATA = 4,
    INT32_DATA = 5,
    STRING_DATA = 6,
    INT64_DATA = 7,
    RAW_DATA = 9,
    DOUBLE_DATA = 10,
    UINT64_DATA = 11
};

static const char *field_name(uint64_t number)
{
    static const char *const field_names[] = {
        [FLOAT_DATA] = "float_data",   [INT32_DATA] = "int32_data", [STRING_DATA] = "string_data",
        [INT64_DATA] = "int64_data",   [RAW_DATA] = "raw_data",     [DOUBLE_DATA] = "double_data",
        [UINT64_DATA] = "uint64_data",
    };

    return number < sizeof field_names / sizeof field_names[0] && field_names[number] != NULL ? field_names[number]
                                                                                              : "data";
}

/* The field that contains the elements if raw_data does not, and the number of tensor bytes per entry of the field. A
 * complex number has two entries; one entry of int32_data contains two int4 or four int2. */
static const struct {
    uint8_t field;
    uint8_t entry_bytes;
} storage[INLAY_DTYPE_COUNT] = {
    [INLAY_FLOAT] = { FLOAT_DATA, 4 },        [INLAY_COMPLEX64] = { FLOAT_DATA, 4 },
    [INLAY_DOUBLE] = { DOUBLE_DATA, 8 },      [INLAY_COMPLEX128] = { DOUBLE_DATA, 8 },
    [INLAY_INT64] = { INT64_DATA, 8 },        [INLAY_UINT64] = { UINT64_DATA, 8 },
    [INLAY_UINT32] = { UINT64_DATA, 4 },      [INLAY_STRING] = { STRING_DATA, 16 },
    [INLAY_INT32] = { INT32_DATA, 4 },        [INLAY_INT16] = { INT32_DATA, 2 },
    [INLAY_UINT16] = { INT32_DATA, 2 },       [INLAY_FLOAT16] = { INT32_DATA, 2 },
    [INLAY_BFLOAT16] = { INT32_DATA, 2 },     [INLAY_INT8] = { INT32_DATA, 1 },
    [INLAY_UINT8] = { INT32_DATA, 1 },        [INLAY_BOOL] = { INT32_DATA, 1 },
    [INLAY_FLOAT8E4M3FN] = { INT32_DATA, 1 }, [INLAY_FLOAT8E4M3FNUZ] = { INT32_DATA, 1 },
    [INLAY_FLOAT8E5M2] = { INT32_DATA, 1 },   [INLAY_FLOAT8E5M2FNUZ] = { INT32_DATA, 1 },
    [INLAY_FLOAT8E8M0] = { INT32_DATA, 1 },   [INLAY_UINT4] = { INT32_DATA, 1 },
    [INLAY_INT4] = { INT32_DATA, 1 },         [INLAY_FLOAT4E2M1] = { INT32_DATA, 1 },
    [INLAY_UINT2] = { INT32_DATA, 1 },        [INLAY_INT2] = { INT32_DATA, 1 },
};

/* Iterates over the entries in the places of one field. */
struct cursor {
    const uint8_t *file;
    const uint64_t *place, *last; /* triples */
    const uint8_t *at, *end;      /* rest of the current place */
    uint64_t field;
    bool tagged;
};

static struct cursor cursor_begin(const uint8_t *file, const Onnx__Tensor *proto, uint64_t field)
{
    INLAY_CHECK(proto->n_place % 3 == 0);
    return (
        struct cursor){ .file = file, .place = proto->place, .last = proto->place + proto->n_place, .field = field };
}

/* Moves to the next non-empty place of the field. False at the end. The places of strings are elements, so empty ones
 * are not skipped. */
static bool cursor_open(struct cursor *cursor)
{
    while (cursor->at == cursor->end) {
        const uint64_t *place = cursor->place;

        if (place == cursor->last)
            return false;
        cursor->place += 3;
        if ((place[0] & ~PRESCAN_TAGGED) != cursor->field)
            continue;
        cursor->tagged = (place[0] & PRESCAN_TAGGED) != 0;
        cursor->at = cursor->file + place[1];
        cursor->end = cursor->at + place[2];
        if (cursor->field == STRING_DATA)
            return true;
    }
    return true;
}

/* Reads the next entry as bits. False at the end, or if a varint is truncated. */
static bool cursor_next(struct cursor *cursor, size_t width, uint64_t *out)
{
    uint64_t ignored;

    if (!cursor_open(cursor) || (cursor->tagged && !wire_varint(&cursor->at, cursor->end, &ignored)))
        return false;
    if (width == 0)
        return wire_varint(&cursor->at, cursor->end, out);
    if ((size_t)(cursor->end - cursor->at) < width)
        return false;
    *out = 0;
    memcpy(out, cursor->at, width);
    cursor->at += width;
    return true;
}

struct payload {
    uint64_t field; /* the field that is not empty; 0 = none */
    uint64_t bytes; /* sum over its places */
    uint64_t place_count;
    const uint8_t *first; /* data of the first place */
    bool tagged;
};

static inlay_status find_payload(const tensor_source *source, const Onnx__Tensor *proto, struct payload *out,
                                 inlay_diag *diag)
{
    *out = (struct payload){ 0 };
    for (size_t i = 0; i + 2 < proto->n_place; i += 3) {
        const uint64_t *place = &proto->place[i];
        uint64_t field = place[0] & ~PRESCAN_TAGGED;

        if (place[1] > source->file_bytes || place[2] > source->file_bytes - place[1])
            return inlay_fail(diag, INLAY_INTERNAL, "a payload is outside of the file");
        if (place[2] == 0 && field != STRING_DATA)
            continue;
        if (out->field != 0 && out->field != field)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "has both %s and %s; only one may contain the elements",
                              field_name(out->field), field_name(field));
        if (out->field == 0)
            out->first = source->file + place[1];
        if (field == RAW_DATA) { /* not repeated, so the last occurrence is used */
            out->first = source->file + place[1];
            out->bytes = 0;
            out->place_count = 0;
        }
        out->field = field;
        out->bytes += place[2];
        out->place_count++;
        out->tagged |= (place[0] & PRESCAN_TAGGED) != 0;
    }
    return INLAY_OK;
}

/* Reads dtype, dims, number of elements and size in bytes; strings have sizeof(inlay_str) bytes. */
static inlay_status read_shape(const tensor_source *source, int32_t data_type, size_t n_dims, const int64_t *dims,
                               inlay_tensor_view *out, int64_t *out_count, inlay_diag *diag)
{
    size_t bytes;

    if (data_type == INLAY_UNDEFINED)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "has no data_type");
    if (inlay_dtype_bits(data_type) == 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "has element type %" PRId32 ", which ONNX up to IR 14 does not know",
                          data_type);
    if (n_dims > INLAY_MAX_RANK)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "has rank %zu; inlay takes up to %d", n_dims, INLAY_MAX_RANK);
    for (size_t i = 0; i < n_dims; i++)
        if (dims[i] < 0)
            return inlay_fail(diag, INLAY_INVALID_MODEL,
                              "dimension %zu is %" PRId64 "; a tensor's must not be negative", i, dims[i]);
    if (!dims_count(dims, (uint32_t)n_dims, out_count) || !dtype_bytes(data_type, *out_count, &bytes))
        return inlay_fail(diag, INLAY_INVALID_MODEL, "its dimensions overflow: the product does not fit 64 bits");
    if (bytes > source->limits->tensor_bytes)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                          "needs %zu bytes, more than model_limits tensor_bytes (%" PRIu64 ")", bytes,
                          source->limits->tensor_bytes);
    out->dims = n_dims == 0 ? arena_alloc(source->arena, 0) : arena_copy(source->arena, dims, n_dims * sizeof *dims);
    if (out->dims == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory");
    out->rank = (uint32_t)n_dims;
    out->dtype = data_type;
    out->bytes = bytes;
    return INLAY_OK;
}

static void *alloc_elements(const tensor_source *source, uint64_t bytes, inlay_diag *diag)
{
    void *data = source->alloc(source->alloc_ctx, (size_t)bytes);

    if (data == NULL)
        (void)inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory for %" PRIu64 " bytes", bytes);
    return data;
}

/* Uses elements that are stored in the tensor's format: borrows or copies them. */
static inlay_status borrow_or_copy(const tensor_source *source, const uint8_t *data, inlay_tensor_view *out,
                                   inlay_diag *diag)
{
    void *copy;

    INLAY_CHECK(data != NULL || out->bytes == 0);
    out->data = data;
    if (!source->copy)
        return INLAY_OK;
    copy = alloc_elements(source, out->bytes, diag);
    if (copy == NULL)
        return INLAY_OUT_OF_MEMORY;
    memcpy(copy, data, (size_t)out->bytes);
    out->data = copy;
    return INLAY_OK;
}

static inlay_status read_strings(const tensor_source *source, const Onnx__Tensor *proto, int64_t count,
                                 inlay_tensor_view *out, inlay_diag *diag)
{
    struct cursor cursor = cursor_begin(source->file, proto, STRING_DATA);
    inlay_str *texts;
    int64_t stored = 0;

    while (cursor_open(&cursor)) {
        stored++;
        cursor.at = cursor.end;
    }
    if (stored != count)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "string_data holds %" PRId64 " of %" PRId64 " elements", stored,
                          count);
    texts = alloc_elements(source, out->bytes, diag);
    if (texts == NULL)
        return INLAY_OUT_OF_MEMORY;
    cursor = cursor_begin(source->file, proto, STRING_DATA);
    for (int64_t i = 0; i < count && cursor_open(&cursor); i++, cursor.at = cursor.end) {
        size_t bytes = (size_t)(cursor.end - cursor.at);

        texts[i] = (inlay_str){ (const char *)cursor.at, bytes };
        if (source->copy)
            texts[i].data = arena_string_n(source->arena, (const char *)cursor.at, bytes);
        if (texts[i].data == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory");
    }
    out->data = texts;
    return INLAY_OK;
}

/* Is the value of an int32_data entry in the range of an element of entry_bytes bytes, signed or unsigned? The low
 * bytes of an entry are the element, and files contain both signed and unsigned entries. */
static bool fits(uint64_t value, unsigned entry_bytes)
{
    int32_t entry = (int32_t)(uint32_t)value;
    int32_t half = entry_bytes >= 4 ? 0 : (int32_t)1 << (8 * entry_bytes - 1);

    return entry_bytes >= 4 || (entry >= -half && entry < 2 * half);
}

static inlay_status read_entries(const tensor_source *source, const Onnx__Tensor *proto, inlay_tensor_view *out,
                                 inlay_diag *diag)
{
    unsigned field = storage[out->dtype].field, entry_bytes = storage[out->dtype].entry_bytes;
    size_t width = field == FLOAT_DATA ? 4 : field == DOUBLE_DATA ? 8 : 0; /* 0: varint */
    uint64_t wanted, stored = 0, value;
    struct cursor cursor = cursor_begin(source->file, proto, field);
    uint8_t *data;

    INLAY_CHECK(entry_bytes > 0);
    wanted = out->bytes / entry_bytes;
    /* Count first, so that nothing is allocated because of dims alone. */
    while (cursor_next(&cursor, width, &value))
        stored++;
    if (stored != wanted || cursor.at != cursor.end)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "%s holds %" PRIu64 " of %" PRIu64 " elements%s",
                          field_name(field), stored, wanted, cursor.at != cursor.end ? " and is truncated" : "");
    data = alloc_elements(source, out->bytes, diag);
    if (data == NULL)
        return INLAY_OUT_OF_MEMORY;
    out->data = data;
    cursor = cursor_begin(source->file, proto, field);
    for (uint64_t i = 0; i < wanted && cursor_next(&cursor, width, &value); i++, data += entry_bytes) {
        if (field == INT32_DATA && !fits(value, entry_bytes))
            return inlay_fail(diag, INLAY_INVALID_MODEL,
                              "element %" PRIu64 " of int32_data is %" PRId32 ", which is not a valid %s", i,
                              (int32_t)(uint32_t)value, inlay_dtype_name(out->dtype));
        memcpy(data, &value, entry_bytes);
    }
    return INLAY_OK;
}

static bool parse_u64(const char *text, uint64_t *out)
{
    uint64_t value = 0;

    if (*text == '\0')
        return false;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return false;
    *out = value;
    return *text == '\0';
}

static inlay_status read_external(const tensor_source *source, const Onnx__Tensor *proto, inlay_tensor_view *out,
                                  inlay_diag *diag)
{
    const char *location = NULL;
    uint64_t offset = 0, length = UINT64_MAX;
    file_map file;
    inlay_status status;

    for (size_t i = 0; i < proto->n_external_data; i++) {
        const char *key = text_of(proto->external_data[i]->key), *value = text_of(proto->external_data[i]->value);
        bool is_offset = strcmp(key, "offset") == 0;

        if (strcmp(key, "location") == 0)
            location = value;
        else if ((is_offset || strcmp(key, "length") == 0) && !parse_u64(value, is_offset ? &offset : &length))
            return inlay_fail(diag, INLAY_INVALID_MODEL, "external data has %s '%.40s', which is not a number", key,
                              value);
    }
    if (out->dtype == INLAY_STRING)
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "strings cannot be external data; ONNX stores them in string_data");
    if (location == NULL || source->external == NULL)
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          location == NULL ? "external data has no location" : "external data is not allowed here");
    if (length != UINT64_MAX && length != out->bytes)
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "external data has length %" PRIu64 ", but the tensor needs %" PRIu64 " bytes", length,
                          out->bytes);
    status = external_open(source->external, location, &file, diag);
    if (status != INLAY_OK)
        return status;
    if (offset > file.count || out->bytes > file.count - offset)
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "needs %" PRIu64 " bytes from byte %" PRIu64
                          " of external file '%.200s', which has only %zu; it is truncated or belongs to another model",
                          out->bytes, offset, location, file.count);
    return out->bytes == 0 ? INLAY_OK : borrow_or_copy(source, file.bytes + offset, out, diag);
}

static inlay_status read_inline(const tensor_source *source, const Onnx__Tensor *proto, int64_t count,
                                inlay_tensor_view *out, inlay_diag *diag)
{
    unsigned field = storage[out->dtype].field;
    struct payload payload;
    inlay_status status = find_payload(source, proto, &payload, diag);

    if (status != INLAY_OK)
        return status;
    if (payload.field == 0 && out->bytes > 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "has no data, but its dimensions require %" PRId64 " elements",
                          count);
    if (payload.field == 0)
        return INLAY_OK;
    if (payload.field == RAW_DATA && out->dtype == INLAY_STRING)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "strings cannot be raw_data; ONNX stores them in string_data");
    if (payload.field == RAW_DATA || (payload.field == field && payload.place_count == 1 && !payload.tagged &&
                                      (field == FLOAT_DATA || field == DOUBLE_DATA))) {
        if (payload.bytes != out->bytes)
            return inlay_fail(
                diag, INLAY_INVALID_MODEL, "%s holds %" PRIu64 " bytes, but %" PRId64 " elements of %s need %" PRIu64,
                field_name(payload.field), payload.bytes, count, inlay_dtype_name(out->dtype), out->bytes);
        return borrow_or_copy(source, payload.first, out, diag);
    }
    if (payload.field != field)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "has %s, but elements of %s are stored in raw_data or %s",
                          field_name(payload.field), inlay_dtype_name(out->dtype), field_name(field));
    return field == STRING_DATA ? read_strings(source, proto, count, out, diag)
                                : read_entries(source, proto, out, diag);
}

inlay_status tensor_read(const tensor_source *source, const Onnx__Tensor *proto, inlay_tensor_view *out,
                         inlay_diag *diag)
{
    int64_t count = 0;
    inlay_status status;

    *out = (inlay_tensor_view){ 0 };
    status = read_shape(source, proto->data_type, proto->n_dims, proto->dims, out, &count, diag);
    if (status == INLAY_OK)
        status = proto->data_location == 1 ? read_external(source, proto, out, diag)
                                           : read_inline(source, proto, count, out, diag);
    if (status == INLAY_OK && out->data == NULL)
        out->data = out->dims; /* there are no elements, but NULL would mean that the elements are unknown */
    return status;
}

/* Copies element `from` of source to element `to` of target, both packed. */
static void copy_element(inlay_dtype dtype, void *target, uint64_t to, const void *source, uint64_t from)
{
    uint32_t bits = inlay_dtype_bits(dtype);

    if (bits >= 8) {
        memcpy((uint8_t *)target + to * (bits / 8), (const uint8_t *)source + from * (bits / 8), bits / 8);
    } else {
        const uint8_t *source_byte = (const uint8_t *)source + from * bits / 8;
        uint8_t *target_byte = (uint8_t *)target + to * bits / 8;
        unsigned mask = (1u << bits) - 1, value = *source_byte >> (from * bits % 8) & mask;

        *target_byte = (uint8_t)((*target_byte & ~(mask << (to * bits % 8))) | value << (to * bits % 8));
    }
}

/* The linear index of the i-th value; UINT64_MAX if it is out of range. */
static uint64_t linear_index(const inlay_tensor_view *dense, const inlay_tensor_view *indices, uint64_t i,
                             uint64_t count)
{
    uint32_t columns = indices->rank == 1 ? 1 : dense->rank;
    uint64_t linear = 0;

    INLAY_CHECK(indices->rank == 1 || indices->rank == 2);
    for (uint32_t k = 0; k < columns; k++) {
        uint64_t bound = indices->rank == 1 ? count : (uint64_t)dense->dims[k];
        int64_t index;

        memcpy(&index, (const uint8_t *)indices->data + (i * columns + k) * sizeof index, sizeof index);
        if (index < 0 || (uint64_t)index >= bound)
            return UINT64_MAX;
        linear = linear * bound + (uint64_t)index;
    }
    return linear;
}

static inlay_status check_sparse(const inlay_tensor_view *values, const inlay_tensor_view *indices,
                                 const inlay_tensor_view *dense, inlay_diag *diag)
{
    if (values->rank != 1)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "the values of a sparse tensor have rank %u; it must be 1",
                          values->rank);
    if (indices->dtype != INLAY_INT64)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "the indices of a sparse tensor are %s; they must be int64",
                          inlay_dtype_name(indices->dtype));
    if ((indices->rank != 1 && indices->rank != 2) || indices->dims[0] != values->dims[0] ||
        (indices->rank == 2 && indices->dims[1] != (int64_t)dense->rank))
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "the indices of a sparse tensor must have shape [%" PRId64 "] or [%" PRId64 ", %u]",
                          values->dims[0], values->dims[0], dense->rank);
    return INLAY_OK;
}

/* A few bytes of a file can describe any number of zeros, so the sum over the file is limited. */
static inlay_status take_budget(const tensor_source *source, const inlay_tensor_view *dense, inlay_diag *diag)
{
    if (__builtin_add_overflow(*source->densified, dense->bytes, source->densified) ||
        *source->densified > source->limits->densified_bytes)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                          "a sparse tensor needs %" PRIu64 " bytes in dense form; all sparse tensors together may take "
                          "model_limits densified_bytes (%" PRIu64 ")",
                          dense->bytes, source->limits->densified_bytes);
    return INLAY_OK;
}

/* Reads values, indices, and the dense tensor without its elements. */
static inlay_status read_parts(const tensor_source *source, const Onnx__SparseTensor *proto, inlay_tensor_view *values,
                               inlay_tensor_view *indices, inlay_tensor_view *out, int64_t *out_count, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    *out = *values = *indices = (inlay_tensor_view){ 0 };
    if (proto->values == NULL)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "a sparse tensor has no values");
    INLAY_TRY(tensor_read(source, proto->values, values, diag));
    INLAY_TRY(read_shape(source, values->dtype, proto->n_dims, proto->dims, out, out_count, diag));
    if (proto->indices != NULL)
        INLAY_TRY(tensor_read(source, proto->indices, indices, diag));
    else if (values->bytes == 0)
        *indices = (inlay_tensor_view){ .data = values->data, .dims = values->dims, .rank = 1, .dtype = INLAY_INT64 };
    else
        return inlay_fail(diag, INLAY_INVALID_MODEL, "a sparse tensor has no indices");
    status = check_sparse(values, indices, out, diag);
done:
    return status;
}

inlay_status tensor_read_entries(const tensor_source *source, const Onnx__SparseTensor *proto,
                                 inlay_tensor_view *values, inlay_tensor_view *indices, inlay_tensor_view *dense,
                                 bool *out_ascending, inlay_diag *diag)
{
    int64_t count = 0;
    uint64_t last = UINT64_MAX, *linear = NULL;
    inlay_status status = read_parts(source, proto, values, indices, dense, &count, diag);

    *out_ascending = false;
    if (status != INLAY_OK)
        return status;
    if (indices->rank == 2) {
        linear = alloc_elements(source, (uint64_t)values->dims[0] * sizeof *linear + 1, diag);
        if (linear == NULL)
            return INLAY_OUT_OF_MEMORY;
    }
    for (uint64_t i = 0; i < (uint64_t)values->dims[0]; i++) {
        const uint64_t at = linear_index(dense, indices, i, (uint64_t)count);

        if (at >= (uint64_t)count || (i > 0 && at <= last))
            return INLAY_OK; /* the conversion to dense form reports the fault */
        if (linear != NULL)
            linear[i] = at;
        last = at;
    }
    if (linear != NULL)
        *indices = (inlay_tensor_view){ .data = linear,
                                        .bytes = (uint64_t)values->dims[0] * sizeof *linear,
                                        .dims = values->dims,
                                        .rank = 1,
                                        .dtype = INLAY_INT64 };
    *out_ascending = true;
    return INLAY_OK;
}

inlay_status tensor_read_sparse(const tensor_source *source, const Onnx__SparseTensor *proto, inlay_tensor_view *out,
                                inlay_diag *diag)
{
    inlay_tensor_view values, indices;
    int64_t count = 0;
    void *data;
    inlay_status status = INLAY_OK;

    INLAY_TRY(read_parts(source, proto, &values, &indices, out, &count, diag));
    INLAY_TRY(take_budget(source, out, diag));
    data = alloc_elements(source, out->bytes, diag);
    if (data == NULL)
        return INLAY_OUT_OF_MEMORY;
    memset(data, 0, (size_t)out->bytes);
    for (int64_t i = 0; out->dtype == INLAY_STRING && i < count; i++)
        ((inlay_str *)data)[i].data = "";
    for (uint64_t i = 0; i < (uint64_t)values.dims[0]; i++) {
        uint64_t at = linear_index(out, &indices, i, (uint64_t)count);

        if (at >= (uint64_t)count)
            return inlay_fail(diag, INLAY_INVALID_MODEL,
                              "index %" PRIu64 " of a sparse tensor is outside of its %" PRId64 " elements", i, count);
        copy_element(out->dtype, data, at, values.data, i);
    }
    out->data = data;
done:
    return status;
}
