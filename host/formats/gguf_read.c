/* gguf_read.c - reads the tables of a GGUF file. */
#include "formats/gguf.h"
#include "base/checked.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_VERSION = 2, NEWEST_VERSION = 3, MAX_TENSORS = 100000, MAX_VALUES = 100000 };
enum { MIN_VALUE_BYTES = 8 + 4 + 1, MIN_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8 }; /* bytes of the shortest entries */

struct reader {
    const uint8_t *at, *end;
    inlay_diag *diag;
};

bool gguf_is_file(const uint8_t *bytes, size_t count)
{
    return count >= 4 && memcmp(bytes, "GGUF", 4) == 0;
}

static inlay_status damaged(inlay_diag *diag, const char *what)
{
    return inlay_fail(diag, INLAY_INVALID_MODEL, "is a damaged GGUF file: %s", what);
}

static bool take(struct reader *reader, void *to, size_t bytes)
{
    if ((size_t)(reader->end - reader->at) < bytes)
        return false;
    memcpy(to, reader->at, bytes);
    reader->at += bytes;
    return true;
}

static bool take_text(struct reader *reader, struct gguf_text *out)
{
    uint64_t bytes;

    if (!take(reader, &bytes, sizeof bytes) || (uint64_t)(reader->end - reader->at) < bytes)
        return false;
    *out = (struct gguf_text){ (const char *)reader->at, (size_t)bytes };
    reader->at += bytes;
    return true;
}

static bool skip_items(struct reader *reader, uint32_t type, uint64_t count)
{
    struct gguf_text text;

    if (type != GGUF_STRING) {
        const uint64_t size = gguf_number_bytes(type);

        if (size == 0 || count > (uint64_t)(reader->end - reader->at) / size)
            return false;
        reader->at += count * size;
        return true;
    }
    for (uint64_t i = 0; i < count; i++)
        if (!take_text(reader, &text))
            return false;
    return true;
}

static bool read_value(struct reader *reader, struct gguf_value *value)
{
    if (!take_text(reader, &value->key) || !take(reader, &value->type, sizeof value->type))
        return false;
    value->count = 1;
    value->item_type = value->type;
    if (value->type == GGUF_ARRAY && (!take(reader, &value->item_type, sizeof value->item_type) ||
                                      !take(reader, &value->count, sizeof value->count)))
        return false;
    value->data = reader->at;
    if (!skip_items(reader, value->item_type, value->count))
        return false;
    value->bytes = (size_t)(reader->at - value->data);
    return true;
}

/* A tensor, whose offset still counts from the start of the data. */
static inlay_status read_tensor(struct reader *reader, struct gguf_tensor *tensor)
{
    struct gguf_text name;
    int64_t elements;

    if (!take_text(reader, &name) || !take(reader, &tensor->rank, sizeof tensor->rank))
        return damaged(reader->diag, "its table of tensors is cut short");
    if (name.bytes >= sizeof tensor->name || memchr(name.data, '\0', name.bytes) != NULL ||
        memchr(name.data, ' ', name.bytes) != NULL)
        return damaged(reader->diag, "the name of a tensor has more than 63 bytes, a space or a NUL");
    memcpy(tensor->name, name.data, name.bytes);
    if (tensor->rank > GGUF_RANK)
        return inlay_fail(reader->diag, INLAY_INVALID_MODEL, "tensor '%s' has %u axes; GGUF has up to %d", tensor->name,
                          tensor->rank, GGUF_RANK);
    if (!take(reader, tensor->dims, tensor->rank * sizeof *tensor->dims) ||
        !take(reader, &tensor->type, sizeof tensor->type) || !take(reader, &tensor->offset, sizeof tensor->offset))
        return damaged(reader->diag, "its table of tensors is cut short");
    if (!dims_count(tensor->dims, tensor->rank, &elements) || elements == 0)
        return inlay_fail(reader->diag, INLAY_INVALID_MODEL, "tensor '%s' has a bad shape", tensor->name);
    return INLAY_OK;
}

/* Types that are not supported: codebooks, newer ones, and blocks of activations. */
static const struct {
    uint8_t type;
    char name[8];
} other_types[] = {
    { 9, "Q8_1" },   { 15, "Q8_K" },  { 16, "IQ2_XXS" }, { 17, "IQ2_XS" }, { 18, "IQ3_XXS" },
    { 19, "IQ1_S" }, { 21, "IQ3_S" }, { 22, "IQ2_S" },   { 24, "I8" },     { 29, "IQ1_M" },
    { 40, "NVFP4" }, { 41, "Q1_0" },  { 42, "Q2_0" },
};

static inlay_status refuse_type(const struct gguf_tensor *tensor, inlay_diag *diag)
{
    const char *name = "unknown";

    for (size_t i = 0; i < sizeof other_types / sizeof *other_types; i++)
        if (other_types[i].type == tensor->type)
            name = other_types[i].name;
    return inlay_fail(diag, INLAY_UNSUPPORTED,
                      "tensor '%s' has type %u (%s), which is not supported; use a file with weights of another type, "
                      "such as Q4_K",
                      tensor->name, tensor->type, name);
}

/* Checks where the data of a tensor lies, [data, ...) being that of all. next: where the previous one ends, aligned; it
 * must begin there, as llama.cpp requires. */
