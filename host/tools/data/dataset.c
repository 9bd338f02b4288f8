#include "data/dataset.h"
#include "inlay/check.h"
#include "base/element.h"
#include "data/csv.h"
#include "data/npy.h"
#include "data/npy_format.h"
#include "data/picture.h"
#include "data/raw.h"
#include "data/value.h"
#include "data/view.h"
#include "data/zip.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_SAMPLES = 1 << 24 };

/* A file or folder of the data set: one sample, or one for each row of its arrays. */
struct source {
    char *path;
    enum { IS_FOLDER, IS_NPZ, IS_TABLE, IS_FILE } kind;
    uint32_t first, count; /* samples */
};

/* The source of an input's values, while its file or folder is open. */
struct column {
    FILE *npy;          /* or NULL */
    char *file;         /* path of a .pb file, or of a file that is the value of one sample; or NULL */
    inlay_value *table; /* the rows of a table, or NULL */
    char *label;        /* for messages */
    int64_t samples;    /* 1: the same values for all samples of the source */
    int64_t rows;       /* rows of the array per sample; 0: the whole array */
    bool keeps_axis;    /* the rows remain the first axis */
    int64_t size;       /* of the array's first axis */
    const char *name;   /* of the input's first axis; "": it has none, or is fixed */
};

struct dataset {
    feed_caller caller;
    const inlay_session *session;
    struct arena arena;
    struct feed feed;       /* of random samples */
    struct source *sources; /* NULL: random */
    uint32_t source_count, count;
    uint32_t input_count;
    struct column *columns;        /* [input_count] of the open source */
    struct arena open;             /* labels and paths of the open source */
    struct picture_reader *reader; /* of pictures for an input of numbers; NULL until the first one */
    uint32_t at;                   /* index of the open source; INLAY_NONE = none */
};

static void close_source(struct dataset *dataset)
{
    for (uint32_t i = 0; i < dataset->input_count; i++) {
        if (dataset->columns[i].npy != NULL)
            (void)fclose(dataset->columns[i].npy);
        inlay_value_unref(dataset->columns[i].table);
    }
    memset(dataset->columns, 0, dataset->input_count * sizeof *dataset->columns);
    arena_deinit(&dataset->open);
    dataset->at = INLAY_NONE;
}

void dataset_close(struct dataset *dataset)
{
    if (dataset == NULL)
        return;
    if (dataset->columns != NULL)
        close_source(dataset);
    picture_close(dataset->reader);
    feed_deinit(&dataset->feed);
    arena_deinit(&dataset->arena);
    free(dataset);
}

static bool dims_fit(const int64_t *dims, const int64_t *declared, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; i++)
        if (declared[i] >= 0 && dims[i] != declared[i])
            return false;
    return true;
}

/* Computes the number of samples of an array, from its shape and that of the input. */
static inlay_status count_rows(struct column *column, const inlay_io_info *info, const npy_header *header,
                               inlay_diag *diag)
{
    char got[128], want[128];

    column->samples = 1;
    column->rows = 0;
    column->size = header->rank > 0 ? header->dims[0] : 0;
    column->name = "";
    if (info->rank == INLAY_RANK_UNKNOWN || info->rank > INLAY_MAX_RANK)
        return INLAY_OK;
    if (info->rank > 0 && info->dims[0] < 0)
        column->name = info->dim_names[0];
    if (header->rank == info->rank && dims_fit(header->dims, info->dims, header->rank) &&
        (header->rank < 2 || info->dims[0] >= 0 || header->dims[0] == 1))
        return INLAY_OK;
    if (header->rank == info->rank + 1 && dims_fit(header->dims + 1, info->dims, info->rank)) {
        column->rows = 1;
        column->samples = header->dims[0];
    } else if (header->rank == info->rank && header->rank > 0 &&
               dims_fit(header->dims + 1, info->dims + 1, header->rank - 1)) {
        column->rows = info->dims[0] > 0 ? info->dims[0] : 1;
        column->samples = header->dims[0] % column->rows == 0 ? header->dims[0] / column->rows : -1;
        column->keeps_axis = true;
    } else {
        column->samples = -1;
    }
    if (column->samples >= 1 && column->samples <= MAX_SAMPLES)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: an array of shape %s does not fit input '%s' of shape %s",
                      column->label, dims_text(header->dims, header->rank, ", ", got, sizeof got), info->name,
                      dims_text(info->dims, info->rank, ", ", want, sizeof want));
}

