#include "quantize/balance.h"
#include "quantize/search_parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_COMPARED = 16, MOST_COMPARED = 256, MOST_SETTLED = 5, STATIC_OPSET = 13 };
static const double TIME_BUDGET_S = 1, COMPARE_MS = 5000, FASTER = 0.97, MUCH_LESS = 0.9;

/* The share of the model's time that a candidate may take: any, where the caller wants integers whatever comes of it.
 */
static double most_time(const struct search *x)
{
    return x->args->must ? INFINITY : FASTER;
}

/* ------------------------------------------------------------------ the base */

static inlay_status make_base(struct search *x)
{
    inlay_session *s = NULL;
    inlay_status status;

    INLAY_TRY(base_open(x->args, STATIC_OPSET, &s, x->diag));
    INLAY_TRY(scratch_save(x->scratch, "base", s->model, true, x->base, x->diag));
done:
    inlay_session_destroy(s);
    return status;
}

/* Which range each layer's input has. */
static bool find_reads(struct search *x, const struct graph *g, const layer_list *list)
{
    x->reads = arena_array(x->a, (size_t)list->count + 1, sizeof *x->reads);
    for (uint32_t i = 0; x->reads != NULL && i < list->count; i++) {
        const uint32_t v = list->items[i].multiplies ? list->items[i].node->info.inputs[0] : INLAY_NONE;

        x->reads[i] = INLAY_NONE;
        for (uint32_t k = 0; v != INLAY_NONE && k < x->c.count && x->reads[i] == INLAY_NONE; k++)
            if (strcmp(x->c.ranges[k].name, g->values[v].info.name.data) == 0)
                x->reads[i] = k;
    }
    return x->reads != NULL;
}

static inlay_status calibrate_base(struct search *x)
{
    const session_source source = { .path = x->base, .fd = -1 };
    inlay_session raw = { .model = NULL };
    struct arena a = { 0 };
    calibrate_value *values = NULL;
    uint32_t count = 0;
    layer_list list;
    inlay_status status;

    INLAY_TRY(session_load_model(&raw, &source, x->args->options, x->diag));
    INLAY_TRY(layers_find(raw.model, x->args->skip, x->args->skip_count, &a, &list, x->diag));
    x->layer_count = list.count;
    INLAY_TRY(qdq_values(raw.model->main, &list, &a, &values, &count, x->diag));
    if (count > 0 && !stats_ranges(x->known, values, count, &x->c)) {
        INLAY_TRY(calibrate(x->base, x->plain, x->args->data, values, count, x->args->progress, x->args->progress_user,
                            &x->c, x->diag));
        stats_add_ranges(x->known, &x->c);
        INLAY_TRY(stats_save(x->known, true, x->diag));
    }
    if (!find_reads(x, raw.model->main, &list))
        status = no_memory(x->diag, "to search");
done:
    graph_model_destroy(raw.model);
    arena_deinit(&a);
    return status;
}

/* ------------------------------------------------------------------ the search */

/* Runs the candidate on all samples: is it faster than floats, and does it agree? */
static inlay_status settle(struct search *x, const struct candidate *c, bool *out_agrees, bool *out_good)
{
    search_result *r = x->out;
    struct subject after = { 0 };
    inlay_status status;

    r->what = search_describe(x, c);
    INLAY_TRY(search_build(x, c, true, r->path));
    INLAY_TRY(subject_open(r->path, x->plain, &after, x->diag));
    INLAY_TRY(judge_agreement(x->args->data, 0, x->args->metric, x->before, &after, &r->agreement, x->diag));
    INLAY_TRY(judge_time(x->args->data, x->before, &after, TIME_BUDGET_S, &r->ms_before, &r->ms_after, x->diag));
    *out_agrees = search_holds(x, &r->agreement);
    *out_good = *out_agrees && r->ms_after < r->ms_before * most_time(x);
    if (!*out_agrees)
        r->failed = verdict_only(&r->agreement, r->what, x->a);
    else if (!*out_good)
        r->failed =
            arena_format(x->a, "with %s a run takes %.3g ms instead of %.3g ms", r->what, r->ms_after, r->ms_before);
    else
        r->failed = NULL;
    if (!search_note_point(x, r->what, &r->agreement, r->ms_after)) {
        status = no_memory(x->diag, "to search");
        goto done;
    }
    if (x->args->note != NULL && r->what != NULL) {
        const char *line =
            arena_format(x->a, "on all samples, %s: %.5g (%s), %.4g ms instead of %.4g ms", r->what,
                         r->agreement.score.value, agree_metric_name(r->agreement.metric), r->ms_after, r->ms_before);

        x->args->note(x->args->progress_user, line != NULL ? line : "");
    }
done:
    subject_close(&after);
    return status;
}

