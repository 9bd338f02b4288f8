/* gguf_read.c - reads the tables of a GGUF file. */
#include "formats/gguf.h"
#include "base/checked.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_VERSION = 2, NEWEST_VERSION = 3, MAX_TENSORS = 100000, MAX_VALUES = 100000 };
enum { PART_END = sizeof "-00001-of-00001.gguf" - 1 };
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

/* Types that are not supported: newer ones, and blocks of activations. */
static const struct {
    uint8_t type;
    char name[8];
} other_types[] = {
    { 9, "Q8_1" }, { 15, "Q8_K" }, { 24, "I8" }, { 41, "Q1_0" }, { 42, "Q2_0" },
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
static inlay_status place_tensor(struct gguf_tensor *tensor, uint64_t data, uint64_t alignment, uint64_t *next,
                                 inlay_diag *diag)
{
    const uint64_t count = tensor->part->count;
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
    if (data > count || tensor->offset > count - data || bytes > count - data - tensor->offset)
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

static inlay_status read_tables(struct gguf *gguf, const struct gguf_part *part, struct reader *reader)
{
    uint64_t alignment, data, next = 0;
    inlay_status status;

    for (uint64_t i = 0; i < gguf->value_count; i++)
        if (!read_value(reader, &gguf->values[i]))
            return damaged(reader->diag, "its key-value pairs are cut short, or one has a type that GGUF lacks");
    for (uint64_t i = 0; i < gguf->tensor_count; i++) {
        gguf->tensors[i].part = part;
        status = read_tensor(reader, &gguf->tensors[i]);
        if (status != INLAY_OK)
            return status;
    }
    alignment = (uint64_t)gguf_int(gguf, GGUF_ALIGNMENT);
    if (alignment < 4 || alignment > 1 << 20 || (alignment & (alignment - 1)) != 0)
        return damaged(reader->diag, "general.alignment is not a power of two of at least 4");
    data = ((uint64_t)(reader->at - part->bytes) + alignment - 1) / alignment * alignment;
    for (uint64_t i = 0; i < gguf->tensor_count; i++) {
        status = place_tensor(&gguf->tensors[i], data, alignment, &next, reader->diag);
        if (status != INLAY_OK)
            return status;
    }
    return gguf->status;
}

/* Reads the tables of one part. After a failure, gguf_deinit() frees them. */
static inlay_status read_part(const struct gguf_part *part, struct gguf *out, inlay_diag *diag)
{
    struct reader reader = { part->bytes + 4, part->bytes + part->count, diag };
    uint32_t version = 0;

    INLAY_CHECK(gguf_is_file(part->bytes, part->count));
    if (!take(&reader, &version, sizeof version))
        return damaged(diag, "it is cut short");
    if (version < OLDEST_VERSION || version > NEWEST_VERSION)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "is GGUF version %u; inlay reads %d and %d, little-endian", version,
                          OLDEST_VERSION, NEWEST_VERSION);
    if (!take(&reader, &out->tensor_count, 8) || !take(&reader, &out->value_count, 8))
        return damaged(diag, "it is cut short");
    if (out->tensor_count > MAX_TENSORS || out->tensor_count > part->count / MIN_TENSOR_BYTES ||
        out->value_count > MAX_VALUES || out->value_count > part->count / MIN_VALUE_BYTES) {
        out->tensor_count = out->value_count = 0;
        return damaged(diag, "it has more tensors or keys than bytes, or more than 100000");
    }
    out->values = calloc(out->value_count + 1, sizeof *out->values);
    out->tensors = calloc(out->tensor_count + 1, sizeof *out->tensors);
    return out->values != NULL && out->tensors != NULL ? read_tables(out, part, &reader)
                                                       : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory");
}

/* Returns where "-NNNNN-of-MMMMM.gguf" begins in the name of a part, and sets the two numbers; NULL: another name. */
static const char *part_numbers(const char *name, unsigned *no, unsigned *count)
{
    const size_t bytes = name != NULL ? strlen(name) : 0;
    const char *end = bytes > PART_END ? name + bytes - PART_END : NULL;
    int read = 0;

    return end != NULL && sscanf(end, "-%5u-of-%5u.gguf%n", no, count, &read) == 2 && read == PART_END ? end : NULL;
}

/* Opens the files of the parts, except part `own`, which is open already. */
static inlay_status find_parts(struct gguf *gguf, uint64_t own, inlay_diag *diag)
{
    const format_file *file = gguf->file;
    const size_t bytes = strlen(file->name) + 1;

    for (uint64_t i = 0; i < gguf->part_count; i++) {
        struct gguf_part *part = &gguf->parts[i];
        char *name = gguf->names + i * bytes;
        inlay_status status;

        (void)snprintf(name, bytes, "%.*s-%05" PRIu64 "-of-%05" PRIu64 ".gguf", (int)(bytes - 1 - PART_END), file->name,
                       i + 1, gguf->part_count);
        if (i == own) {
            *part = (struct gguf_part){ file->bytes, file->count, file->location };
            continue;
        }
        status = file->open(file->open_ctx, name, &part->bytes, &part->count, diag);
        if (status == INLAY_OK && !gguf_is_file(part->bytes, part->count))
            status = inlay_fail(diag, INLAY_INVALID_MODEL, "needs its part '%.200s', which is no GGUF file", name);
        if (status != INLAY_OK)
            return status;
        part->location = name;
    }
    return INLAY_OK;
}

/* Reads the tables of a part and moves its tensors to those of all parts, and the keys of the first part. */
static inlay_status add_part(struct gguf *gguf, uint64_t i, inlay_diag *diag)
{
    struct gguf one = { .file = gguf->file, .diag = diag };
    struct gguf_tensor *tensors;
    inlay_status status;

    INLAY_TRY(read_part(&gguf->parts[i], &one, diag));
    if ((uint64_t)gguf_int(&one, GGUF_SPLITS) != gguf->part_count || (uint64_t)gguf_int(&one, GGUF_SPLIT) != i) {
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "is part %" PRId64 " of %" PRId64 " by split.no and split.count",
                            gguf_int(&one, GGUF_SPLIT) + 1, gguf_int(&one, GGUF_SPLITS));
        goto done;
    }
    if (i > 0 && gguf_int_or(&one, GGUF_SPLIT_TENSORS, -1) != gguf_int_or(gguf, GGUF_SPLIT_TENSORS, -1)) {
        status = inlay_fail(diag, INLAY_INVALID_MODEL,
                            "is of another model: its split.tensors.count differs from that of the first part");
        goto done;
    }
    tensors = realloc(gguf->tensors, (gguf->tensor_count + one.tensor_count + 1) * sizeof *tensors);
    if (tensors == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory");
        goto done;
    }
    memcpy(tensors + gguf->tensor_count, one.tensors, one.tensor_count * sizeof *tensors);
    gguf->tensors = tensors;
    gguf->tensor_count += one.tensor_count;
    if (i == 0) {
        gguf->values = one.values;
        gguf->value_count = one.value_count;
        one.values = NULL;
    }
done:
    gguf_deinit(&one);
    return status;
}

