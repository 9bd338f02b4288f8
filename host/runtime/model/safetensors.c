#include "model/safetensors.h"
#include "base/checked.h"
#include "model/format.h"
#include "model/load.h"
#include <jansson.h>
#include <string.h>

enum { SIZE_BYTES = 8, MOST_HEADER = 100 << 20 }; /* the format's own limit of a header */

/* A file while its header is read. */
struct reader {
    graph_model *model;
    const char *path;
    const uint8_t *data; /* [data_bytes] after the header */
    uint64_t data_bytes;
    inlay_diag *diag;
};

static inlay_status damaged(const struct reader *reader, const char *tensor, const char *what)
{
    return inlay_fail(reader->diag, INLAY_INVALID_ARGUMENT, "%.300s: tensor '%.200s': %s", reader->path, tensor, what);
}

static inlay_status no_room(const struct reader *reader)
{
    return inlay_fail(reader->diag, INLAY_OUT_OF_MEMORY, "%.300s: out of memory", reader->path);
}

static inlay_dtype dtype_of(const char *type)
{
    return strcmp(type, "F32") == 0    ? INLAY_FLOAT
           : strcmp(type, "F16") == 0  ? INLAY_FLOAT16
           : strcmp(type, "BF16") == 0 ? INLAY_BFLOAT16
                                       : INLAY_UNDEFINED;
}

/* A size or an offset; false: not a number that is at least 0. */
static bool read_size(const json_t *value, uint64_t *out)
{
    *out = json_is_integer(value) && json_integer_value(value) >= 0 ? (uint64_t)json_integer_value(value) : UINT64_MAX;
    return *out != UINT64_MAX;
}

static inlay_status read_shape(const struct reader *reader, const char *name, const json_t *shape,
                               struct safetensor *out)
{
    const size_t rank = json_array_size(shape);
    int64_t *dims = arena_array(&reader->model->arena, rank + 1, sizeof *dims), count;
    uint64_t size;

    if (dims == NULL)
        return no_room(reader);
    if (!json_is_array(shape) || rank > INLAY_MAX_RANK)
        return damaged(reader, name, "'shape' is not a list of at most 16 sizes");
    for (size_t i = 0; i < rank; i++) {
        if (!read_size(json_array_get(shape, i), &size))
            return damaged(reader, name, "'shape' has a size that is not a number");
        dims[i] = (int64_t)size;
    }
    if (!dims_count(dims, (uint32_t)rank, &count))
        return damaged(reader, name, "it has more than 2^63 elements");
    out->view.dims = dims;
    out->view.rank = (uint32_t)rank;
    return INLAY_OK;
}

static inlay_status read_tensor(const struct reader *reader, const char *name, const json_t *entry,
                                struct safetensor *out)
{
    const json_t *range = json_object_get(entry, "data_offsets");
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    uint64_t begin, end;
    size_t bytes = 0;
    int64_t count;
    inlay_status status = read_shape(reader, name, json_object_get(entry, "shape"), out);

    if (status != INLAY_OK)
        return status;
    if (type == NULL)
        return damaged(reader, name, "'dtype' is missing");
    if (json_array_size(range) != 2 || !read_size(json_array_get(range, 0), &begin) ||
        !read_size(json_array_get(range, 1), &end) || begin > end || end > reader->data_bytes)
        return damaged(reader, name,
                       "'data_offsets' is not a range of the file's data; the file is damaged or incomplete");
    out->view.dtype = dtype_of(type);
    out->view.data = reader->data + begin;
    out->view.bytes = end - begin;
    if (out->view.dtype != INLAY_UNDEFINED &&
        (!dims_count(out->view.dims, out->view.rank, &count) || !dtype_bytes(out->view.dtype, count, &bytes) ||
         bytes != out->view.bytes))
        return damaged(reader, name, "'data_offsets' does not fit its shape");
    out->name = arena_string(&reader->model->arena, name);
    out->type = arena_string(&reader->model->arena, type);
    return out->name != NULL && out->type != NULL ? INLAY_OK : no_room(reader);
}