static inlay_status measure_column(struct dataset *dataset, uint32_t i, inlay_diag *diag)
{
    inlay_io_info info = { .struct_size = sizeof info };
    struct column *column = &dataset->columns[i];
    npy_header header = { 0 };
    uint64_t left;
    inlay_status status = INLAY_OK;

    if (column->table != NULL)
        return INLAY_OK;
    column->samples = 1;
    if (column->npy == NULL)
        return INLAY_OK;
    INLAY_TRY(inlay_session_input(dataset->session, i, &info));
    rewind(column->npy);
    INLAY_TRY(npy_read_header(column->npy, column->label, &dataset->open, &header, &left, diag));
    status = count_rows(column, &info, &header, diag);
done:
    return status;
}

/* The archive's entry for an input: by name, or the only entry. */
static const zip_entry *find_entry(const struct dataset *dataset, const zip_list *list, const char *name)
{
    const zip_entry *named = zip_array(list, name);

    if (named != NULL || dataset->input_count != 1 || list->count != 1)
        return named;
    return value_has_suffix(list->entries[0].name, ".npy") ? &list->entries[0] : NULL;
}

static inlay_status missing(const struct dataset *dataset, const char *path, const inlay_io_info *info,
                            const zip_list *list, inlay_diag *diag)
{
    char keys[200] = "";
    size_t used = 0;

    (void)dataset;
    if (list == NULL)
        return inlay_fail(diag, INLAY_NOT_FOUND, "input '%s': no .npy or .pb file with that name in %s", info->name,
                          path);
    for (uint32_t i = 0; i < list->count && used < sizeof keys; i++)
        used += (size_t)snprintf(keys + used, sizeof keys - used, "%s%s", i > 0 ? ", " : "", list->entries[i].name);
    return inlay_fail(diag, INLAY_NOT_FOUND, "input '%s': %s has no array with that name; it has %s", info->name, path,
                      keys[0] != '\0' ? keys : "none");
}

static inlay_status open_archive(struct dataset *dataset, const char *path, inlay_diag *diag)
{
    FILE *file = fopen(path, "rbe");
    zip_list list = { 0 };
    inlay_status status = INLAY_OK;

    if (file == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    INLAY_TRY(zip_read(file, path, &dataset->open, &list, diag));
    for (uint32_t i = 0; i < dataset->input_count; i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const zip_entry *entry;

        INLAY_TRY(inlay_session_input(dataset->session, i, &info));
        entry = find_entry(dataset, &list, info.name);
        if (entry == NULL && info.optional != 0)
            continue;
        if (entry == NULL) {
            status = missing(dataset, path, &info, &list, diag);
            goto done;
        }
        dataset->columns[i].label = arena_format(&dataset->open, "%s: %s", path, entry->name);
        if (dataset->columns[i].label == NULL) {
            status = no_memory(diag, "for the samples");
            goto done;
        }
        INLAY_TRY(zip_extract(file, path, entry, &dataset->columns[i].npy, diag));
    }
done:
    (void)fclose(file);
    return status;
}

/* Opens the file of input i. */
static inlay_status open_file(struct dataset *dataset, uint32_t i, char *path, inlay_diag *diag)
{
    struct column *column = &dataset->columns[i];

    column->label = path;
    if (!value_has_suffix(path, ".npy")) {
        column->file = path;
        return INLAY_OK;
    }
    column->npy = fopen(path, "rbe");
    return column->npy != NULL ? INLAY_OK : inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
}

static inlay_status open_folder(struct dataset *dataset, const char *path, inlay_diag *diag)
{
    static const char *const suffixes[] = { ".npy", ".pb" };
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < dataset->input_count; i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        char *found = NULL;

        INLAY_TRY(inlay_session_input(dataset->session, i, &info));
        for (int k = 0; k < 3 && found == NULL; k++) {
            found = k < 2 ? value_find(&dataset->open, path, info.name, suffixes[k])
                          : arena_format(&dataset->open, "%s/input_%u.pb", path, i); /* the name in ONNX's test cases */
            if (found == NULL)
                return no_memory(diag, "for the samples");
            found = access(found, F_OK) == 0 ? found : NULL;
        }
        if (found == NULL && info.optional == 0)
            return missing(dataset, path, &info, NULL, diag);
        if (found != NULL)
            INLAY_TRY(open_file(dataset, i, found, diag));
    }
done:
    return status;
}

