/* model.h - a decoder with its key-value cache: runs on the next tokens of a text. Errors go to stderr. */
#ifndef GENERATE_MODEL_H
#define GENERATE_MODEL_H
#include "base/wire.h"
#include "files.h"
#include <inlay/inlay.h>
#include <stddef.h>

/* The model, and the indices of its inputs and outputs; INLAY_NONE: the model has no such input. */
struct model {
    const char *path; /* borrowed */
    struct wire made; /* a head that was completed in memory; empty: the session is that of the file */
    inlay_session *session;
    inlay_context *context;
    uint32_t ids, mask, positions, logits;
    uint32_t last_logits;    /* input of option last_logits; INLAY_NONE: the model returns all logits */
    int64_t ends[MOST_ENDS]; /* tokens that end a text */
    uint32_t end_count;
};

/* threads: of a run, as text; NULL: the default. of: the path of the model whose draft model this is; NULL: it is none.
 * model is all zeros, and is closed also after a failure. */
bool model_open(const char *path, const char *threads, const char *of, struct model *model);
/* Makes the context keep the states, so that each run reads the next tokens. */
bool model_keep(struct model *model);
/* Finds the inputs and outputs of a decoder, checks that this program can supply them, and keeps the states. */
bool model_check(struct model *model);
void model_close(struct model *model);
/* Runs the model on tokens, of which the last ones are guesses. *logits has the logits after the last token that is not
 * a guess, and after each guess; they belong to the context until the next run. */
bool model_read(struct model *model, const int64_t *tokens, int64_t count, int64_t guesses, float **logits,
                size_t *vocabulary);
/* The same with tokens at position `past`, for a model whose inputs are known and whose other ones are bound. */
bool model_read_at(struct model *model, const int64_t *tokens, int64_t past, int64_t count, int64_t guesses,
                   float **logits, size_t *vocabulary);
/* Drops the states of all tokens but the first `length`. */
bool model_rewind(struct model *model, size_t length);
#endif
