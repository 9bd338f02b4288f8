#include "texts/tokens/sampler.h"
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

/* false: out of memory. */
static bool make_room(struct sampler *sampler, size_t count)
{
    struct candidate *room = sampler->room_count < count ? malloc(count * sizeof *room) : NULL;
    unsigned char *marks = room != NULL ? calloc(count, 1) : NULL;

    if (sampler->room_count >= count)
        return true;
    if (marks == NULL) {
        free(room);
        return false;
    }
    free(sampler->room);
    free(sampler->marks);
    sampler->room = room;
    sampler->marks = marks;
    sampler->room_count = count;
    return true;
}

/* Applies `penalty` and `presence` once to each token, even if it occurs several times, and `frequency` each time. */
static void apply_penalties(const struct sampler *sampler, float *logits, size_t count, const int64_t *seen,
                            size_t seen_count)
{
    enum { PENALIZED = 1, PRESENT = 2 };

    for (size_t i = 0; i < seen_count; i++) {
        bool generated = i >= sampler->prompt_count;
        float *logit;
        unsigned char *mark;

        if (seen[i] < 0 || (size_t)seen[i] >= count)
            continue;
        logit = &logits[seen[i]];
        mark = &sampler->marks[seen[i]];
        if ((*mark & PENALIZED) == 0)
            *logit = *logit > 0 ? *logit / sampler->penalty : *logit * sampler->penalty;
        if (generated)
            *logit -= sampler->frequency + ((*mark & PRESENT) == 0 ? sampler->presence : 0);
        *mark |= generated ? PENALIZED | PRESENT : PENALIZED;
    }
    for (size_t i = 0; i < seen_count; i++)
        if (seen[i] >= 0 && (size_t)seen[i] < count)
            sampler->marks[seen[i]] = 0;
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

    if (!make_room(sampler, count))
        return -1;
    apply_penalties(sampler, logits, count, seen, seen_count);
    for (size_t i = 0; i < sampler->bias_count; i++)
        if (sampler->bias[i].token >= 0 && (size_t)sampler->bias[i].token < count)
            logits[sampler->bias[i].token] += sampler->bias[i].bias;
    for (size_t i = 0; sampler->allowed != NULL && i < count; i++)
        if ((sampler->allowed[i / 64] >> i % 64 & 1) == 0)
            logits[i] = -INFINITY;
    if (!(sampler->temperature > 0))
        return most_probable(logits, count);
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
        if (sampler->room[i].logit < sampler->min_p) {
            kept = i;
            break;
        }
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
    free(sampler->marks);
    *sampler = (struct sampler)SAMPLER_INIT;
}
