#include "data/npz.h"
#include "data/npy.h"
#include "data/view.h"
#include "data/zip.h"
#include <errno.h>
#include <string.h>

struct archive {
    const char *path;
    FILE *file;
    zip_list list;
    struct arena *arena;
    inlay_diag *diag;
};

/* Reads the array "name.npy" as a value; INLAY_UNDEFINED accepts any type. *out is NULL if the archive does not have
 * it. */
static inlay_status read_array(struct archive *archive, const char *name, inlay_dtype dtype, inlay_value **out)
{
    const zip_entry *entry = zip_array(&archive->list, name);
    inlay_tensor_view view;
    inlay_status status;
    FILE *npy;

    *out = NULL;
    if (entry == NULL)
        return INLAY_OK;
    status = zip_extract(archive->file, archive->path, entry, &npy, archive->diag);
    if (status != INLAY_OK)
        return status;
    status = npy_load_file(npy, archive->path, dtype, archive->arena, &view, archive->diag);
    (void)fclose(npy);
    return status == INLAY_OK ? value_from_view(&view, out, archive->diag) : status;
}

/* Converts int32, which SciPy uses if it suffices, to int64. */
static inlay_status widen(const struct archive *archive, inlay_value **value)
{
    inlay_value *wide = NULL;
    inlay_status status;

    if (*value == NULL || inlay_value_dtype(*value) == INLAY_INT64)
        return INLAY_OK;
    if (inlay_value_dtype(*value) != INLAY_INT32)
        return inlay_fail(archive->diag, INLAY_INVALID_ARGUMENT, "%s: indices must be int32 or int64", archive->path);
    status = inlay_value_create(INLAY_INT64, inlay_value_rank(*value), inlay_value_dims(*value), &wide, archive->diag);
    if (status != INLAY_OK)
        return status;
    for (int64_t i = 0; i < inlay_value_count(wide); i++)
        ((int64_t *)inlay_value_data(wide))[i] = ((const int32_t *)inlay_value_data(*value))[i];
    inlay_value_unref(*value);
    *value = wide;
    return INLAY_OK;
}

static bool is_list(const inlay_value *value, int64_t count)
{
    return value != NULL && inlay_value_rank(value) == 1 && inlay_value_count(value) == count;
}

/* Indices [n, 2] of the elements of a matrix. Rows and columns are two lists, or (`compressed`) `major` has the
 * position at which each row or column begins. `by_column`: major is the column. */
static inlay_status make_indices(const struct archive *archive, const inlay_value *major, const inlay_value *minor,
                                 bool compressed, bool by_column, inlay_value **out)
{
    const int64_t count = inlay_value_count(minor), dims[2] = { count, 2 };
    const int64_t *first = inlay_value_data(major), *second = inlay_value_data(minor);
    inlay_status status = inlay_value_create(INLAY_INT64, 2, dims, out, archive->diag);
    int64_t *to, line = 0;

    if (status != INLAY_OK)
        return status;
    to = inlay_value_data(*out);
    for (int64_t i = 0; i < count; i++) {
        while (compressed && line + 1 < inlay_value_count(major) && first[line + 1] <= i)
            line++;
        to[2 * i + by_column] = compressed ? line : first[i];
        to[2 * i + !by_column] = second[i];
    }
    return INLAY_OK;
}

