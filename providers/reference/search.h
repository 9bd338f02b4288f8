/* search.h - the state of a text generation search: SearchStart creates it, SearchStep advances it.
 *
 * The state is one int32 tensor: the head, followed by the lists below. So a Loop carries one value, and other code
 * need not know the layout. A model may pass any tensor instead, so search_open() validates all of it. */
#ifndef SEARCH_H
#define SEARCH_H
#include "inlay/kit_table.h"

enum { SEARCH_BEAM = 1, SEARCH_GREEDY = 2, SEARCH_SAMPLE = 3 };
enum { SEARCH_MAX_BEAMS = 128, SEARCH_MAX_WORDS = 1 << 26 };

/* 32-bit fields only, because the struct is copied to the tensor. */
typedef struct search_head {
    int32_t search; /* SEARCH_* */
    int32_t batch, beams, returned;
    int32_t min_length, max_length;
    int32_t prompt; /* tokens at the start of every row */
    int32_t length; /* tokens in every row so far */
    int32_t words;  /* size of the vocabulary; 0: the number of logits per row */
    int32_t eos, pad;
    int32_t ngram; /* size of the n-grams that must not occur twice; 0: no limit */
    int32_t early_stopping;
    int32_t whole;         /* the decoder reads the whole sequence in each step */
    int32_t custom, least; /* Sampling: sort in descending order; keep at least `least` tokens */
    int32_t masks;         /* bits: 1 vocabulary mask, 2 prefix vocabulary mask, 4 presence mask */
    int32_t mask_words;    /* vocabulary size of the masks */
    int32_t mask_width;    /* columns of the prompts' attention mask; 0 = the decoder has none */
    uint32_t random;
    float length_penalty, repetition_penalty, temperature, top_p, filter_value, presence_penalty;
} search_head;

/* The lists, in the order of the layout after the head; rows = batch * beams. */
struct search {
    search_head head;
    int32_t *data;         /* the whole tensor */
    int32_t *sequence;     /* [rows, max_length] */
    float *score;          /* [rows] */
    int32_t *done;         /* [batch] */
    int32_t *found;        /* [batch] number of finished sequences, at most `beams` */
    float *found_score;    /* [batch, beams], best first */
    int32_t *found_length; /* [batch, beams] */
    int32_t *found_words;  /* [batch, beams, max_length] */
    int32_t *place;        /* [batch] unmasked tokens of the prompt: the position of the first generated token */
    int32_t *mask;         /* [batch, mask_width] */
    uint32_t *bits;        /* [(masks & 1) + batch * ((masks & 2) / 2 + (masks & 4) / 4), (mask_words + 31) / 32] */
    int64_t count;         /* 32-bit words of the whole tensor */
};

/* Sets the pointers of `out` to the lists that follow the head in data. If data is NULL, only the count is computed.
 * Invalid values in the head are an error. */
INLAY_NODISCARD inlay_status search_lay(const search_head *head, int32_t *data, struct search *out, inlay_diag *diag);
/* Validates and opens the state in a tensor. */
INLAY_NODISCARD inlay_status search_open(const kit_tensor *state, struct search *out, inlay_diag *diag);

static inline int64_t search_rows(const search_head *head)
{
    return (int64_t)head->batch * head->beams;
}
static inline int64_t search_mask_row(const search_head *head)
{
    return ((int64_t)head->mask_words + 31) / 32;
}

/* Adds a finished sequence of a prompt to the prompt's list, if the sequence is among the best. */
void search_add_found(struct search *search, int32_t prompt, const int32_t *words, int32_t length, float sum);

/* SearchStep, in search_step.c. */
inlay_status search_shape_step(const void *state, kit_plan *plan, inlay_diag *diag);
inlay_status search_run_step(const kit_call *call);
#endif