/* Reads a table: a sample is one row, or as many as the input declares. An input of one axis with a fixed size takes
 * the columns of a row. */
static inlay_status open_table(struct dataset *dataset, const char *path, inlay_diag *diag)
{
    const uint32_t count = dataset->input_count;
    const char **names = arena_array(&dataset->open, (size_t)count + 1, sizeof *names);
    uint32_t all = 0, first = 0;
    bool named = false;
    csv_table table;
    inlay_status status = INLAY_OK;

    if (names == NULL)
        return no_memory(diag, "for the samples");
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < count; i++) {
            inlay_io_info info = { .struct_size = sizeof info };
            struct column *column = &dataset->columns[i];
            int64_t dims[INLAY_MAX_RANK];
            uint32_t width;

            INLAY_TRY(inlay_session_input(dataset->session, i, &info));
            names[i] = info.name;
            column->rows = info.rank > 0 && info.rank <= INLAY_MAX_RANK && info.dims[0] > 1 ? info.dims[0] : 1;
            column->keeps_axis = info.rank != 1 || column->rows == 1;
            if (!column->keeps_axis) {
                dims[0] = -1;
                dims[1] = column->rows;
                column->rows = 1;
                info.dims = dims;
                info.rank = 2;
            }
            width = csv_width(&info);
            all += pass == 0 ? width : 0;
            if (pass == 0)
                continue;
            column->label = (char *)(uintptr_t)path;
            INLAY_TRY(csv_value(&table, &info, csv_columns(path), first,
                                named        ? INLAY_NONE
                                : count == 1 ? 0
                                             : all - width,
                                &column->table, diag));
            first += width;
            column->samples = (int64_t)table.row_count / column->rows;
            if (column->samples * column->rows != (int64_t)table.row_count)
                return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s has %llu rows; input '%s' takes %lld at a time",
                                  path, (unsigned long long)table.row_count, info.name, (long long)column->rows);
        }
        if (pass == 0)
            INLAY_TRY(csv_read(path, names, count, &dataset->open, &table, diag));
        for (uint32_t i = 0; pass == 0 && i < count && count > 1; i++)
            named |= csv_has_column(&table, names[i]);
    }
done:
    return status;
}

/* Does an input have the name on an axis other than the first? */
static bool is_inner_axis(const struct dataset *dataset, const char *name)
{
    for (uint32_t i = 0; i < dataset->input_count; i++) {
        inlay_io_info info = { .struct_size = sizeof info };

        if (inlay_session_input(dataset->session, i, &info) != INLAY_OK || info.rank > INLAY_MAX_RANK)
            continue;
        for (uint32_t axis = 1; axis < info.rank; axis++)
            if (info.dims[axis] < 0 && strcmp(info.dim_names[axis], name) == 0)
                return true;
    }
    return false;
}

/* Inputs whose first axis has the same name are cut together, also vectors, such as the lengths of sequences. If a name
 * is also that of another axis, arrays with it are one sample. */
static void cut_together(struct dataset *dataset)
{
    for (uint32_t i = 0; i < dataset->input_count; i++) {
        const struct column *cut = &dataset->columns[i];
        const bool whole = cut->name != NULL && cut->name[0] != '\0' && is_inner_axis(dataset, cut->name);

        if (cut->name == NULL || cut->name[0] == '\0' || !cut->keeps_axis || cut->rows != 1)
            continue;
        for (uint32_t k = 0; k < dataset->input_count; k++) {
            struct column *column = &dataset->columns[k];

            if (column->name == NULL || strcmp(column->name, cut->name) != 0 || column->size != cut->size ||
                (column->rows != 0) != whole)
                continue;
            column->rows = whole ? 0 : 1;
            column->samples = whole ? 1 : column->size;
            column->keeps_axis = !whole;
        }
    }
}