/* A placement and the time that it takes in units of the model's own. */
struct placed {
    qdq_placement placement;
    double ratio;
};

static int fastest_first(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;

    return (x->ratio > y->ratio) - (x->ratio < y->ratio);
}

static inlay_status rank_placements(struct search *x, struct placed order[QDQ_PLACEMENTS])
{
    double fastest = INFINITY;
    inlay_status status = INLAY_OK;

    for (uint32_t p = 0; p < QDQ_PLACEMENTS; p++) {
        const struct candidate c = { (qdq_placement)p, NULL, NULL, false };
        double ms[2];

        INLAY_TRY(search_attempt(x, &c, 0, NULL, ms));
        order[p] = (struct placed){ c.placement, ms[1] / ms[0] };
        if (order[p].ratio < fastest) {
            fastest = order[p].ratio;
            x->out->ms_before = ms[0];
            x->out->ms_after = ms[1];
        }
    }
    qsort(order, QDQ_PLACEMENTS, sizeof *order, fastest_first);
    fastest = COMPARE_MS / (x->out->ms_after > 1e-3 ? x->out->ms_after : 1e-3);
    x->compared = fastest < LEAST_COMPARED  ? LEAST_COMPARED
                  : fastest > MOST_COMPARED ? MOST_COMPARED
                                            : (uint32_t)fastest;
done:
    return status;
}

/* Floats for some layers, in the placement of the candidate: more of them until all samples agree. */
static inlay_status settle_mix(struct search *x, const struct ranking *r, struct candidate *c, bool *out_good)
{
    bool agrees = false;
    inlay_status status;

    *out_good = false;
    INLAY_TRY(search_mix(x, r, c));
    for (int i = 0; i < MOST_SETTLED && !agrees; i++) {
        INLAY_TRY(settle(x, c, &agrees, out_good));
        if (!agrees && !search_mix_more(x, r, c))
            break;
    }
done:
    return status;
}

/* Each placement has its own set of layers, and the fastest of the results is the one. */
static inlay_status search_sets(struct search *x, const struct placed *order, uint32_t count, struct candidate *c,
                                struct ranking *r)
{
    struct candidate best = *c;
    double least = INFINITY;
    bool good = false, agrees;
    inlay_status status;

    INLAY_TRY(search_find_telling(x, c));
    INLAY_TRY(search_rank(x, c, r));
    INLAY_TRY(search_refine(x, r, c));
    for (uint32_t k = 0; k < count && order[k].ratio < least; k++) { /* floats make none faster */
        struct candidate mixed = { order[k].placement, c->method, NULL, c->corrects };

        INLAY_TRY(settle_mix(x, r, &mixed, &good));
        if (good && x->out->ms_after / x->out->ms_before < least) {
            least = x->out->ms_after / x->out->ms_before;
            best = mixed;
        }
    }
    if (isfinite(least) && (!good || x->out->ms_after / x->out->ms_before > least))
        INLAY_TRY(settle(x, &best, &agrees, &good));
done:
    return status;
}

/* What else there is between floats and integers, for whoever wants to see it. The result is marked first. */
static inlay_status search_points(struct search *x, struct candidate *c, struct ranking *r)
{
    const double same = x->out->agreement.metric == AGREE_kl ? 0 : 1;
    const struct verdict as_is = { .metric = x->out->agreement.metric, .score = { same, same, same } };
    inlay_status status = INLAY_OK;

    for (uint32_t i = x->out->point_count; i-- > 0 && x->out->failed == NULL;)
        if (x->out->points[i].what == x->out->what && !x->out->points[i].chosen) {
            x->out->points[i].chosen = true;
            break;
        }
    if (!search_note_point(x, "floats", &as_is, x->out->ms_before))
        return no_memory(x->diag, "to search");
    if (c->method == NULL) {
        struct verdict v;

        INLAY_TRY(search_ranges(x, c, &v));
    }
    if (r->items == NULL)
        INLAY_TRY(search_rank(x, c, r));
    status = search_front(x, r, c);
done:
    return status;
}

/* A base whose channels are balanced, where that makes the outputs less wrong with the ranges that suit it. Verdicts
 * that are kept are of the base as it was: what follows is not kept. */
