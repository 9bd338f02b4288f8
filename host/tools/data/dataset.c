#include "data/dataset.h"
#include "base/element.h"
#include "data/npy.h"
#include "data/npy_format.h"
#include "data/value.h"
#include "data/view.h"
#include "data/zip.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_SAMPLES = 1 << 24 };

/* A file or folder of the data set: one sample, or as many as its arrays have rows. */
struct source {
    char *path;
    enum { IS_FOLDER, IS_NPZ, IS_FILE } kind;
    uint32_t first, count; /* samples */
};

/* Where the values of one input come from, while its source is open. */
struct column {
    FILE *npy;       /* or NULL */
    char *pb;        /* path of a .pb file, or NULL */
    char *label;     /* for messages */
    int64_t samples; /* 1: the same for all samples of the source */
    int64_t rows;    /* of the array in one sample; 0: the whole array */
    bool keeps_axis; /* the rows stay the first axis */
};

struct dataset {
    feed_caller caller;
    const inlay_session *session;
    struct arena a;
    struct feed feed;       /* of made-up samples */
    struct source *sources; /* NULL: made-up */
    uint32_t source_count, count;
    uint32_t input_count;
    struct column *columns; /* [input_count] of the source that is open */
    struct arena open;      /* labels and paths of the open one */
    uint32_t at;            /* which; INLAY_NONE = none */
};

static bool ends_with(const char *text, const char *suffix)
{
    const size_t n = strlen(text), m = strlen(suffix);

    return n >= m && strcmp(text + n - m, suffix) == 0;
}

static void close_source(struct dataset *d)
{
    for (uint32_t i = 0; i < d->input_count; i++)
        if (d->columns[i].npy != NULL)
            (void)fclose(d->columns[i].npy);
    memset(d->columns, 0, d->input_count * sizeof *d->columns);
    arena_deinit(&d->open);
    d->at = INLAY_NONE;
}

void dataset_close(struct dataset *d)
{
    if (d == NULL)
        return;
    if (d->columns != NULL)
        close_source(d);
    feed_deinit(&d->feed);
    arena_deinit(&d->a);
    free(d);
}

/* ------------------------------------------------------------------ arrays of one source */

static bool dims_fit(const int64_t *dims, const int64_t *declared, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; i++)
        if (declared[i] >= 0 && dims[i] != declared[i])
            return false;
    return true;
}

/* How many samples an array has, from its shape and that of the input. */
static inlay_status count_rows(struct column *c, const inlay_io_info *info, const npy_header *h, inlay_diag *diag)
{
    char got[128], want[128];

    c->samples = 1;
    c->rows = 0;
    if (info->rank == INLAY_RANK_UNKNOWN || info->rank > INLAY_MAX_RANK)
        return INLAY_OK;
    if (h->rank == info->rank && dims_fit(h->dims, info->dims, h->rank) &&
        (h->rank < 2 || info->dims[0] >= 0 || h->dims[0] == 1))
        return INLAY_OK;
    if (h->rank == info->rank + 1 && dims_fit(h->dims + 1, info->dims, info->rank)) {
        c->rows = 1;
        c->samples = h->dims[0];
    } else if (h->rank == info->rank && h->rank > 0 && dims_fit(h->dims + 1, info->dims + 1, h->rank - 1)) {
        c->rows = info->dims[0] > 0 ? info->dims[0] : 1;
        c->samples = h->dims[0] % c->rows == 0 ? h->dims[0] / c->rows : -1;
        c->keeps_axis = true;
    } else {
        c->samples = -1;
    }
    if (c->samples >= 1 && c->samples <= MOST_SAMPLES)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "%s: an array of shape %s holds no samples for input '%s' of shape %s", c->label,
                      dims_text(h->dims, h->rank, ", ", got, sizeof got), info->name,
                      dims_text(info->dims, info->rank, ", ", want, sizeof want));
}

static inlay_status measure_column(struct dataset *d, uint32_t i, inlay_diag *diag)
{
    inlay_io_info info = { .struct_size = sizeof info };
    struct column *c = &d->columns[i];
    npy_header h = { 0 };
    uint64_t left;
    inlay_status status = INLAY_OK;

    c->samples = 1;
    if (c->npy == NULL)
        return INLAY_OK;
    INLAY_TRY(inlay_session_input(d->session, i, &info));
    rewind(c->npy);
    INLAY_TRY(npy_read_header(c->npy, c->label, &d->open, &h, &left, diag));
    status = count_rows(c, &info, &h, diag);
done:
    return status;
}

