/* Ranges: the method that suits all values best, and the one that suits each. */
#include "quantize/search_parts.h"
#include <math.h>
#include <string.h>

enum { MOST_REFINED = 12 };
static const double BETTER = 0.99, UNLIKE = 0.04, MUCH_LESS = 0.9;

static bool is_wanted(const quantize_args *args, uint32_t m)
{
    return args->method == QUANTIZE_AUTO || args->method == search_methods[m].kind;
}

inlay_status search_ranges(struct search *x, struct candidate *c, struct verdict *out)
{
    uint8_t *best = arena_array(x->a, (size_t)x->c.count + 1, 1), *tried = arena_array(x->a, (size_t)x->c.count + 1, 1);
    struct candidate other = { c->placement, tried, c->stays, false };
    bool any = false;
    struct verdict v;
    inlay_status status = INLAY_OK;

    if (best == NULL || tried == NULL)
        return no_memory(x->diag, "to search");
    for (uint32_t m = 0; m < SEARCH_METHODS; m++) {
        if (!is_wanted(x->args, m))
            continue;
        memset(tried, (int)m, x->c.count);
        INLAY_TRY(search_attempt(x, &other, x->compared, &v, NULL));
        if (!any || v.error < out->error) { /* errors tell more than scores do where all of these are bad */
            *out = v;
            memcpy(best, tried, x->c.count);
        }
        any = true;
    }
    *c = (struct candidate){ c->placement, best, c->stays, true };
    INLAY_TRY(search_attempt(x, c, x->compared, &v, NULL));
    if (v.error < out->error)
        *out = v;
    else
        c->corrects = false;
done:
    return status;
}

/* ------------------------------------------------------------------ value by value */

static bool is_unlike(const qdq_range *a, const qdq_range *b)
{
    const float width = a->high - a->low;

    return fabsf(a->low - b->low) > (float)UNLIKE * width || fabsf(a->high - b->high) > (float)UNLIKE * width;
}

/* The methods whose range of the value is unlike that of its method and of each other; how many. */
static uint32_t choices(const struct search *x, uint32_t value, uint8_t method, uint8_t out[SEARCH_METHODS])
{
    qdq_range seen[SEARCH_METHODS];
    uint32_t count = 1;

    seen[0] = search_range(x, value, method);
    for (uint8_t m = 0; m < SEARCH_METHODS; m++) {
        const qdq_range range = search_range(x, value, m);
        bool known = false;

        for (uint32_t k = 0; k < count; k++)
            known |= !is_unlike(&seen[k], &range);
        if (!known) {
            out[count - 1] = m;
            seen[count++] = range;
        }
    }
    return count - 1;
}

/* Tries the other ranges for the value; the rest of *c stays as it is. *error is that of the best so far. */
static inlay_status refine_value(struct search *x, const struct candidate *c, uint8_t *method, uint32_t value,
                                 double *error)
{
    uint8_t others[SEARCH_METHODS], best = method[value];
    const uint32_t count = choices(x, value, best, others);
    inlay_status status = INLAY_OK;

    for (uint32_t k = 0; k < count; k++) {
        struct verdict v;

        method[value] = others[k];
        INLAY_TRY(search_attempt(x, c, SEARCH_TELLING, &v, NULL));
        if (v.error < *error * BETTER) {
            *error = v.error;
            best = others[k];
        }
    }
done:
    method[value] = best;
    return status;
}

inlay_status search_refine(struct search *x, const struct ranking *r, struct candidate *c)
{
    uint8_t *method = arena_copy(x->a, c->method, (size_t)x->c.count + 1);
    bool *done_with = arena_array(x->a, (size_t)x->c.count + 1, sizeof *done_with);
    struct candidate other = { c->placement, method, c->stays, c->corrects };
    uint32_t tried = 0;
    struct verdict v, w;
    inlay_status status;

    if (x->args->method != QUANTIZE_AUTO)
        return INLAY_OK;
    if (method == NULL || done_with == NULL)
        return no_memory(x->diag, "to search");
    INLAY_TRY(search_attempt(x, &other, SEARCH_TELLING, &w, NULL));
    for (uint32_t k = 0; k < r->count && tried < MOST_REFINED; k++) {
        const uint32_t value = x->reads[r->items[k].layer];

        if (value == INLAY_NONE || done_with[value])
            continue;
        done_with[value] = true;
        tried++;
        INLAY_TRY(refine_value(x, &other, method, value, &w.error));
    }
    INLAY_TRY(search_attempt(x, c, x->compared, &v, NULL));
    INLAY_TRY(search_attempt(x, &other, x->compared, &w, NULL));
    if (w.error < v.error * MUCH_LESS) /* less would be what suits these samples, and no others */
        c->method = method;
done:
    return status;
}
