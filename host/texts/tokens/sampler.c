#include "texts/tokens/sampler.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

static bool has_logit(int64_t token, size_t count)
{
    return token >= 0 && (uint64_t)token < count;
}

/* Applies `prompt_penalty` once to each token of the prompt. */
static void apply_prompt_penalty(const struct sampler *sampler, float *logits, size_t count, const int64_t *seen)
{
    for (size_t i = 0; i < sampler->prompt_count; i++) {
        float *logit = has_logit(seen[i], count) ? &logits[seen[i]] : NULL;

        if (logit == NULL || sampler->marks[seen[i]] != 0)
            continue;
        *logit = *logit < 0 ? *logit / sampler->prompt_penalty : *logit * sampler->prompt_penalty;
        sampler->marks[seen[i]] = 1;
    }
    for (size_t i = 0; i < sampler->prompt_count; i++)
        if (has_logit(seen[i], count))
            sampler->marks[seen[i]] = 0;
}

/* Applies `penalty` and `presence` once to each token, even if it occurs several times, and `frequency` each time. */
static void apply_penalties(const struct sampler *sampler, float *logits, size_t count, const int64_t *seen,
                            size_t seen_count)
{
    enum { PENALIZED = 1, PRESENT = 2 };
    const size_t last = sampler->last_n > 0 ? (size_t)sampler->last_n : sampler->last_n == 0 ? seen_count : 0;
    const size_t first = last < seen_count ? seen_count - last : 0;

    for (size_t i = first; i < seen_count; i++) {
        bool generated = i >= sampler->prompt_count;
        float *logit;
        unsigned char *mark;

        if (!has_logit(seen[i], count))
            continue;
        logit = &logits[seen[i]];
        mark = &sampler->marks[seen[i]];
        if ((*mark & PENALIZED) == 0)
            *logit = *logit > 0 ? *logit / sampler->penalty : *logit * sampler->penalty;
        if (generated)
            *logit -= sampler->frequency + ((*mark & PRESENT) == 0 ? sampler->presence : 0);
        *mark |= generated ? PENALIZED | PRESENT : PENALIZED;
    }
    for (size_t i = first; i < seen_count; i++)
        if (has_logit(seen[i], count))
            sampler->marks[seen[i]] = 0;
}

/* The number of tokens before place `end` that equal the last ones of `seen`, at most `most`. */
static size_t repeated(const int64_t *seen, size_t first, size_t end, size_t count, size_t most)
{
    size_t length = 0;

    while (length < most && end - first > length && seen[end - 1 - length] == seen[count - 1 - length])
        length++;
    return length;
}

/* Whether the token ends a repetition. */
static bool breaks(const struct sampler *sampler, int64_t token)
{
    const uint64_t *wanted = sampler->dry.breakers.bits, *has;

    if (token < 0 || (size_t)token >= sampler->dry.character_count)
        return false;
    has = sampler->dry.characters[token].bits;
    return ((has[0] & wanted[0]) | (has[1] & wanted[1])) != 0;
}

/* Makes tokens less probable that continue a repetition, the more the longer it is. A token that continues several
 * counts once, for the longest. */
static void apply_dry(const struct sampler *sampler, float *logits, size_t count, const int64_t *seen,
                      size_t seen_count)
{
    const size_t last = sampler->dry.last_n > 0    ? (size_t)sampler->dry.last_n
                        : sampler->dry.last_n == 0 ? seen_count
                                                   : 0;
    const size_t first = last < seen_count ? seen_count - last : 0, allowed = sampler->dry.allowed;
    /* Longer repetitions have no other effect: the power is as large as a float may be. */
    const double exponents = sampler->dry.base > 1.000001F ? 88.7228391 / log((double)sampler->dry.base) : 0;
    size_t unbroken = 0, most;

    while (unbroken < seen_count - first && !breaks(sampler, seen[seen_count - 1 - unbroken]))
        unbroken++;
    most = allowed + (exponents < 1e6 ? (size_t)exponents : 1000000);
    most = most < unbroken ? most : unbroken;
    for (size_t end = first + 1; most >= allowed && end < seen_count; end++) {
        const size_t length = repeated(seen, first, end, seen_count, most);
        const int64_t next = seen[end];
        struct candidate *longest;

        if (length < allowed || length == 0 || !has_logit(next, count))
            continue;
        longest = &sampler->room[next];
        longest->token = sampler->marks[next] != 0 && longest->token > length ? longest->token : (uint32_t)length;
        sampler->marks[next] = 1;
    }
    for (size_t i = first; i < seen_count; i++)
        if (has_logit(seen[i], count) && sampler->marks[seen[i]] != 0) {
            sampler->marks[seen[i]] = 0;
            logits[seen[i]] -=
                sampler->dry.multiplier * powf(sampler->dry.base, (float)(sampler->room[seen[i]].token - allowed));
        }
}

