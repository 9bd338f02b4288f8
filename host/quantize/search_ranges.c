/* Ranges: the method that suits all values best. */
#include "quantize/search_parts.h"
#include <string.h>

static bool is_wanted(const quantize_args *args, uint32_t m)
{
    return args->method == QUANTIZE_AUTO || args->method == search_methods[m].kind;
}

inlay_status search_ranges(search *x, candidate *c, verdict *out)
{
    uint8_t *best = arena_array(x->a, (size_t)x->c.count + 1, 1), *tried = arena_array(x->a, (size_t)x->c.count + 1, 1);
    candidate other = { c->placement, tried, c->stays, false };
    bool any = false;
    verdict v;
    inlay_status status = INLAY_OK;

    if (best == NULL || tried == NULL)
        return search_no_memory(x);
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
    *c = (candidate){ c->placement, best, c->stays, true };
    INLAY_TRY(search_attempt(x, c, x->compared, &v, NULL));
    if (v.error < out->error)
        *out = v;
    else
        c->corrects = false;
done:
    return status;
}
