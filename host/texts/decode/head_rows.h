/* texts/decode/head_rows.h - the runs of a head: its inputs, and its states, which belong to one text.
 *
 * The first row of the states belongs to the first token of the text whose hidden state is kept. Hidden states of
 * tokens that were shared with an earlier text, and of old tokens, are not kept. Rows of guesses are dropped before the
 * next guesses, and read again with the hidden states of the model. All functions are called under the lock of the
 * model's texts. */
#ifndef TEXTS_HEAD_ROWS_H
#define TEXTS_HEAD_ROWS_H
#include "texts/decode/decoding.h"

struct head_rows;

/* For a draft model with a head. NULL: out of memory. */
struct head_rows *head_rows_create(const decode_model *model);
void head_rows_destroy(struct head_rows *rows); /* NULL is a no-op */
/* Makes a new context keep the states. */
INLAY_NODISCARD inlay_status head_rows_keep(const struct head_rows *rows, inlay_context *context, inlay_diag *diag);
/* Whether the model has returned the hidden states that the next guess of the text needs. */
bool head_rows_can_begin(const decoding_text *text);
/* Drops the states that are not those of the text. false: out of memory. */
bool head_rows_begin(struct head_rows *rows, inlay_context *context, const decoding_text *text);
/* Sets the outputs of a step that runs the head. The table of tokens is the last one, until the head has it. */
void head_rows_want(const struct head_rows *rows, decode_step *step);
/* Binds the inputs of the next run to the step's context, and sets its outputs: at most `most` rows of the text or,
 * after these, the row of the last of `count` guesses. Returns the number of rows of the run; 0: out of memory. */
size_t head_rows_prepare(struct head_rows *rows, const decoding_text *text, const int64_t *guesses, uint32_t count,
                         size_t most, decode_step *step);
/* Takes the outputs of a run. *out_logits [*out_words]: the logits of the next guess, for the tokens of the model,
 * valid until the next call; NULL: rows of the text are left to read. INLAY_UNSUPPORTED: an output has another form. */
INLAY_NODISCARD inlay_status head_rows_read(struct head_rows *rows, decoding_text *text, const decode_output *outputs,
                                            uint32_t count, const float **out_logits, size_t *out_words,
                                            inlay_diag *diag);
#endif