/* Reads all parts of the model; the open file is one of them. */
static inlay_status join_parts(struct gguf *gguf, uint64_t own, uint64_t count, inlay_diag *diag)
{
    const format_file *file = gguf->file;
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    gguf_deinit(gguf);
    *gguf = (struct gguf){ .file = file, .diag = diag, .part_count = count };
    gguf->parts = calloc(count, sizeof *gguf->parts);
    gguf->names = calloc(count, strlen(file->name) + 1);
    status = gguf->parts != NULL && gguf->names != NULL ? find_parts(gguf, own, diag)
                                                        : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory");
    for (uint64_t i = 0; i < count && status == INLAY_OK; i++) {
        status = add_part(gguf, i, &why);
        if (status != INLAY_OK)
            (void)inlay_fail(diag, status, "its part '%s' %s", gguf->names + i * (strlen(file->name) + 1), why.text);
    }
    if (status == INLAY_OK &&
        (uint64_t)gguf_int_or(gguf, GGUF_SPLIT_TENSORS, (int64_t)gguf->tensor_count) != gguf->tensor_count) {
        gguf_fail_key(gguf, GGUF_SPLIT_TENSORS, "has another number of tensors in all parts than its key");
        status = gguf->status;
    }
    return status;
}

inlay_status gguf_open(const format_file *file, struct gguf *out, inlay_diag *diag)
{
    unsigned no = 0, count = 0;
    inlay_status status;

    *out = (struct gguf){ .file = file, .diag = diag, .parts = malloc(sizeof *out->parts), .part_count = 1 };
    if (out->parts == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory");
    *out->parts = (struct gguf_part){ file->bytes, file->count, file->location };
    status = read_part(out->parts, out, diag);
    if (status == INLAY_OK && gguf_int(out, GGUF_SPLITS) > 1) {
        if (part_numbers(file->name, &no, &count) == NULL || no < 1 || no > count)
            status = inlay_fail(diag, INLAY_INVALID_MODEL,
                                "is one of %" PRId64 " parts of a split GGUF file; its name must end with "
                                "-00001-of-%05" PRId64 ".gguf, or with another number",
                                gguf_int(out, GGUF_SPLITS), gguf_int(out, GGUF_SPLITS));
        else
            status = join_parts(out, no - 1, count, diag);
    }
    if (status == INLAY_OK)
        out->architecture = gguf_string(out, GGUF_ARCHITECTURE);
    if (status == INLAY_OK && out->architecture.data == NULL)
        status = out->status != INLAY_OK ? out->status : damaged(diag, "it has no general.architecture");
    if (status != INLAY_OK)
        gguf_deinit(out);
    return status;
}

void gguf_deinit(struct gguf *gguf)
{
    free(gguf->parts);
    free(gguf->names);
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