static inlay_status read_header(const struct reader *reader, json_t *header, struct safetensors *out)
{
    inlay_status status = INLAY_OK;
    const char *name;
    json_t *entry;

    out->tensors = arena_array(&reader->model->arena, json_object_size(header) + 1, sizeof *out->tensors);
    if (out->tensors == NULL)
        return no_room(reader);
    json_object_foreach(header, name, entry) {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        memset(&out->tensors[out->count], 0, sizeof *out->tensors);
        status = read_tensor(reader, name, entry, &out->tensors[out->count]);
        if (status != INLAY_OK)
            return status;
        out->count++;
    }
    return INLAY_OK;
}

/* The factors of an adapter in another format. */
struct factors {
    const struct reader *reader;
    struct safetensors *out;
    bool counts; /* only their number is wanted */
};

static inlay_status add_factor(void *ctx, const char *name, const char *type, const inlay_tensor_view *view)
{
    struct factors *factors = ctx;
    struct arena *arena = &factors->reader->model->arena;
    struct safetensor *made = factors->counts ? NULL : &factors->out->tensors[factors->out->count];
    int64_t *dims = factors->counts ? NULL : arena_array(arena, view->rank, sizeof *dims);

    factors->out->count++;
    if (factors->counts)
        return INLAY_OK;
    *made = (struct safetensor){ .name = arena_string(arena, name), .type = arena_string(arena, type), .view = *view };
    made->view.dims = dims;
    if (made->name == NULL || made->type == NULL || dims == NULL)
        return no_room(factors->reader);
    memcpy(dims, view->dims, view->rank * sizeof *dims);
    return INLAY_OK;
}

static inlay_status read_factors(const struct reader *reader, const model_format *format, const file_map *map,
                                 struct safetensors *out)
{
    const format_file file = { .bytes = map->bytes, .count = map->count };
    struct factors factors = { reader, out, true };
    format_adapter adapter = { .add = add_factor, .ctx = &factors };
    inlay_status status = format->read_adapter(&file, &adapter, reader->diag);

    out->tensors = arena_array(&reader->model->arena, (size_t)out->count + 1, sizeof *out->tensors);
    out->count = 0;
    if (status == INLAY_OK && out->tensors == NULL)
        return no_room(reader);
    factors.counts = false;
    if (status == INLAY_OK)
        status = format->read_adapter(&file, &adapter, reader->diag);
    out->is_adapter = true;
    out->alpha = adapter.alpha;
    if (status != INLAY_OK)
        load_prefix(reader->diag, reader->path);
    return status;
}

inlay_status safetensors_open(graph_model *model, const char *path, struct safetensors *out, inlay_diag *diag)
{
    struct reader reader = { .model = model, .path = path, .diag = diag };
    uint64_t size = 0;
    inlay_status status;
    const model_format *format;
    json_error_t error;
    json_t *header;
    file_map map;

    *out = (struct safetensors){ .count = 0 };
    status = file_map_path(path, 0, &map, diag);
    if (status == INLAY_OK)
        status = file_transfer(&map, model, diag);
    if (status != INLAY_OK) {
        load_prefix(diag, path);
        return status;
    }
    format = load_format_of(map.bytes, map.count);
    if (format != NULL)
        return read_factors(&reader, format, &map, out);
    for (int i = SIZE_BYTES - 1; map.count >= SIZE_BYTES && i >= 0; i--)
        size = size << 8 | map.bytes[i];
    if (map.count < SIZE_BYTES || size > MOST_HEADER || size > map.count - SIZE_BYTES)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%.300s: not a safetensors file, or an incomplete one", path);
    header = json_loadb((const char *)map.bytes + SIZE_BYTES, (size_t)size, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(header)) {
        json_decref(header);
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%.300s: the header is not a JSON object: %.150s", path,
                          header == NULL ? error.text : "it is a list, a text or a number");
    }
    reader.data = map.bytes + SIZE_BYTES + size;
    reader.data_bytes = map.count - SIZE_BYTES - size;
    status = read_header(&reader, header, out);
    json_decref(header);
    return status;
}

const struct safetensor *safetensors_find(const struct safetensors *file, const char *name)
{
    for (uint32_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    return NULL;
}
