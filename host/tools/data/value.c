#include "data/value.h"
#include "inlay/check.h"
#include "base/checked.h"
#include "base/element.h"
#include "data/npy.h"
#include "data/npz.h"
#include "data/pb.h"
#include "data/view.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

inlay_status value_from_datum(const model_datum *datum, inlay_dtype dtype, inlay_value **out_value, inlay_diag *diag)
{
    inlay_value **items = NULL;
    inlay_status status = INLAY_OK;
    uint32_t count = 0;

    *out_value = NULL;
    if (datum->kind == INLAY_VALUE_TENSOR)
        return value_from_view(&datum->tensor, out_value, diag);
    items = calloc((size_t)datum->item_count + 1, sizeof(inlay_value *));
    if (items == NULL)
        return no_memory(diag, "for %u items", datum->item_count);
    for (; count < datum->item_count; count++)
        INLAY_TRY(value_from_datum(&datum->items[count], dtype, &items[count], diag));
    if (datum->kind == INLAY_VALUE_MAP) /* INLAY_VALUE_* and INLAY_KIND_* are equal */
        dtype = inlay_value_dtype(items[1]);
    status = inlay_value_create_list(datum->kind, dtype, items, count, out_value, diag);
done:
    for (uint32_t i = 0; i < datum->item_count; i++)
        inlay_value_unref(items[i]);
    free((void *)items);
    return status;
}

inlay_status value_wrap(const inlay_io_info *info, inlay_value **value, inlay_diag *diag)
{
    inlay_value *inner = *value;
    inlay_status status;

    if (info->kind != INLAY_KIND_OPTIONAL)
        return INLAY_OK;
    INLAY_CHECK(inner != NULL);
    *value = NULL;
    status = inlay_value_create_list(INLAY_KIND_OPTIONAL, inlay_value_dtype(inner), &inner, 1, value, diag);
    inlay_value_unref(inner);
    return status;
}

inlay_status value_convert(const char *from, const inlay_io_info *info, inlay_value **value, inlay_diag *diag)
{
    const inlay_dtype have =
        inlay_value_kind(*value) == INLAY_KIND_TENSOR ? inlay_value_dtype(*value) : INLAY_UNDEFINED;
    const inlay_dtype want = info->dtype;
    inlay_value *converted = NULL;
    char text[96];
    int64_t count, done;
    inlay_status status;

    if (have == INLAY_UNDEFINED || want == INLAY_UNDEFINED || have == want)
        return INLAY_OK;
    if (!element_converts(have, want))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s has type %s, but input '%s' is %s", from,
                          inlay_dtype_name(have), info->name, inlay_dtype_name(want));
    INLAY_TRY(inlay_value_create(want, inlay_value_rank(*value), inlay_value_dims(*value), &converted, diag));
    count = inlay_value_count(*value);
    done = element_convert(have, inlay_value_data(*value), want, inlay_value_data(converted), count);
    if (done < count) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "%s has type %s, but input '%s' is %s, in which element %lld, %s, is %s: convert the "
                            "array (numpy: array.astype('%s'))",
                            from, inlay_dtype_name(have), info->name, inlay_dtype_name(want), (long long)done,
                            element_text(have, inlay_value_data(*value), done, text, sizeof text),
                            element_is_float(want) ? "too large" : "not exact",
                            want == INLAY_FLOAT    ? "float32"
                            : want == INLAY_DOUBLE ? "float64"
                                                   : inlay_dtype_name(want));
        goto done;
    }
    inlay_value_unref(*value);
    *value = converted;
    converted = NULL;
done:
    inlay_value_unref(converted);
    return status;
}

bool value_has_suffix(const char *path, const char *suffix)
{
    size_t path_bytes = strlen(path), suffix_bytes = strlen(suffix);
    return path_bytes >= suffix_bytes && strcmp(path + path_bytes - suffix_bytes, suffix) == 0;
}

inlay_status value_datum(const char *path, const inlay_io_info *info, struct arena *arena, model_datum *out,
                         inlay_diag *diag)
{
    if (info->sparse != 0 && info->kind == INLAY_KIND_TENSOR &&
        model_datum_load(path, MODEL_DATUM_SPARSE, arena, out, NULL) == INLAY_OK)
        return INLAY_OK;                                         /* otherwise the file may have a dense tensor */
    return model_datum_load(path, info->kind, arena, out, diag); /* INLAY_KIND_* and INLAY_VALUE_* are equal */
}

/* Checks that a value from path has the declared kind. */
static inlay_status check_declared(const char *path, const inlay_io_info *info, const inlay_value *value,
                                   inlay_diag *diag)
{
    if (inlay_value_kind(value) != info->kind)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: input '%s' is not a tensor: use a .pb file", path,
                          info->name);
    return INLAY_OK;
}

