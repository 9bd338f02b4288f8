/* Without tokenizers (libunistring is not installed) no model is one for texts. */
#include "serve/text.h"

inlay_status language_open(const struct model *m, text_model **out_text, inlay_diag *diag)
{
    (void)m;
    (void)diag;
    *out_text = NULL;
    return INLAY_OK;
}

void language_close(text_model *t)
{
    (void)t;
}

bool text_is_end(const text_model *t, int64_t token)
{
    (void)t;
    (void)token;
    return false;
}

bool tokenizer_encode(const struct tokenizer *t, const char *text, bool whole, int64_t **tokens, size_t *count)
{
    (void)t;
    (void)text;
    (void)whole;
    (void)tokens;
    (void)count;
    return false;
}

const char *tokenizer_bytes(const struct tokenizer *t, int64_t token, size_t *bytes, bool *special)
{
    (void)t;
    (void)token;
    *bytes = 0;
    *special = false;
    return NULL;
}