/* Opens the arrays of a source and counts its samples. */
static inlay_status open_source(struct dataset *dataset, uint32_t index, inlay_diag *diag)
{
    struct source *source;
    int64_t count = 1;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(index < dataset->source_count);
    source = &dataset->sources[index];
    if (dataset->at == index)
        return INLAY_OK;
    close_source(dataset);
    if (source->kind == IS_FILE && dataset->input_count != 1)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "%s: one file for a model with %u inputs; put the inputs of a "
                          "sample into a .npz file or a folder",
                          source->path, dataset->input_count);
    INLAY_TRY(source->kind == IS_NPZ      ? open_archive(dataset, source->path, diag)
              : source->kind == IS_TABLE  ? open_table(dataset, source->path, diag)
              : source->kind == IS_FOLDER ? open_folder(dataset, source->path, diag)
                                          : open_file(dataset, 0, source->path, diag));
    for (uint32_t i = 0; i < dataset->input_count; i++)
        INLAY_TRY(measure_column(dataset, i, diag));
    cut_together(dataset);
    for (uint32_t i = 0; i < dataset->input_count; i++) {
        if (dataset->columns[i].samples > 1 && count > 1 && dataset->columns[i].samples != count) {
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s has %lld samples, but another array has %lld",
                                dataset->columns[i].label, (long long)dataset->columns[i].samples, (long long)count);
            goto done;
        }
        count = dataset->columns[i].samples > count ? dataset->columns[i].samples : count;
    }
    source->count = (uint32_t)count;
    dataset->at = index;
done:
    return status;
}

static bool holds_inputs(const struct dataset *dataset, const char *dir)
{
    struct arena arena = { 0 };
    bool holds = false;

    for (uint32_t i = 0; i < dataset->input_count && !holds; i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const char *paths[3];

        if (inlay_session_input(dataset->session, i, &info) != INLAY_OK)
            break;
        paths[0] = value_find(&arena, dir, info.name, ".npy");
        paths[1] = value_find(&arena, dir, info.name, ".pb");
        paths[2] = arena_format(&arena, "%s/input_%u.pb", dir, i);
        for (int k = 0; k < 3; k++)
            holds |= paths[k] != NULL && access(paths[k], F_OK) == 0;
    }
    arena_deinit(&arena);
    return holds;
}

/* Whether the file is the value of the model's only input: a picture, sound or text for an input that takes these. */
static bool is_value(const struct dataset *dataset, const char *path)
{
    inlay_io_info info = { .struct_size = sizeof info };

    return dataset->input_count == 1 && inlay_session_input(dataset->session, 0, &info) == INLAY_OK &&
           ((picture_is_file(path) && (picture_fits(&info) || raw_is(path, &info))) ||
            (raw_is_file(path, &info) && raw_is(path, &info)));
}

/* Adds the file or folder at path, if it is a source. */
static inlay_status add_source(struct dataset *dataset, const char *path, bool *out_added, inlay_diag *diag)
{
    struct stat file_info;
    struct source source = { .kind = IS_FILE };

    *out_added = false;
    if (csv_is(path)) /* the path may end in the names of columns */
        source.kind = IS_TABLE;
    else if (stat(path, &file_info) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "--data %s: %s", path, strerror(errno));
    else if (S_ISDIR(file_info.st_mode))
        source.kind = IS_FOLDER;
    else if (value_has_suffix(path, ".npz"))
        source.kind = IS_NPZ;
    else if (!value_has_suffix(path, ".npy") && !value_has_suffix(path, ".pb") && !is_value(dataset, path))
        return INLAY_OK;
    if (source.kind == IS_FOLDER && !holds_inputs(dataset, path))
        return INLAY_OK;
    source.path = arena_string(&dataset->arena, path);
    if (source.path == NULL)
        return no_memory(diag, "for the samples");
    dataset->sources[dataset->source_count++] = source;
    *out_added = true;
    return INLAY_OK;
}

static int visible(const struct dirent *dirent)
{
    return dirent->d_name[0] != '.';
}

