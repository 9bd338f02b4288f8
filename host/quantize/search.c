#include "quantize/search.h"
#include "quantize/calibrate.h"
#include "quantize/qdq.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEARCHED = 64, RANKED = 4, MOST_RETRIED = 8, STATIC_OPSET = 13 };
static const double TIME_BUDGET_S = 0.5, FASTER = 0.97;

/* How ranges come from histograms. */
typedef struct method {
    const char *name;
    quantize_method kind;
    double percentile;
} method;

static const method methods[] = {
    { "minmax", QUANTIZE_MINMAX, 0 },
    { "percentile 99.999", QUANTIZE_PERCENTILE, 0.99999 },
    { "percentile 99.99", QUANTIZE_PERCENTILE, 0.9999 },
    { "mse", QUANTIZE_MSE, 0 },
    { "entropy", QUANTIZE_ENTROPY, 0 },
};
enum { METHODS = sizeof methods / sizeof methods[0] };

static const char *const places[QDQ_PLACEMENTS] = {
    [QDQ_INPUTS] = "the inputs of layers",
    [QDQ_LAYERS] = "the inputs and outputs of layers",
    [QDQ_ALL] = "layers and all between them",
};

/* One model to try. */
typedef struct candidate {
    qdq_placement placement;
    uint32_t method;
    bool *stays; /* [layers] or NULL */
} candidate;

typedef struct search {
    const quantize_args *args;
    const scratch *scratch;
    const subject *before;
    inlay_options *plain;
    char base[PATH_MAX];
    calibration c;
    uint32_t layer_count;
    arena *a;
    search_result *out;
    uint32_t tried;
    double done; /* for the progress */
    inlay_diag *diag;
} search;

static inlay_status tell(search *x, const char *what)
{
    x->done += (1 - x->done) * 0.03;
    if (x->args->progress != NULL && x->args->progress(x->args->progress_user, x->done, what) != 0)
        return inlay_fail(x->diag, INLAY_CANCELLED, "stopped; nothing was written");
    return INLAY_OK;
}

static inlay_status no_memory(const search *x)
{
    return inlay_fail(x->diag, INLAY_OUT_OF_MEMORY, "no memory to search");
}

/* ------------------------------------------------------------------ candidates */

static qdq_range range_by(const tensor_range *r, const method *m)
{
    qdq_range out = { .name = r->name };

    switch (m->kind) {
    case QUANTIZE_PERCENTILE:
        calibrate_percentile(r, m->percentile, &out.low, &out.high);
        break;
    case QUANTIZE_MSE:
        calibrate_mse(r, &out.low, &out.high);
        break;
    case QUANTIZE_ENTROPY:
        calibrate_entropy(r, &out.low, &out.high);
        break;
    default:
        calibrate_minmax(r, &out.low, &out.high);
        break;
    }
    if (r->broken > 0)
        out.kept = "its input was NaN or infinite";
    else if (!isfinite(out.high - out.low))
        out.kept = "the range of its input is too large";
    return out;
}

/* Names and forms of the layers, once the model that they are of goes. */
static bool keep_layers(search *x, const layer_list *list, const layer_form *forms)
{
    search_result *r = x->out;

    r->list = (layer_list){ arena_copy(x->a, list->items, ((size_t)list->count + 1) * sizeof *list->items),
                            list->count };
    r->forms = arena_copy(x->a, forms, ((size_t)list->count + 1) * sizeof *forms);
    r->names = arena_array(x->a, (size_t)list->count + 1, sizeof *r->names);
    r->ops = arena_array(x->a, (size_t)list->count + 1, sizeof *r->ops);
    if (r->list.items == NULL || r->forms == NULL || r->names == NULL || r->ops == NULL)
        return false;
    for (uint32_t i = 0; i < list->count; i++) {
        r->names[i] = arena_format(x->a, "%s%s", list->items[i].path, list->items[i].node->info.name.data);
        r->ops[i] = arena_string(x->a, list->items[i].node->info.op_type.data);
        if (r->names[i] == NULL || r->ops[i] == NULL)
            return false;
    }
    return true;
}