/* SAMPLER_NO_TOKEN: there is none. */
static int64_t most_probable(const float *logits, size_t count)
{
    int64_t best = SAMPLER_NO_TOKEN;

    for (size_t i = 0; i < count; i++)
        if (logits[i] > (best < 0 ? -INFINITY : logits[best]))
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

/* The least logit that top_n_sigma leaves. */
static float least_by_sigma(float sigmas, const float *logits, size_t count, float top)
{
    double sum = 0, squares = 0;
    size_t finite = 0;

    for (size_t i = 0; i < count; i++)
        if (isfinite(logits[i])) {
            const double below = (double)(top - logits[i]);

            sum += below;
            squares += below * below;
            finite++;
        }
    sum /= (double)finite;
    return top - sigmas * (float)sqrt(fmax(0, squares / (double)finite - sum * sum));
}

/* Keeps the candidates of typical_p: with the weights [count], which add to *sum, in descending order, they are
 * neighbours. */
static size_t keep_typical(struct candidate *room, size_t count, float typical_p, double *sum)
{
    const double wanted = (double)typical_p * *sum;
    double mean = 0, part = 0; /* mean: of the information -log(weight) */
    size_t first = 0, end;

    for (size_t i = 0; i < count; i++)
        mean -= (double)room[i].logit / *sum * log((double)room[i].logit);
    while (first < count && -log((double)room[first].logit) < mean)
        first++;
    end = first;
    while ((first > 0 || end < count) && (part < wanted || first == end)) {
        const bool before = end == count || (first > 0 && mean + log((double)room[first - 1].logit) <=
                                                              -log((double)room[end].logit) - mean);

        part += (double)room[before ? --first : end++].logit;
    }
    memmove(room, room + first, (end - first) * sizeof *room);
    *sum = part;
    return end - first;
}

/* The first candidate that XTC leaves: the least probable of those with at least `threshold`. */
static size_t first_by_xtc(const struct candidate *room, size_t count, double sum, float threshold)
{
    size_t above = 0;

    while (above < count && (double)room[above].logit >= (double)threshold * sum)
        above++;
    return above > 0 ? above - 1 : 0;
}

/* Drops the last candidates, whose weights are below `least` of *sum, but for the first one. */
static size_t keep_above(const struct candidate *room, size_t count, double least, double *sum)
{
    const double bound = least * *sum;

    while (count > 1 && (double)room[count - 1].logit < bound)
        *sum -= (double)room[--count].logit;
    return count;
}

/* The least probability that eta_cutoff leaves of candidates whose weights add to `sum`. */
static double least_by_eta(const struct candidate *room, size_t count, double sum, double eta)
{
    double entropy = 0;

    for (size_t i = 0; i < count; i++)
        if (room[i].logit > 0)
            entropy -= (double)room[i].logit / sum * log((double)room[i].logit / sum);
    return fmin(eta, sqrt(eta) * exp(-entropy));
}

bool sampler_penalize(struct sampler *sampler, float *logits, size_t count, const int64_t *seen, size_t seen_count)
{
    if (!make_room(sampler, count))
        return false;
    if (sampler->prompt_penalty != 1)
        apply_prompt_penalty(sampler, logits, count, seen);
    apply_penalties(sampler, logits, count, seen, seen_count);
    if (sampler->dry.multiplier != 0 && sampler->dry.base >= 1)
        apply_dry(sampler, logits, count, seen, seen_count);
    for (size_t i = 0; i < sampler->bias_count; i++)
        if (has_logit(sampler->bias[i].token, count))
            logits[sampler->bias[i].token] += sampler->bias[i].bias;
    return true;
}

int64_t sampler_next(struct sampler *sampler, float *logits, size_t count)
{
    double sum = 0, part = 0, at;
    size_t kept = 0, first = 0, last = 0;
    int64_t best;
    float top, least;

    if (!make_room(sampler, count))
        return SAMPLER_NO_MEMORY;
    for (size_t i = 0; sampler->allowed != NULL && i < count; i++)
        if ((sampler->allowed[i / 64] >> i % 64 & 1) == 0)
            logits[i] = -INFINITY;
    best = most_probable(logits, count);
    if (!(sampler->temperature > 0) || best < 0 || !isfinite(logits[best]))
        return best;
    top = logits[best];
    least = top - 30 * sampler->temperature; /* tokens below have a probability below 10^-13 */
    if (sampler->top_n_sigma > 0)
        least = fmaxf(least, least_by_sigma(sampler->top_n_sigma, logits, count, top));
    for (size_t i = 0; i < count; i++)
        if (logits[i] >= least || (int64_t)i == best)
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
    if (sampler->typical_p > 0 && sampler->typical_p < 1)
        kept = keep_typical(sampler->room, kept, sampler->typical_p, &sum);
    while (last < kept && (part < (double)sampler->top_p * sum || last == 0))
        part += (double)sampler->room[last++].logit;
    if (sampler->epsilon_cutoff > 0)
        last = keep_above(sampler->room, last, (double)sampler->epsilon_cutoff, &part);
    if (sampler->eta_cutoff > 0)
        last = keep_above(sampler->room, last, least_by_eta(sampler->room, last, part, (double)sampler->eta_cutoff),
                          &part);
    if (sampler->xtc_probability > 0 && draw(&sampler->state) < (double)sampler->xtc_probability)
        first = first_by_xtc(sampler->room, last, part, sampler->xtc_threshold);
    for (size_t i = 0; i < first; i++)
        part -= (double)sampler->room[i].logit;
    at = draw(&sampler->state) * part;
    for (size_t i = first; i + 1 < last; i++) {
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