inlay_status value_load(const char *path, const inlay_io_info *info, inlay_value **out_value, inlay_diag *diag)
{
    struct arena arena = { 0 };
    inlay_tensor_view view;
    model_datum datum;
    inlay_value *value = NULL;
    inlay_status status;

    *out_value = NULL;
    if (value_has_suffix(path, ".pb")) {
        INLAY_TRY(value_datum(path, info, &arena, &datum, diag));
        if (datum.kind == INLAY_VALUE_TENSOR && value_same_bits(datum.tensor.dtype, info->dtype))
            datum.tensor.dtype = info->dtype;
        INLAY_TRY(value_from_datum(&datum, info->dtype, &value, diag));
    } else if (value_has_suffix(path, ".npz")) {
        INLAY_TRY(npz_value(path, info, &arena, &value, diag));
    } else if (value_has_suffix(path, ".npy")) {
        INLAY_TRY(npy_load(path, info->dtype, &arena, &view, diag));
        INLAY_TRY(value_from_view(&view, &value, diag));
        INLAY_TRY(value_convert(path, info, &value, diag));
        INLAY_TRY(value_wrap(info, &value, diag));
    } else {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "%s: expected one .npy, .npz, .pb or .csv file, one picture if the input has one or three "
                            "channels, numbers as in 1,2,3 or [[1,2],[3,4]], or the word random; for sound or texts, "
                            "`inlay pipe` makes a model that reads such files",
                            path);
        goto done;
    }
    INLAY_TRY(value_convert(path, info, &value, diag));
    INLAY_TRY(check_declared(path, info, value, diag));
    *out_value = value;
    value = NULL;
done:
    inlay_value_unref(value);
    arena_deinit(&arena);
    return status;
}

inlay_status value_source(const char *flag, const char *from, inlay_diag *diag)
{
    struct stat st;

    if (stat(from, &st) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s %s: %s", flag, from, strerror(errno));
    if (!S_ISDIR(st.st_mode) && !value_has_suffix(from, ".npz"))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s %s: expected a folder, or a .npz archive of named arrays",
                          flag, from);
    return access(from, S_ISDIR(st.st_mode) ? R_OK | X_OK : R_OK) == 0
               ? INLAY_OK
               : inlay_fail(diag, INLAY_IO_ERROR, "%s %s: %s", flag, from, strerror(errno));
}

/* Reads the array with the declared name from an archive; *out_value is unchanged if it is missing. */
static inlay_status load_array(const char *path, const inlay_io_info *info, struct arena *arena,
                               inlay_value **out_value, inlay_diag *diag)
{
    inlay_value *value = NULL;
    inlay_status status;

    INLAY_TRY(npz_named(path, info, arena, &value, diag));
    if (value != NULL) {
        INLAY_TRY(value_convert(path, info, &value, diag));
        INLAY_TRY(value_wrap(info, &value, diag));
        INLAY_TRY(check_declared(path, info, value, diag));
    }
    *out_value = value;
    value = NULL;
done:
    inlay_value_unref(value);
    return status;
}

inlay_status value_load_named(const char *from, const inlay_io_info *info, inlay_value **out_value, inlay_diag *diag)
{
    static const char *const suffixes[] = { ".npy", ".pb", ".npz" };
    struct arena arena = { 0 };
    inlay_status status = INLAY_OK;

    *out_value = NULL;
    if (value_has_suffix(from, ".npz"))
        status = load_array(from, info, &arena, out_value, diag);
    for (int i = 0; i < 3 && !value_has_suffix(from, ".npz") && status == INLAY_OK && *out_value == NULL; i++) {
        const char *path = value_find(&arena, from, info->name, suffixes[i]);

        if (path == NULL)
            status = no_memory(diag, "for a path");
        else if (access(path, F_OK) == 0)
            status = value_load(path, info, out_value, diag);
    }
    arena_deinit(&arena);
    return status;
}

inlay_status value_missing(const char *what, const char *from, const inlay_io_info *info, inlay_diag *diag)
{
    struct arena arena = { 0 };
    const char *file;
    inlay_status status;

    if (value_has_suffix(from, ".npz"))
        return inlay_fail(diag, INLAY_NOT_FOUND, "%s '%s': no array with that name in %s", what, info->name, from);
    file = value_path(&arena, from, info->name, "");
    status = file == NULL
                 ? no_memory(diag, "for a path")
                 : inlay_fail(diag, INLAY_NOT_FOUND, "%s '%s': no %s.npy, .pb or .npz", what, info->name, file);
    arena_deinit(&arena);
    return status;
}

