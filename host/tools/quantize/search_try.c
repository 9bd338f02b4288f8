/* Candidates: what they are made of, how they are built and judged. */
#include "base/hash.h"
#include "quantize/qoperator.h"
#include "quantize/search_parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_FEW = 4, MOST_TELLING = 64 };
static const double TIME_BUDGET_S = 0.5, ROOM = 0.25, TEXT_ROOM = 0.5, TELLING_MS = 100000;

const search_method search_methods[SEARCH_METHODS] = {
    { "minmax", QUANTIZE_MINMAX, 0 },
    { "percentile 99.999", QUANTIZE_PERCENTILE, 0.99999 },
    { "percentile 99.99", QUANTIZE_PERCENTILE, 0.9999 },
    { "percentile 99.9", QUANTIZE_PERCENTILE, 0.999 },
    { "mse", QUANTIZE_MSE, 0 },
    { "entropy", QUANTIZE_ENTROPY, 0 },
};

static const char *const places[QDQ_PLACEMENTS] = {
    [QDQ_INPUTS] = "the inputs of layers",
    [QDQ_LAYERS] = "the inputs and outputs of layers",
    [QDQ_ALL] = "layers and all between them",
};

inlay_status search_wake(struct search *x)
{
    inlay_status status = subject_wake(x->before, x->args->model, x->plain, x->diag);

    return status == INLAY_OK ? subject_keep(x->before, x->args->data, x->scratch->dir, x->diag) : status;
}

static inlay_status tell(struct search *x, const char *what)
{
    x->done += (1 - x->done) * 0.01;
    if (x->args->progress != NULL && x->args->progress(x->args->progress_user, x->done, what) != 0)
        return inlay_fail(x->diag, INLAY_CANCELLED, "stopped; nothing was written");
    return INLAY_OK;
}

/* ------------------------------------------------------------------ words */

uint32_t search_floats(const struct search *x, const struct candidate *c)
{
    uint32_t count = 0;

    for (uint32_t i = 0; c->stays != NULL && i < x->layer_count; i++)
        count += c->stays[i];
    return count;
}

static const char *methods_of(const struct search *x, const struct candidate *c)
{
    for (uint32_t i = 1; c->method != NULL && i < x->c.count; i++)
        if (c->method[i] != c->method[0])
            return "the method that suits each value";
    return search_methods[c->method != NULL && x->c.count > 0 ? c->method[0] : 0].name;
}

const char *search_describe(const struct search *x, const struct candidate *c)
{
    const uint32_t floats = search_floats(x, c);
    const char *what = arena_format(x->a, "integers in %s, ranges by %s%s", places[c->placement], methods_of(x, c),
                                    c->corrects ? ", corrected biases" : "");

    return floats == 0 || what == NULL
               ? what
               : arena_format(x->a, "%s, %u layer%s in floats for the agreement", what, floats, floats == 1 ? "" : "s");
}

static void note(const struct search *x, const struct candidate *c, const struct verdict *v, const double ms[2])
{
    char line[320];

    if (x->args->note == NULL)
        return;
    if (v != NULL)
        (void)snprintf(line, sizeof line, "%s, ranges by %s%s, %u layers in floats: %.5g (%s), error %.3g",
                       places[c->placement], methods_of(x, c), c->corrects ? ", corrected biases" : "",
                       search_floats(x, c), v->score.value, agree_metric_name(v->metric), v->error);
    else
        (void)snprintf(line, sizeof line, "%s: %.4g ms instead of %.4g ms", places[c->placement], ms[1], ms[0]);
    x->args->note(x->args->progress_user, line);
}

bool search_note_point(struct search *x, const char *what, const struct verdict *v, double ms)
{
    search_result *r = x->out;

    if (r->points == NULL)
        r->points = arena_array(x->a, SEARCH_MOST_POINTS, sizeof *r->points);
    if (r->points == NULL || what == NULL)
        return false;
    if (r->point_count < SEARCH_MOST_POINTS)
        r->points[r->point_count++] = (search_point){ what, ms, *v, false };
    return true;
}

/* ------------------------------------------------------------------ agreement */

bool search_holds(const struct search *x, const struct verdict *v)
{
    return verdict_holds(v, x->args->goal, x->args->sure);
}

