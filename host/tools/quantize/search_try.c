/* Candidates: descriptions, construction and evaluation. */
#include "base/hash.h"
#include "inlay/check.h"
#include "quantize/qoperator.h"
#include "quantize/search_parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_FEW = 4,      /* samples for SEARCH_SUBSET before the subset is selected; also the minimum of the subset */
    MOST_IN_SUBSET = 64 /* maximum number of samples in the subset */
};
static const double TIME_BUDGET_S = 0.5, /* to time a candidate */
    MARGIN = 0.25,                       /* margin of search_is_good(), as a share of the allowed disagreement */
    TEXT_MARGIN = 0.5,                   /* share of the allowed distance of texts that may be used */
    SUBSET_MS = 100000;                  /* time to evaluate all layers with all methods on the subset */

const search_method search_methods[SEARCH_METHODS] = {
    { "minmax", QUANTIZE_MINMAX, 0 },
    { "percentile 99.999", QUANTIZE_PERCENTILE, 0.99999 },
    { "percentile 99.99", QUANTIZE_PERCENTILE, 0.9999 },
    { "percentile 99.9", QUANTIZE_PERCENTILE, 0.999 },
    { "mse", QUANTIZE_MSE, 0 },
    { "entropy", QUANTIZE_ENTROPY, 0 },
};

static const char *const placement_names[QDQ_PLACEMENTS] = {
    [QDQ_INPUTS] = "the inputs of layers",
    [QDQ_LAYERS] = "the inputs and outputs of layers",
    [QDQ_ALL] = "layers and all operators between them",
};

inlay_status search_reopen_original(struct search *search)
{
    inlay_status status = subject_reopen(search->before, search->args->model, search->plain, search->diag);

    return status == INLAY_OK
               ? subject_cache_outputs(search->before, search->args->data, search->scratch->dir, search->diag)
               : status;
}

static inlay_status report_progress(struct search *search, const char *what)
{
    search->done += (1 - search->done) * 0.01;
    if (search->args->calls.progress != NULL &&
        search->args->calls.progress(search->args->calls.progress_user, search->done, what) != 0)
        return inlay_fail(search->diag, INLAY_CANCELLED, "stopped; nothing was written");
    return INLAY_OK;
}

uint32_t search_count_floats(const struct search *search, const struct candidate *candidate)
{
    uint32_t count = 0;

    for (uint32_t i = 0; candidate->stays_float != NULL && i < search->layer_count; i++)
        count += candidate->stays_float[i];
    return count;
}

static const char *methods_of(const struct search *search, const struct candidate *candidate)
{
    for (uint32_t i = 1; candidate->method != NULL && i < search->calibration.count; i++)
        if (candidate->method[i] != candidate->method[0])
            return "the best method for each value";
    return search_methods[candidate->method != NULL && search->calibration.count > 0 ? candidate->method[0] : 0].name;
}

const char *search_describe(const struct search *search, const struct candidate *candidate)
{
    const uint32_t floats = search_count_floats(search, candidate);
    const char *what =
        arena_format(search->arena, "integers in %s, ranges by %s%s", placement_names[candidate->placement],
                     methods_of(search, candidate), candidate->corrects_bias ? ", corrected biases" : "");

    return floats == 0 || what == NULL ? what
                                       : arena_format(search->arena, "%s, %u layer%s in floats to keep the agreement",
                                                      what, floats, floats == 1 ? "" : "s");
}

static void note(const struct search *search, const struct candidate *candidate, const struct verdict *verdict,
                 const double ms[2])
{
    char line[320];

    if (search->args->calls.note == NULL)
        return;
    if (verdict != NULL)
        (void)snprintf(line, sizeof line, "%s, ranges by %s%s, %u layers in floats: %.5g (%s), error %.3g",
                       placement_names[candidate->placement], methods_of(search, candidate),
                       candidate->corrects_bias ? ", corrected biases" : "", search_count_floats(search, candidate),
                       verdict->score.value, agree_metric_name(verdict->metric), verdict->error);
    else
        (void)snprintf(line, sizeof line, "%s: %.4g ms instead of %.4g ms", placement_names[candidate->placement],
                       ms[1], ms[0]);
    search->args->calls.note(search->args->calls.progress_user, line);
}

bool search_note_point(struct search *search, const char *what, const struct verdict *verdict, double ms)
{
    search_result *result = search->out;

    if (result->points == NULL)
        result->points = arena_array(search->arena, SEARCH_MOST_POINTS, sizeof *result->points);
    if (result->points == NULL || what == NULL)
        return false;
    if (result->point_count < SEARCH_MOST_POINTS)
        result->points[result->point_count++] = (search_point){ what, ms, *verdict, false };
    return true;
}

bool search_holds(const struct search *search, const struct verdict *verdict)
{
    return verdict_holds(verdict, search->args->demand.goal, search->args->demand.sure);
}

