#include "quantize/judge.h"
#include "session/session.h"
#include <fcntl.h>
#include <limits.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_KEPT_MIB = 4096, TRIMMED_BYTES = 1 << 20 };

/* Outputs lie in a file without a name, one after another; memory has one of each at a time. */
typedef struct kept_output {
    inlay_tensor_view view; /* dims are its own; data is NULL */
    uint64_t offset;
} kept_output;

struct kept_outputs {
    uint32_t samples, outputs;
    int fd;
    kept_output *items; /* [samples * outputs]; dims NULL: it is no tensor of numbers */
    bool *known;        /* [samples] */
    void **blocks;      /* [outputs] what was read last */
    uint64_t *block_bytes;
    uint64_t bytes; /* of the file */
};

/* ------------------------------------------------------------------ sessions */

static bool is_one_of(const char *name, const char *const *names)
{
    for (; names != NULL && *names != NULL; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

inlay_status judge_options_without(const inlay_options *given, const char *const *names, inlay_options **out_options,
                                   inlay_diag *diag)
{
    inlay_options *copy = NULL;
    inlay_setting item = { .struct_size = sizeof item };
    inlay_status status;

    *out_options = NULL;
    INLAY_TRY(inlay_options_create(&copy, diag));
    for (uint32_t i = 0; inlay_options_setting(given, i, &item) == INLAY_OK; i++)
        if (item.source != INLAY_SOURCE_DEFAULT && item.text[0] != '\0' && !is_one_of(item.name, names))
            INLAY_TRY(inlay_options_set(copy, item.name, item.text, diag));
    INLAY_TRY(inlay_options_set(copy, "cache_max_bytes", "0", diag));
    *out_options = copy;
    copy = NULL;
done:
    inlay_options_destroy(copy);
    return status;
}

inlay_status judge_options(const inlay_options *given, const char *name, const char *value, inlay_options **out_options,
                           inlay_diag *diag)
{
    inlay_status status = judge_options_without(given, NULL, out_options, diag);

    if (status == INLAY_OK && name != NULL)
        status = inlay_options_set(*out_options, name, value, diag);
    if (status != INLAY_OK) {
        inlay_options_destroy(*out_options);
        *out_options = NULL;
    }
    return status;
}

inlay_status subject_open(const char *path, const inlay_options *options, struct subject *out, inlay_diag *diag)
{
    inlay_status status;

    *out = (struct subject){ 0 };
    INLAY_TRY(inlay_session_create(path, options, &out->session, diag));
    INLAY_TRY(inlay_context_create(out->session, &out->context, diag));
done:
    if (status != INLAY_OK)
        subject_close(out);
    return status;
}

/* A file of the folder that is gone with its descriptor; -1: there is none. */
static int open_unnamed(const char *dir)
{
    char path[PATH_MAX];
    int fd;

    if ((size_t)snprintf(path, sizeof path, "%s/outputs.XXXXXX", dir) >= sizeof path)
        return -1;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path);
    return fd;
}

inlay_status subject_keep(struct subject *s, const struct samples *set, const char *dir, inlay_diag *diag)
{
    const uint32_t outputs = inlay_session_output_count(s->session);
    kept_outputs *k;

    if (s->kept != NULL)
        return INLAY_OK;
    k = calloc(1, sizeof *k);
    if (k != NULL) {
        *k = (kept_outputs){ .samples = set->count, .outputs = outputs, .fd = open_unnamed(dir) };
        k->items = calloc((size_t)set->count * outputs + 1, sizeof *k->items);
        k->known = calloc((size_t)set->count + 1, sizeof *k->known);
        k->blocks = calloc((size_t)outputs + 1, sizeof(void *));
        k->block_bytes = calloc((size_t)outputs + 1, sizeof *k->block_bytes);
    }
    s->kept = k;
    if (k == NULL || k->items == NULL || k->known == NULL || k->blocks == NULL || k->block_bytes == NULL)
        return no_memory(diag, "for the outputs of %u samples", set->count);
    return INLAY_OK;
}

static void kept_free(kept_outputs *k)
{
    if (k == NULL)
        return;
    for (size_t i = 0; k->items != NULL && i < (size_t)k->samples * k->outputs; i++)
        free((void *)(uintptr_t)k->items[i].view.dims);
    for (uint32_t i = 0; k->blocks != NULL && i < k->outputs; i++)
        free(k->blocks[i]);
    if (k->fd >= 0)
        (void)close(k->fd);
    free(k->items);
    free(k->known);
    free((void *)k->blocks);
    free(k->block_bytes);
    free(k);
}

void subject_close(struct subject *s)
{
    subject_rest(s);
    kept_free(s->kept);
    *s = (struct subject){ 0 };
}

void subject_trim(const struct subject *s)
{
    const struct graph *g = s->session->model->main;

    for (uint32_t v = 0; v < g->value_count; v++) {
        const inlay_value_info *info = &g->values[v].info;

        if ((info->flags & INLAY_VALUE_CONSTANT) != 0 && info->data_bytes >= TRIMMED_BYTES)
            graph_blob_forget(s->session->model, info->data, (size_t)info->data_bytes);
    }
}

void subject_rest(struct subject *s)
{
    inlay_context_destroy(s->context);
    inlay_session_destroy(s->session);
#ifdef __GLIBC__
    (void)malloc_trim(0); /* what a model of another form takes next does not fit between what is free */
#endif
    s->context = NULL;
    s->session = NULL;
}

inlay_status subject_wake(struct subject *s, const char *path, const inlay_options *options, inlay_diag *diag)
{
    kept_outputs *kept = s->kept;
    inlay_status status = INLAY_OK;

    if (s->session == NULL) {
        status = subject_open(path, options, s, diag);
        s->kept = kept;
    }
    return status;
}

/* ------------------------------------------------------------------ agreement */

bool judge_view(const inlay_value *value, inlay_tensor_view *out)
{
    if (value == NULL || inlay_value_kind(value) != INLAY_KIND_TENSOR ||
        (inlay_value_data(value) == NULL && inlay_value_bytes(value) > 0))
        return false;
    *out = (inlay_tensor_view){ .data = inlay_value_data(value),
                                .bytes = inlay_value_bytes(value),
                                .dims = inlay_value_dims(value),
                                .rank = inlay_value_rank(value),
                                .dtype = inlay_value_dtype(value) };
    return true;
}

/* The outputs that both have, with what is known of each. */
struct outputs {
    struct agree *sums; /* [count] of the first model */
    uint32_t *at;       /* of the second; INLAY_NONE: it has none of the name */
    uint32_t count;
};

static inlay_status find_outputs(const struct subject *want, const struct subject *got, agree_metric metric,
                                 struct outputs *o, inlay_diag *diag)
{
    o->count = inlay_session_output_count(want->session);
    o->sums = calloc((size_t)o->count + 1, sizeof *o->sums);
    o->at = calloc((size_t)o->count + 1, sizeof *o->at);
    if (o->sums == NULL || o->at == NULL)
        return no_memory(diag, "for %u outputs", o->count);
    for (uint32_t i = 0; i < o->count; i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        inlay_status status = inlay_session_output(want->session, i, &info);

        if (status != INLAY_OK)
            return status;
        o->at[i] = inlay_session_find_output(got->session, info.name);
        o->sums[i].metric = metric != AGREE_auto ? metric : agree_metric_of(want->session->model->main, i);
        if (info.kind != INLAY_KIND_TENSOR || info.dtype == INLAY_STRING)
            o->at[i] = INLAY_NONE;
    }
    return INLAY_OK;
}

static bool write_all(int fd, const void *data, uint64_t bytes, uint64_t offset)
{
    const char *from = data;

    while (bytes > 0) {
        const ssize_t wrote = pwrite(fd, from, (size_t)bytes, (off_t)offset);

        if (wrote <= 0)
            return false;
        from += wrote;
        bytes -= (uint64_t)wrote;
        offset += (uint64_t)wrote;
    }
    return true;
}

static bool read_all(int fd, void *data, uint64_t bytes, uint64_t offset)
{
    char *to = data;

    while (bytes > 0) {
        const ssize_t got = pread(fd, to, (size_t)bytes, (off_t)offset);

        if (got <= 0)
            return false;
        to += got;
        bytes -= (uint64_t)got;
        offset += (uint64_t)got;
    }
    return true;
}

/* Copies what the subject has just made of the sample. Without room it is run again the next time. */
static void keep_sample(const struct subject *s, uint32_t sample)
{
    kept_outputs *k = s->kept;

    for (uint32_t i = 0; k->fd >= 0 && i < k->outputs; i++) {
        kept_output *to = &k->items[(size_t)sample * k->outputs + i];
        inlay_tensor_view v;
        int64_t *dims;

        if (!judge_view(inlay_context_output(s->context, i), &v) || v.dtype == INLAY_STRING)
            continue;
        dims = to->view.dims != NULL ? (int64_t *)(uintptr_t)to->view.dims : malloc((v.rank + 1) * sizeof *dims);
        if (dims == NULL || k->bytes + v.bytes > (uint64_t)MOST_KEPT_MIB << 20 ||
            !write_all(k->fd, v.data, v.bytes, k->bytes)) {
            to->view.dims = dims;
            return;
        }
        if (v.rank > 0)
            memcpy(dims, v.dims, v.rank * sizeof *dims);
        *to = (kept_output){ v, k->bytes };
        to->view.dims = dims;
        to->view.data = NULL;
        k->bytes += v.bytes;
    }
    k->known[sample] = k->fd >= 0;
}

/* Output i of the sample that the subject has made, now or before; false: it is no tensor of numbers. */
static bool output_of(const struct subject *s, uint32_t sample, uint32_t i, inlay_tensor_view *out)
{
    kept_outputs *k = s->kept;
    const kept_output *item;

    if (k == NULL || !k->known[sample])
        return judge_view(inlay_context_output(s->context, i), out);
    item = &k->items[(size_t)sample * k->outputs + i];
    if (item->view.dims == NULL)
        return false;
    if (k->block_bytes[i] < item->view.bytes || k->blocks[i] == NULL) {
        free(k->blocks[i]);
        k->blocks[i] = malloc((size_t)item->view.bytes + 1);
        k->block_bytes[i] = k->blocks[i] != NULL ? item->view.bytes : 0;
    }
    *out = item->view;
    out->data = k->blocks[i];
    return k->blocks[i] != NULL && read_all(k->fd, k->blocks[i], item->view.bytes, item->offset);
}

/* How far the outputs of the sample are off that made now of was. */
static double off_by(const struct agree *was, const struct agree *now)
{
    const struct agree one = { .metric = now->metric,
                               .samples = 1,
                               .rows = now->rows - was->rows,
                               .divergence = now->divergence - was->divergence,
                               .error_squares = now->error_squares - was->error_squares,
                               .want_squares = now->want_squares - was->want_squares };

    return agree_off(&one);
}

/* *off grows to how far the sample's outputs are off. */
static inlay_status add_sample(const struct samples *set, uint32_t index, const struct subject *want,
                               const struct subject *got, struct outputs *o, double *off, inlay_diag *diag)
{
    inlay_value **values = NULL;
    inlay_status status;

    INLAY_TRY(samples_load(set, index, &values, diag));
    if (want->kept == NULL || !want->kept->known[index]) {
        INLAY_TRY(samples_run(set, values, want->session, want->context, diag));
        if (want->kept != NULL)
            keep_sample(want, index);
    }
    INLAY_TRY(samples_run(set, values, got->session, got->context, diag));
    for (uint32_t i = 0; i < o->count; i++) {
        const struct agree was = o->sums[i];
        inlay_tensor_view a, b;
        double own;

        if (o->at[i] == INLAY_NONE || !output_of(want, index, i, &a) ||
            !judge_view(inlay_context_output(got->context, o->at[i]), &b))
            continue;
        INLAY_TRY(agree_add(&o->sums[i], &a, &b, diag));
        own = off_by(&was, &o->sums[i]);
        *off = own <= *off ? *off : own;
    }
done:
    samples_release(set, values);
    return status;
}

inlay_status judge_agreement(const struct samples *set, uint32_t most, agree_metric metric, const struct subject *want,
                             const struct subject *got, struct verdict *out, inlay_diag *diag)
{
    return judge_some(set, NULL, most > 0 && most < set->count ? most : set->count, metric, want, got, out, NULL, diag);
}

inlay_status judge_some(const struct samples *set, const uint32_t *which, uint32_t count, agree_metric metric,
                        const struct subject *want, const struct subject *got, struct verdict *out, double *off,
                        inlay_diag *diag)
{
    struct outputs o = { 0 };
    bool any = false;
    inlay_status status;

    *out = (struct verdict){ .samples = count };
    INLAY_TRY(find_outputs(want, got, metric, &o, diag));
    for (uint32_t i = 0; i < count; i++) {
        double own = 0;

        INLAY_TRY(add_sample(set, which != NULL ? which[i] : i, want, got, &o, &own, diag));
        if (off != NULL)
            off[i] = own;
    }
    for (uint32_t i = 0; i < o.count; i++) {
        const agree_score s = agree_result(&o.sums[i]);
        inlay_io_info info = { .struct_size = sizeof info };

        if (o.sums[i].scored > 0 && !(agree_off(&o.sums[i]) <= out->error))
            out->error = agree_off(&o.sums[i]);
        if (o.sums[i].scored == 0 || (any && agree_holds(o.sums[i].metric, s.value, out->score.value)))
            continue;
        any = true;
        out->score = s;
        out->metric = o.sums[i].metric;
        if (inlay_session_output(want->session, i, &info) == INLAY_OK)
            (void)snprintf(out->output, sizeof out->output, "%s", info.name);
    }
    if (!any)
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "the model has no output of numbers to compare");
done:
    free(o.sums);
    free(o.at);
    return status;
}

