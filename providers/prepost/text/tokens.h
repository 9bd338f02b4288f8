/* tokens.h - what the operators that make tokens of texts share. */
#ifndef TOKENS_H
#define TOKENS_H
#include "prepost.h"
#include "text.h"

/* What prepare makes; tokens_release() is its release. */
typedef struct token_state {
    text_tokenizer *tokenizer;
    int64_t max, pad_to, pad, begin, end;
    bool special, around; /* around: each text is begin, its tokens, end */
    bool skip_blank;      /* but for one of nothing but spaces */
} token_state;
/* A state of zeros. */
inlay_status tokens_state(token_state **out, inlay_diag *diag);
/* A state with the tokenizer whose file is that attribute. */
inlay_status tokens_open(const kit_node *node, const char *attr, token_state **out, inlay_diag *diag);
void tokens_release(void *state); /* NULL is a no-op */

/* A string attribute, or "". */
inlay_str tokens_attr(const inlay_node_info *node, const char *name);
void tokens_cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost);

/* The tokens of each text, in one list, and where those of each begin; release with lists_free(). */
struct lists {
    text_ids ids;
    size_t *starts; /* [count + 1] */
    size_t count, longest;
};
void lists_free(struct lists *lists);
/* Those of input 0. */
inlay_status lists_encode(const kit_call *call, const token_state *state, struct lists *lists);
/* Rows of `width`; what is none of a text is pad, 0 in the mask, 0 in the types. Outputs of number -1 are not there. */
inlay_status lists_rows(const kit_call *call, const token_state *state, const struct lists *lists, size_t width,
                        int ids_at, int mask_at, int types_at);

/* [texts, longest], or padding_length wide: ids and a mask. */
inlay_status tokens_infer_rows(void *ctx, inlay_infer *in, inlay_diag *diag);
inlay_status tokens_run_rows(const kit_call *call);
#endif
