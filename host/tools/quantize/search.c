#include "quantize/balance.h"
#include "quantize/search_parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_COMPARED = 16, /* limits for the number of samples that candidates are compared on */
    MOST_COMPARED = 256,
    MOST_FLOAT_SETS = 5, /* sets of float layers that are evaluated on all samples */
    STATIC_OPSET = 13    /* the first opset with per-channel scales */
};
static const double TIME_BUDGET_S = 1, /* to time the best candidate */
    COMPARE_MS = 5000,                 /* time for one comparison of a candidate */
    FASTER = 0.97,                     /* largest time of a candidate, relative to the float model */
    MUCH_LESS = 0.9;                   /* balanced channels are kept if their relative error is below this */

/* Largest time of a candidate relative to the model; unlimited where the caller wants integers in any case. */
static double max_time_ratio(const struct search *search)
{
    return search->args->must ? INFINITY : FASTER;
}

static inlay_status make_base(struct search *search)
{
    inlay_session *session = NULL;
    inlay_status status;

    INLAY_TRY(base_open(search->args, STATIC_OPSET, &session, search->diag));
    INLAY_TRY(scratch_save(search->scratch, "base", session->model, true, search->base, search->diag));
done:
    inlay_session_destroy(session);
    return status;
}

/* Finds the range of each layer's input. */
static bool find_input_ranges(struct search *search, const struct graph *graph, const layer_list *list)
{
    search->input_ranges = arena_array(search->arena, (size_t)list->count + 1, sizeof *search->input_ranges);
    for (uint32_t i = 0; search->input_ranges != NULL && i < list->count; i++) {
        const uint32_t value = list->items[i].multiplies ? list->items[i].node->info.inputs[0] : INLAY_NONE;

        search->input_ranges[i] = INLAY_NONE;
        for (uint32_t k = 0;
             value != INLAY_NONE && k < search->calibration.count && search->input_ranges[i] == INLAY_NONE; k++)
            if (strcmp(search->calibration.ranges[k].name, graph->values[value].info.name.data) == 0)
                search->input_ranges[i] = k;
    }
    return search->input_ranges != NULL;
}

static inlay_status calibrate_base(struct search *search)
{
    const session_source source = { .path = search->base, .fd = -1 };
    inlay_session raw = { .model = NULL };
    struct arena arena = { 0 };
    calibrate_value *values = NULL;
    uint32_t count = 0;
    layer_list list;
    inlay_status status;

    INLAY_TRY(session_load_model(&raw, &source, search->args->options, search->diag));
    INLAY_TRY(layers_find(raw.model, search->args->skip, search->args->skip_count, &arena, &list, search->diag));
    search->layer_count = list.count;
    INLAY_TRY(qdq_values(raw.model->main, &list, &arena, &values, &count, search->diag));
    if (count > 0 && !stats_ranges(search->known, values, count, &search->calibration)) {
        INLAY_TRY(calibrate(search->base, search->plain, search->args->data, values, count,
                            search->args->calls.progress, search->args->calls.progress_user, &search->calibration,
                            search->diag));
        stats_add_ranges(search->known, &search->calibration);
        INLAY_TRY(stats_save(search->known, true, search->diag));
    }
    if (!find_input_ranges(search, raw.model->main, &list))
        status = no_memory(search->diag, "to search");
done:
    graph_model_destroy(raw.model);
    arena_deinit(&arena);
    return status;
}

/* The reason why a candidate that is not fast enough was rejected; NULL: out of memory. */
static const char *describe_time(const struct search *search, const char *what)
{
    return arena_format(
        search->arena,
        "with %s a run takes %.4g ms instead of %.4g ms, and at most %.2f times are wanted; with --mode static "
        "--weights 8 any time is accepted",
        what, search->out->ms_after, search->out->ms_before, FASTER);
}

/* Runs the candidate on all samples: is it faster than floats, and does it agree? */
static inlay_status evaluate_final(struct search *search, const struct candidate *candidate, bool *out_agrees,
                                   bool *out_good)
{
    search_result *result = search->out;
    struct subject after = { 0 };
    inlay_status status;

    result->what = search_describe(search, candidate);
    if (result->what == NULL)
        return no_memory(search->diag, "to search");
    INLAY_TRY(search_build(search, candidate, true, result->path));
    INLAY_TRY(subject_open(result->path, search->plain, &after, search->diag));
    INLAY_TRY(evaluate_agreement(search->args->data, 0, &search->args->demand, search->before, &after,
                                 &result->agreement, search->diag));
    INLAY_TRY(evaluate_time(search->args->data, search->before, &after, TIME_BUDGET_S, &result->ms_before,
                            &result->ms_after, search->diag));
    *out_agrees = search_holds(search, &result->agreement);
    *out_good = *out_agrees && result->ms_after < result->ms_before * max_time_ratio(search);
    if (!*out_agrees)
        result->failed = verdict_describe(&result->agreement, result->what, search->arena);
    else if (!*out_good)
        result->failed = describe_time(search, result->what);
    else
        result->failed = NULL;
    if ((!*out_good && result->failed == NULL) ||
        !search_note_point(search, result->what, &result->agreement, result->ms_after)) {
        status = no_memory(search->diag, "to search");
        goto done;
    }
    if (search->args->calls.note != NULL) {
        const char *line =
            arena_format(search->arena, "on all samples, %s: %.5g (%s), %.4g ms instead of %.4g ms", result->what,
                         result->agreement.score.value, agree_metric_name(result->agreement.metric), result->ms_after,
                         result->ms_before);

        search->args->calls.note(search->args->calls.progress_user, line != NULL ? line : "");
    }
done:
    subject_close(&after);
    return status;
}

