/* Chooses the layers that stay float: their order by the effect of each layer alone, their number by runs of the whole
 * model. */
#include "base/order.h"
#include "inlay/check.h"
#include "quantize/search_parts.h"
#include "quantize/times.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RETRIED = 12 };            /* float layers that are tried with integers again */
static const double LEAST_GAIN = 0.02; /* minimum gain of a layer, relative to its time with floats */

/* Computes the gain of each layer: its time with floats minus its time with integers. If no kernel has the layer's
 * name, the gain is the layer's share of the total gain. The gain has a small minimum, because the neighbours of the
 * layer exchange integers through it. */
static inlay_status find_gains(struct search *search, const struct candidate *candidate, struct ranking *ranking)
{
    const search_result *out = search->out;
    double *floats = arena_array(search->arena, (size_t)search->layer_count + 1, sizeof *floats);
    double *bytes = arena_array(search->arena, (size_t)search->layer_count + 1, sizeof *bytes), runs[2], share;
    struct subject subject = { 0 };
    char path[PATH_MAX];
    inlay_status status;

    if (floats == NULL || bytes == NULL)
        return no_memory(search->diag, "to search");
    INLAY_TRY(search_build(search, candidate, false, path));
    subject_unload(search->before);
    INLAY_TRY(subject_open(search->base, search->plain, &subject, search->diag));
    INLAY_TRY(
        layer_times(&subject, search->args->data, out->names, search->layer_count, floats, &runs[0], search->diag));
    subject_close(&subject);
    INLAY_TRY(subject_open(path, search->plain, &subject, search->diag));
    INLAY_TRY(
        layer_times(&subject, search->args->data, out->names, search->layer_count, bytes, &runs[1], search->diag));
    subject_close(&subject);
    INLAY_TRY(search_reopen_original(search));
    share = runs[0] > runs[1] ? 1 - runs[1] / runs[0] : 0;
    for (uint32_t k = 0; k < ranking->count; k++) {
        layer_cost *cost = &ranking->items[k];
        const double took = floats[cost->layer] > 0 ? floats[cost->layer] : runs[0] / search->layer_count;
        const double gain = bytes[cost->layer] > 0 ? took - bytes[cost->layer] : took * share;

        cost->gain_ns = gain > took * LEAST_GAIN ? gain : took * LEAST_GAIN;
    }
done:
    subject_close(&subject);
    return status;
}

static bool known_gains(struct search *search, struct ranking *ranking)
{
    const char **names = arena_array(search->arena, (size_t)ranking->count + 1, sizeof *names);
    double *gains = arena_array(search->arena, (size_t)ranking->count + 1, sizeof *gains);

    for (uint32_t k = 0; names != NULL && k < ranking->count; k++)
        names[k] = search->out->names[ranking->items[k].layer];
    if (names == NULL || gains == NULL || !stats_gains(search->known, names, ranking->count, gains))
        return false;
    for (uint32_t k = 0; k < ranking->count; k++)
        ranking->items[k].gain_ns = gains[k];
    return true;
}

/* Squared error per gained nanosecond; squared, because the squared errors of layers add up. */
static double price(const layer_cost *cost)
{
    return isnan(cost->error) ? INFINITY : cost->error * cost->error / cost->gain_ns;
}

static int by_price(const void *a, const void *b)
{
    const layer_cost *left = a, *right = b;
    const double left_price = price(left), right_price = price(right);

    return left_price != right_price ? (left_price < right_price) - (left_price > right_price)
                                     : (left->layer > right->layer) - (left->layer < right->layer);
}

inlay_status search_rank(struct search *search, const struct candidate *candidate, struct ranking *out)
{
    bool *only = arena_array(search->arena, (size_t)search->layer_count + 1, sizeof *only);
    struct candidate alone = { candidate->placement, candidate->method, only, candidate->corrects_bias };
    char path[PATH_MAX];
    inlay_status status;

    *out = (struct ranking){ arena_array(search->arena, (size_t)search->layer_count + 1, sizeof *out->items), 0 };
    if (only == NULL || out->items == NULL)
        return no_memory(search->diag, "to search");
    INLAY_TRY(search_build(search, candidate, true, path)); /* fills search->out->forms */
    for (uint32_t i = 0; i < search->layer_count; i++) {
        struct verdict verdict;

        if (search->out->forms[i].bits == 32)
            continue;
        memset(only, true, search->layer_count * sizeof *only);
        only[i] = false;
        INLAY_TRY(search_attempt(search, &alone, SEARCH_SUBSET, &verdict, NULL));
        out->items[out->count++] = (layer_cost){ i, verdict.error, 1 };
    }
    if (!known_gains(search, out)) {
        INLAY_TRY(find_gains(search, candidate, out));
        for (uint32_t k = 0; k < out->count; k++)
            stats_add_gain(search->known, search->out->names[out->items[k].layer], out->items[k].gain_ns);
    }
    qsort(out->items, out->count, sizeof *out->items, by_price);
done:
    return status;
}

