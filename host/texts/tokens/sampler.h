/* texts/tokens/sampler.h - selects the next token from logits. */
#ifndef TEXTS_SAMPLER_H
#define TEXTS_SAMPLER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Added to the logit of a token. */
struct token_bias {
    int64_t token;
    float bias;
};

/* A set of characters of ASCII: bit c % 64 of bits[c / 64]. */
typedef struct ascii_set {
    uint64_t bits[2];
} ascii_set;

/* Adds the characters of ASCII among the bytes of a text. */
static inline void ascii_add(ascii_set *set, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char byte = (unsigned char)text[i];

        if (byte < 128)
            set->bits[byte / 64] |= UINT64_C(1) << byte % 64;
    }
}

struct sampler {
    float temperature;    /* 0: always the most probable token */
    float top_p;          /* samples from the smallest set of tokens with this total probability; 1: all */
    float min_p;          /* samples from tokens with at least this part of the highest probability; 0: all */
    float penalty;        /* logits of previous tokens: divided by it if positive, otherwise multiplied */
    float prompt_penalty; /* before it, those of the prompt's tokens: multiplied by it if positive, otherwise divided */
    float presence;       /* subtracted from the logits of generated tokens, once per token */
    float frequency;      /* subtracted from the logit once per occurrence */
    /* Further choices; 0: off. The first two are of transformers, the others of llama.cpp. */
    float epsilon_cutoff;  /* drops tokens of a lower probability; of what remains: */
    float eta_cutoff;      /* drops those below the lesser of it and of its root divided by exp(entropy) */
    float top_n_sigma;     /* samples from logits that are at most this many standard deviations below the largest */
    float typical_p;       /* samples from a set of this probability, of information nearest to the mean */
    float xtc_probability; /* the chance to drop all tokens of at least xtc_threshold but the least probable */
    float xtc_threshold;
    /* DRY: the logit of a token that would repeat n >= allowed tokens and itself after them is less by
     * multiplier * base^(n - allowed). A token with a character of breakers ends a repetition. */
    struct {
        float multiplier, base; /* multiplier 0: off */
        uint32_t allowed;
        int64_t last_n; /* the repetition is found in this number of last tokens; 0: all; -1: none */
        ascii_set breakers;
        const ascii_set *characters; /* [character_count] of each token; borrowed; NULL: there are no breakers */
        size_t character_count;
    } dry;
    int64_t last_n;                /* penalties concern this number of last tokens; 0: all; -1: none */
    uint32_t top_k;                /* samples from this number of most probable tokens; 0: all */
    uint64_t state;                /* the seed; advances with each sampled token */
    size_t prompt_count;           /* previous tokens that belong to the prompt: not generated */
    const struct token_bias *bias; /* [bias_count], borrowed */
    size_t bias_count;
    const uint64_t *allowed; /* bit i: token i may be sampled; NULL: all may; borrowed */
    struct candidate *room;  /* [room_count]; initially NULL; sampler_deinit() frees it */
    unsigned char *marks;    /* [room_count] the same; all 0 between calls */
    size_t room_count;
};

#define SAMPLER_INIT                                                                                                   \
    {                                                                                                                  \
        .top_p = 1.0f, .penalty = 1.0f, .prompt_penalty = 1.0f                                                         \
    }

/* What sampler_next() returns instead of a token. */
enum { SAMPLER_NO_MEMORY = -1, SAMPLER_NO_TOKEN = -2 /* all logits are -INFINITY or NaN */ };

/* Changes the logits [count] by the penalties and `bias`. seen: [seen_count] tokens so far. false: out of memory. */
bool sampler_penalize(struct sampler *s, float *logits, size_t count, const int64_t *seen, size_t seen_count);
/* Returns the next token, below `count`, of those that may come next: one whose logit is -INFINITY or NaN is never
 * selected. Overwrites the logits. */
int64_t sampler_next(struct sampler *s, float *logits, size_t count);
void sampler_deinit(struct sampler *s);
#endif