/* The entry of the archive for an input: by name, or the only one there is. */
static const zip_entry *find_entry(const struct dataset *d, const zip_list *list, const char *name)
{
    const zip_entry *named = zip_array(list, name);

    if (named != NULL || d->input_count != 1 || list->count != 1)
        return named;
    return ends_with(list->entries[0].name, ".npy") ? &list->entries[0] : NULL;
}

static inlay_status missing(const struct dataset *d, const char *path, const inlay_io_info *info, const zip_list *list,
                            inlay_diag *diag)
{
    char keys[200] = "";
    size_t used = 0;

    (void)d;
    if (list == NULL)
        return inlay_fail(diag, INLAY_NOT_FOUND, "input '%s': neither .npy nor .pb of that name in %s", info->name,
                          path);
    for (uint32_t i = 0; i < list->count && used < sizeof keys; i++)
        used += (size_t)snprintf(keys + used, sizeof keys - used, "%s%s", i > 0 ? ", " : "", list->entries[i].name);
    return inlay_fail(diag, INLAY_NOT_FOUND, "input '%s': %s has no array of that name; it has %s", info->name, path,
                      keys[0] != '\0' ? keys : "none");
}

static inlay_status open_archive(struct dataset *d, const char *path, inlay_diag *diag)
{
    FILE *f = fopen(path, "rbe");
    zip_list list = { 0 };
    inlay_status status = INLAY_OK;

    if (f == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    INLAY_TRY(zip_read(f, path, &d->open, &list, diag));
    for (uint32_t i = 0; i < d->input_count; i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const zip_entry *e;

        INLAY_TRY(inlay_session_input(d->session, i, &info));
        e = find_entry(d, &list, info.name);
        if (e == NULL && info.optional != 0)
            continue;
        if (e == NULL) {
            status = missing(d, path, &info, &list, diag);
            goto done;
        }
        d->columns[i].label = arena_format(&d->open, "%s: %s", path, e->name);
        if (d->columns[i].label == NULL) {
            status = no_memory(diag, "for the samples");
            goto done;
        }
        INLAY_TRY(zip_extract(f, path, e, &d->columns[i].npy, diag));
    }
done:
    (void)fclose(f);
    return status;
}

/* One file for input i. */
static inlay_status open_file(struct dataset *d, uint32_t i, char *path, inlay_diag *diag)
{
    struct column *c = &d->columns[i];

    c->label = path;
    if (ends_with(path, ".pb")) {
        c->pb = path;
        return INLAY_OK;
    }
    c->npy = fopen(path, "rbe");
    return c->npy != NULL ? INLAY_OK : inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
}

static inlay_status open_folder(struct dataset *d, const char *path, inlay_diag *diag)
{
    static const char *const suffixes[] = { ".npy", ".pb" };
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < d->input_count; i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        char *found = NULL;

        INLAY_TRY(inlay_session_input(d->session, i, &info));
        for (int k = 0; k < 3 && found == NULL; k++) {
            found = k < 2 ? value_path(&d->open, path, info.name, suffixes[k])
                          : arena_format(&d->open, "%s/input_%u.pb", path, i); /* as ONNX's test cases have it */
            if (found == NULL)
                return no_memory(diag, "for the samples");
            found = access(found, F_OK) == 0 ? found : NULL;
        }
        if (found == NULL && info.optional == 0)
            return missing(d, path, &info, NULL, diag);
        if (found != NULL)
            INLAY_TRY(open_file(d, i, found, diag));
    }
done:
    return status;
}

