#include "data/npz.h"
#include "data/npy.h"
#include "data/view.h"
#include "data/zip.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct archive {
    const char *path;
    FILE *file;
    zip_list list;
    struct arena *a;
    inlay_diag *diag;
};

/* The array "name.npy" as a value; INLAY_UNDEFINED takes any type. *out stays NULL where the archive has none. */
static inlay_status take(struct archive *z, const char *name, inlay_dtype dtype, inlay_value **out)
{
    const zip_entry *e = zip_array(&z->list, name);
    inlay_tensor_view view;
    inlay_status status;
    FILE *npy;

    *out = NULL;
    if (e == NULL)
        return INLAY_OK;
    status = zip_extract(z->file, z->path, e, &npy, z->diag);
    if (status != INLAY_OK)
        return status;
    status = npy_load_file(npy, z->path, dtype, z->a, &view, z->diag);
    (void)fclose(npy);
    return status == INLAY_OK ? value_from_view(&view, out, z->diag) : status;
}

/* Integers of 32 bits, as SciPy has them where they do, become int64. */
static inlay_status widen(const struct archive *z, inlay_value **v)
{
    inlay_value *wide = NULL;
    inlay_status status;

    if (*v == NULL || inlay_value_dtype(*v) == INLAY_INT64)
        return INLAY_OK;
    if (inlay_value_dtype(*v) != INLAY_INT32)
        return inlay_fail(z->diag, INLAY_INVALID_ARGUMENT, "%s: places must be int32 or int64", z->path);
    status = inlay_value_create(INLAY_INT64, inlay_value_rank(*v), inlay_value_dims(*v), &wide, z->diag);
    if (status != INLAY_OK)
        return status;
    for (int64_t i = 0; i < inlay_value_count(wide); i++)
        ((int64_t *)inlay_value_data(wide))[i] = ((const int32_t *)inlay_value_data(*v))[i];
    inlay_value_unref(*v);
    *v = wide;
    return INLAY_OK;
}

static bool is_list(const inlay_value *v, int64_t count)
{
    return v != NULL && inlay_value_rank(v) == 1 && inlay_value_count(v) == count;
}

/* Places [n, 2] of the elements of a matrix: row and column stand in two lists, or one of them is given by where the
 * other's pieces begin. */
static inlay_status places(const struct archive *z, const inlay_value *major, const inlay_value *minor, bool pieces,
                           bool turned, inlay_value **out)
{
    const int64_t count = inlay_value_count(minor), dims[2] = { count, 2 };
    const int64_t *first = inlay_value_data(major), *second = inlay_value_data(minor);
    inlay_status status = inlay_value_create(INLAY_INT64, 2, dims, out, z->diag);
    int64_t *to, piece = 0;

    if (status != INLAY_OK)
        return status;
    to = inlay_value_data(*out);
    for (int64_t i = 0; i < count; i++) {
        while (pieces && piece + 1 < inlay_value_count(major) && first[piece + 1] <= i)
            piece++;
        to[2 * i + turned] = pieces ? piece : first[i];
        to[2 * i + !turned] = second[i];
    }
    return INLAY_OK;
}