static inlay_status try_balanced(struct search *x, struct candidate *c, struct verdict *v)
{
    const session_source source = { .path = x->base, .fd = -1 };
    inlay_session raw = { .model = NULL };
    struct search other = *x;
    struct candidate balanced = { c->placement, NULL, NULL, false };
    struct arena a = { 0 };
    layer_list list;
    uint32_t count = 0;
    struct verdict w;
    inlay_status status;

    INLAY_TRY(session_load_model(&raw, &source, x->args->options, x->diag));
    INLAY_TRY(layers_find(raw.model, x->args->skip, x->args->skip_count, &a, &list, x->diag));
    subject_rest(x->before);
    INLAY_TRY(balance_model(raw.model, &list, x->base, x->plain, x->args->data, &count, x->diag));
    if (count == 0)
        goto done;
    INLAY_TRY(scratch_save(x->scratch, "balanced", raw.model, true, other.base, x->diag));
    other.c = (struct calibration){ 0 };
    other.known = NULL;
    status = calibrate_base(&other);
    if (status == INLAY_OK)
        status = search_wake(x);
    if (status == INLAY_OK && other.c.count == x->c.count)
        status = search_ranges(&other, &balanced, &w);
    if (status == INLAY_OK && other.c.count == x->c.count && w.error < MUCH_LESS * v->error) {
        const struct calibration was = x->c;

        *v = w;
        *c = balanced;
        memcpy(x->base, other.base, sizeof x->base);
        x->c = other.c;
        x->reads = other.reads;
        x->known = NULL;
        other.c = was;
        if (x->args->note != NULL)
            x->args->note(x->args->progress_user, "channels are balanced before they are rounded");
    }
    x->tried = other.tried;
    x->done = other.done;
    calibration_end(&other.c);
done:
    if (status == INLAY_OK)
        status = search_wake(x);
    graph_model_destroy(raw.model);
    arena_deinit(&a);
    return status;
}

static inlay_status run_search(struct search *x)
{
    struct placed order[QDQ_PLACEMENTS];
    struct candidate c = { QDQ_INPUTS, NULL, NULL, false };
    uint32_t count = 0;
    bool good = false, agrees;
    struct ranking r = { NULL, 0 };
    struct verdict v;
    inlay_status status;

    INLAY_TRY(rank_placements(x, order));
    while (count < QDQ_PLACEMENTS && order[count].ratio < most_time(x))
        count++;
    c.placement = order[0].placement;
    if (count > 0) {
        INLAY_TRY(search_ranges(x, &c, &v));
        if (!search_is_good(x, &v))
            INLAY_TRY(try_balanced(x, &c, &v));
        if (search_is_good(x, &v)) /* all layers with integers ... */
            INLAY_TRY(settle(x, &c, &agrees, &good));
        if (!good) /* ... or else as many as may have them */
            INLAY_TRY(search_sets(x, order, count, &c, &r));
    }
    if (x->out->names == NULL) /* for the table */
        INLAY_TRY(search_build(x, &c, true, x->out->path));
    if (x->args->front)
        INLAY_TRY(search_points(x, &c, &r));
    if (x->out->failed == NULL && count > 0)
        INLAY_TRY(search_tables(x));
    if (count == 0)
        x->out->failed = arena_format(x->a, "with integers a run takes %.3g ms instead of %.3g ms", x->out->ms_after,
                                      x->out->ms_before);
done:
    return status;
}

inlay_status search_integers(const quantize_args *args, const struct scratch *s, struct subject *before,
                             struct arena *a, search_result *out, inlay_diag *diag)
{
    struct search x = { .args = args, .scratch = s, .before = before, .a = a, .out = out, .diag = diag, .done = 0.4 };
    struct stats *known = NULL;
    inlay_status status;

    *out = (search_result){ .what = "integers" };
    INLAY_TRY(judge_options(args->options, NULL, NULL, &x.plain, diag));
    INLAY_TRY(stats_open(args->stats, args->model, args->data, args->metric, &known, diag));
    x.known = known;
    INLAY_TRY(make_base(&x));
    INLAY_TRY(calibrate_base(&x));
    INLAY_TRY(search_wake(&x));
    if (x.c.count == 0)
        out->failed = "it has no layer that could compute with integers";
    else
        INLAY_TRY(run_search(&x));
    status = stats_save(known, true, diag);
done:
    if (status == INLAY_CANCELLED && stats_save(known, true, NULL) != INLAY_OK)
        status = INLAY_CANCELLED; /* what was found is lost: the search begins anew */
    stats_close(known);
    calibration_end(&x.c);
    inlay_options_destroy(x.plain);
    return status;
}