bool search_is_good(const struct search *x, const struct verdict *v)
{
    double least = x->args->goal;

    if (x->args->sure && v->metric == AGREE_text) /* confidence is room enough for the number of texts */
        return search_holds(x, v) && v->error * v->error <= AGREE_TEXT_DIFFERS * (1 - least) * TEXT_ROOM;
    if (v->metric == AGREE_kl)
        least *= 1 - ROOM;
    else if (v->metric != AGREE_psnr && least < 1)
        least += (1 - least) * ROOM;
    return verdict_holds(v, least, x->args->sure);
}

/* ------------------------------------------------------------------ building */

qdq_range search_range(const struct search *x, uint32_t i, uint32_t method)
{
    const search_method *m = &search_methods[method];
    const tensor_range *r = &x->c.ranges[i];
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
    out.means = r->means;
    out.channels = r->channels;
    return out;
}

/* Names and forms of the layers, once the model that they are of goes. */
static bool keep_layers(struct search *x, const layer_list *list, const layer_form *forms)
{
    search_result *r = x->out;

    r->list = (layer_list){ arena_array(x->a, (size_t)list->count + 1, sizeof *list->items), list->count };
    r->forms = arena_array(x->a, (size_t)list->count + 1, sizeof *forms);
    r->names = arena_array(x->a, (size_t)list->count + 1, sizeof *r->names);
    r->ops = arena_array(x->a, (size_t)list->count + 1, sizeof *r->ops);
    if (r->list.items == NULL || r->forms == NULL || r->names == NULL || r->ops == NULL)
        return false;
    if (list->count > 0) { /* where there is none, there are no items either */
        memcpy(r->list.items, list->items, list->count * sizeof *list->items);
        memcpy(r->forms, forms, list->count * sizeof *forms);
    }
    for (uint32_t i = 0; i < list->count; i++) {
        r->names[i] = arena_format(x->a, "%s%s", list->items[i].path, list->items[i].node->info.name.data);
        r->ops[i] = arena_string(x->a, list->items[i].node->info.op_type.data);
        if (r->names[i] == NULL || r->ops[i] == NULL)
            return false;
    }
    return true;
}

inlay_status search_build(struct search *x, const struct candidate *c, bool keep, char *path)
{
    const session_source source = { .path = x->base, .fd = -1 };
    inlay_session raw = { .model = NULL };
    struct arena a = { 0 };
    qdq_range *ranges = arena_array(&a, (size_t)x->c.count + 1, sizeof *ranges);
    const qdq_how how = { c->placement, ranges, x->c.count, c->corrects, c->stays };
    layer_form *forms = NULL;
    uint32_t rewritten;
    layer_list list;
    char name[24];
    inlay_status status;

    INLAY_TRY(session_load_model(&raw, &source, x->args->options, x->diag));
    INLAY_TRY(layers_find(raw.model, x->args->skip, x->args->skip_count, &a, &list, x->diag));
    forms = arena_array(&a, (size_t)list.count + 1, sizeof *forms);
    if (ranges == NULL || forms == NULL) {
        status = no_memory(x->diag, "to search");
        goto done;
    }
    for (uint32_t i = 0; i < x->c.count; i++)
        ranges[i] = search_range(x, i, c->method != NULL ? c->method[i] : 0);
    INLAY_TRY(qdq_model(raw.model, &list, &how, forms, x->diag));
    if (x->args->qoperator)
        INLAY_TRY(qoperator_model(raw.model, &rewritten, x->diag));
    (void)snprintf(name, sizeof name, "%u", keep ? 0 : 1 + x->tried++ % 2); /* old ones make room */
    /* What is only tried has its tensors at the beginnings of pages: tables at odd addresses would be copied. */
    INLAY_TRY(scratch_save(x->scratch, name, raw.model, !keep, path, x->diag));
    if (keep && !keep_layers(x, &list, forms))
        status = no_memory(x->diag, "to search");
done:
    graph_model_destroy(raw.model);
    arena_deinit(&a);
    return status;
}

/* What makes one candidate another than the next. */
static uint64_t digest_of(const struct search *x, const struct candidate *c, uint32_t most)
{
    uint64_t hash = hash_u64(hash_u64((uint64_t)c->placement * 2 + x->args->qoperator, c->corrects), most);

    for (uint32_t i = 0; most == SEARCH_TELLING && x->telling != NULL && i < x->telling_count; i++)
        hash = hash_u64(hash, x->telling[i]);
    for (uint32_t i = 0; i < x->args->skip_count; i++)
        hash = hash_bytes(x->args->skip[i], strlen(x->args->skip[i]), hash);
    for (uint32_t i = 0; i < x->c.count; i++)
        hash = hash_u64(hash, c->method != NULL ? c->method[i] : 0);
    for (uint32_t i = 0; i < x->layer_count; i++)
        hash = hash_u64(hash, c->stays != NULL && c->stays[i]);
    return hash;
}

