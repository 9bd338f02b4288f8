/* texts/tokens/rules.h - what generation_config.json says of tokens that may not come next, or that are more or less
 * probable: the logits processors of transformers that depend on the tokens so far. Those of probabilities are in
 * sampler.h. */
#ifndef TEXTS_RULES_H
#define TEXTS_RULES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct token_list {
    int64_t *tokens; /* [count] */
    uint32_t count;
} token_list;

/* The logit of its last token changes by `bias` where the others come before. */
typedef struct token_sequence {
    token_list list; /* at least one token */
    float bias;      /* -INFINITY: never */
} token_sequence;

typedef struct sequence_list {
    token_sequence *items; /* [count] */
    uint32_t count;
} sequence_list;

/* Starts as TOKEN_RULES_INIT, which changes nothing. */
typedef struct token_rules {
    sequence_list sequences; /* sequence_bias and bad_words_ids */
    token_list suppressed;   /* suppress_tokens: are never chosen */
    token_list first_not;    /* begin_suppress_tokens: are not generated first */
    token_list last;         /* forced_eos_token_id: one of these is the last token of the longest text */
    int64_t first;           /* forced_bos_token_id: follows a prompt of one token; -1: none */
    uint32_t no_repeat;      /* no_repeat_ngram_size: no sequence of this length occurs twice; 0: off */
    uint32_t no_copy;        /* encoder_no_repeat_ngram_size: no such sequence of the prompt is generated; 0: off */
    uint64_t min_tokens;     /* min_length: of a text with its prompt before an end token */
    uint64_t min_generated;  /* min_new_tokens: the same without the prompt */
    uint64_t decay_start;    /* exponential_decay_length_penalty: after this many generated tokens, the logits */
    double decay;            /* of end tokens grow by their size times (decay^n - 1), n tokens later; 0: off */
} token_rules;
#define TOKEN_RULES_INIT                                                                                               \
    {                                                                                                                  \
        .first = -1                                                                                                    \
    }

/* A text whose next token is chosen. */
typedef struct token_place {
    const int64_t *tokens; /* [count] so far */
    size_t count, prompt_count;
    const int64_t *ends; /* [end_count] of the model */
    uint32_t end_count;
    bool forbids_ends; /* none of them comes next */
    bool is_last;      /* the text may have no more tokens */
} token_place;

/* Changes the logits [count] by sequences. The penalties of the sampler come next, and then rules_restrict(). */
void rules_weigh(const sequence_list *sequences, const token_place *place, float *logits, size_t count);
/* Gives tokens that must not come next the logit -INFINITY. */
void rules_restrict(const token_rules *rules, const token_place *place, float *logits, size_t count);
/* Gives the tokens of a list the logit -INFINITY. */
void rules_forbid(float *logits, size_t count, const int64_t *tokens, uint32_t token_count);

/* Frees the lists. */
void rules_deinit(token_rules *rules);
/* Adds a copy of the tokens. false: out of memory. */
bool sequence_add(sequence_list *list, const int64_t *tokens, uint32_t count, float bias);
void sequences_deinit(sequence_list *list);
#endif
