/* In place of tokenizer.c where libunistring is not installed: there is no tokenizer. */
#include "texts/tokens/tokenizer.h"
#include <stdio.h>

struct tokenizer *tokenizer_open(const char *path, char *error, size_t bytes)
{
    (void)path;
    (void)snprintf(error, bytes, "this build has no tokenizers: libunistring was not installed");
    return NULL;
}

void tokenizer_close(struct tokenizer *tokenizer)
{
    (void)tokenizer;
}

bool tokenizer_encode(const struct tokenizer *model, const char *text, bool whole, int64_t **tokens, size_t *count)
{
    (void)model;
    (void)text;
    (void)whole;
    (void)tokens;
    (void)count;
    return false;
}

inlay_status tokenizer_encode_pair(const struct tokenizer *model, const char *first, const char *second,
                                   int64_t **tokens, size_t *count, size_t *begin, inlay_diag *diag)
{
    (void)model;
    (void)first;
    (void)second;
    (void)tokens;
    (void)count;
    (void)begin;
    return inlay_fail(diag, INLAY_UNSUPPORTED, "this build has no tokenizers: libunistring was not installed");
}

size_t tokenizer_count(const struct tokenizer *model)
{
    (void)model;
    return 0;
}

const char *tokenizer_bytes(const struct tokenizer *model, int64_t token, size_t *bytes, bool *special)
{
    (void)model;
    (void)token;
    *bytes = 0;
    *special = false;
    return NULL;
}

int64_t tokenizer_id(const struct tokenizer *model, const char *text)
{
    (void)model;
    (void)text;
    return -1;
}
