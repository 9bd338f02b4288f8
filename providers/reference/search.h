/* search.h - the state of a search for text, as SearchStart makes it and SearchStep carries it on.
 *
 * It is one int32 tensor: the head, then the lists below, so that a Loop carries one value and nobody else need know
 * what is in it. A file may hold anything in its place, so search_open() checks all of it. */
#ifndef SEARCH_H
#define SEARCH_H
#include "inlay/kit.h"

enum { SEARCH_BEAM = 1, SEARCH_GREEDY = 2, SEARCH_SAMPLE = 3 };
enum { SEARCH_MAX_BEAMS = 128, SEARCH_MAX_WORDS = 1 << 26 };

/* Words of 32 bits only: it is copied into the tensor. */
typedef struct search_head {
    int32_t search; /* SEARCH_* */
    int32_t batch, beams, returned;
    int32_t min_length, max_length;
    int32_t prompt; /* words that every row began with */
    int32_t length; /* words that every row has */
    int32_t words;  /* how many there are to choose from; 0: as many as there are logits */
    int32_t eos, pad;
    int32_t ngram; /* no so many words twice; 0 = any */
    int32_t early_stopping;
    int32_t whole;         /* the decoder reads all words each time */
    int32_t custom, least; /* of Sampling: sort from the top; keep at least so many words */
    int32_t masks;         /* bits: 1 masked words, 2 masked first words, 4 words that are there already */
    int32_t mask_words;    /* words that the masks are of */
    int32_t mask_width;    /* columns of the prompts' mask; 0 = the decoder has none */
    uint32_t random;
    float length_penalty, repetition_penalty, temperature, top_p, filter_value, presence_penalty;
} search_head;

/* The lists, in the order in which they lie behind the head; rows = batch * beams. */
struct search {
    search_head head;
    int32_t *data;         /* the whole tensor */
    int32_t *sequence;     /* [rows, max_length] */
    float *score;          /* [rows] */
    int32_t *done;         /* [batch] */
    int32_t *found;        /* [batch] finished ones, at most `beams` */
    float *found_score;    /* [batch, beams], best first */
    int32_t *found_length; /* [batch, beams] */
    int32_t *found_words;  /* [batch, beams, max_length] */
    int32_t *place;        /* [batch] words of the prompt that count: the position of the first one that is written */
    int32_t *mask;         /* [batch, mask_width] */
    uint32_t *bits;        /* [(masks & 1) + batch * ((masks & 2) / 2 + (masks & 4) / 4), (mask_words + 31) / 32] */
    int64_t count;         /* words of 32 bits of all this */
};

/* Lays the lists out behind a head; data may be NULL, to learn the count. Nonsense in the head is an error. */
INLAY_NODISCARD inlay_status search_lay(const search_head *head, int32_t *data, struct search *out, inlay_diag *diag);
/* The state in a tensor. */
INLAY_NODISCARD inlay_status search_open(const kit_tensor *state, struct search *out, inlay_diag *diag);

static inline int64_t search_rows(const search_head *head)
{
    return (int64_t)head->batch * head->beams;
}
static inline int64_t search_mask_row(const search_head *head)
{
    return ((int64_t)head->mask_words + 31) / 32;
}

/* Takes one more finished sequence of a prompt in, if it is among the best. */
void search_add_found(struct search *search, int32_t prompt, const int32_t *words, int32_t length, float sum);

/* SearchStep, in search_step.c. */
inlay_status search_shape_step(const void *state, kit_plan *plan, inlay_diag *diag);
inlay_status search_run_step(const kit_call *call);
#endif
