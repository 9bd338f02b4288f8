#include "api/ladder.h"
#include "base/hash.h"
#include "exec/values/value.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the recent loads, the one that counts for the choice is exceeded by this share. */
#define RARE 0.05
/* The reserve, relative to the expected time of the quickest variant under the largest load. */
#define RESERVE 1.5

context_ladder *ladder_create(uint32_t count)
{
    context_ladder *ladder = calloc(1, sizeof *ladder);
    bool ok = ladder != NULL;

    INLAY_CHECK(count > 0);
    if (ok)
        ok = (ladder->contexts = calloc(count, sizeof(inlay_context *))) != NULL;
    for (uint32_t i = 0; i < LADDER_SHAPES && ok; i++)
        ok = (ladder->times[i].quickest = calloc(count, sizeof(double))) != NULL;
    if (!ok) {
        ladder_destroy(ladder);
        return NULL;
    }
    ladder->count = count;
    return ladder;
}

void ladder_destroy(context_ladder *ladder)
{
    for (uint32_t i = 0; i < LADDER_SHAPES && ladder != NULL; i++)
        free(ladder->times[i].quickest);
    if (ladder != NULL)
        free(ladder->contexts);
    free(ladder);
}

static bool is_known(double ns)
{
    return ns > 0 && isfinite(ns);
}

bool ladder_is_new(const context_ladder *ladder)
{
    return !is_known(ladder->times[0].quickest[0]);
}

void ladder_reset(context_ladder *ladder)
{
    ladder->shape_count = 0;
    ladder->load_count = 0;
    for (uint32_t i = 0; i < LADDER_SHAPES; i++)
        ladder->times[i].shapes = 0;
    ladder->times[0].quickest[0] = 0;
}

void ladder_forget_loads(context_ladder *ladder)
{
    ladder->load_count = 0;
}

ladder_times *ladder_find_times(context_ladder *ladder, inlay_value *const *inputs, uint32_t count)
{
    uint64_t shapes = 1;
    double bytes = 1;
    ladder_times *times;

    for (uint32_t i = 0; i < count; i++) {
        if (inputs[i] == NULL || inputs[i]->kind != INLAY_KIND_TENSOR)
            continue;
        shapes = hash_bytes(inputs[i]->dims, inputs[i]->rank * sizeof *inputs[i]->dims, shapes + i);
        bytes += (double)inputs[i]->buffer.bytes;
    }
    shapes += shapes == 0;
    for (uint32_t i = 0; i < LADDER_SHAPES; i++)
        if (ladder->times[i].shapes == shapes)
            return &ladder->times[i];
    times = &ladder->times[ladder->shape_count == 0 ? 0 : 1 + (ladder->shape_count - 1) % (LADDER_SHAPES - 1)];
    ladder->shape_count++;
    times->shapes = shapes;
    times->bytes = bytes;
    memset(times->quickest, 0, ladder->count * sizeof *times->quickest);
    return times;
}

void ladder_note(context_ladder *ladder, ladder_times *times, uint32_t variant, double ns, bool stopped)
{
    double *quickest = &times->quickest[variant];

    INLAY_CHECK(variant < ladder->count);
    if (is_known(*quickest) && (!stopped || ns > *quickest))
        ladder->loads[ladder->load_count++ % LADDER_LOADS] = ns > *quickest ? ns / *quickest : 1;
    if (stopped)
        return;
    if (*quickest == 0)
        *quickest = (double)INFINITY;
    else if (ns < *quickest)
        *quickest = ns;
}

/* The time of a variant at these shapes on an idle machine: measured; or that of another variant, or at the shapes of
 * the first run, in proportion. */
static double time_of(const context_ladder *ladder, const ladder_times *times, uint32_t variant)
{
    const ladder_times *first = &ladder->times[0];

    if (is_known(times->quickest[variant]))
        return times->quickest[variant];
    for (uint32_t i = 0; i < ladder->count; i++)
        if (is_known(times->quickest[i]))
            return times->quickest[i] * first->quickest[variant] / first->quickest[i];
    return first->quickest[variant] * times->bytes / first->bytes;
}

static int by_size(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

/* The loads that RARE of the recent runs exceeded, and none of them. */
static void find_loads(const context_ladder *ladder, double *usual, double *largest)
{
    const size_t count = ladder->load_count < LADDER_LOADS ? (size_t)ladder->load_count : LADDER_LOADS;
    double sorted[LADDER_LOADS];

    *usual = *largest = 1;
    if (count == 0)
        return;
    memcpy(sorted, ladder->loads, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_size);
    *usual = sorted[count - 1 - (size_t)((double)count * RARE)];
    *largest = sorted[count - 1];
}

ladder_choice ladder_choose(const context_ladder *ladder, const ladder_times *times, double left_ns)
{
    ladder_choice choice = { .variant = 0 };
    double usual, largest;

    INLAY_CHECK(!ladder_is_new(ladder));
    for (uint32_t i = 1; i < ladder->count; i++)
        if (time_of(ladder, times, i) < time_of(ladder, times, choice.quickest))
            choice.quickest = i;
    find_loads(ladder, &usual, &largest);
    choice.reserve_ns = time_of(ladder, times, choice.quickest) * largest * RESERVE;
    while (choice.variant < choice.quickest &&
           time_of(ladder, times, choice.variant) * usual + choice.reserve_ns > left_ns)
        choice.variant++;
    return choice;
}
