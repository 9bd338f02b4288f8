#include "sampler.h"
#include <math.h>
#include <stdlib.h>

typedef struct candidate {
    float logit;
    uint32_t token;
} candidate;

/* Descending probability; equal ones in ascending order of ids, so that a seed determines the result. */
static int likeliest_first(const void *a, const void *b)
{
    const candidate *x = a, *y = b;

    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return (x->token > y->token) - (x->token < y->token);
}

/* Applies the penalty once to each token, even if it occurs several times. */
static void punish(const sampler *s, float *logits, size_t count, const int64_t *seen, size_t seen_count)
{
    for (size_t i = 0; i < seen_count; i++) {
        size_t before = 0;

        while (before < i && seen[before] != seen[i])
            before++;
        if (before == i && seen[i] >= 0 && (size_t)seen[i] < count)
            logits[seen[i]] = logits[seen[i]] > 0 ? logits[seen[i]] / s->penalty : logits[seen[i]] * s->penalty;
    }
}

static int64_t likeliest(const float *logits, size_t count)
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
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 11) / 9007199254740992.0;
}

int64_t sampler_next(sampler *s, float *logits, size_t count, const int64_t *seen, size_t seen_count)
{
    double sum = 0, part = 0, at;
    size_t kept = 0, last = 0;
    int64_t best;
    float top;

    if (s->penalty != 1 && s->penalty > 0)
        punish(s, logits, count, seen, seen_count);
    if (!(s->temperature > 0))
        return likeliest(logits, count);
    if (s->room_count < count) {
        candidate *more = realloc(s->room, count * sizeof *more);

        if (more == NULL)
            return -1;
        s->room = more;
        s->room_count = count;
    }
    best = likeliest(logits, count);
    if (best < 0 || !isfinite(logits[best]))
        return best;
    top = logits[best];
    for (size_t i = 0; i < count; i++) /* the others are drawn once in 10^13 times */
        if (logits[i] > top - 30 * s->temperature || (int64_t)i == best)
            s->room[kept++] = (candidate){ logits[i], (uint32_t)i };
    qsort(s->room, kept, sizeof *s->room, likeliest_first);
    if (s->top_k > 0 && s->top_k < kept)
        kept = s->top_k;
    for (size_t i = 0; i < kept; i++) {
        s->room[i].logit = expf((s->room[i].logit - top) / s->temperature);
        sum += (double)s->room[i].logit;
    }
    while (last < kept && (part < (double)s->top_p * sum || last == 0))
        part += (double)s->room[last++].logit;
    at = draw(&s->state) * part;
    for (size_t i = 0; i + 1 < last; i++) {
        at -= (double)s->room[i].logit;
        if (at < 0)
            return s->room[i].token;
    }
    return s->room[last - 1].token;
}

void sampler_deinit(sampler *s)
{
    free(s->room);
    *s = (sampler)SAMPLER_INIT;
}