static inlay_status list_folder(struct dataset *dataset, const char *path, inlay_diag *diag)
{
    struct dirent **names = NULL;
    const int count = scandir(path, &names, visible, versionsort);
    inlay_status status = INLAY_OK;
    bool added;

    if (count < 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "--data %s: %s", path, strerror(errno));
    dataset->sources = arena_array(&dataset->arena, (size_t)count + 1, sizeof *dataset->sources);
    if (dataset->sources == NULL)
        status = no_memory(diag, "for the samples");
    for (int i = 0; i < count; i++) {
        char *inner = status == INLAY_OK ? arena_format(&dataset->arena, "%s/%s", path, names[i]->d_name) : NULL;

        if (status == INLAY_OK)
            status = inner == NULL ? no_memory(diag, "for the samples") : add_source(dataset, inner, &added, diag);
        free(names[i]);
    }
    free((void *)names);
    return status;
}

static inlay_status list_sources(struct dataset *dataset, const char *path, inlay_diag *diag)
{
    struct stat file_info;
    inlay_status status = INLAY_OK;
    bool added;

    if (!csv_is(path) && stat(path, &file_info) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "--data %s: %s", path, strerror(errno));
    if (!csv_is(path) && S_ISDIR(file_info.st_mode) && !holds_inputs(dataset, path)) {
        INLAY_TRY(list_folder(dataset, path, diag));
    } else {
        dataset->sources = arena_array(&dataset->arena, 1, sizeof *dataset->sources);
        if (dataset->sources == NULL)
            return no_memory(diag, "for the samples");
        INLAY_TRY(add_source(dataset, path, &added, diag));
    }
    if (dataset->source_count == 0)
        return inlay_fail(
            diag, INLAY_INVALID_ARGUMENT,
            "--data %s has no samples; expected .npz or .csv files, files or folders of <input>.npy and "
            "<input>.pb, or pictures, sound or texts for a model with one such input (inlay help compare)",
            path);
done:
    return status;
}

inlay_status dataset_open(const char *path, uint32_t most, feed_caller caller, const inlay_session *session,
                          struct dataset **out_dataset, inlay_diag *diag)
{
    struct dataset *dataset = calloc(1, sizeof *dataset);
    inlay_status status = INLAY_OK;

    *out_dataset = NULL;
    if (dataset == NULL)
        return no_memory(diag, "for the samples");
    *dataset = (struct dataset){
        .caller = caller, .session = session, .input_count = inlay_session_input_count(session), .at = INLAY_NONE
    };
    dataset->columns = arena_array(&dataset->arena, (size_t)dataset->input_count + 1, sizeof *dataset->columns);
    if (dataset->columns == NULL) {
        status = no_memory(diag, "for the samples");
        goto done;
    }
    dataset->count = most;
    if (path != NULL) {
        uint64_t count = 0;

        INLAY_TRY(list_sources(dataset, path, diag));
        for (uint32_t i = 0; i < dataset->source_count; i++) {
            INLAY_TRY(open_source(dataset, i, diag));
            dataset->sources[i].first = (uint32_t)count;
            count += dataset->sources[i].count;
            if (most > 0 && count >= most)
                break;
            if (count > MAX_SAMPLES) {
                status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%s has more than %d samples", path, MAX_SAMPLES);
                goto done;
            }
        }
        dataset->count = most > 0 && count > most ? most : (uint32_t)count;
    }
    *out_dataset = dataset;
    dataset = NULL;
done:
    dataset_close(dataset);
    return status;
}

static inlay_status load_random(struct dataset *dataset, uint32_t i, inlay_value **values, inlay_diag *diag)
{
    feed_caller caller = dataset->caller;
    inlay_value **made = NULL;
    inlay_status status;

    caller.quiet |= i > 0;
    dataset->feed.seed = i;
    dataset->feed.trial = i == 0; /* the first sample determines the sizes of all */
    status = feed_make(&dataset->feed, caller, dataset->session, &made, diag);
    if (status != INLAY_OK)
        return status;
    memcpy((void *)values, (void *)made, dataset->input_count * sizeof *values);
    free((void *)made);
    dataset->caller.quiet = true; /* the assumed sizes have been noted, also if the sample is loaded again */
    return INLAY_OK;
}

/* Removes the first axis from the shape, if it counts samples. */
static void drop_axis(const struct column *column, inlay_tensor_view *view)
{
    INLAY_CHECK(view->rank > 0 || column->rows == 0 || column->keeps_axis);
    if (column->rows > 0 && !column->keeps_axis) {
        view->dims++;
        view->rank--;
    }
}