bool search_is_good(const struct search *search, const struct verdict *verdict)
{
    const agree_demand *demand = &search->args->demand;
    double least = demand->sure ? verdict_default_goal(verdict->metric) : demand->goal;

    if (search->args->demand.sure &&
        verdict->metric == AGREE_text) /* the confidence bound is margin enough for the number of texts */
        return search_holds(search, verdict) &&
               verdict->error * verdict->error <= AGREE_TEXT_DIFFERS * (1 - least) * TEXT_MARGIN;
    if (verdict->metric == AGREE_kl)
        least *= 1 - MARGIN;
    else if (verdict->metric != AGREE_psnr && least < 1)
        least += (1 - least) * MARGIN;
    return agree_holds(verdict->metric, verdict->score.value, least);
}

qdq_range search_range(const struct search *search, uint32_t i, uint32_t method)
{
    const search_method *how = &search_methods[method];
    const tensor_range *range = &search->calibration.ranges[i];
    qdq_range out = { .name = range->name };

    INLAY_CHECK(i < search->calibration.count && method < SEARCH_METHODS);
    switch (how->kind) {
    case QUANTIZE_PERCENTILE:
        calibrate_percentile(range, how->percentile, &out.low, &out.high);
        break;
    case QUANTIZE_MSE:
        calibrate_mse(range, &out.low, &out.high);
        break;
    case QUANTIZE_ENTROPY:
        calibrate_entropy(range, &out.low, &out.high);
        break;
    default:
        calibrate_minmax(range, &out.low, &out.high);
        break;
    }
    if (range->broken > 0)
        out.reason = "its input contained NaN or infinity";
    else if (!isfinite(out.high - out.low))
        out.reason = "the range of its input is too large";
    out.means = range->means;
    out.channels = range->channels;
    return out;
}

/* Copies names and forms of the layers before their model is freed. */
static bool copy_layers(struct search *search, const layer_list *list, const layer_form *forms)
{
    search_result *result = search->out;

    result->list =
        (layer_list){ arena_array(search->arena, (size_t)list->count + 1, sizeof *list->items), list->count };
    result->forms = arena_array(search->arena, (size_t)list->count + 1, sizeof *forms);
    result->names = arena_array(search->arena, (size_t)list->count + 1, sizeof *result->names);
    result->ops = arena_array(search->arena, (size_t)list->count + 1, sizeof *result->ops);
    if (result->list.items == NULL || result->forms == NULL || result->names == NULL || result->ops == NULL)
        return false;
    if (list->count > 0) { /* with no layers, items may be NULL */
        memcpy(result->list.items, list->items, list->count * sizeof *list->items);
        memcpy(result->forms, forms, list->count * sizeof *forms);
    }
    for (uint32_t i = 0; i < list->count; i++) {
        result->names[i] =
            arena_format(search->arena, "%s%s", list->items[i].path, list->items[i].node->info.name.data);
        result->ops[i] = arena_string(search->arena, list->items[i].node->info.op_type.data);
        if (result->names[i] == NULL || result->ops[i] == NULL)
            return false;
    }
    return true;
}

inlay_status search_build(struct search *search, const struct candidate *candidate, bool keep, char *path)
{
    const session_source source = { .path = search->base, .fd = -1 };
    inlay_session raw = { .model = NULL };
    struct arena arena = { 0 };
    qdq_range *ranges = arena_array(&arena, (size_t)search->calibration.count + 1, sizeof *ranges);
    const qdq_options how = { candidate->placement, ranges, search->calibration.count, candidate->corrects_bias,
                              candidate->stays_float };
    layer_form *forms = NULL;
    uint32_t rewritten;
    layer_list list;
    char name[24];
    inlay_status status;

    INLAY_TRY(session_load_model(&raw, &source, search->args->options, search->diag));
    INLAY_TRY(layers_find(raw.model, search->args->skip, search->args->skip_count, &arena, &list, search->diag));
    forms = arena_array(&arena, (size_t)list.count + 1, sizeof *forms);
    if (ranges == NULL || forms == NULL) {
        status = no_memory(search->diag, "to search");
        goto done;
    }
    for (uint32_t i = 0; i < search->calibration.count; i++)
        ranges[i] = search_range(search, i, candidate->method != NULL ? candidate->method[i] : 0);
    INLAY_TRY(qdq_model(raw.model, &list, &how, forms, search->diag));
    if (search->args->qoperator)
        INLAY_TRY(qoperator_model(raw.model, &rewritten, search->diag));
    (void)snprintf(name, sizeof name, "%u", keep ? 0 : 1 + search->tried++ % 2); /* overwrites an older candidate */
    /* Candidates store their tensors at page boundaries: tables at unaligned addresses would be copied. */
    INLAY_TRY(scratch_save(search->scratch, name, raw.model, !keep, path, search->diag));
    if (keep && !copy_layers(search, &list, forms))
        status = no_memory(search->diag, "to search");
done:
    graph_model_destroy(raw.model);
    arena_deinit(&arena);
    return status;
}

