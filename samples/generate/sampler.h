/* sampler.h - selects the next token from logits. */
#ifndef GENERATE_SAMPLER_H
#define GENERATE_SAMPLER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sampler {
    float temperature;      /* 0: always the most probable token */
    float top_p;            /* samples from the smallest set of tokens with this total probability; 1: all */
    float penalty;          /* logits of previous tokens: divided by it if positive, otherwise multiplied */
    uint32_t top_k;         /* samples from this number of most probable tokens; 0: all */
    uint64_t state;         /* the seed; advances with each sampled token */
    struct candidate *room; /* [room_count]; initially NULL; sampler_deinit() frees it */
    size_t room_count;
};

#define SAMPLER_INIT                                                                                                   \
    {                                                                                                                  \
        0.0f, 1.0f, 1.0f, 0, 0, NULL, 0                                                                                \
    }

/* Returns the next token id, below `count`; overwrites logits. seen: [seen_count] tokens so far. -1: out of memory, or
 * all logits are NaN; a single NaN is never selected. */
int64_t sampler_next(struct sampler *s, float *logits, size_t count, const int64_t *seen, size_t seen_count);
void sampler_deinit(struct sampler *s);
#endif