static inlay_status judge_candidate(struct search *x, const struct subject *after, uint32_t most, struct verdict *out)
{
    if (most == SEARCH_TELLING && x->telling != NULL)
        return judge_some(x->args->data, x->telling, x->telling_count, x->args->metric, x->before, after, out, NULL,
                          x->diag);
    return judge_agreement(x->args->data, most == SEARCH_TELLING ? FIRST_FEW : most, x->args->metric, x->before, after,
                           out, x->diag);
}

/* Runs the candidate beside the model. */
static inlay_status run_candidate(struct search *x, const struct candidate *c, uint32_t most_samples,
                                  struct verdict *out, double ms[2])
{
    struct subject after = { 0 };
    char path[PATH_MAX];
    inlay_status status;

    INLAY_TRY(search_build(x, c, false, path));
    INLAY_TRY(subject_open(path, x->plain, &after, x->diag));
    if (out != NULL)
        INLAY_TRY(judge_candidate(x, &after, most_samples, out));
    if (ms != NULL)
        INLAY_TRY(judge_time(x->args->data, x->before, &after, TIME_BUDGET_S, &ms[0], &ms[1], x->diag));
done:
    subject_close(&after);
    return status;
}

inlay_status search_attempt(struct search *x, const struct candidate *c, uint32_t most_samples, struct verdict *out,
                            double ms[2])
{
    const uint64_t digest = digest_of(x, c, most_samples);
    inlay_status status;

    INLAY_TRY(tell(x, "trying"));
    if (ms == NULL && stats_verdict(x->known, digest, out)) {
        note(x, c, out, ms);
        return INLAY_OK;
    }
    INLAY_TRY(run_candidate(x, c, most_samples, out, ms));
    if (ms == NULL) {
        stats_add_verdict(x->known, digest, out);
        INLAY_TRY(stats_save(x->known, false, x->diag));
    }
    note(x, c, out, ms);
done:
    return status;
}

/* ------------------------------------------------------------------ samples that tell most */

typedef struct sample_off {
    uint32_t sample;
    double off;
} sample_off;

static int farthest_first(const void *a, const void *b)
{
    const sample_off *x = a, *y = b;

    if (x->off != y->off)
        return !(x->off > y->off) ? 1 : -1;
    return (x->sample > y->sample) - (x->sample < y->sample);
}

inlay_status search_find_telling(struct search *x, const struct candidate *c)
{
    const uint32_t all = x->compared < x->args->data->count ? x->compared : x->args->data->count;
    const double room = TELLING_MS / ((x->out->ms_after + 1e-3) * (x->layer_count + 1) * SEARCH_METHODS);
    const uint32_t most = room > MOST_TELLING ? MOST_TELLING : room < FIRST_FEW ? FIRST_FEW : (uint32_t)room;
    const uint32_t count = most < all ? most : all, worst = (count + 1) / 2;
    sample_off *items = arena_array(x->a, (size_t)all + 1, sizeof *items);
    double *off = arena_array(x->a, (size_t)all + 1, sizeof *off);
    uint32_t *telling = arena_array(x->a, (size_t)count + 1, sizeof *telling);
    struct subject after = { 0 };
    char path[PATH_MAX];
    struct verdict v;
    inlay_status status;

    if (items == NULL || off == NULL || telling == NULL)
        return no_memory(x->diag, "to search");
    INLAY_TRY(tell(x, "trying"));
    INLAY_TRY(search_build(x, c, false, path));
    INLAY_TRY(subject_open(path, x->plain, &after, x->diag));
    INLAY_TRY(judge_some(x->args->data, NULL, all, x->args->metric, x->before, &after, &v, off, x->diag));
    for (uint32_t i = 0; i < all; i++)
        items[i] = (sample_off){ i, isnan(off[i]) ? INFINITY : off[i] };
    qsort(items, all, sizeof *items, farthest_first);
    for (uint32_t i = 0; i < count; i++) /* the rest evenly among the others */
        telling[i] = items[i < worst ? i : worst + (i - worst) * (all - worst) / (count - worst)].sample;
    x->telling = telling;
    x->telling_count = count;
done:
    subject_close(&after);
    return status;
}
