/* tokens.h - shared by the operators that convert texts to tokens. */
#ifndef TOKENS_H
#define TOKENS_H
#include "prepost/prepost.h"
#include "prepost/text/text.h"

/* The state of a tokenizer operator; tokens_release() frees it. */
typedef struct token_state {
    text_tokenizer *tokenizer;
    int64_t max_length, pad_to, pad, begin, end;
    bool special;       /* adds the special tokens of the tokenizer's file; Detokenize: skips them */
    bool add_affix;     /* puts the token `begin` before each text and `end` after it */
    bool bare_if_blank; /* add_affix does not apply to texts of white space only */
} token_state;
/* Creates a state of zeros. */
inlay_status tokens_create_state(token_state **out, inlay_diag *diag);
/* Creates a state, and opens the tokenizer from the file whose content is the attribute `attr`. */
inlay_status tokens_open(const kit_node *node, const char *attr, token_state **out, inlay_diag *diag);
void tokens_release(void *state); /* NULL is a no-op */

/* A string attribute, or "". */
inlay_str tokens_attr(const inlay_node_info *node, const char *name);
void tokens_cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost);

/* The concatenated tokens of some texts, and the index of the first token of each. token_lists_free() frees it. */
typedef struct token_lists {
    text_ids ids;
    size_t *starts; /* [count + 1] */
    size_t count, longest;
} token_lists;
void token_lists_free(token_lists *lists);
/* Encodes the texts of input 0 into empty lists. */
inlay_status token_lists_encode(const kit_call *call, const token_state *state, token_lists *lists);

/* For operators with ids and a mask of [texts, longest], or of width padding_length. */
inlay_status tokens_infer_rows(void *ctx, inlay_infer *in, inlay_diag *diag);
inlay_status tokens_run_rows(const kit_call *call);
#endif