/* Writes the candidate; keep: it is the one that the result is about. */
static inlay_status build(search *x, const candidate *c, bool keep, char *path)
{
    const session_source source = { .path = x->base, .fd = -1 };
    inlay_session raw = { .model = NULL };
    arena a = { 0 };
    qdq_range *ranges = arena_array(&a, (size_t)x->c.count + 1, sizeof *ranges);
    const qdq_how how = { c->placement, ranges, x->c.count, c->stays };
    layer_form *forms = NULL;
    layer_list list;
    char name[24];
    inlay_status status;

    INLAY_TRY(session_load_model(&raw, &source, x->args->options, x->diag));
    INLAY_TRY(layers_find(raw.model, x->args->skip, x->args->skip_count, &a, &list, x->diag));
    forms = arena_array(&a, (size_t)list.count + 1, sizeof *forms);
    if (ranges == NULL || forms == NULL) {
        status = no_memory(x);
        goto done;
    }
    for (uint32_t i = 0; i < x->c.count; i++)
        ranges[i] = range_by(&x->c.ranges[i], &methods[c->method]);
    INLAY_TRY(qdq_model(raw.model, &list, &how, forms, x->diag));
    (void)snprintf(name, sizeof name, "%u", keep ? 0 : 1 + x->tried++ % 2); /* old ones make room */
    INLAY_TRY(scratch_save(x->scratch, name, raw.model, false, path, x->diag));
    if (keep && !keep_layers(x, &list, forms))
        status = no_memory(x);
done:
    graph_model_destroy(raw.model);
    arena_deinit(&a);
    return status;
}

static void note(const search *x, const candidate *c, const verdict *v, const double ms[2])
{
    uint32_t back = 0;
    char line[256];

    if (x->args->note == NULL)
        return;
    for (uint32_t i = 0; c->stays != NULL && i < x->layer_count; i++)
        back += c->stays[i];
    if (v != NULL)
        (void)snprintf(line, sizeof line, "%s, ranges by %s, %u layers in floats: %.5g (%s), error %.3g",
                       places[c->placement], methods[c->method].name, back,
                       v->score.value, agree_metric_name(v->metric), v->error);
    else
        (void)snprintf(line, sizeof line, "%s: %.4g ms instead of %.4g ms",
                       places[c->placement], ms[1], ms[0]);
    x->args->note(x->args->progress_user, line);
}

/* How well a candidate agrees; ms may be NULL. */
static inlay_status attempt(search *x, const candidate *c, uint32_t samples_most, verdict *out, double ms[2])
{
    subject after = { 0 };
    char path[PATH_MAX];
    inlay_status status;

    INLAY_TRY(tell(x, "trying"));
    INLAY_TRY(build(x, c, false, path));
    INLAY_TRY(subject_open(path, x->plain, &after, x->diag));
    if (out != NULL)
        INLAY_TRY(judge_agreement(x->args->data, samples_most, x->args->metric, x->before, &after, out, x->diag));
    if (ms != NULL)
        INLAY_TRY(judge_time(x->args->data, x->before, &after, TIME_BUDGET_S, &ms[0], &ms[1], x->diag));
    note(x, c, out, ms);
done:
    subject_close(&after);
    return status;
}

/* The share of the model's time that a candidate may take: any, where the caller wants integers whatever comes of it. */
static double most_time(const search *x)
{
    return x->args->must ? INFINITY : FASTER;
}

static bool is_good(const search *x, const verdict *v)
{
    return agree_holds(v->metric, v->score.value, x->args->goal);
}

static bool is_better(const verdict *a, const verdict *b)
{
    if (a->score.value == b->score.value)
        return a->error < b->error;
    return agree_holds(a->metric, a->score.value, b->score.value);
}

/* ------------------------------------------------------------------ the base */

static inlay_status make_base(search *x)
{
    inlay_session *s = NULL;
    inlay_status status;

    INLAY_TRY(base_open(x->args, STATIC_OPSET, &s, x->diag));
    INLAY_TRY(scratch_save(x->scratch, "base", s->model, true, x->base, x->diag));
done:
    inlay_session_destroy(s);
    return status;
}

static inlay_status calibrate_base(search *x)
{
    const session_source source = { .path = x->base, .fd = -1 };
    inlay_session raw = { .model = NULL };
    arena a = { 0 };
    const char **names = NULL;
    uint32_t count = 0;
    layer_list list;
    inlay_status status;

    INLAY_TRY(session_load_model(&raw, &source, x->args->options, x->diag));
    INLAY_TRY(layers_find(raw.model, x->args->skip, x->args->skip_count, &a, &list, x->diag));
    x->layer_count = list.count;
    INLAY_TRY(qdq_values(raw.model->main, &list, &a, &names, &count, x->diag));
    if (count > 0)
        INLAY_TRY(calibrate(x->base, x->plain, x->args->data, names, count, x->args->progress, x->args->progress_user,
                            &x->c, x->diag));
done:
    graph_model_destroy(raw.model);
    arena_deinit(&a);
    return status;
}