bool verdict_holds(const struct verdict *v, double goal, bool sure)
{
    const bool counts = sure && v->metric == AGREE_text;

    if (counts && 1 - v->error * v->error / AGREE_TEXT_DIFFERS < goal)
        return false;
    return agree_holds(
        v->metric, counts && v->score.value < 1 ? agree_share_bound(v->score.value, v->samples) : v->score.value, goal);
}

const char *verdict_only(const struct verdict *v, const char *what, struct arena *a)
{
    return arena_format(a, "with %s, output '%s' agrees to %.4g (%s, 95 %%: %.4g to %.4g) only", what, v->output,
                        v->score.value, agree_metric_name(v->metric), v->score.low, v->score.high);
}

/* ------------------------------------------------------------------ rows that are text */

/* Rows of which symbol 0 is the most probable; *rows is how many there are. False: the output has no such rows. */
static bool count_blanks(const inlay_value *value, uint64_t *rows, uint64_t *blanks)
{
    enum { LEAST_ROWS = 8, LEAST_SYMBOLS = 8 };
    inlay_tensor_view v;
    int64_t symbols;

    if (value == NULL || !judge_view(value, &v) || v.dtype != INLAY_FLOAT || v.rank != 3 || v.dims[1] < LEAST_ROWS ||
        v.dims[2] < LEAST_SYMBOLS)
        return false;
    symbols = v.dims[2];
    for (int64_t r = 0; r < v.dims[0] * v.dims[1]; r++) {
        const float *row = (const float *)v.data + r * symbols;
        int64_t k = 1;

        while (k < symbols && row[k] <= row[0])
            k++;
        *blanks += k == symbols;
    }
    *rows += (uint64_t)(v.dims[0] * v.dims[1]);
    return true;
}