/* A placement and its time relative to the model. */
struct timed_placement {
    qdq_placement placement;
    double ratio;
};

static int fastest_first(const void *a, const void *b)
{
    const struct timed_placement *first = a, *second = b;

    return (first->ratio > second->ratio) - (first->ratio < second->ratio);
}

static inlay_status rank_placements(struct search *search, struct timed_placement order[QDQ_PLACEMENTS])
{
    double fastest = INFINITY;
    inlay_status status = INLAY_OK;

    for (uint32_t placement = 0; placement < QDQ_PLACEMENTS; placement++) {
        const struct candidate candidate = { (qdq_placement)placement, NULL, NULL, false };
        double ms[2];

        INLAY_TRY(search_attempt(search, &candidate, 0, NULL, ms));
        order[placement] = (struct timed_placement){ candidate.placement, ms[1] / ms[0] };
        if (order[placement].ratio < fastest) {
            fastest = order[placement].ratio;
            search->out->ms_before = ms[0];
            search->out->ms_after = ms[1];
        }
    }
    qsort(order, QDQ_PLACEMENTS, sizeof *order, fastest_first);
    fastest = COMPARE_MS / (search->out->ms_after > 1e-3 ? search->out->ms_after : 1e-3);
    search->compared = fastest < LEAST_COMPARED  ? LEAST_COMPARED
                       : fastest > MOST_COMPARED ? MOST_COMPARED
                                                 : (uint32_t)fastest;
done:
    return status;
}

/* Keeps some layers in float, more and more until the candidate agrees on all samples. */
static inlay_status evaluate_float_sets(struct search *search, const struct ranking *ranking,
                                        struct candidate *candidate, bool *out_good)
{
    bool agrees = false;
    inlay_status status;

    *out_good = false;
    INLAY_TRY(search_choose_floats(search, ranking, candidate));
    for (int i = 0; i < MOST_FLOAT_SETS && !agrees; i++) {
        INLAY_TRY(evaluate_final(search, candidate, &agrees, out_good));
        if (!agrees && !search_add_floats(search, ranking, candidate))
            break;
    }
done:
    return status;
}

/* Searches a set of float layers for each placement and keeps the fastest result. */
static inlay_status search_sets(struct search *search, const struct timed_placement *order, uint32_t count,
                                struct candidate *candidate, struct ranking *ranking)
{
    struct candidate best = *candidate;
    double least = INFINITY;
    bool good = false, agrees;
    inlay_status status;

    INLAY_TRY(search_select_subset(search, candidate));
    INLAY_TRY(search_rank(search, candidate, ranking));
    INLAY_TRY(search_refine_ranges(search, ranking, candidate));
    for (uint32_t k = 0; k < count && order[k].ratio < least; k++) { /* float layers never make a placement faster */
        struct candidate mixed = { order[k].placement, candidate->method, NULL, candidate->corrects_bias };

        INLAY_TRY(evaluate_float_sets(search, ranking, &mixed, &good));
        if (good && search->out->ms_after / search->out->ms_before < least) {
            least = search->out->ms_after / search->out->ms_before;
            best = mixed;
        }
    }
    if (isfinite(least) && (!good || search->out->ms_after / search->out->ms_before > least))
        INLAY_TRY(evaluate_final(search, &best, &agrees, &good));
done:
    return status;
}

/* Adds points between floats and integers for the report. The result is marked first. */
static inlay_status search_points(struct search *search, struct candidate *candidate, struct ranking *ranking)
{
    const double same = search->out->agreement.metric == AGREE_kl ? 0 : 1;
    const struct verdict as_is = { .metric = search->out->agreement.metric, .score = { same, same, same } };
    inlay_status status = INLAY_OK;

    for (uint32_t i = search->out->point_count; i-- > 0 && search->out->failed == NULL;)
        if (search->out->points[i].what == search->out->what && !search->out->points[i].chosen) {
            search->out->points[i].chosen = true;
            break;
        }
    if (!search_note_point(search, "floats", &as_is, search->out->ms_before))
        return no_memory(search->diag, "to search");
    if (candidate->method == NULL) {
        struct verdict verdict;

        INLAY_TRY(search_ranges(search, candidate, &verdict));
    }
    if (ranking->items == NULL)
        INLAY_TRY(search_rank(search, candidate, ranking));
    status = search_pareto(search, ranking, candidate);
done:
    return status;
}

/* Tries a base model with balanced channels, and keeps it if its best ranges reduce the output error clearly. Stored
 * verdicts belong to the unbalanced base, so nothing is stored from then on. */
