/* tokenizer.h - the tokenizer of a model's folder, for texts that grow token by token. Which files are understood is
 * said in providers/prepost/text/text.h, which does the work. */
#ifndef GENERATE_TOKENIZER_H
#define GENERATE_TOKENIZER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tokenizer tokenizer;

/* Reads the file. NULL: error (of `bytes` bytes) is one line that says why. */
tokenizer *tokenizer_open(const char *path, char *error, size_t bytes);
void tokenizer_close(tokenizer *t); /* NULL is a no-op */

/* Appends the tokens of text to *tokens, [*count], which it grows; the caller frees it. Added tokens, such as
 * <|im_start|>, are found in the text. whole: with what the file puts around a text ([CLS] ... [SEP], <s>). false: no
 * memory; *tokens is there all the same. */
bool tokenizer_encode(const tokenizer *t, const char *text, bool whole, int64_t **tokens, size_t *count);
/* The bytes that a token adds to a text, perhaps a part of a character; NULL: there is no such token. *special: it is
 * not text. */
const char *tokenizer_bytes(const tokenizer *t, int64_t token, size_t *bytes, bool *special);
/* The token of that spelling; -1: there is none. */
int64_t tokenizer_id(const tokenizer *t, const char *text);
#endif
