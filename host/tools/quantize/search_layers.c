/* Layers that stay floats: which, by what each does alone, and how many, by runs of the whole. */
#include "base/order.h"
#include "quantize/search_parts.h"
#include "quantize/times.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RETRIED = 12 };
static const double LEAST_GAIN = 0.02;

/* ------------------------------------------------------------------ worth */

/* What the layers take as floats less what they take with integers. Where no kernel has the name of a layer, its share
 * of what the whole gains; and never less than a little, for its neighbours exchange bytes through it. */
static inlay_status find_gains(struct search *x, const struct candidate *c, struct ranking *r)
{
    const search_result *out = x->out;
    double *floats = arena_array(x->a, (size_t)x->layer_count + 1, sizeof *floats);
    double *bytes = arena_array(x->a, (size_t)x->layer_count + 1, sizeof *bytes), runs[2], share;
    struct subject s = { 0 };
    char path[PATH_MAX];
    inlay_status status;

    if (floats == NULL || bytes == NULL)
        return no_memory(x->diag, "to search");
    INLAY_TRY(search_build(x, c, false, path));
    subject_rest(x->before);
    INLAY_TRY(subject_open(x->base, x->plain, &s, x->diag));
    INLAY_TRY(times_of_layers(&s, x->args->data, out->names, x->layer_count, floats, &runs[0], x->diag));
    subject_close(&s);
    INLAY_TRY(subject_open(path, x->plain, &s, x->diag));
    INLAY_TRY(times_of_layers(&s, x->args->data, out->names, x->layer_count, bytes, &runs[1], x->diag));
    subject_close(&s);
    INLAY_TRY(search_wake(x));
    share = runs[0] > runs[1] ? 1 - runs[1] / runs[0] : 0;
    for (uint32_t k = 0; k < r->count; k++) {
        layer_worth *w = &r->items[k];
        const double took = floats[w->layer] > 0 ? floats[w->layer] : runs[0] / x->layer_count;
        const double gain = bytes[w->layer] > 0 ? took - bytes[w->layer] : took * share;

        w->gain_ns = gain > took * LEAST_GAIN ? gain : took * LEAST_GAIN;
    }
done:
    subject_close(&s);
    return status;
}

static bool known_gains(struct search *x, struct ranking *r)
{
    const char **names = arena_array(x->a, (size_t)r->count + 1, sizeof *names);
    double *gains = arena_array(x->a, (size_t)r->count + 1, sizeof *gains);

    for (uint32_t k = 0; names != NULL && k < r->count; k++)
        names[k] = x->out->names[r->items[k].layer];
    if (names == NULL || gains == NULL || !stats_gains(x->known, names, r->count, gains))
        return false;
    for (uint32_t k = 0; k < r->count; k++)
        r->items[k].gain_ns = gains[k];
    return true;
}

/* Errors of layers add up as squares. */
static double price(const layer_worth *w)
{
    return isnan(w->error) ? INFINITY : w->error * w->error / w->gain_ns;
}

static int dearest_first(const void *a, const void *b)
{
    const layer_worth *x = a, *y = b;
    const double p = price(x), q = price(y);

    return p != q ? (p < q) - (p > q) : (x->layer > y->layer) - (x->layer < y->layer);
}

/* ------------------------------------------------------------------ the ranking */