char *value_path(struct arena *arena, const char *dir, const char *name, const char *suffix)
{
    char *path = arena_format(arena, "%s/%s%s", dir, name, suffix);

    if (path != NULL)
        for (char *c = path + strlen(dir) + 1; *c != '\0'; c++)
            *c = *c == '/' || *c == ':' ? '_' : *c;
    return path;
}

char *value_find(struct arena *arena, const char *dir, const char *name, const char *suffix)
{
    char *path = value_path(arena, dir, name, suffix);
    char *literal = path == NULL || strchr(name, '/') != NULL || access(path, F_OK) == 0
                        ? NULL
                        : arena_format(arena, "%s/%s%s", dir, name, suffix);

    return literal != NULL && access(literal, F_OK) == 0 ? literal : path;
}

static inlay_status save_item(struct arena *arena, const char *dir, const char *name, const inlay_value *value,
                              inlay_diag *diag)
{
    char *path = value_path(arena, dir, name, ".npy");
    uint32_t kind = inlay_value_kind(value);
    inlay_tensor_view view;
    inlay_status status = INLAY_OK;

    if (path == NULL)
        return no_memory(diag, "for a path");
    if (value_view(value, &view))
        return npy_save(path, &view, diag);
    if (kind == INLAY_KIND_MAP) {
        path = value_path(arena, dir, name, ".pb");
        return path == NULL ? no_memory(diag, "for a path") : pb_save_map(path, value, diag);
    }
    for (int64_t i = 0; i < inlay_value_count(value) && status == INLAY_OK; i++) {
        const inlay_value *item = inlay_value_item(value, (uint32_t)i);
        char *item_name = kind == INLAY_KIND_OPTIONAL ? arena_string(arena, name)
                                                      : arena_format(arena, "%s.%lld", name, (long long)i);
        if (item == NULL || item_name == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory for output '%s'", name);
        status = save_item(arena, dir, item_name, item, diag);
    }
    return status;
}

inlay_status value_save(const char *dir, const inlay_io_info *info, const inlay_value *value, inlay_diag *diag)
{
    struct arena arena = { 0 };
    char *path =
        info->sparse != 0 && info->kind == INLAY_KIND_TENSOR ? value_path(&arena, dir, info->name, ".pb") : NULL;
    inlay_status status =
        path != NULL ? pb_save_sparse(path, value, diag) : save_item(&arena, dir, info->name, value, diag);

    arena_deinit(&arena);
    return status;
}

char *value_type_text(const inlay_value *value, char *text, size_t bytes)
{
    uint32_t kind = inlay_value_kind(value);
    char inner[256];

    if (kind == INLAY_KIND_TENSOR) {
        (void)snprintf(text, bytes, "%s%s", inlay_dtype_name(inlay_value_dtype(value)),
                       dims_text(inlay_value_dims(value), inlay_value_rank(value), ", ", inner, sizeof inner));
    } else if (kind == INLAY_KIND_OPTIONAL) {
        (void)snprintf(text, bytes, "optional(%s)",
                       inlay_value_count(value) == 0
                           ? "nothing"
                           : value_type_text(inlay_value_item(value, 0), inner, sizeof inner));
    } else {
        (void)snprintf(text, bytes, "%s(%lld)", kind == INLAY_KIND_MAP ? "map" : "sequence",
                       (long long)inlay_value_count(value));
    }
    return text;
}

struct statistics {
    double min, max, mean;
    int64_t nan_count;
    int64_t number_count; /* elements that are not NaN; min, max and mean refer to them */
};

static struct statistics measure(const inlay_tensor_view *view, int64_t count)
{
    struct statistics statistics = { .min = INFINITY, .max = -INFINITY };
    double sum = 0, number;

    if (view->dtype == INLAY_COMPLEX64 || view->dtype == INLAY_COMPLEX128)
        return statistics;
    for (int64_t i = 0; i < count; i++) {
        if (!element_number(view->dtype, view->data, i, &number, NULL))
            return statistics;
        if (isnan(number)) {
            statistics.nan_count++;
            continue;
        }
        statistics.min = number < statistics.min ? number : statistics.min;
        statistics.max = number > statistics.max ? number : statistics.max;
        sum += number;
        statistics.number_count++;
    }
    statistics.mean = statistics.number_count > 0 ? sum / (double)statistics.number_count : 0;
    return statistics;
}

bool value_print(FILE *to, const char *name, const inlay_value *value, uint32_t max)
{
    char text[512], item_name[300];
    inlay_tensor_view view;
    int64_t count = inlay_value_count(value);
    struct statistics statistics;

    (void)fprintf(to, "%s: %s", name, value_type_text(value, text, sizeof text));
    if (!value_view(value, &view)) {
        bool finite = true;

        (void)fputc('\n', to);
        for (int64_t i = 0; i < count && inlay_value_kind(value) != INLAY_KIND_TENSOR; i++) {
            (void)snprintf(item_name, sizeof item_name, "  %.250s[%lld]", name, (long long)i);
            finite = value_print(to, item_name, inlay_value_item(value, (uint32_t)i), max) && finite;
        }
        return finite;
    }
    (void)fputs(" =", to);
    for (int64_t i = 0; i < count && i < max; i++)
        (void)fprintf(to, " %s", element_text(view.dtype, view.data, i, text, 80));
    if (count > max)
        (void)fputs(" ...", to);
    statistics = measure(&view, count);
    if (statistics.number_count > 1)
        (void)fprintf(to, "  (min %.6g, max %.6g, mean %.6g)", statistics.min, statistics.max, statistics.mean);
    if (statistics.nan_count > 0)
        (void)fprintf(to, "  (%lld NaN)", (long long)statistics.nan_count);
    (void)fputc('\n', to);
    return statistics.nan_count == 0 &&
           (statistics.number_count == 0 || (isfinite(statistics.min) && isfinite(statistics.max)));
}

json_t *value_number_json(double number)
{
    if (isnan(number))
        return json_string("NaN");
    if (isinf(number))
        return json_string(number > 0 ? "Infinity" : "-Infinity");
    return json_real(number);
}

/* A float with its shortest digits, without those that the conversion to double adds. */
static double short_float(double number)
{
    char text[40];

    (void)snprintf(text, sizeof text, "%.9g", number);
    return strtod(text, NULL);
}

static json_t *json_element(const inlay_tensor_view *view, int64_t i)
{
    char text[96];
    int64_t integer;
    double re, im;
    json_t *json;

    if (view->dtype == INLAY_STRING) {
        const inlay_str *string = (const inlay_str *)view->data + i;
        json = json_stringn(string->data, string->bytes);
        return json != NULL ? json : json_string(element_text(view->dtype, view->data, i, text, sizeof text));
    }
    if (view->dtype == INLAY_BOOL)
        return json_boolean(((const uint8_t *)view->data)[i]);
    if (view->dtype != INLAY_UINT64 && element_integer(view->dtype, view->data, i, &integer))
        return json_integer(integer);
    if (!element_number(view->dtype, view->data, i, &re, &im))
        return json_null();
    if (view->dtype != INLAY_DOUBLE && view->dtype != INLAY_COMPLEX128) {
        re = short_float(re);
        im = short_float(im);
    }
    if (view->dtype == INLAY_COMPLEX64 || view->dtype == INLAY_COMPLEX128)
        return json_pack("[o, o]", value_number_json(re), value_number_json(im));
    return value_number_json(re);
}

json_t *value_json(const char *name, const inlay_value *value, uint32_t max)
{
    char text[64];
    inlay_tensor_view view;
    int64_t count = inlay_value_count(value);
    json_t *json = json_object(), *shape = json_array(), *values = json_array();
    struct statistics statistics;

    if (name != NULL)
        (void)json_object_set_new(json, "name", json_string(name));
    if (!value_view(value, &view)) {
        (void)snprintf(text, sizeof text, "%s",
                       inlay_value_kind(value) == INLAY_KIND_OPTIONAL ? "optional"
                       : inlay_value_kind(value) == INLAY_KIND_MAP    ? "map"
                                                                      : "sequence");
        (void)json_object_set_new(json, "type", json_string(text));
        for (int64_t i = 0; i < count && inlay_value_kind(value) != INLAY_KIND_TENSOR; i++)
            (void)json_array_append_new(values, value_json(NULL, inlay_value_item(value, (uint32_t)i), max));
        json_decref(shape);
        (void)json_object_set_new(json, "items", values);
        return json;
    }
    for (uint32_t i = 0; i < view.rank; i++)
        (void)json_array_append_new(shape, json_integer(view.dims[i]));
    for (int64_t i = 0; i < count && i < max; i++)
        (void)json_array_append_new(values, json_element(&view, i));
    (void)json_object_set_new(json, "type", json_string(inlay_dtype_name(view.dtype)));
    (void)json_object_set_new(json, "shape", shape);
    (void)json_object_set_new(json, "values", values);
    statistics = measure(&view, count);
    if (statistics.number_count > 0) {
        (void)json_object_set_new(json, "min", value_number_json(statistics.min));
        (void)json_object_set_new(json, "max", value_number_json(statistics.max));
        (void)json_object_set_new(json, "mean", value_number_json(statistics.mean));
    }
    if (statistics.nan_count > 0)
        (void)json_object_set_new(json, "nan", json_integer(statistics.nan_count));
    return json;
}
