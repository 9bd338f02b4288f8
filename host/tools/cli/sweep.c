#include "cli/sweep.h"
#include "cli/inputs.h"
#include "model/model.h"
#include "quantize/evaluate.h"
#include "timing/callers.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PASSES = 2, MOST_RUNS = 1000000 }; /* passes over all points; runs of a slice */
enum { MOST_CANDIDATES = 3 };             /* points that are measured again */
/* If the median of a batch exceeds the latency limit by this factor, larger batches are skipped. */
#define HOPELESS 1.2

static uint32_t axis_of(const sweep_args *args, sweep_role role)
{
    for (uint32_t i = 0; i < args->axis_count; i++)
        if (args->axes[i].role == role)
            return i;
    return INLAY_NONE;
}

/* Items per run: the size of the first dimension. */
static double items_of(const sweep_args *args, const sweep_point *point)
{
    const uint32_t axis = axis_of(args, SWEEP_DIM);

    return axis == INLAY_NONE ? 1 : (double)point->at[axis];
}

/* Creates all combinations; the last axis varies fastest. */
static void make_points(struct sweep *sweep)
{
    const sweep_args *args = sweep->args;
    uint32_t index[SWEEP_AXES] = { 0 };
    bool more = true;

    while (more && sweep->count < SWEEP_POINTS) {
        sweep_point *point = &sweep->points[sweep->count++];

        *point = (sweep_point){ .joules = -1 };
        for (uint32_t i = 0; i < args->axis_count; i++)
            point->at[i] = args->axes[i].values[index[i]];
        more = false;
        for (uint32_t i = args->axis_count; i-- > 0 && !more;) {
            index[i] = (index[i] + 1) % args->axes[i].count;
            more = index[i] != 0;
        }
    }
}

/* Has another point, which differs only by a smaller batch, a median far above the latency limit? */
static bool is_hopeless(const struct sweep *sweep, const sweep_point *point)
{
    const uint32_t axis = axis_of(sweep->args, SWEEP_DIM);

    for (uint32_t k = 0; sweep->args->latency_ms > 0 && axis != INLAY_NONE && k < sweep->count; k++) {
        const sweep_point *other = &sweep->points[k];
        bool alike = other->slices > 0 && other->at[axis] < point->at[axis];

        for (uint32_t i = 0; i < sweep->args->axis_count; i++)
            alike = alike && (i == axis || other->at[i] == point->at[i]);
        if (alike && other->median_ms > sweep->args->latency_ms * HOPELESS)
            return true;
    }
    return false;
}

static inlay_status point_options(const sweep_args *args, const sweep_point *point, const cli_common *common,
                                  inlay_options **out, inlay_diag *diag)
{
    inlay_options *options = NULL;
    char text[256];
    inlay_status status;

    INLAY_TRY(evaluate_options(common->options, NULL, NULL, &options, diag));
    for (uint32_t i = 0; i < args->axis_count; i++) {
        const sweep_axis *axis = &args->axes[i];

        if (axis->role == SWEEP_CALLERS)
            continue;
        (void)snprintf(text, sizeof text, "%s%s%lld", axis->role == SWEEP_DIM ? axis->symbol : "",
                       axis->role == SWEEP_DIM ? "=" : "", (long long)point->at[i]);
        INLAY_TRY(inlay_options_set(options, axis->role == SWEEP_DIM ? "dim" : "intra_threads", text, diag));
    }
    *out = options;
    options = NULL;
done:
    inlay_options_destroy(options);
    return status;
}

static inlay_status time_slices(const sweep_args *args, sweep_point *point, uint32_t slices, struct callers *how,
                                inlay_session *session, inlay_value *const *inputs, inlay_context *context,
                                inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < slices; i++) {
        const double before = args->energy != NULL ? energy_read(args->energy) : -1;
        double after;
        struct calls calls = { 0 };

        status = callers_run(how, session, inputs, context, &calls, diag);
        after = args->energy != NULL ? energy_read(args->energy) : -1;
        if (status == INLAY_OK && point->slices < SWEEP_SLICES) {
            point->rates[point->slices++] = (double)calls.times.count * items_of(args, point) / calls.elapsed_ms * 1e3;
            point->runs += calls.times.count;
            point->items += (double)calls.times.count * items_of(args, point);
            point->spent_joules =
                point->spent_joules < 0 || before < 0 || after < 0 ? -1 : point->spent_joules + after - before;
            point->median_ms = fmax(point->median_ms, timing_quantile(&calls.times, 0.5));
            point->p95_ms = fmax(point->p95_ms, timing_quantile(&calls.times, 0.95));
            point->p99_ms = fmax(point->p99_ms, timing_quantile(&calls.times, 0.99));
        }
        calls_deinit(&calls);
        if (status != INLAY_OK)
            return status;
        how->warmup = 0;
    }
    return status;
}

