#include "quantize/evaluate.h"
#include "config/options.h"
#include "inlay/check.h"
#include "session/session.h"
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_CACHED_MIB = 4096,  /* size limit of the file of cached outputs */
    TRIMMED_BYTES = 1 << 20 /* smaller constants stay in memory */
};

/* Outputs are stored in an unnamed file, one after another; memory holds one of each at a time. */
typedef struct cached_output {
    inlay_tensor_view view; /* dims are owned; data is NULL */
    uint64_t offset;
} cached_output;

struct cached_outputs {
    uint32_t samples, outputs;
    int fd;
    cached_output *items; /* [samples * outputs]; dims NULL: not a tensor of numbers */
    bool *is_cached;      /* [samples] */
    void **blocks;        /* [outputs] buffer with the sample that was read last */
    uint64_t *block_bytes;
    uint64_t bytes; /* size of the file */
};

static bool is_one_of(const char *name, const char *const *names)
{
    for (; names != NULL && *names != NULL; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

inlay_status evaluate_options_without(const inlay_options *given, const char *const *names, inlay_options **out_options,
                                      inlay_diag *diag)
{
    inlay_options *copy = NULL;
    inlay_setting item = { .struct_size = sizeof item };
    inlay_status status;

    *out_options = NULL;
    INLAY_TRY(inlay_options_create(&copy, diag));
    for (uint32_t i = 0; inlay_options_setting(given, i, &item) == INLAY_OK; i++)
        if (item.source != INLAY_SOURCE_DEFAULT && item.text[0] != '\0' && !is_one_of(item.name, names))
            INLAY_TRY(options_set_item(copy, item.name, item.text, diag));
    INLAY_TRY(inlay_options_set(copy, "cache_max_bytes", "0", diag));
    *out_options = copy;
    copy = NULL;
done:
    inlay_options_destroy(copy);
    return status;
}

inlay_status evaluate_options(const inlay_options *given, const char *name, const char *value,
                              inlay_options **out_options, inlay_diag *diag)
{
    inlay_status status = evaluate_options_without(given, NULL, out_options, diag);

    if (status == INLAY_OK && name != NULL)
        status = inlay_options_set(*out_options, name, value, diag);
    if (status != INLAY_OK) {
        inlay_options_destroy(*out_options);
        *out_options = NULL;
    }
    return status;
}

inlay_status evaluate_options_of_both(const inlay_options *given, inlay_options **out_options, inlay_diag *diag)
{
    static const char *const dims[] = { "dim", NULL };
    inlay_options *copy = NULL;
    inlay_status status;
    option_pair pair;
    char text[512];

    *out_options = NULL;
    INLAY_TRY(evaluate_options_without(given, dims, &copy, diag));
    for (uint32_t i = 0; options_pair(given, OPTION_dim, i, &pair); i++) {
        const bool optional = pair.key[pair.key_bytes - 1] == '?' || option_dim_is_estimate(&pair);

        (void)snprintf(text, sizeof text, "%.*s%s=%s", (int)pair.key_bytes, pair.key, optional ? "" : "?", pair.value);
        INLAY_TRY(inlay_options_set(copy, "dim", text, diag));
    }
    *out_options = copy;
    copy = NULL;
done:
    inlay_options_destroy(copy);
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

/* Creates an unnamed file in the folder; -1: failed. */
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

inlay_status subject_cache_outputs(struct subject *subject, const struct samples *set, const char *dir,
                                   inlay_diag *diag)
{
    const uint32_t outputs = inlay_session_output_count(subject->session);
    cached_outputs *cached;

    INLAY_CHECK(subject->session != NULL);
    if (subject->cached != NULL)
        return INLAY_OK;
    cached = calloc(1, sizeof *cached);
    if (cached != NULL) {
        *cached = (cached_outputs){ .samples = set->count, .outputs = outputs, .fd = open_unnamed(dir) };
        cached->items = calloc((size_t)set->count * outputs + 1, sizeof *cached->items);
        cached->is_cached = calloc((size_t)set->count + 1, sizeof *cached->is_cached);
        cached->blocks = calloc((size_t)outputs + 1, sizeof(void *));
        cached->block_bytes = calloc((size_t)outputs + 1, sizeof *cached->block_bytes);
    }
    subject->cached = cached;
    if (cached == NULL || cached->items == NULL || cached->is_cached == NULL || cached->blocks == NULL ||
        cached->block_bytes == NULL)
        return no_memory(diag, "for the outputs of %u samples", set->count);
    return INLAY_OK;
}

static void cached_outputs_free(cached_outputs *outputs)
{
    if (outputs == NULL)
        return;
    for (size_t i = 0; outputs->items != NULL && i < (size_t)outputs->samples * outputs->outputs; i++)
        free((void *)(uintptr_t)outputs->items[i].view.dims);
    for (uint32_t i = 0; outputs->blocks != NULL && i < outputs->outputs; i++)
        free(outputs->blocks[i]);
    if (outputs->fd >= 0)
        (void)close(outputs->fd);
    free(outputs->items);
    free(outputs->is_cached);
    free((void *)outputs->blocks);
    free(outputs->block_bytes);
    free(outputs);
}

void subject_close(struct subject *subject)
{
    subject_unload(subject);
    cached_outputs_free(subject->cached);
    *subject = (struct subject){ 0 };
}

void subject_trim(const struct subject *subject)
{
    const struct graph *graph = subject->session->model->main;

    INLAY_CHECK(graph != NULL);
    for (uint32_t value = 0; value < graph->value_count; value++) {
        const inlay_value_info *info = &graph->values[value].info;

        if ((info->flags & INLAY_VALUE_CONSTANT) != 0 && info->data_bytes >= TRIMMED_BYTES)
            graph_blob_release_pages(subject->session->model, info->data, (size_t)info->data_bytes);
    }
}

void subject_unload(struct subject *subject)
{
    inlay_context_destroy(subject->context);
    inlay_session_destroy(subject->session);
#ifdef __GLIBC__
    (void)malloc_trim(0); /* the next model's blocks may not fit into the free gaps of this one */
#endif
    subject->context = NULL;
    subject->session = NULL;
}

inlay_status subject_reopen(struct subject *subject, const char *path, const inlay_options *options, inlay_diag *diag)
{
    cached_outputs *cached = subject->cached;
    inlay_status status = INLAY_OK;

    if (subject->session == NULL) {
        status = subject_open(path, options, subject, diag);
        subject->cached = cached;
    }
    return status;
}

bool evaluate_view(const inlay_value *value, inlay_tensor_view *out)
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

/* The outputs that both models have, and their sums. */
struct outputs {
    struct agree *sums; /* [count] by output of the first model */
    uint32_t *at;       /* [count] output of the second model; INLAY_NONE: missing */
    uint32_t count;
};

static inlay_status find_outputs(const struct subject *want, const struct subject *got, agree_metric metric,
                                 struct outputs *outputs, inlay_diag *diag)
{
    outputs->count = inlay_session_output_count(want->session);
    outputs->sums = calloc((size_t)outputs->count + 1, sizeof *outputs->sums);
    outputs->at = calloc((size_t)outputs->count + 1, sizeof *outputs->at);
    if (outputs->sums == NULL || outputs->at == NULL)
        return no_memory(diag, "for %u outputs", outputs->count);
    for (uint32_t i = 0; i < outputs->count; i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        inlay_status status = inlay_session_output(want->session, i, &info);

        if (status != INLAY_OK)
            return status;
        outputs->at[i] = inlay_session_find_output(got->session, info.name);
        outputs->sums[i].metric = metric != AGREE_auto ? metric : agree_metric_of(want->session->model->main, i);
        if (info.kind != INLAY_KIND_TENSOR || info.dtype == INLAY_STRING)
            outputs->at[i] = INLAY_NONE;
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

/* Stores the outputs of the sample that the subject has just run. A sample that does not fit is run again the next
 * time. */
static void cache_sample(const struct subject *subject, uint32_t sample)
{
    cached_outputs *outputs = subject->cached;

    INLAY_CHECK(outputs != NULL && sample < outputs->samples);
    for (uint32_t i = 0; outputs->fd >= 0 && i < outputs->outputs; i++) {
        cached_output *to = &outputs->items[(size_t)sample * outputs->outputs + i];
        inlay_tensor_view view;
        int64_t *dims;

        if (!evaluate_view(inlay_context_output(subject->context, i), &view) || view.dtype == INLAY_STRING)
            continue;
        dims = to->view.dims != NULL ? (int64_t *)(uintptr_t)to->view.dims : malloc((view.rank + 1) * sizeof *dims);
        if (dims == NULL || outputs->bytes + view.bytes > (uint64_t)MAX_CACHED_MIB << 20 ||
            !write_all(outputs->fd, view.data, view.bytes, outputs->bytes)) {
            to->view.dims = dims;
            return;
        }
        if (view.rank > 0)
            memcpy(dims, view.dims, view.rank * sizeof *dims);
        *to = (cached_output){ view, outputs->bytes };
        to->view.dims = dims;
        to->view.data = NULL;
        outputs->bytes += view.bytes;
    }
    outputs->is_cached[sample] = outputs->fd >= 0;
}

/* Output `i` of the sample, from the cache or the context; false: not a tensor of numbers. */
static bool output_of(const struct subject *subject, uint32_t sample, uint32_t i, inlay_tensor_view *out)
{
    cached_outputs *outputs = subject->cached;
    const cached_output *item;

    if (outputs == NULL || !outputs->is_cached[sample])
        return evaluate_view(inlay_context_output(subject->context, i), out);
    INLAY_CHECK(sample < outputs->samples && i < outputs->outputs);
    item = &outputs->items[(size_t)sample * outputs->outputs + i];
    if (item->view.dims == NULL)
        return false;
    if (outputs->block_bytes[i] < item->view.bytes || outputs->blocks[i] == NULL) {
        free(outputs->blocks[i]);
        outputs->blocks[i] = malloc((size_t)item->view.bytes + 1);
        outputs->block_bytes[i] = outputs->blocks[i] != NULL ? item->view.bytes : 0;
    }
    *out = item->view;
    out->data = outputs->blocks[i];
    return outputs->blocks[i] != NULL && read_all(outputs->fd, outputs->blocks[i], item->view.bytes, item->offset);
}

/* Distance of the sample whose addition turned `was` into `now`. */
static double distance_between(const struct agree *was, const struct agree *now)
{
    const struct agree one = { .metric = now->metric,
                               .samples = 1,
                               .rows = now->rows - was->rows,
                               .divergence = now->divergence - was->divergence,
                               .error_squares = now->error_squares - was->error_squares,
                               .want_squares = now->want_squares - was->want_squares };

    return agree_distance(&one);
}

/* Raises *distance to the largest output distance of the sample. */
static inlay_status add_sample(const struct samples *set, uint32_t index, const struct subject *want,
                               const struct subject *got, struct outputs *outputs, double *distance, inlay_diag *diag)
{
    inlay_value **values = NULL;
    inlay_status status;

    INLAY_CHECK(index < set->count);
    INLAY_TRY(samples_load(set, index, &values, diag));
    if (want->cached == NULL || !want->cached->is_cached[index]) {
        INLAY_TRY(samples_run(set, values, want->session, want->context, diag));
        if (want->cached != NULL)
            cache_sample(want, index);
    }
    INLAY_TRY(samples_run(set, values, got->session, got->context, diag));
    for (uint32_t i = 0; i < outputs->count; i++) {
        const struct agree was = outputs->sums[i];
        inlay_tensor_view want_view, got_view;
        double sample_distance;

        if (outputs->at[i] == INLAY_NONE || !output_of(want, index, i, &want_view) ||
            !evaluate_view(inlay_context_output(got->context, outputs->at[i]), &got_view))
            continue;
        INLAY_TRY(agree_add(&outputs->sums[i], &want_view, &got_view, diag));
        sample_distance = distance_between(&was, &outputs->sums[i]);
        *distance = sample_distance <= *distance ? *distance : sample_distance;
    }
done:
    samples_release(set, values);
    return status;
}

/* By how much the score of a metric falls short of 1, or exceeds 0, in units of what the demand permits. */
static double shortfall(const agree_demand *demand, agree_metric metric, double score)
{
    const double missing = metric == AGREE_kl ? score : 1 - score;

    return demand->sure && metric == AGREE_relative
               ? missing * (1 - verdict_default_goal(AGREE_auto)) / (1 - verdict_default_goal(metric))
               : missing;
}

inlay_status evaluate_agreement(const struct samples *set, uint32_t most, const agree_demand *demand,
                                const struct subject *want, const struct subject *got, struct verdict *out,
                                inlay_diag *diag)
{
    return evaluate_subset(set, NULL, most > 0 && most < set->count ? most : set->count, demand, want, got, out, NULL,
                           diag);
}

inlay_status evaluate_subset(const struct samples *set, const uint32_t *which, uint32_t count,
                             const agree_demand *demand, const struct subject *want, const struct subject *got,
                             struct verdict *out, double *distances, inlay_diag *diag)
{
    struct outputs outputs = { 0 };
    double most = -INFINITY;
    inlay_status status;

    *out = (struct verdict){ .samples = count };
    INLAY_TRY(find_outputs(want, got, demand->metric, &outputs, diag));
    for (uint32_t i = 0; i < count; i++) {
        double sample_distance = 0;

        INLAY_TRY(add_sample(set, which != NULL ? which[i] : i, want, got, &outputs, &sample_distance, diag));
        if (distances != NULL)
            distances[i] = sample_distance;
    }
    for (uint32_t i = 0; i < outputs.count; i++) {
        const struct agree *sums = &outputs.sums[i];
        const agree_score score = agree_result(sums);
        inlay_io_info info = { .struct_size = sizeof info };
        double missing;

        if (!agree_any(sums))
            continue;
        if (!(agree_distance(sums) <= out->error))
            out->error = agree_distance(sums);
        if (sums->metric != AGREE_equal)
            out->relative = fmax(out->relative, agree_relative_error(sums));
        missing = shortfall(demand, agree_used(sums), score.value);
        if (missing <= most)
            continue;
        most = missing;
        out->score = score;
        out->metric = agree_used(sums);
        if (inlay_session_output(want->session, i, &info) == INLAY_OK)
            (void)snprintf(out->output, sizeof out->output, "%s", info.name);
    }
    if (isinf(most) && most < 0)
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "the model has no output of numbers to compare");
done:
    free(outputs.sums);
    free(outputs.at);
    return status;
}

double verdict_default_goal(agree_metric metric)
{
    return metric == AGREE_kl ? 0.01 : metric == AGREE_text ? 0.95 : metric == AGREE_relative ? 0.9 : 0.99;
}

bool verdict_holds(const struct verdict *verdict, double goal, bool sure)
{
    const bool for_unseen = sure && verdict->metric == AGREE_text;

    goal = sure && verdict->metric == AGREE_relative ? fmin(goal, verdict_default_goal(AGREE_relative)) : goal;

    if (for_unseen && 1 - verdict->error * verdict->error / AGREE_TEXT_DIFFERS < goal)
        return false;
    return agree_holds(verdict->metric,
                       for_unseen && verdict->score.value < 1
                           ? agree_share_bound(verdict->score.value, verdict->samples)
                           : verdict->score.value,
                       goal);
}

const char *verdict_describe(const struct verdict *verdict, const char *what, struct arena *arena)
{
    return arena_format(arena, "with %s, output '%s' agrees to %.4g (%s, 95 %%: %.4g to %.4g) only", what,
                        verdict->output, verdict->score.value, agree_metric_name(verdict->metric), verdict->score.low,
                        verdict->score.high);
}

/* Counts rows, and rows whose most probable symbol is 0. False: the output has no such rows. */
static bool count_blanks(const inlay_value *value, uint64_t *rows, uint64_t *blanks)
{
    enum { LEAST_ROWS = 8, LEAST_SYMBOLS = 8 };
    inlay_tensor_view view;
    int64_t symbols;

    if (value == NULL || !evaluate_view(value, &view) || view.dtype != INLAY_FLOAT || view.rank != 3 ||
        view.dims[1] < LEAST_ROWS || view.dims[2] < LEAST_SYMBOLS)
        return false;
    symbols = view.dims[2];
    for (int64_t r = 0; r < view.dims[0] * view.dims[1]; r++) {
        const float *row = (const float *)view.data + r * symbols;
        int64_t k = 1;

        while (k < symbols && row[k] <= row[0])
            k++;
        *blanks += k == symbols;
    }
    *rows += (uint64_t)(view.dims[0] * view.dims[1]);
    return true;
}

inlay_status evaluate_metric(const struct samples *set, const struct subject *subject, agree_metric *out,
                             inlay_diag *diag)
{
    enum { LOOKED_AT = 8 };
    uint64_t rows = 0, blanks = 0;
    inlay_value **values = NULL;
    inlay_status status = INLAY_OK;

    *out = AGREE_auto;
    if (inlay_session_output_count(subject->session) != 1 || !agree_may_be_text(subject->session->model->main, 0))
        return INLAY_OK;
    for (uint32_t i = 0; i < set->count && i < LOOKED_AT; i++) {
        INLAY_TRY(samples_load(set, i, &values, diag));
        INLAY_TRY(samples_run(set, values, subject->session, subject->context, diag));
        if (!count_blanks(inlay_context_output(subject->context, 0), &rows, &blanks))
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

inlay_status evaluate_time(const struct samples *set, const struct subject *a, const struct subject *b, double budget_s,
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

inlay_status evaluate_time_alone(const struct samples *set, const char *path, const inlay_options *options,
                                 double budget_s, double *out_ms, inlay_diag *diag)
{
    struct subject subject = { 0 };
    inlay_status status = subject_open(path, options, &subject, diag);

    if (status == INLAY_OK)
        status = timing_models(set, &(timed_model){ subject.session, subject.context }, 1, budget_s, out_ms, diag);
    subject_close(&subject);
    return status;
}
