/* serve/text.h - what a language model needs besides its file: tokenizer.json, the tokens that end a text, which input
 * is what. The tokenizer and the sampler are those of samples/generate. */
#ifndef SERVE_TEXT_H
#define SERVE_TEXT_H
#include "serve/model.h"
#include "tokenizer.h"

enum { TEXT_MAX_ENDS = 8 };

typedef struct text_model {
    struct tokenizer *tokenizer;
    uint32_t ids, mask, positions, types; /* inputs of the model; INLAY_NONE: it has no such */
    uint32_t logits, vectors;             /* outputs; logits: of a decoder with states only */
    int64_t ends[TEXT_MAX_ENDS];          /* tokens that end a text */
    uint32_t end_count;
    char *chat_form, *begin,
        *end; /* chat_template, bos_token and eos_token of tokenizer_config.json; chat_form NULL: none */
} text_model;

/* NULL in *out_text where no tokenizer.json is beside the model's file or a folder above, or the model is of another
 * kind. A tokenizer.json that cannot be read is a failure. */
INLAY_NODISCARD inlay_status language_open(const struct model *model, text_model **out_text, inlay_diag *diag);
void language_close(text_model *model); /* NULL is a no-op */
bool text_is_end(const text_model *model, int64_t token);
#endif