static inlay_status place_tensor(const struct gguf *gguf, struct gguf_tensor *tensor, uint64_t data, uint64_t alignment,
                                 uint64_t *next, inlay_diag *diag)
{
    const kit_block_type *type = gguf_type_of(tensor);
    const int64_t row = tensor->rank > 0 ? tensor->dims[0] : 1;
    uint64_t bytes = (uint64_t)(type != NULL ? type->bytes : 0);

    if (type == NULL)
        return refuse_type(tensor, diag);
    if (row % type->elements != 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "tensor '%s' has rows of %" PRId64 " elements, which are not whole blocks of %" PRId64
                          " for its type %s",
                          tensor->name, row, type->elements, type->name);
    for (uint32_t i = 0; i < tensor->rank; i++) /* at most 2^57 elements (dims_count) of 4 bytes */
        bytes *= (uint64_t)(i == 0 ? row / type->elements : tensor->dims[i]);
    if (data > gguf->file->count || tensor->offset > gguf->file->count - data ||
        bytes > gguf->file->count - data - tensor->offset)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "tensor '%s' lies outside of the file; the file is cut short",
                          tensor->name);
    if (tensor->offset != *next)
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "tensor '%s' has the offset %" PRIu64 ", and the tensor before it ends at %" PRIu64
                          "; tensors must not overlap or leave gaps",
                          tensor->name, tensor->offset, *next);
    *next = (tensor->offset + bytes + alignment - 1) / alignment * alignment;
    tensor->offset += data;
    tensor->bytes = (size_t)bytes;
    return INLAY_OK;
}

static inlay_status read_tables(struct gguf *gguf, struct reader *reader)
{
    uint64_t alignment, data, next = 0;
    inlay_status status;

    for (uint64_t i = 0; i < gguf->value_count; i++)
        if (!read_value(reader, &gguf->values[i]))
            return damaged(reader->diag, "its key-value pairs are cut short, or one has a type that GGUF lacks");
    for (uint64_t i = 0; i < gguf->tensor_count; i++) {
        status = read_tensor(reader, &gguf->tensors[i]);
        if (status != INLAY_OK)
            return status;
    }
    alignment = (uint64_t)gguf_int(gguf, GGUF_ALIGNMENT);
    if (alignment < 4 || alignment > 1 << 20 || (alignment & (alignment - 1)) != 0)
        return damaged(reader->diag, "general.alignment is not a power of two of at least 4");
    data = ((uint64_t)(reader->at - gguf->file->bytes) + alignment - 1) / alignment * alignment;
    for (uint64_t i = 0; i < gguf->tensor_count; i++) {
        status = place_tensor(gguf, &gguf->tensors[i], data, alignment, &next, reader->diag);
        if (status != INLAY_OK)
            return status;
    }
    if (gguf_int(gguf, GGUF_SPLITS) > 1)
        return inlay_fail(reader->diag, INLAY_UNSUPPORTED,
                          "is one of %" PRId64 " parts of a split GGUF file; join them with llama-gguf-split --merge",
                          gguf_int(gguf, GGUF_SPLITS));
    gguf->architecture = gguf_string(gguf, GGUF_ARCHITECTURE);
    return gguf->architecture.data != NULL || gguf->status != INLAY_OK
               ? gguf->status
               : damaged(reader->diag, "it has no general.architecture");
}

inlay_status gguf_open(const format_file *file, struct gguf *out, inlay_diag *diag)
{
    struct reader reader = { file->bytes + 4, file->bytes + file->count, diag };
    uint32_t version = 0;
    inlay_status status;

    INLAY_CHECK(file->count >= 4);
    *out = (struct gguf){ .file = file, .diag = diag };
    if (!take(&reader, &version, sizeof version))
        return damaged(diag, "it is cut short");
    if (version < OLDEST_VERSION || version > NEWEST_VERSION)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "is GGUF version %u; inlay reads %d and %d, little-endian", version,
                          OLDEST_VERSION, NEWEST_VERSION);
    if (!take(&reader, &out->tensor_count, 8) || !take(&reader, &out->value_count, 8))
        return damaged(diag, "it is cut short");
    if (out->tensor_count > MAX_TENSORS || out->tensor_count > file->count / MIN_TENSOR_BYTES ||
        out->value_count > MAX_VALUES || out->value_count > file->count / MIN_VALUE_BYTES) {
        out->tensor_count = out->value_count = 0;
        return damaged(diag, "it has more tensors or keys than bytes, or more than 100000");
    }
    out->values = calloc(out->value_count + 1, sizeof *out->values);
    out->tensors = calloc(out->tensor_count + 1, sizeof *out->tensors);
    status = out->values != NULL && out->tensors != NULL ? read_tables(out, &reader)
                                                         : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory");
    if (status != INLAY_OK)
        gguf_deinit(out);
    return status;
}

void gguf_deinit(struct gguf *gguf)
{
    free(gguf->values);
    free(gguf->tensors);
    *gguf = (struct gguf){ .file = NULL };
}

struct gguf_tensor *gguf_tensor(struct gguf *gguf, const char *name)
{
    struct gguf_tensor *found = NULL;

    for (uint64_t i = 0; i < gguf->tensor_count; i++) {
        if (strcmp(gguf->tensors[i].name, name) != 0)
            continue;
        if (found != NULL)
            gguf_refuse(gguf, INLAY_INVALID_MODEL, "has twice the tensor", name);
        found = &gguf->tensors[i];
        found->used = true;
    }
    return found;
}
