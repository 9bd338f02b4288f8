/* texts/grammar/token_order.h - tokens in the order of their bytes, so that those with a common beginning are followed
 * together through a grammar. */
#ifndef TEXTS_TOKEN_ORDER_H
#define TEXTS_TOKEN_ORDER_H
#include "texts/grammar/grammar.h"

typedef struct ordered_token {
    const char *text; /* [bytes], borrowed */
    uint32_t bytes;
    uint32_t common; /* number of leading bytes that are equal to those of the token before it */
    uint32_t past;   /* index of the next token with a smaller `common`; the number of tokens: there is none */
    uint32_t token;
} ordered_token;

typedef struct token_order {
    ordered_token *tokens; /* [count], owned */
    uint32_t count;
} token_order;

/* A mask of tokens, and whether it has a bit. */
typedef struct token_mask {
    bool any;
    uint64_t bits[];
} token_mask;

static inline void token_mask_set(token_mask *mask, uint32_t token)
{
    mask->bits[token / 64] |= UINT64_C(1) << token % 64;
    mask->any = true;
}

/* Sets `common` and `past` of tokens that are in order. */
void token_order_link(token_order *order);
/* Adds the tokens that a text of the state path[0] may continue with to the mask. path: scratch, one element more than
 * the longest token has bytes. */
void token_order_walk(const token_order *order, struct grammar *grammar, uint32_t *path, token_mask *mask);
#endif
