/* serve/model/text_rows.h - texts of different lengths as rows of the states of one context, so that one run makes the
 * next token of each.
 *
 * The mask of a run has one row per text and as many columns as the longest text has tokens. A row's states are at one
 * end of the columns, by the way in which the model's attention reads them: */
#ifndef SERVE_TEXT_ROWS_H
#define SERVE_TEXT_ROWS_H
#include "serve/model/model.h"

typedef enum text_form {
    TEXT_ALONE, /* the model does not separate rows of different lengths: one text per context */
    TEXT_LEFT,  /* padding first: attention spelled out appends to all rows in one place, and the mask hides padding */
    TEXT_RIGHT  /* padding last: GroupQueryAttention appends to each row after its length, the sum of its mask */
} text_form;

/* A row of a context's states, which hold its first `length` tokens. */
typedef struct text_row {
    inlay_context *context;
    uint32_t row;
    int64_t length;
} text_row;

/* Makes `rows` the rows of the states of `into`, which may be one of their contexts. No context may be in a run. */
INLAY_NODISCARD inlay_status text_rows_join(const struct model *model, text_form form, inlay_context *into,
                                            const text_row *rows, uint32_t count, inlay_diag *diag);
/* Writes the mask [count, width] of rows with these numbers of tokens, those of the run included. */
void text_rows_mask(text_form form, const int64_t *lengths, uint32_t count, int64_t width, int64_t *out_mask);
/* Finds by short runs in which form the model, whose `text` is set, computes for each of several rows what it computes
 * for the row alone; *out_chunks: whether it reads a prompt in parts as it does at once. */
text_form text_rows_find_form(const struct model *model, bool *out_chunks);
/* Bytes of the states of a text: of each token, and of those that do not grow. */
void text_rows_bytes(const struct model *model, uint64_t *out_token_bytes, uint64_t *out_fixed_bytes);
#endif