/* Opens the arrays of a source and finds how many samples they are. */
static inlay_status open_source(struct dataset *d, uint32_t index, inlay_diag *diag)
{
    struct source *s = &d->sources[index];
    int64_t count = 1;
    inlay_status status = INLAY_OK;

    if (d->at == index)
        return INLAY_OK;
    close_source(d);
    if (s->kind == IS_FILE && d->input_count != 1)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "%s: one file for a model with %u inputs; put the inputs of a "
                          "sample into a .npz file or a folder",
                          s->path, d->input_count);
    INLAY_TRY(s->kind == IS_NPZ      ? open_archive(d, s->path, diag)
              : s->kind == IS_FOLDER ? open_folder(d, s->path, diag)
                                     : open_file(d, 0, s->path, diag));
    for (uint32_t i = 0; i < d->input_count; i++) {
        INLAY_TRY(measure_column(d, i, diag));
        if (d->columns[i].samples > 1 && count > 1 && d->columns[i].samples != count) {
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: has %lld samples, another array %lld",
                                d->columns[i].label, (long long)d->columns[i].samples, (long long)count);
            goto done;
        }
        count = d->columns[i].samples > count ? d->columns[i].samples : count;
    }
    s->count = (uint32_t)count;
    d->at = index;
done:
    return status;
}

/* ------------------------------------------------------------------ what a path has */

static bool holds_inputs(const struct dataset *d, const char *dir)
{
    struct arena a = { 0 };
    bool holds = false;

    for (uint32_t i = 0; i < d->input_count && !holds; i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const char *paths[3];

        if (inlay_session_input(d->session, i, &info) != INLAY_OK)
            break;
        paths[0] = value_path(&a, dir, info.name, ".npy");
        paths[1] = value_path(&a, dir, info.name, ".pb");
        paths[2] = arena_format(&a, "%s/input_%u.pb", dir, i);
        for (int k = 0; k < 3; k++)
            holds |= paths[k] != NULL && access(paths[k], F_OK) == 0;
    }
    arena_deinit(&a);
    return holds;
}