static inlay_status read_sparse(struct archive *archive, inlay_dtype dtype, inlay_value **out)
{
    inlay_value *data = NULL, *shape = NULL, *indices = NULL, *major = NULL, *made = NULL, *format = NULL;
    inlay_status status;
    int64_t count;
    bool matrix;

    INLAY_TRY(read_array(archive, "data", dtype, &data));
    matrix = data != NULL;
    if (!matrix)
        INLAY_TRY(read_array(archive, "values", dtype, &data));
    INLAY_TRY(read_array(archive, "shape", INLAY_INT64, &shape));
    INLAY_TRY(read_array(archive, "indices", INLAY_INT64, &indices));
    INLAY_TRY(read_array(archive, "indptr", INLAY_INT64, &major));
    INLAY_TRY(read_array(archive, "format", INLAY_UNDEFINED, &format));
    if (matrix && indices == NULL) {
        INLAY_TRY(read_array(archive, "row", INLAY_INT64, &major));
        INLAY_TRY(read_array(archive, "col", INLAY_INT64, &indices));
    }
    INLAY_TRY(widen(archive, &shape));
    INLAY_TRY(widen(archive, &indices));
    INLAY_TRY(widen(archive, &major));
    count = data != NULL ? inlay_value_count(data) : -1;
    if (data == NULL || shape == NULL || indices == NULL || inlay_value_rank(shape) != 1 ||
        inlay_value_count(shape) > INLAY_MAX_RANK ||
        (matrix && (major == NULL || !is_list(indices, count) || inlay_value_rank(major) != 1 ||
                    inlay_value_count(shape) != 2))) {
        status = inlay_fail(archive->diag, INLAY_INVALID_ARGUMENT,
                            "%s: expected data, indices, indptr and shape (csr, csc), data, "
                            "row, col and shape (coo), values, indices and shape, keys and values, or one array",
                            archive->path);
        goto done;
    }
    if (matrix) {
        const inlay_str *name =
            format != NULL && inlay_value_dtype(format) == INLAY_STRING ? inlay_value_data(format) : NULL;
        const bool csc = name != NULL && name->bytes == 3 && memcmp(name->data, "csc", 3) == 0;
        const bool coo =
            is_list(major, count) && (name == NULL || memcmp(name->data, "coo", name->bytes < 3 ? 0 : 3) == 0);

        INLAY_TRY(make_indices(archive, major, indices, !coo, csc, &made));
    }
    status = inlay_value_from_sparse(data, made != NULL ? made : indices, (uint32_t)inlay_value_count(shape),
                                     inlay_value_data(shape), out, archive->diag);
done:
    inlay_value_unref(data);
    inlay_value_unref(shape);
    inlay_value_unref(indices);
    inlay_value_unref(major);
    inlay_value_unref(made);
    inlay_value_unref(format);
    return status;
}

static inlay_status read_map(struct archive *archive, const inlay_io_info *info, inlay_value **out)
{
    inlay_value *items[2] = { NULL, NULL }, *map = NULL;
    inlay_status status = read_array(archive, "keys", info->key_dtype, &items[0]);

    if (status == INLAY_OK)
        status = read_array(archive, "values", info->dtype, &items[1]);
    if (status == INLAY_OK && (items[0] == NULL || items[1] == NULL))
        status = inlay_fail(archive->diag, INLAY_INVALID_ARGUMENT, "%s: a map needs the arrays keys and values",
                            archive->path);
    if (status == INLAY_OK)
        status = inlay_value_create_list(INLAY_KIND_MAP, inlay_value_dtype(items[1]), items, 2, &map, archive->diag);
    inlay_value_unref(items[0]);
    inlay_value_unref(items[1]);
    *out = map;
    return status;
}

inlay_status npz_named(const char *path, const inlay_io_info *info, struct arena *arena, inlay_value **out_value,
                       inlay_diag *diag)
{
    struct archive archive = { .path = path, .file = fopen(path, "rb"), .arena = arena, .diag = diag };
    inlay_status status;

    *out_value = NULL;
    if (archive.file == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    status = zip_read(archive.file, path, arena, &archive.list, diag);
    if (status == INLAY_OK)
        status = read_array(&archive, info->name, info->dtype, out_value);
    (void)fclose(archive.file);
    return status;
}

inlay_status npz_value(const char *path, const inlay_io_info *info, struct arena *arena, inlay_value **out_value,
                       inlay_diag *diag)
{
    struct archive archive = { .path = path, .file = fopen(path, "rb"), .arena = arena, .diag = diag };
    inlay_status status;
    size_t bytes;

    *out_value = NULL;
    if (archive.file == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    INLAY_TRY(zip_read(archive.file, path, arena, &archive.list, diag));
    if (info->kind == INLAY_KIND_MAP) {
        status = read_map(&archive, info, out_value);
        goto done;
    }
    INLAY_TRY(read_array(&archive, info->name, info->dtype, out_value));
    if (*out_value == NULL && archive.list.count == 1 && (bytes = strlen(archive.list.entries[0].name)) > 4)
        INLAY_TRY(read_array(&archive, arena_string_n(arena, archive.list.entries[0].name, bytes - 4), info->dtype,
                             out_value));
    if (*out_value == NULL)
        status = read_sparse(&archive, info->dtype, out_value);
done:
    (void)fclose(archive.file);
    return status;
}