inlay_status search_rank(struct search *x, const struct candidate *c, struct ranking *out)
{
    bool *only = arena_array(x->a, (size_t)x->layer_count + 1, sizeof *only);
    struct candidate alone = { c->placement, c->method, only, c->corrects };
    char path[PATH_MAX];
    inlay_status status;

    *out = (struct ranking){ arena_array(x->a, (size_t)x->layer_count + 1, sizeof *out->items), 0 };
    if (only == NULL || out->items == NULL)
        return no_memory(x->diag, "to search");
    INLAY_TRY(search_build(x, c, true, path)); /* tells which they are */
    for (uint32_t i = 0; i < x->layer_count; i++) {
        struct verdict v;

        if (x->out->forms[i].bits == 32)
            continue;
        memset(only, true, x->layer_count * sizeof *only);
        only[i] = false;
        INLAY_TRY(search_attempt(x, &alone, SEARCH_TELLING, &v, NULL));
        out->items[out->count++] = (layer_worth){ i, v.error, 1 };
    }
    if (!known_gains(x, out)) {
        INLAY_TRY(find_gains(x, c, out));
        for (uint32_t k = 0; k < out->count; k++)
            stats_add_gain(x->known, x->out->names[out->items[k].layer], out->items[k].gain_ns);
    }
    qsort(out->items, out->count, sizeof *out->items, dearest_first);
done:
    return status;
}

/* ------------------------------------------------------------------ sets */

static void put_back(const struct search *x, const struct ranking *r, uint32_t count, bool *stays)
{
    memset(stays, false, x->layer_count * sizeof *stays);
    for (uint32_t i = 0; i < count; i++)
        stays[r->items[i].layer] = true;
}

/* Of those that are floats, the one with the largest gain below the last; NULL: none. */
static const layer_worth *next_largest(const struct ranking *r, const bool *stays, const layer_worth *last)
{
    const layer_worth *best = NULL;

    for (uint32_t i = 0; i < r->count; i++) {
        const layer_worth *w = &r->items[i];

        if (stays[w->layer] && (last == NULL || w->gain_ns < last->gain_ns) &&
            (best == NULL || w->gain_ns > best->gain_ns))
            best = w;
    }
    return best;
}

inlay_status search_mix(struct search *x, const struct ranking *r, struct candidate *c)
{
    bool *stays = arena_array(x->a, (size_t)x->layer_count + 1, sizeof *stays);
    const layer_worth *w = NULL;
    uint32_t low = 0, high = r->count;
    struct verdict v;
    inlay_status status = INLAY_OK;

    if (stays == NULL)
        return no_memory(x->diag, "to search");
    c->stays = stays;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        put_back(x, r, middle, stays);
        INLAY_TRY(search_attempt(x, c, x->compared, &v, NULL));
        if (search_is_good(x, &v))
            high = middle;
        else
            low = middle + 1;
    }
    put_back(x, r, high, stays);
    for (uint32_t tries = 0; tries < MOST_RETRIED && (w = next_largest(r, stays, w)) != NULL; tries++) {
        stays[w->layer] = false;
        INLAY_TRY(search_attempt(x, c, x->compared, &v, NULL));
        if (!search_is_good(x, &v))
            stays[w->layer] = true;
    }
done:
    return status;
}

bool search_mix_more(const struct search *x, const struct ranking *r, struct candidate *c)
{
    bool *stays = (bool *)(uintptr_t)c->stays;
    uint32_t more = 1 + r->count / 20;

    if (search_floats(x, c) >= r->count)
        return false;
    for (uint32_t i = 0; i < r->count && more > 0; i++)
        if (!stays[r->items[i].layer]) {
            stays[r->items[i].layer] = true;
            more--;
        }
    return true;
}

inlay_status search_front(struct search *x, const struct ranking *r, const struct candidate *c)
{
    enum { STEPS = 6 };
    bool *stays = arena_array(x->a, (size_t)x->layer_count + 1, sizeof *stays);
    struct candidate other = { c->placement, c->method, stays, c->corrects };
    inlay_status status = INLAY_OK;

    if (stays == NULL)
        return no_memory(x->diag, "to search");
    for (uint32_t k = 0; k < STEPS; k++) {
        double ms[2];
        struct verdict v;

        put_back(x, r, r->count * k / STEPS, stays);
        INLAY_TRY(search_attempt(x, &other, x->compared, &v, ms));
        if (!search_note_point(x, search_describe(x, &other), &v, ms[1]))
            return no_memory(x->diag, "to search");
    }
done:
    return status;
}
