/* sampler.h - from logits to the next token. */
#ifndef GENERATE_SAMPLER_H
#define GENERATE_SAMPLER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sampler {
    float temperature; /* 0: always the likeliest token */
    float top_p;       /* of the likeliest, as few as have this probability together; 1: all */
    float penalty;  /* logits of tokens that were there already: divided by it where positive, otherwise multiplied */
    uint32_t top_k; /* of the so many likeliest; 0: of all */
    uint64_t state; /* the seed; moves on with each token that is drawn */
    struct candidate *room; /* [room_count] begins as NULL; sampler_deinit() frees it */
    size_t room_count;
} sampler;

#define SAMPLER_INIT                                                                                                   \
    {                                                                                                                  \
        0.0f, 1.0f, 1.0f, 0, 0, NULL, 0                                                                                \
    }

/* The next token, of `count`; logits are written to. seen: [seen_count] tokens so far. -1: no memory, or no number
 * among the logits. */
int64_t sampler_next(sampler *s, float *logits, size_t count, const int64_t *seen, size_t seen_count);
void sampler_deinit(sampler *s);
#endif
