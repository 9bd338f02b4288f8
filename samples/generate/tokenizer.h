/* tokenizer.h - byte-level BPE from a tokenizer.json of Hugging Face's tokenizers: GPT-2, Llama 3, Qwen, MiniMind, ...
 */
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
 * <|im_start|>, are found in the text. false: no memory, or a byte that no token has; *tokens is there all the same. */
bool tokenizer_encode(const tokenizer *t, const char *text, int64_t **tokens, size_t *count);
/* The bytes of a token, perhaps a part of a character; NULL: there is no such token. *special: it is not text. */
const char *tokenizer_bytes(const tokenizer *t, int64_t token, size_t *bytes, bool *special);
/* The added token of that text; -1: there is none. */
int64_t tokenizer_added(const tokenizer *t, const char *text);
#endif