static inlay_status try_balanced(struct search *search, struct candidate *candidate, struct verdict *verdict)
{
    const session_source source = { .path = search->base, .fd = -1 };
    inlay_session raw = { .model = NULL };
    struct search other = *search;
    struct candidate balanced = { candidate->placement, NULL, NULL, false };
    struct arena arena = { 0 };
    layer_list list;
    uint32_t count = 0;
    struct verdict balanced_verdict;
    inlay_status status;

    INLAY_TRY(session_load_model(&raw, &source, search->args->options, search->diag));
    INLAY_TRY(layers_find(raw.model, search->args->skip, search->args->skip_count, &arena, &list, search->diag));
    subject_unload(search->before);
    INLAY_TRY(balance_model(raw.model, &list, search->base, search->plain, search->args->data, &count, search->diag));
    if (count == 0)
        goto done;
    INLAY_TRY(scratch_save(search->scratch, "balanced", raw.model, true, other.base, search->diag));
    other.calibration = (struct calibration){ 0 };
    other.known = NULL;
    status = calibrate_base(&other);
    if (status == INLAY_OK)
        status = search_reopen_original(search);
    if (status == INLAY_OK && other.calibration.count == search->calibration.count)
        status = search_ranges(&other, &balanced, &balanced_verdict);
    if (status == INLAY_OK && other.calibration.count == search->calibration.count &&
        balanced_verdict.error < MUCH_LESS * verdict->error) {
        const struct calibration was = search->calibration;

        *verdict = balanced_verdict;
        *candidate = balanced;
        memcpy(search->base, other.base, sizeof search->base);
        search->calibration = other.calibration;
        search->input_ranges = other.input_ranges;
        search->known = NULL;
        other.calibration = was;
        if (search->args->calls.note != NULL)
            search->args->calls.note(search->args->calls.progress_user, "channels are balanced before quantization");
    }
    search->tried = other.tried;
    search->done = other.done;
    calibration_end(&other.calibration);
done:
    if (status == INLAY_OK)
        status = search_reopen_original(search);
    graph_model_destroy(raw.model);
    arena_deinit(&arena);
    return status;
}

static inlay_status run_search(struct search *search)
{
    struct timed_placement order[QDQ_PLACEMENTS];
    struct candidate candidate = { QDQ_INPUTS, NULL, NULL, false };
    uint32_t count = 0;
    bool good = false, agrees;
    struct ranking ranking = { NULL, 0 };
    struct verdict verdict;
    inlay_status status;

    INLAY_TRY(rank_placements(search, order));
    while (count < QDQ_PLACEMENTS && order[count].ratio < max_time_ratio(search))
        count++;
    candidate.placement = order[0].placement;
    if (count > 0) {
        INLAY_TRY(search_ranges(search, &candidate, &verdict));
        if (!search_is_good(search, &verdict))
            INLAY_TRY(try_balanced(search, &candidate, &verdict));
        if (search_is_good(search, &verdict)) /* first all layers with integers ... */
            INLAY_TRY(evaluate_final(search, &candidate, &agrees, &good));
        if (!good) /* ... otherwise as many as the agreement allows */
            INLAY_TRY(search_sets(search, order, count, &candidate, &ranking));
    }
    if (search->out->names == NULL) /* the report needs the names */
        INLAY_TRY(search_build(search, &candidate, true, search->out->path));
    if (search->args->front)
        INLAY_TRY(search_points(search, &candidate, &ranking));
    if (search->out->failed == NULL && count > 0)
        INLAY_TRY(search_tables(search));
    if (count == 0) {
        search->out->failed = describe_time(search, "integers");
        if (search->out->failed == NULL)
            status = no_memory(search->diag, "to search");
    }
done:
    return status;
}

inlay_status search_integers(const quantize_args *args, const struct scratch *scratch, struct subject *before,
                             struct arena *arena, search_result *out, inlay_diag *diag)
{
    struct search search = {
        .args = args, .scratch = scratch, .before = before, .arena = arena, .out = out, .diag = diag, .done = 0.4
    };
    struct stats *known = NULL;
    inlay_status status;

    *out = (search_result){ .what = "integers" };
    INLAY_TRY(evaluate_options_of_both(args->options, &search.plain, diag));
    INLAY_TRY(stats_open(args->stats, args->model, args->data, args->demand.metric, &known, diag));
    search.known = known;
    INLAY_TRY(make_base(&search));
    INLAY_TRY(calibrate_base(&search));
    INLAY_TRY(search_reopen_original(&search));
    if (search.calibration.count == 0)
        out->failed = "the model has no layer that can compute with integers";
    else
        INLAY_TRY(run_search(&search));
    status = stats_save(known, true, diag);
done:
    if (status == INLAY_CANCELLED && stats_save(known, true, NULL) != INLAY_OK)
        status = INLAY_CANCELLED; /* the results could not be stored: the next search starts from the beginning */
    stats_close(known);
    calibration_end(&search.calibration);
    inlay_options_destroy(search.plain);
    return status;
}