static void set_floats(const struct search *search, const struct ranking *ranking, uint32_t count, bool *stays_float)
{
    INLAY_CHECK(count <= ranking->count);
    memset(stays_float, false, search->layer_count * sizeof *stays_float);
    for (uint32_t i = 0; i < count; i++)
        stays_float[ranking->items[i].layer] = true;
}

/* The float layer with the largest gain that is below the gain of `last`; NULL: none. */
static const layer_cost *next_largest(const struct ranking *ranking, const bool *stays_float, const layer_cost *last)
{
    const layer_cost *best = NULL;

    for (uint32_t i = 0; i < ranking->count; i++) {
        const layer_cost *cost = &ranking->items[i];

        if (stays_float[cost->layer] && (last == NULL || cost->gain_ns < last->gain_ns) &&
            (best == NULL || cost->gain_ns > best->gain_ns))
            best = cost;
    }
    return best;
}

inlay_status search_choose_floats(struct search *search, const struct ranking *ranking, struct candidate *candidate)
{
    bool *stays_float = arena_array(search->arena, (size_t)search->layer_count + 1, sizeof *stays_float);
    const layer_cost *cost = NULL;
    uint32_t low = 0, high = ranking->count;
    struct verdict verdict;
    inlay_status status = INLAY_OK;

    if (stays_float == NULL)
        return no_memory(search->diag, "to search");
    candidate->stays_float = stays_float;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        set_floats(search, ranking, middle, stays_float);
        INLAY_TRY(search_attempt(search, candidate, search->compared, &verdict, NULL));
        if (search_is_good(search, &verdict))
            high = middle;
        else
            low = middle + 1;
    }
    set_floats(search, ranking, high, stays_float);
    for (uint32_t tries = 0; tries < MOST_RETRIED && (cost = next_largest(ranking, stays_float, cost)) != NULL;
         tries++) {
        stays_float[cost->layer] = false;
        INLAY_TRY(search_attempt(search, candidate, search->compared, &verdict, NULL));
        if (!search_is_good(search, &verdict))
            stays_float[cost->layer] = true;
    }
done:
    return status;
}

bool search_add_floats(const struct search *search, const struct ranking *ranking, struct candidate *candidate)
{
    bool *stays_float = (bool *)(uintptr_t)candidate->stays_float;
    uint32_t more = 1 + ranking->count / 20;

    if (search_count_floats(search, candidate) >= ranking->count)
        return false;
    for (uint32_t i = 0; i < ranking->count && more > 0; i++)
        if (!stays_float[ranking->items[i].layer]) {
            stays_float[ranking->items[i].layer] = true;
            more--;
        }
    return true;
}

inlay_status search_pareto(struct search *search, const struct ranking *ranking, const struct candidate *candidate)
{
    enum { STEPS = 6 };
    bool *stays_float = arena_array(search->arena, (size_t)search->layer_count + 1, sizeof *stays_float);
    struct candidate other = { candidate->placement, candidate->method, stays_float, candidate->corrects_bias };
    inlay_status status = INLAY_OK;

    if (stays_float == NULL)
        return no_memory(search->diag, "to search");
    for (uint32_t k = 0; k < STEPS; k++) {
        double ms[2];
        struct verdict verdict;

        set_floats(search, ranking, ranking->count * k / STEPS, stays_float);
        INLAY_TRY(search_attempt(search, &other, search->compared, &verdict, ms));
        if (!search_note_point(search, search_describe(search, &other), &verdict, ms[1]))
            return no_memory(search->diag, "to search");
    }
done:
    return status;
}
