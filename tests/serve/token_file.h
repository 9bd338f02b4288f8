/* token_file.h - the tokens of a tokenizer.json, for token_index_create(). */
#ifndef SERVE_TOKEN_FILE_H
#define SERVE_TOKEN_FILE_H
#include "texts/grammar/grammar_tokens.h"
#include "texts/tokens/tokenizer.h"
#include <stdio.h>

/* A token_bytes_fn; user: a struct tokenizer. */
static inline const char *token_file_bytes(const void *user, int64_t token, size_t *bytes)
{
    bool special = false;
    const char *text = tokenizer_bytes(user, token, bytes, &special);

    return special ? NULL : text;
}

/* Opens the tokenizer and makes its index. NULL: a message was printed. */
static inline struct tokenizer *token_file_open(const char *path, token_index **out_index)
{
    char error[500] = "no memory";
    struct tokenizer *tokenizer = tokenizer_open(path, error, sizeof error);

    *out_index = NULL;
    if (tokenizer != NULL)
        *out_index = token_index_create(token_file_bytes, tokenizer, tokenizer_count(tokenizer));
    if (*out_index != NULL)
        return tokenizer;
    (void)fprintf(stderr, "%s: %s\n", path, error);
    tokenizer_close(tokenizer);
    return NULL;
}
#endif