static inlay_status read_sparse(struct archive *z, inlay_dtype dtype, inlay_value **out)
{
    inlay_value *data = NULL, *shape = NULL, *indices = NULL, *major = NULL, *made = NULL, *format = NULL;
    inlay_status status;
    int64_t count;
    bool matrix;

    INLAY_TRY(take(z, "data", dtype, &data));
    matrix = data != NULL;
    if (!matrix)
        INLAY_TRY(take(z, "values", dtype, &data));
    INLAY_TRY(take(z, "shape", INLAY_INT64, &shape));
    INLAY_TRY(take(z, "indices", INLAY_INT64, &indices));
    INLAY_TRY(take(z, "indptr", INLAY_INT64, &major));
    INLAY_TRY(take(z, "format", INLAY_UNDEFINED, &format));
    if (matrix && indices == NULL) {
        INLAY_TRY(take(z, "row", INLAY_INT64, &major));
        INLAY_TRY(take(z, "col", INLAY_INT64, &indices));
    }
    INLAY_TRY(widen(z, &shape));
    INLAY_TRY(widen(z, &indices));
    INLAY_TRY(widen(z, &major));
    count = data != NULL ? inlay_value_count(data) : -1;
    if (data == NULL || shape == NULL || indices == NULL || inlay_value_rank(shape) != 1 ||
        inlay_value_count(shape) > INLAY_MAX_RANK ||
        (matrix && (major == NULL || !is_list(indices, count) || inlay_value_rank(major) != 1 ||
                    inlay_value_count(shape) != 2))) {
        status = inlay_fail(z->diag, INLAY_INVALID_ARGUMENT,
                            "%s: expected data, indices, indptr and shape (csr, csc), data, "
                            "row, col and shape (coo), values, indices and shape, keys and values, or one array",
                            z->path);
        goto done;
    }
    if (matrix) {
        const inlay_str *name =
            format != NULL && inlay_value_dtype(format) == INLAY_STRING ? inlay_value_data(format) : NULL;
        const bool csc = name != NULL && name->bytes == 3 && memcmp(name->data, "csc", 3) == 0;
        const bool coo =
            is_list(major, count) && (name == NULL || memcmp(name->data, "coo", name->bytes < 3 ? 0 : 3) == 0);

        INLAY_TRY(places(z, major, indices, !coo, csc, &made));
    }
    status = inlay_value_from_sparse(data, made != NULL ? made : indices, (uint32_t)inlay_value_count(shape),
                                     inlay_value_data(shape), out, z->diag);
done:
    inlay_value_unref(data);
    inlay_value_unref(shape);
    inlay_value_unref(indices);
    inlay_value_unref(major);
    inlay_value_unref(made);
    inlay_value_unref(format);
    return status;
}

static inlay_status read_map(struct archive *z, const inlay_io_info *info, inlay_value **out)
{
    inlay_value *items[2] = { NULL, NULL }, *map = NULL;
    inlay_status status = take(z, "keys", info->key_dtype, &items[0]);

    if (status == INLAY_OK)
        status = take(z, "values", info->dtype, &items[1]);
    if (status == INLAY_OK && (items[0] == NULL || items[1] == NULL))
        status = inlay_fail(z->diag, INLAY_INVALID_ARGUMENT, "%s: a map needs the arrays keys and values", z->path);
    if (status == INLAY_OK)
        status = inlay_value_create_list(INLAY_KIND_MAP, inlay_value_dtype(items[1]), items, 2, &map, z->diag);
    inlay_value_unref(items[0]);
    inlay_value_unref(items[1]);
    *out = map;
    return status;
}

inlay_status npz_named(const char *path, const inlay_io_info *info, struct arena *a, inlay_value **out_value,
                       inlay_diag *diag)
{
    struct archive z = { .path = path, .file = fopen(path, "rb"), .a = a, .diag = diag };
    inlay_status status;

    *out_value = NULL;
    if (z.file == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    status = zip_read(z.file, path, a, &z.list, diag);
    if (status == INLAY_OK)
        status = take(&z, info->name, info->dtype, out_value);
    (void)fclose(z.file);
    return status;
}

inlay_status npz_value(const char *path, const inlay_io_info *info, struct arena *a, inlay_value **out_value,
                       inlay_diag *diag)
{
    struct archive z = { .path = path, .file = fopen(path, "rb"), .a = a, .diag = diag };
    inlay_status status;
    size_t bytes;

    *out_value = NULL;
    if (z.file == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    INLAY_TRY(zip_read(z.file, path, a, &z.list, diag));
    if (info->kind == INLAY_KIND_MAP) {
        status = read_map(&z, info, out_value);
        goto done;
    }
    INLAY_TRY(take(&z, info->name, info->dtype, out_value));
    if (*out_value == NULL && z.list.count == 1 && (bytes = strlen(z.list.entries[0].name)) > 4)
        INLAY_TRY(take(&z, arena_string_n(a, z.list.entries[0].name, bytes - 4), info->dtype, out_value));
    if (*out_value == NULL)
        status = read_sparse(&z, info->dtype, out_value);
done:
    (void)fclose(z.file);
    return status;
}
