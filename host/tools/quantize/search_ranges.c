/* Ranges: the best method for all values together, and for each value. */
#include "quantize/search_parts.h"
#include <math.h>
#include <string.h>

enum { MOST_REFINED = 12 };        /* values whose range is refined */
static const double BETTER = 0.99, /* another method is chosen for a value if its relative error is below this */
    UNLIKE = 0.04,                 /* ranges differ clearly if an end differs by this share of the width */
    MUCH_LESS = 0.9;               /* all refinements are kept if their relative error is below this */

static bool is_wanted(const quantize_args *args, uint32_t m)
{
    return args->method == QUANTIZE_AUTO || args->method == search_methods[m].kind;
}

inlay_status search_ranges(struct search *search, struct candidate *candidate, struct verdict *out)
{
    uint8_t *best = arena_array(search->arena, (size_t)search->calibration.count + 1, 1),
            *tried = arena_array(search->arena, (size_t)search->calibration.count + 1, 1);
    struct candidate other = { candidate->placement, tried, candidate->stays_float, false };
    bool any = false;
    struct verdict verdict;
    inlay_status status = INLAY_OK;

    if (best == NULL || tried == NULL)
        return no_memory(search->diag, "to search");
    for (uint32_t method = 0; method < SEARCH_METHODS; method++) {
        if (!is_wanted(search->args, method))
            continue;
        memset(tried, (int)method, search->calibration.count);
        INLAY_TRY(search_attempt(search, &other, search->compared, &verdict, NULL));
        if (!any || verdict.error < out->error) { /* errors rank candidates better than scores when all are bad */
            *out = verdict;
            memcpy(best, tried, search->calibration.count);
        }
        any = true;
    }
    *candidate = (struct candidate){ candidate->placement, best, candidate->stays_float, true };
    INLAY_TRY(search_attempt(search, candidate, search->compared, &verdict, NULL));
    if (verdict.error < out->error)
        *out = verdict;
    else
        candidate->corrects_bias = false;
done:
    return status;
}

static bool is_unlike(const qdq_range *a, const qdq_range *b)
{
    const float width = a->high - a->low;

    return fabsf(a->low - b->low) > (float)UNLIKE * width || fabsf(a->high - b->high) > (float)UNLIKE * width;
}

/* Lists the methods whose ranges differ clearly from that of `method` and from each other; returns their number. */
static uint32_t list_distinct_methods(const struct search *search, uint32_t value, uint8_t method,
                                      uint8_t out[SEARCH_METHODS])
{
    qdq_range seen[SEARCH_METHODS];
    uint32_t count = 1;

    seen[0] = search_range(search, value, method);
    for (uint32_t i = 0; i < SEARCH_METHODS; i++) {
        const qdq_range range = search_range(search, value, (uint8_t)i);
        bool known = false;

        for (uint32_t k = 0; k < count; k++)
            known |= !is_unlike(&seen[k], &range);
        if (!known) {
            out[count - 1] = (uint8_t)i;
            seen[count++] = range;
        }
    }
    return count - 1;
}

/* Tries the other ranges for the value; the rest of *candidate is unchanged. *error is the smallest so far. */
static inlay_status refine_value(struct search *search, const struct candidate *candidate, uint8_t *method,
                                 uint32_t value, double *error)
{
    uint8_t others[SEARCH_METHODS], best = method[value];
    const uint32_t count = list_distinct_methods(search, value, best, others);
    inlay_status status = INLAY_OK;

    for (uint32_t k = 0; k < count; k++) {
        struct verdict verdict;

        method[value] = others[k];
        INLAY_TRY(search_attempt(search, candidate, SEARCH_SUBSET, &verdict, NULL));
        if (verdict.error < *error * BETTER) {
            *error = verdict.error;
            best = others[k];
        }
    }
done:
    method[value] = best;
    return status;
}

inlay_status search_refine_ranges(struct search *search, const struct ranking *ranking, struct candidate *candidate)
{
    uint8_t *method = arena_copy(search->arena, candidate->method, (size_t)search->calibration.count + 1);
    bool *done_with = arena_array(search->arena, (size_t)search->calibration.count + 1, sizeof *done_with);
    struct candidate other = { candidate->placement, method, candidate->stays_float, candidate->corrects_bias };
    uint32_t tried = 0;
    struct verdict verdict, refined;
    inlay_status status;

    if (search->args->method != QUANTIZE_AUTO)
        return INLAY_OK;
    if (method == NULL || done_with == NULL)
        return no_memory(search->diag, "to search");
    INLAY_TRY(search_attempt(search, &other, SEARCH_SUBSET, &refined, NULL));
    for (uint32_t k = 0; k < ranking->count && tried < MOST_REFINED; k++) {
        const uint32_t value = search->input_ranges[ranking->items[k].layer];

        if (value == INLAY_NONE || done_with[value])
            continue;
        done_with[value] = true;
        tried++;
        INLAY_TRY(refine_value(search, &other, method, value, &refined.error));
    }
    INLAY_TRY(search_attempt(search, candidate, search->compared, &verdict, NULL));
    INLAY_TRY(search_attempt(search, &other, search->compared, &refined, NULL));
    if (refined.error < verdict.error * MUCH_LESS) /* a smaller gain may be an overfit to these samples */
        candidate->method = method;
done:
    return status;
}
