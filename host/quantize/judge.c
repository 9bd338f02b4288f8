#include "quantize/judge.h"
#include "session/session.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_RUNS = 64, LEAST_RUNS = 5 };

/* ------------------------------------------------------------------ sessions */

inlay_status judge_options(const inlay_options *given, const char *name, const char *value, inlay_options **out_options,
                           inlay_diag *diag)
{
    inlay_options *copy = NULL;
    inlay_setting item = { .struct_size = sizeof item };
    inlay_status status;

    INLAY_TRY(inlay_options_create(&copy, diag));
    for (uint32_t i = 0; inlay_options_setting(given, i, &item) == INLAY_OK; i++)
        if (item.source != INLAY_SOURCE_DEFAULT && item.text[0] != '\0')
            INLAY_TRY(inlay_options_set(copy, item.name, item.text, diag));
    INLAY_TRY(inlay_options_set(copy, "cache_max_bytes", "0", diag));
    if (name != NULL)
        INLAY_TRY(inlay_options_set(copy, name, value, diag));
    *out_options = copy;
    copy = NULL;
done:
    inlay_options_destroy(copy);
    return status;
}

inlay_status subject_open(const char *path, const inlay_options *options, subject *out, inlay_diag *diag)
{
    inlay_status status;

    *out = (subject){ 0 };
    INLAY_TRY(inlay_session_create(path, options, &out->session, diag));
    INLAY_TRY(inlay_context_create(out->session, &out->context, diag));
done:
    if (status != INLAY_OK)
        subject_close(out);
    return status;
}

void subject_close(subject *s)
{
    inlay_context_destroy(s->context);
    inlay_session_destroy(s->session);
    *s = (subject){ 0 };
}

/* ------------------------------------------------------------------ agreement */

bool judge_view(const inlay_value *value, inlay_tensor_view *out)
{
    if (value == NULL || inlay_value_kind(value) != INLAY_KIND_TENSOR ||
        (inlay_value_data(value) == NULL && inlay_value_bytes(value) > 0))
        return false;
    *out = (inlay_tensor_view){ .data = inlay_value_data(value), .bytes = inlay_value_bytes(value),
                                .dims = inlay_value_dims(value), .rank = inlay_value_rank(value),
                                .dtype = inlay_value_dtype(value) };
    return true;
}

/* The outputs that both have, with what is known of each. */
typedef struct outputs {
    agree *sums;   /* [count] of the first model */
    uint32_t *at;  /* of the second; INLAY_NONE: it has none of the name */
    uint32_t count;
} outputs;

static inlay_status find_outputs(const subject *want, const subject *got, agree_metric metric, outputs *o,
                                 inlay_diag *diag)
{
    o->count = inlay_session_output_count(want->session);
    o->sums = calloc((size_t)o->count + 1, sizeof *o->sums);
    o->at = calloc((size_t)o->count + 1, sizeof *o->at);
    if (o->sums == NULL || o->at == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for %u outputs", o->count);
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

static inlay_status add_sample(const samples *set, uint32_t index, const subject *want, const subject *got, outputs *o,
                               inlay_diag *diag)
{
    inlay_value **values = NULL;
    inlay_status status;

    INLAY_TRY(samples_load(set, index, &values, diag));
    INLAY_TRY(samples_run(set, values, want->session, want->context, diag));
    INLAY_TRY(samples_run(set, values, got->session, got->context, diag));
    for (uint32_t i = 0; i < o->count; i++) {
        inlay_tensor_view a, b;

        if (o->at[i] == INLAY_NONE || !judge_view(inlay_context_output(want->context, i), &a) ||
            !judge_view(inlay_context_output(got->context, o->at[i]), &b))
            continue;
        INLAY_TRY(agree_add(&o->sums[i], &a, &b, diag));
    }
done:
    samples_release(set, values);
    return status;
}

inlay_status judge_agreement(const samples *set, uint32_t most, agree_metric metric, const subject *want,
                             const subject *got, verdict *out, inlay_diag *diag)
{
    const uint32_t count = most > 0 && most < set->count ? most : set->count;
    outputs o = { 0 };
    bool any = false;
    inlay_status status;

    *out = (verdict){ .samples = count };
    INLAY_TRY(find_outputs(want, got, metric, &o, diag));
    for (uint32_t i = 0; i < count; i++)
        INLAY_TRY(add_sample(set, i, want, got, &o, diag));
    for (uint32_t i = 0; i < o.count; i++) {
        const agree_score s = agree_result(&o.sums[i]);
        inlay_io_info info = { .struct_size = sizeof info };

        if (o.sums[i].scored > 0 && !(agree_relative(&o.sums[i]) <= out->error))
            out->error = agree_relative(&o.sums[i]);
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

/* ------------------------------------------------------------------ time */

static double now_s(clockid_t clock)
{
    struct timespec t;

    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* What a run takes, but no more than the CPUs worked for it: on a busy machine the rest is others' work. */
static inlay_status time_run(const samples *set, inlay_value *const *values, const subject *s, double *out_ms,
                             inlay_diag *diag)
{
    const double wall = now_s(CLOCK_MONOTONIC), work = now_s(CLOCK_PROCESS_CPUTIME_ID);
    inlay_status status = samples_run(set, values, s->session, s->context, diag);
    const double took = now_s(CLOCK_MONOTONIC) - wall, worked = now_s(CLOCK_PROCESS_CPUTIME_ID) - work;

    *out_ms = (took < worked ? took : worked) * 1e3;
    return status;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The lower quartile: what else the machine does makes runs longer, never shorter. */
static double typical(double *times, uint32_t count)
{
    qsort(times, count, sizeof *times, by_value);
    return times[count / 4];
}

inlay_status judge_time(const samples *set, const subject *a, const subject *b, double budget_s, double *out_a_ms,
                        double *out_b_ms, inlay_diag *diag)
{
    const subject *both[] = { a, b };
    double times[2][MOST_RUNS];
    inlay_value **values = NULL;
    uint32_t runs = 0;
    double start;
    inlay_status status;

    INLAY_TRY(samples_load(set, 0, &values, diag));
    for (int k = 0; k < 2; k++) /* plans, and what is done once */
        INLAY_TRY(samples_run(set, values, both[k]->session, both[k]->context, diag));
    start = now_s(CLOCK_MONOTONIC);
    for (; runs < MOST_RUNS && (runs < LEAST_RUNS || now_s(CLOCK_MONOTONIC) - start < budget_s); runs++)
        for (int k = 0; k < 2; k++)
            INLAY_TRY(time_run(set, values, both[k], &times[k][runs], diag));
    *out_a_ms = typical(times[0], runs);
    *out_b_ms = typical(times[1], runs);
done:
    samples_release(set, values);
    return status;
}
