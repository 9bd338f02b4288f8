/* texts/draft/head.h - a head: a draft model that guesses the next tokens of a text from the hidden states of the
 * model, as those of EAGLE and of multi-token prediction (MTP) do.
 *
 * Row r of a head reads the hidden state of token r of the text and the token r + 1, and guesses the token r + 2. After
 * the last token, a row reads the guess of the row before, and the hidden state that this row returned. */
#ifndef TEXTS_HEAD_H
#define TEXTS_HEAD_H
#include "inlay/inlay.h"
#include <stdbool.h>
#include <stddef.h>

enum { HEAD_SOURCES = 8 };

typedef struct text_head {
    uint32_t ids, mask, positions; /* inputs; mask, positions: INLAY_NONE: missing */
    uint32_t last_logits;          /* input of option last_logits; INLAY_NONE: all tokens have logits */
    uint32_t logits;               /* output */
    uint32_t hidden;               /* input [1, tokens, width]: hidden states of the model */
    /* Input: hidden states that the head returned. Rows that have one have zeros in `hidden`, and the others have zeros
     * here. INLAY_NONE: `hidden` has both. */
    uint32_t own;
    uint32_t next;  /* output: hidden states for the next row; INLAY_NONE: the head makes one guess */
    uint32_t table; /* output d2t, see text_head_set_targets(); INLAY_NONE: none */
    inlay_dtype dtype;
    uint32_t number_bytes;          /* of a number of hidden states */
    size_t hidden_bytes, own_bytes; /* of a row of the hidden states; own: of those that the head returns */
    uint32_t sources[HEAD_SOURCES]; /* [source_count] outputs of the model, which make `hidden` one after another */
    uint32_t source_count;
    int64_t *targets; /* [target_count] the token of each of the head's logits; NULL: they are those of the model */
    size_t target_count;
    size_t words; /* tokens of the model */
} text_head;

/* A session, and the path of its file. */
typedef struct head_model {
    const inlay_session *session;
    const char *path;
} head_model;

/* Whether an input of the draft model may be one of hidden states. */
bool text_head_is_likely(const inlay_session *draft);
/* Finds the roles of the inputs and outputs of a draft model that is a head. words: tokens of the model. outputs: names
 * of the outputs of the model that the head reads, separated by commas; NULL: they are found. out starts as {0}, and
 * is deinitialized also after a failure. INLAY_INVALID_ARGUMENT: it is not a head of this model; the message names the
 * input or output. */
INLAY_NODISCARD inlay_status text_head_find(head_model draft, head_model model, size_t words, const char *outputs,
                                            text_head *out, inlay_diag *diag);
void text_head_deinit(text_head *head);
/* Logit i of the head is that of the token i + offsets[i] (EAGLE-3's table d2t, int32 or int64). */
INLAY_NODISCARD inlay_status text_head_set_targets(text_head *head, inlay_dtype dtype, const void *offsets,
                                                   size_t count, inlay_diag *diag);
#endif