/* Measures `slices` slices of a point, in a new session, so that settings of other points have no influence. */
static inlay_status measure_point(const sweep_args *args, sweep_point *point, uint32_t slices, const cli_common *common,
                                  inlay_diag *diag)
{
    const inlay_run_options run = { .struct_size = sizeof run, .cancel = cli_cancel() };
    const uint32_t crowd = axis_of(args, SWEEP_CALLERS);
    struct callers how = { .count = crowd == INLAY_NONE ? 1 : (uint32_t)point->at[crowd],
                           .seconds = args->seconds / SWEEP_SLICES,
                           .warmup = args->warmup,
                           .most = MOST_RUNS,
                           .options = &run };
    cli_common own = *common;
    struct feed given = *args->feed; /* shares the flags; results of feed_make() stay local */
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    inlay_value **inputs = NULL;
    inlay_status status;

    own.options = NULL;
    own.quiet = own.quiet || point->slices > 0 || point->again; /* print each note once */
    given.trial = true;
    given.made = NULL;
    INLAY_TRY(point_options(args, point, common, &own.options, diag));
    INLAY_TRY(inlay_session_create(args->model, own.options, &session, diag));
    INLAY_TRY(feed_make(&given, cli_caller(&own), session, &inputs, diag));
    INLAY_TRY(inlay_context_create(session, &context, diag));
    INLAY_TRY(feed_bind(inputs, session, context, diag));
    INLAY_TRY(inlay_context_run(context, &run, diag));
    INLAY_TRY(time_slices(args, point, slices, &how, session, inputs, context, diag));
done:
    inlay_context_destroy(context);
    if (session != NULL)
        feed_release(inputs, session);
    inlay_session_destroy(session);
    free(given.made);
    inlay_options_destroy(own.options);
    return status;
}

/* Finds the model's name of each dimension that is swept. */
static inlay_status find_symbols(sweep_args *args, inlay_diag *diag)
{
    graph_model *model = NULL;
    inlay_status status = model_load_path(args->model, NULL, &model, diag);

    for (uint32_t i = 0; status == INLAY_OK && i < args->axis_count; i++) {
        sweep_axis *axis = &args->axes[i];
        const uint32_t found = axis->role == SWEEP_DIM ? graph_find_dim(model, axis->name, strlen(axis->name)) : 0;

        if (axis->role != SWEEP_DIM)
            continue;
        if (found == 0)
            status = graph_no_dim(model, "--sweep", axis->name, strlen(axis->name), diag);
        else
            (void)snprintf(axis->symbol, sizeof axis->symbol, "%s", model->symbols[found].name.data);
    }
    graph_model_destroy(model);
    return status;
}

static inlay_status measure_all(struct sweep *sweep, uint32_t from, double progress_from, double progress_to,
                                cli_common *common, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t pass = 0; pass < PASSES; pass++) {
        for (uint32_t k = 0; k < sweep->count - from; k++) {
            /* Forward, then backward, so that drift of the machine affects all points equally. */
            sweep_point *point = &sweep->points[pass % 2 == 0 ? from + k : sweep->count - 1 - k];
            const double done = (double)(pass * (sweep->count - from) + k) / (PASSES * (sweep->count - from));

            if (cli_progress(NULL, progress_from + done * (progress_to - progress_from), "sweeping") != 0)
                return inlay_fail(diag, INLAY_CANCELLED, "stopped");
            if (point->skipped || (pass == 0 && is_hopeless(sweep, point))) {
                point->skipped = true;
                continue;
            }
            INLAY_TRY(measure_point(sweep->args, point, SWEEP_SLICES / PASSES, common, diag));
        }
    }
done:
    return status;
}

/* Chooses the best point. again: only among the points that were measured again. */
static void choose(struct sweep *sweep, bool again)
{
    sweep->best = INLAY_NONE;
    sweep->noisy = 0;
    for (uint32_t i = 0; i < sweep->count; i++) {
        sweep_point *point = &sweep->points[i];
        INLAY_CHECK(point->slices <= SWEEP_SLICES);
        sweep_estimate(point);
        sweep->noisy += point->noisy;
        point->fits = point->slices > 0 && (sweep->args->latency_ms <= 0 || point->p95_ms <= sweep->args->latency_ms);
        if (point->fits && point->again >= again &&
            (sweep->best == INLAY_NONE || point->rate > sweep->points[sweep->best].rate))
            sweep->best = i;
    }
}

