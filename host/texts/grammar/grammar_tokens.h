/* texts/grammar/grammar_tokens.h - the tokens of a vocabulary that may continue a text of a grammar. */
#ifndef TEXTS_GRAMMAR_TOKENS_H
#define TEXTS_GRAMMAR_TOKENS_H
#include "texts/grammar/grammar.h"

/* The tokens in the order of their bytes, so that those with a common beginning are followed together. */
typedef struct token_index token_index;

/* Returns the bytes that a token adds to a text; NULL: the token is not a part of texts. */
typedef const char *(*token_bytes_fn)(const void *user, int64_t token, size_t *bytes);

/* Tokens 0 to count - 1, whose bytes stay valid. NULL: out of memory. */
token_index *token_index_create(token_bytes_fn bytes_of, const void *user, size_t count);
void token_index_destroy(token_index *index); /* NULL is a no-op */
size_t token_index_count(const token_index *index);

/* Bit i of the result: token i may follow a text that leads to the state. Bits of tokens that end a text are not set.
 * Kept by the grammar, and valid until the next call. NULL: out of memory. *any: whether a bit is set. */
const uint64_t *token_index_mask(const token_index *index, struct grammar *grammar, uint32_t state, bool *any);
/* The state after a token. */
uint32_t token_index_next(const token_index *index, struct grammar *grammar, uint32_t state, int64_t token);
#endif
