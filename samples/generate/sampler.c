#include "sampler.h"
#include <math.h>
#include <stdlib.h>

struct candidate {
    float logit;
    uint32_t token;
};

/* Orders by descending probability, and equal probabilities by ascending id, so that a seed determines the result. */
static int by_probability(const void *a, const void *b)
{
    const struct candidate *left = a, *right = b;

    if (left->logit != right->logit)
        return left->logit < right->logit ? 1 : -1;
    return (left->token > right->token) - (left->token < right->token);
}

/* Applies the penalty once to each token, even if it occurs several times. */
static void apply_penalty(const struct sampler *sampler, float *logits, size_t count, const int64_t *seen,
                          size_t seen_count)
{
    for (size_t i = 0; i < seen_count; i++) {
        size_t before = 0;

        while (before < i && seen[before] != seen[i])
            before++;
        if (before == i && seen[i] >= 0 && (size_t)seen[i] < count)
            logits[seen[i]] =
                logits[seen[i]] > 0 ? logits[seen[i]] / sampler->penalty : logits[seen[i]] * sampler->penalty;
    }
}

static int64_t most_probable(const float *logits, size_t count)
{
    int64_t best = -1;

    for (size_t i = 0; i < count; i++)
        if (!isnan(logits[i]) && (best < 0 || logits[i] > logits[best]))
            best = (int64_t)i;
    return best;
}

/* Returns a number in [0, 1): splitmix64. */
static double draw(uint64_t *state)
{
    uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((mixed ^ mixed >> 31) >> 11) / 9007199254740992.0;
}

int64_t sampler_next(struct sampler *sampler, float *logits, size_t count, const int64_t *seen, size_t seen_count)
{
    double sum = 0, part = 0, at;
    size_t kept = 0, last = 0;
    int64_t best;
    float top;

    if (sampler->penalty != 1 && sampler->penalty > 0)
        apply_penalty(sampler, logits, count, seen, seen_count);
    if (!(sampler->temperature > 0))
        return most_probable(logits, count);
    if (sampler->room_count < count) {
        struct candidate *more = realloc(sampler->room, count * sizeof *more);

        if (more == NULL)
            return -1;
        sampler->room = more;
        sampler->room_count = count;
    }
    best = most_probable(logits, count);
    if (best < 0 || !isfinite(logits[best]))
        return best;
    top = logits[best];
    for (size_t i = 0; i < count; i++) /* the other tokens have a probability below 10^-13 */
        if (logits[i] > top - 30 * sampler->temperature || (int64_t)i == best)
            sampler->room[kept++] = (struct candidate){ logits[i], (uint32_t)i };
    qsort(sampler->room, kept, sizeof *sampler->room, by_probability);
    if (sampler->top_k > 0 && sampler->top_k < kept)
        kept = sampler->top_k;
    for (size_t i = 0; i < kept; i++) {
        sampler->room[i].logit = expf((sampler->room[i].logit - top) / sampler->temperature);
        sum += (double)sampler->room[i].logit;
    }
    while (last < kept && (part < (double)sampler->top_p * sum || last == 0))
        part += (double)sampler->room[last++].logit;
    at = draw(&sampler->state) * part;
    for (size_t i = 0; i + 1 < last; i++) {
        at -= (double)sampler->room[i].logit;
        if (at < 0)
            return sampler->room[i].token;
    }
    return sampler->room[last - 1].token;
}

void sampler_deinit(struct sampler *sampler)
{
    free(sampler->room);
    *sampler = (struct sampler)SAMPLER_INIT;
}