/* ------------------------------------------------------------------ layers put back */

/* A layer and what goes wrong when it alone has integers. */
typedef struct harm {
    uint32_t layer;
    double error;
} harm;

static int most_harm_first(const void *a, const void *b)
{
    const harm *x = a, *y = b;

    return x->error != y->error ? (x->error < y->error) - (x->error > y->error)
                                : (x->layer > y->layer) - (x->layer < y->layer);
}

/* The layers that have integers in the candidate, by the harm that each does alone. */
static inlay_status rank_layers(search *x, const candidate *c, harm **out_harms, uint32_t *out_count)
{
    bool *only = arena_array(x->a, (size_t)x->layer_count + 1, sizeof *only);
    harm *harms = arena_array(x->a, (size_t)x->layer_count + 1, sizeof *harms);
    candidate alone = { c->placement, c->method, only };
    char path[PATH_MAX];
    uint32_t count = 0;
    inlay_status status;

    if (only == NULL || harms == NULL)
        return no_memory(x);
    INLAY_TRY(build(x, c, true, path)); /* tells which they are */
    for (uint32_t i = 0; i < x->layer_count; i++) {
        verdict v;

        if (x->out->forms[i].bits == 32)
            continue;
        memset(only, true, x->layer_count * sizeof *only);
        only[i] = false;
        INLAY_TRY(attempt(x, &alone, RANKED, &v, NULL));
        harms[count++] = (harm){ i, v.error };
    }
    qsort(harms, count, sizeof *harms, most_harm_first);
    *out_harms = harms;
    *out_count = count;
done:
    return status;
}

static void put_back(bool *stays, uint32_t layers, const harm *harms, uint32_t count)
{
    memset(stays, false, layers * sizeof *stays);
    for (uint32_t i = 0; i < count; i++)
        stays[harms[i].layer] = true;
}

/* The fewest of the most harmful layers with which the agreement holds; *out_count is how many. It holds without any
 * integers, so a set is found, and the caller sees whether it is worth it. */
static inlay_status mix(search *x, candidate *c, verdict *out, uint32_t *out_count)
{
    bool *stays = arena_array(x->a, (size_t)x->layer_count + 1, sizeof *stays);
    harm *harms = NULL;
    uint32_t count = 0, low = 1, high;
    inlay_status status;

    if (stays == NULL)
        return no_memory(x);
    INLAY_TRY(rank_layers(x, c, &harms, &count));
    c->stays = stays;
    for (high = count; low < high;) {
        const uint32_t middle = low + (high - low) / 2;
        verdict v;

        put_back(stays, x->layer_count, harms, middle);
        INLAY_TRY(attempt(x, c, SEARCHED, &v, NULL));
        if (is_good(x, &v)) {
            high = middle;
            *out = v;
        } else {
            low = middle + 1;
        }
    }
    put_back(stays, x->layer_count, harms, high);
    *out_count = high;
    for (uint32_t i = high > 0 ? high - 1 : 0, tries = 0; i-- > 0 && tries < MOST_RETRIED; tries++) {
        verdict v; /* of those that do the least harm, some may not have been the point */

        stays[harms[i].layer] = false;
        INLAY_TRY(attempt(x, c, SEARCHED, &v, NULL));
        if (is_good(x, &v))
            (*out_count)--;
        else
            stays[harms[i].layer] = true;
    }
done:
    return status;
}

/* ------------------------------------------------------------------ the search */

static bool is_wanted(const quantize_args *args, uint32_t m)
{
    return args->method == QUANTIZE_AUTO || args->method == methods[m].kind;
}

static const char *describe(const search *x, const candidate *c, uint32_t put_back_count)
{
    const char *what = arena_format(x->a, "integers in %s, ranges by %s", places[c->placement], methods[c->method].name);

    return put_back_count == 0 || what == NULL
               ? what
               : arena_format(x->a, "%s, %u layer%s in floats for the agreement", what, put_back_count,
                              put_back_count == 1 ? "" : "s");
}

/* The best ranges of a placement. */
static inlay_status best_method(search *x, candidate *c, verdict *out)
{
    bool any = false;
    inlay_status status = INLAY_OK;

    for (uint32_t m = 0; m < METHODS; m++) {
        candidate other = { c->placement, m, NULL };
        verdict v;

        if (!is_wanted(x->args, m))
            continue;
        INLAY_TRY(attempt(x, &other, SEARCHED, &v, NULL));
        if (!any || is_better(&v, out)) {
            *out = v;
            *c = other;
        }
        any = true;
    }
done:
    return status;
}