inlay_status judge_metric(const struct samples *set, const struct subject *s, agree_metric *out, inlay_diag *diag)
{
    enum { LOOKED_AT = 8 };
    uint64_t rows = 0, blanks = 0;
    inlay_value **values = NULL;
    inlay_status status = INLAY_OK;

    *out = AGREE_auto;
    if (inlay_session_output_count(s->session) != 1 || agree_metric_of(s->session->model->main, 0) != AGREE_top1)
        return INLAY_OK;
    for (uint32_t i = 0; i < set->count && i < LOOKED_AT; i++) {
        INLAY_TRY(samples_load(set, i, &values, diag));
        INLAY_TRY(samples_run(set, values, s->session, s->context, diag));
        if (!count_blanks(inlay_context_output(s->context, 0), &rows, &blanks))
            goto done;
        samples_release(set, values);
        values = NULL;
    }
    if (blanks * 4 > rows && blanks < rows)
        *out = AGREE_text;
done:
    samples_release(set, values);
    return status;
}

/* ------------------------------------------------------------------ time */

inlay_status judge_time(const struct samples *set, const struct subject *a, const struct subject *b, double budget_s,
                        double *out_a_ms, double *out_b_ms, inlay_diag *diag)
{
    const timed_model both[] = { { a->session, a->context }, { b->session, b->context } };
    double times[2];
    const inlay_status status = timing_models(set, both, 2, budget_s, times, diag);

    if (status == INLAY_OK) {
        *out_a_ms = times[0];
        *out_b_ms = times[1];
    }
    return status;
}

inlay_status judge_alone(const struct samples *set, const char *path, const inlay_options *options, double budget_s,
                         double *out_ms, inlay_diag *diag)
{
    struct subject s = { 0 };
    inlay_status status = subject_open(path, options, &s, diag);

    if (status == INLAY_OK)
        status = timing_models(set, &(timed_model){ s.session, s.context }, 1, budget_s, out_ms, diag);
    subject_close(&s);
    return status;
}