/* Digest of everything that distinguishes candidates. */
static uint64_t digest_of(const struct search *search, const struct candidate *candidate, uint32_t most)
{
    uint64_t hash = hash_u64(
        hash_u64((uint64_t)candidate->placement * 2 + search->args->qoperator, candidate->corrects_bias), most);

    for (uint32_t i = 0; most == SEARCH_SUBSET && search->subset != NULL && i < search->subset_count; i++)
        hash = hash_u64(hash, search->subset[i]);
    for (uint32_t i = 0; i < search->args->skip_count; i++)
        hash = hash_bytes(search->args->skip[i], strlen(search->args->skip[i]), hash);
    for (uint32_t i = 0; i < search->calibration.count; i++)
        hash = hash_u64(hash, candidate->method != NULL ? candidate->method[i] : 0);
    for (uint32_t i = 0; i < search->layer_count; i++)
        hash = hash_u64(hash, candidate->stays_float != NULL && candidate->stays_float[i]);
    return hash;
}

static inlay_status evaluate_candidate(struct search *search, const struct subject *after, uint32_t most,
                                       struct verdict *out)
{
    if (most == SEARCH_SUBSET && search->subset != NULL)
        return evaluate_subset(search->args->data, search->subset, search->subset_count, &search->args->demand,
                               search->before, after, out, NULL, search->diag);
    return evaluate_agreement(search->args->data, most == SEARCH_SUBSET ? FIRST_FEW : most, &search->args->demand,
                              search->before, after, out, search->diag);
}

/* Evaluates and times the candidate against the model. */
static inlay_status run_candidate(struct search *search, const struct candidate *candidate, uint32_t most_samples,
                                  struct verdict *out, double ms[2])
{
    struct subject after = { 0 };
    char path[PATH_MAX];
    inlay_status status;

    INLAY_TRY(search_build(search, candidate, false, path));
    INLAY_TRY(subject_open(path, search->plain, &after, search->diag));
    if (out != NULL)
        INLAY_TRY(evaluate_candidate(search, &after, most_samples, out));
    if (ms != NULL)
        INLAY_TRY(
            evaluate_time(search->args->data, search->before, &after, TIME_BUDGET_S, &ms[0], &ms[1], search->diag));
done:
    subject_close(&after);
    return status;
}

inlay_status search_attempt(struct search *search, const struct candidate *candidate, uint32_t most_samples,
                            struct verdict *out, double ms[2])
{
    const uint64_t digest = digest_of(search, candidate, most_samples);
    inlay_status status;

    INLAY_CHECK(out != NULL || ms != NULL);
    INLAY_TRY(report_progress(search, "trying"));
    if (ms == NULL && stats_verdict(search->known, digest, out)) {
        note(search, candidate, out, ms);
        return INLAY_OK;
    }
    INLAY_TRY(run_candidate(search, candidate, most_samples, out, ms));
    if (ms == NULL) {
        stats_add_verdict(search->known, digest, out);
        INLAY_TRY(stats_save(search->known, false, search->diag));
    }
    note(search, candidate, out, ms);
done:
    return status;
}

typedef struct sample_error {
    uint32_t sample;
    double error;
} sample_error;

static int by_error(const void *a, const void *b)
{
    const sample_error *left = a, *right = b;

    if (left->error != right->error)
        return !(left->error > right->error) ? 1 : -1;
    return (left->sample > right->sample) - (left->sample < right->sample);
}

inlay_status search_select_subset(struct search *search, const struct candidate *candidate)
{
    const uint32_t all = search->compared < search->args->data->count ? search->compared : search->args->data->count;
    const double affordable = SUBSET_MS / ((search->out->ms_after + 1e-3) * (search->layer_count + 1) * SEARCH_METHODS);
    const uint32_t most = affordable > MOST_IN_SUBSET ? MOST_IN_SUBSET
                          : affordable < FIRST_FEW    ? FIRST_FEW
                                                      : (uint32_t)affordable;
    const uint32_t count = most < all ? most : all, worst = (count + 1) / 2;
    sample_error *items = arena_array(search->arena, (size_t)all + 1, sizeof *items);
    double *errors = arena_array(search->arena, (size_t)all + 1, sizeof *errors);
    uint32_t *subset = arena_array(search->arena, (size_t)count + 1, sizeof *subset);
    struct subject after = { 0 };
    char path[PATH_MAX];
    struct verdict verdict;
    inlay_status status;

    if (items == NULL || errors == NULL || subset == NULL)
        return no_memory(search->diag, "to search");
    INLAY_TRY(report_progress(search, "trying"));
    INLAY_TRY(search_build(search, candidate, false, path));
    INLAY_TRY(subject_open(path, search->plain, &after, search->diag));
    INLAY_TRY(evaluate_subset(search->args->data, NULL, all, &search->args->demand, search->before, &after, &verdict,
                              errors, search->diag));
    for (uint32_t i = 0; i < all; i++)
        items[i] = (sample_error){ i, isnan(errors[i]) ? INFINITY : errors[i] };
    qsort(items, all, sizeof *items, by_error);
    for (uint32_t i = 0; i < count; i++) /* after the worst samples, samples that are evenly spread over the others */
        subset[i] = items[i < worst ? i : worst + (i - worst) * (all - worst) / (count - worst)].sample;
    search->subset = subset;
    search->subset_count = count;
done:
    subject_close(&after);
    return status;
}