/* Adds points halfway between the best one and its neighbours along the first dimension. */
static void add_between(struct sweep *sweep)
{
    const uint32_t axis = axis_of(sweep->args, SWEEP_DIM);
    int64_t best, below = 0, above = INT64_MAX;

    if (axis == INLAY_NONE || sweep->args->axes[axis].dense || sweep->best == INLAY_NONE)
        return;
    best = sweep->points[sweep->best].at[axis];
    for (uint32_t i = 0; i < sweep->args->axes[axis].count; i++) {
        const int64_t value = sweep->args->axes[axis].values[i];

        below = value < best && value > below ? value : below;
        above = value > best && value < above ? value : above;
    }
    for (int side = 0; side < 2; side++) {
        const int64_t other = side == 0 ? below : above, middle = other + (best - other) / 2;
        sweep_point *point = &sweep->points[sweep->count];

        if (other == 0 || other == INT64_MAX || middle == best || middle == other || sweep->count == SWEEP_POINTS)
            continue;
        *point = (sweep_point){ .joules = -1 };
        memcpy(point->at, sweep->points[sweep->best].at, sizeof point->at);
        point->at[axis] = middle;
        sweep->count++;
    }
}

/* Measures the best point again, interleaved with the points whose rate may be as high. Another point replaces the
 * first choice only if its rate is higher by more than its interval; otherwise noise would decide, and a lucky
 * measurement would be reported. */
static inlay_status measure_again(struct sweep *sweep, cli_common *common, inlay_diag *diag)
{
    uint32_t list[MOST_CANDIDATES], count = 0;
    const uint32_t first = sweep->best;
    inlay_status status = INLAY_OK;

    while (count < MOST_CANDIDATES && sweep->best != INLAY_NONE) {
        sweep_point *point = &sweep->points[sweep->best];

        list[count++] = sweep->best;
        point->again = true;
        sweep->best = INLAY_NONE;
        for (uint32_t i = 0; i < sweep->count; i++)
            if (!sweep->points[i].again && sweep->points[i].fits &&
                sweep->points[i].high >= sweep->points[first].rate &&
                (sweep->best == INLAY_NONE || sweep->points[i].rate > sweep->points[sweep->best].rate))
                sweep->best = i;
    }
    for (uint32_t k = 0; k < count; k++)
        sweep->points[list[k]] = (sweep_point){ .at = { sweep->points[list[k]].at[0], sweep->points[list[k]].at[1],
                                                        sweep->points[list[k]].at[2] },
                                                .joules = -1,
                                                .again = true };
    for (uint32_t slice = 0; slice < SWEEP_SLICES; slice++) {
        for (uint32_t k = 0; k < count; k++) {
            if (cli_progress(NULL, 0.9 + 0.1 * (slice * count + k) / (SWEEP_SLICES * count), "the best again") != 0)
                return inlay_fail(diag, INLAY_CANCELLED, "stopped");
            INLAY_TRY(measure_point(sweep->args, &sweep->points[list[k]], 1, common, diag));
        }
    }
    choose(sweep, true);
    if (sweep->best == INLAY_NONE) /* no point is within the latency limit this time */
        choose(sweep, false);
    else if (sweep->points[first].fits && sweep->points[first].high >= sweep->points[sweep->best].rate)
        sweep->best = first;
done:
    return status;
}

/* Orders points by the first axis, then the next, as tables and curves need them. */
static int by_axes(const void *a, const void *b)
{
    const sweep_point *first = a, *second = b;

    for (uint32_t i = 0; i < SWEEP_AXES; i++)
        if (first->at[i] != second->at[i])
            return first->at[i] < second->at[i] ? -1 : 1;
    return 0;
}

static void sort(struct sweep *sweep)
{
    const sweep_point best = sweep->best != INLAY_NONE ? sweep->points[sweep->best] : (sweep_point){ 0 };

    qsort(sweep->points, sweep->count, sizeof *sweep->points, by_axes);
    for (uint32_t i = 0; sweep->best != INLAY_NONE && i < sweep->count; i++)
        if (by_axes(&sweep->points[i], &best) == 0) {
            sweep->best = i;
            break;
        }
}

inlay_status sweep_run(struct sweep *sweep, cli_common *common, inlay_diag *diag)
{
    inlay_status status;
    uint32_t first;

    sweep->best = INLAY_NONE;
    INLAY_TRY(find_symbols(sweep->args, diag));
    common->many_sessions = true;
    cli_attach(common);
    make_points(sweep);
    first = sweep->count;
    INLAY_TRY(measure_all(sweep, 0, 0, 0.7, common, diag));
    choose(sweep, false);
    add_between(sweep);
    if (sweep->count > first)
        INLAY_TRY(measure_all(sweep, first, 0.7, 0.9, common, diag));
    choose(sweep, false);
    INLAY_TRY(measure_again(sweep, common, diag));
    sort(sweep);
done:
    cli_progress_clear();
    return status;
}