/* Makes the value of a sample from a whole file. */
static inlay_status load_file(struct dataset *dataset, const char *path, const inlay_io_info *info,
                              inlay_value **out_value, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    if (raw_is(path, info))
        return raw_load(path, info, out_value, diag);
    if (!picture_is_file(path))
        return value_load(path, info, out_value, diag);
    if (dataset->reader == NULL) {
        status = picture_open(dataset->session, info, dataset->caller.options, &dataset->reader, diag);
        if (status == INLAY_OK && !dataset->caller.quiet)
            (void)fprintf(stderr,
                          "%s: input '%s': pictures are prepared by %s, an assumption, as the model states no steps "
                          "(others: inlay pipe MODEL --pre STEPS)\n",
                          dataset->caller.name, info->name, picture_steps(dataset->reader));
    }
    return status == INLAY_OK ? picture_load(dataset->reader, path, out_value, diag) : status;
}

/* Copies the rows of a sample out of a table. */
static inlay_status load_rows(const struct column *column, uint32_t sample, inlay_value **out_value, inlay_diag *diag)
{
    int64_t dims[INLAY_MAX_RANK];
    inlay_tensor_view view;
    uint64_t bytes;

    if (!value_view(column->table, &view))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%s: the table is not in host memory", column->label);
    memcpy(dims, view.dims, view.rank * sizeof *dims);
    if (column->samples > 1) { /* otherwise the table is the sample */
        bytes = (uint64_t)(inlay_value_count(column->table) / column->samples) *
                (view.dtype == INLAY_STRING ? sizeof(inlay_str) : inlay_dtype_bits(view.dtype) / 8);
        view.data = (char *)view.data + sample * bytes;
        view.bytes = bytes;
        dims[0] = column->rows;
    }
    view.dims = dims;
    drop_axis(column, &view);
    return value_from_view(&view, out_value, diag);
}

static inlay_status load_column(struct dataset *dataset, uint32_t i, uint32_t row, inlay_value **out_value,
                                inlay_diag *diag)
{
    inlay_io_info info = { .struct_size = sizeof info };
    const struct column *column = &dataset->columns[i];
    struct arena arena = { 0 };
    inlay_tensor_view view;
    inlay_status status;

    INLAY_TRY(inlay_session_input(dataset->session, i, &info));
    if (column->file != NULL) {
        status = load_file(dataset, column->file, &info, out_value, diag);
        goto done;
    }
    if (column->table != NULL) {
        status = load_rows(column, row, out_value, diag);
        goto done;
    }
    if (column->npy == NULL)
        goto done;
    if (column->rows == 0) {
        rewind(column->npy);
        INLAY_TRY(npy_load_file(column->npy, column->label, info.dtype, &arena, &view, diag));
    } else {
        INLAY_TRY(npy_load_rows(column->npy, column->label, info.dtype, row * column->rows, column->rows, &arena, &view,
                                diag));
        drop_axis(column, &view);
    }
    INLAY_TRY(value_from_view(&view, out_value, diag));
    status = value_convert(column->label, &info, out_value, diag);
done:
    arena_deinit(&arena);
    return status;
}

static inlay_status load_sample(void *ctx, uint32_t i, inlay_value **values, inlay_diag *diag)
{
    struct dataset *dataset = ctx;
    uint32_t at = 0;
    inlay_status status = INLAY_OK;

    if (dataset->sources == NULL)
        return load_random(dataset, i, values, diag);
    while (at + 1 < dataset->source_count && i >= dataset->sources[at].first + dataset->sources[at].count)
        at++;
    INLAY_TRY(open_source(dataset, at, diag));
    INLAY_CHECK(i >= dataset->sources[at].first);
    for (uint32_t k = 0; k < dataset->input_count; k++)
        INLAY_TRY(load_column(dataset, k, i - dataset->sources[at].first, &values[k], diag));
done:
    return status;
}

static const char *path_of_loaded(void *ctx)
{
    const struct dataset *dataset = ctx;

    return dataset->at < dataset->source_count ? dataset->sources[dataset->at].path : NULL;
}

struct samples dataset_samples(struct dataset *dataset)
{
    return (struct samples){ .count = dataset->count,
                             .of = dataset->session,
                             .load = load_sample,
                             .path_of_loaded = path_of_loaded,
                             .ctx = dataset,
                             .cancel = dataset->caller.cancel };
}