/* Adds what lies at path, if it is a kind of source. */
static inlay_status add_source(struct dataset *d, const char *path, bool *out_added, inlay_diag *diag)
{
    struct stat info;
    struct source s = { .kind = IS_FILE };

    *out_added = false;
    if (stat(path, &info) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "--data %s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        s.kind = IS_FOLDER;
    else if (ends_with(path, ".npz"))
        s.kind = IS_NPZ;
    else if (!ends_with(path, ".npy") && !ends_with(path, ".pb"))
        return INLAY_OK;
    if (s.kind == IS_FOLDER && !holds_inputs(d, path))
        return INLAY_OK;
    s.path = arena_string(&d->a, path);
    if (s.path == NULL)
        return no_memory(diag, "for the samples");
    d->sources[d->source_count++] = s;
    *out_added = true;
    return INLAY_OK;
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static inlay_status list_folder(struct dataset *d, const char *path, inlay_diag *diag)
{
    struct dirent **names = NULL;
    const int count = scandir(path, &names, visible, versionsort);
    inlay_status status = INLAY_OK;
    bool added;

    if (count < 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "--data %s: %s", path, strerror(errno));
    d->sources = arena_array(&d->a, (size_t)count + 1, sizeof *d->sources);
    if (d->sources == NULL)
        status = no_memory(diag, "for the samples");
    for (int i = 0; i < count; i++) {
        char *inner = status == INLAY_OK ? arena_format(&d->a, "%s/%s", path, names[i]->d_name) : NULL;

        if (status == INLAY_OK)
            status = inner == NULL ? no_memory(diag, "for the samples") : add_source(d, inner, &added, diag);
        free(names[i]);
    }
    free((void *)names);
    return status;
}

static inlay_status list_sources(struct dataset *d, const char *path, inlay_diag *diag)
{
    struct stat info;
    inlay_status status = INLAY_OK;
    bool added;

    if (stat(path, &info) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "--data %s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode) && !holds_inputs(d, path)) {
        INLAY_TRY(list_folder(d, path, diag));
    } else {
        d->sources = arena_array(&d->a, 1, sizeof *d->sources);
        if (d->sources == NULL)
            return no_memory(diag, "for the samples");
        INLAY_TRY(add_source(d, path, &added, diag));
    }
    if (d->source_count == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "--data %s: has no samples: .npz files, or files or folders of "
                          "<input>.npy and <input>.pb (inlay help compare)",
                          path);
done:
    return status;
}

inlay_status dataset_open(const char *path, uint32_t most, feed_caller caller, const inlay_session *session,
                          struct dataset **out_set, inlay_diag *diag)
{
    struct dataset *d = calloc(1, sizeof *d);
    inlay_status status = INLAY_OK;

    *out_set = NULL;
    if (d == NULL)
        return no_memory(diag, "for the samples");
    *d = (struct dataset){
        .caller = caller, .session = session, .input_count = inlay_session_input_count(session), .at = INLAY_NONE
    };
    d->columns = arena_array(&d->a, (size_t)d->input_count + 1, sizeof *d->columns);
    if (d->columns == NULL) {
        status = no_memory(diag, "for the samples");
        goto done;
    }
    d->count = most;
    if (path != NULL) {
        uint64_t count = 0;

        INLAY_TRY(list_sources(d, path, diag));
        for (uint32_t i = 0; i < d->source_count; i++) {
            INLAY_TRY(open_source(d, i, diag));
            d->sources[i].first = (uint32_t)count;
            count += d->sources[i].count;
            if (count > MOST_SAMPLES || (most > 0 && count >= most))
                break;
        }
        d->count = most > 0 && count > most ? most : (uint32_t)(count > MOST_SAMPLES ? MOST_SAMPLES : count);
    }
    *out_set = d;
    d = NULL;
done:
    dataset_close(d);
    return status;
}

/* ------------------------------------------------------------------ loading */

static inlay_status load_made_up(struct dataset *d, uint32_t i, inlay_value **values, inlay_diag *diag)
{
    feed_caller caller = d->caller;
    inlay_value **made = NULL;
    inlay_status status;

    caller.quiet |= i > 0;
    d->feed.seed = i;
    d->feed.trial = i == 0; /* sizes that the first one found are those of all */
    status = feed_make(&d->feed, caller, d->session, &made, diag);
    if (status != INLAY_OK)
        return status;
    memcpy((void *)values, (void *)made, d->input_count * sizeof *values);
    free((void *)made);
    return INLAY_OK;
}

/* The shape without the first axis, where it counts samples. */
static void drop_axis(const struct column *c, inlay_tensor_view *view)
{
    if (c->rows > 0 && !c->keeps_axis) {
        view->dims++;
        view->rank--;
    }
}

static inlay_status load_column(struct dataset *d, uint32_t i, uint32_t row, inlay_value **out_value, inlay_diag *diag)
{
    inlay_io_info info = { .struct_size = sizeof info };
    const struct column *c = &d->columns[i];
    struct arena a = { 0 };
    inlay_tensor_view view;
    inlay_status status;

    INLAY_TRY(inlay_session_input(d->session, i, &info));
    if (c->pb != NULL) {
        status = value_load(c->pb, &info, out_value, diag);
        goto done;
    }
    if (c->npy == NULL)
        goto done;
    if (c->rows == 0) {
        rewind(c->npy);
        INLAY_TRY(npy_load_file(c->npy, c->label, info.dtype, &a, &view, diag));
    } else {
        INLAY_TRY(npy_load_rows(c->npy, c->label, info.dtype, row * c->rows, c->rows, &a, &view, diag));
        drop_axis(c, &view);
    }
    if (info.dtype != INLAY_UNDEFINED && view.dtype != info.dtype)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: holds %s, but input '%s' is %s", c->label,
                            inlay_dtype_name(view.dtype), info.name, inlay_dtype_name(info.dtype));
    else
        status = value_from_view(&view, out_value, diag);
done:
    arena_deinit(&a);
    return status;
}

static inlay_status load_sample(void *ctx, uint32_t i, inlay_value **values, inlay_diag *diag)
{
    struct dataset *d = ctx;
    uint32_t at = 0;
    inlay_status status = INLAY_OK;

    if (d->sources == NULL)
        return load_made_up(d, i, values, diag);
    while (at + 1 < d->source_count && i >= d->sources[at].first + d->sources[at].count)
        at++;
    INLAY_TRY(open_source(d, at, diag));
    for (uint32_t k = 0; k < d->input_count; k++)
        INLAY_TRY(load_column(d, k, i - d->sources[at].first, &values[k], diag));
done:
    return status;
}

struct samples dataset_samples(struct dataset *d)
{
    return (struct samples){
        .count = d->count, .of = d->session, .load = load_sample, .ctx = d, .cancel = d->caller.cancel
    };
}
