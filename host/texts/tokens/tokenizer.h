/* texts/tokens/tokenizer.h - the tokenizer of a model, for text that grows token by token. It is implemented with
 * the library of providers/prepost/text, whose header text.h lists the supported files. */
#ifndef TEXTS_TOKENIZER_H
#define TEXTS_TOKENIZER_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tokenizer;

/* Reads the file. NULL: error (`bytes` bytes) holds a one-line message. */
struct tokenizer *tokenizer_open(const char *path, char *error, size_t bytes);
/* The same from the content of a file; name: for messages. */
struct tokenizer *tokenizer_open_bytes(const char *file, size_t file_bytes, const char *name, char *error,
                                       size_t bytes);
void tokenizer_close(struct tokenizer *tokenizer); /* NULL is a no-op */

/* Appends the tokens of text to *tokens, [*count], reallocating it; the caller frees it. Added tokens, such as
 * <|im_start|>, are recognised in the text. whole: adds the special tokens that the file puts around a text ([CLS] ...
 * [SEP], <s>). false: out of memory; *tokens stays valid. */
bool tokenizer_encode(const struct tokenizer *tokenizer, const char *text, bool whole, int64_t **tokens, size_t *count);
/* The same for two texts together, with the special tokens around and between them. *begin: the first token of the
 * second text. INLAY_UNSUPPORTED: the file does not say how. */
INLAY_NODISCARD inlay_status tokenizer_encode_pair(const struct tokenizer *tokenizer, const char *first,
                                                   const char *second, int64_t **tokens, size_t *count, size_t *begin,
                                                   inlay_diag *diag);
/* Returns the bytes that a token adds to a text, possibly part of a character; NULL: the token does not exist.
 * *special: the token is not text. */
const char *tokenizer_bytes(const struct tokenizer *tokenizer, int64_t id, size_t *bytes, bool *special);
/* Returns the size of the vocabulary: all tokens are below it. */
size_t tokenizer_count(const struct tokenizer *tokenizer);
/* Returns the token with this spelling; -1: it does not exist. */
int64_t tokenizer_id(const struct tokenizer *tokenizer, const char *text);
#endif