/* Runs the candidate on all samples: is it faster than floats, and does it agree? */
static inlay_status settle(search *x, const candidate *c, uint32_t back, bool *out_good)
{
    search_result *r = x->out;
    subject after = { 0 };
    inlay_status status;

    r->what = describe(x, c, back);
    INLAY_TRY(build(x, c, true, r->path));
    INLAY_TRY(subject_open(r->path, x->plain, &after, x->diag));
    INLAY_TRY(judge_agreement(x->args->data, 0, x->args->metric, x->before, &after, &r->agreement, x->diag));
    INLAY_TRY(judge_time(x->args->data, x->before, &after, 2 * TIME_BUDGET_S, &r->ms_before, &r->ms_after, x->diag));
    *out_good = is_good(x, &r->agreement) && r->ms_after < r->ms_before * most_time(x);
    if (!is_good(x, &r->agreement))
        r->failed = arena_format(x->a, "with %s, output '%s' agrees to %.4g (%s) only", r->what, r->agreement.output,
                                 r->agreement.score.value, agree_metric_name(r->agreement.metric));
    else if (!*out_good)
        r->failed = arena_format(x->a, "with %s a run takes %.3g ms instead of %.3g ms", r->what, r->ms_after,
                                 r->ms_before);
    else
        r->failed = NULL;
done:
    subject_close(&after);
    return status;
}

/* The time of each placement in units of the model's own, the fastest first. */
static inlay_status rank_placements(search *x, qdq_placement *order, double *ratio)
{
    inlay_status status = INLAY_OK;

    for (uint32_t p = 0; p < QDQ_PLACEMENTS; p++) {
        const candidate c = { (qdq_placement)p, 0, NULL };
        double ms[2], r;
        uint32_t at = p;

        INLAY_TRY(attempt(x, &c, 0, NULL, ms));
        r = ms[1] / ms[0];
        for (; at > 0 && ratio[at - 1] > r; at--) {
            ratio[at] = ratio[at - 1];
            order[at] = order[at - 1];
        }
        ratio[at] = r;
        order[at] = c.placement;
        if (at == 0) {
            x->out->ms_before = ms[0];
            x->out->ms_after = ms[1];
        }
    }
done:
    return status;
}

static inlay_status run_search(search *x)
{
    qdq_placement order[QDQ_PLACEMENTS];
    candidate c[QDQ_PLACEMENTS];
    verdict v[QDQ_PLACEMENTS];
    double ratio[QDQ_PLACEMENTS];
    uint32_t count = 0;
    bool good = false;
    inlay_status status;

    INLAY_TRY(rank_placements(x, order, ratio));
    for (; count < QDQ_PLACEMENTS && ratio[count] < most_time(x) && !good; count++) { /* all layers with integers ... */
        c[count] = (candidate){ order[count], 0, NULL };
        INLAY_TRY(best_method(x, &c[count], &v[count]));
        if (is_good(x, &v[count]))
            INLAY_TRY(settle(x, &c[count], 0, &good));
    }
    for (uint32_t k = 0; k < count && !good; k++) { /* ... or else as many as may have them */
        uint32_t back = 0;

        if (is_good(x, &v[k]))
            continue; /* which was not faster after all */
        INLAY_TRY(mix(x, &c[k], &v[k], &back));
        INLAY_TRY(settle(x, &c[k], back, &good));
    }
    if (x->out->names == NULL) { /* for the table */
        c[0] = (candidate){ order[0], 0, NULL };
        INLAY_TRY(build(x, &c[0], true, x->out->path));
    }
    if (!good && x->out->failed == NULL)
        x->out->failed = arena_format(x->a, "with integers a run takes %.3g ms instead of %.3g ms", x->out->ms_after,
                                      x->out->ms_before);
done:
    return status;
}

inlay_status search_integers(const quantize_args *args, const scratch *s, const subject *before, arena *a,
                             search_result *out, inlay_diag *diag)
{
    search x = { .args = args, .scratch = s, .before = before, .a = a, .out = out, .diag = diag, .done = 0.4 };
    inlay_status status;

    *out = (search_result){ .what = "integers" };
    INLAY_TRY(judge_options(args->options, NULL, NULL, &x.plain, diag));
    INLAY_TRY(make_base(&x));
    INLAY_TRY(calibrate_base(&x));
    if (x.c.count == 0)
        out->failed = "it has no layer that could compute with integers";
    else
        INLAY_TRY(run_search(&x));
done:
    calibration_end(&x.c);
    inlay_options_destroy(x.plain);
    return status;
}
