/* Stub without tokenizers (libunistring is not installed): no model is a model for texts. */
#include "texts/model/text_model.h"
#include <stdio.h>

inlay_status text_model_open(const text_source *source, text_model **out_text, inlay_diag *diag)
{
    (void)source;
    (void)diag;
    *out_text = NULL;
    return INLAY_OK;
}

void text_model_explain(const text_source *source, char *out, size_t bytes)
{
    (void)source;
    (void)snprintf(out, bytes,
                   "this server has no models for texts: it was built without libunistring; build it again with the "
                   "package libunistring-dev");
}

bool text_model_lacks_tokenizer(const text_source *source)
{
    (void)source;
    return false;
}

inlay_status text_model_find_rows(text_model *model, const uint32_t *cancel, inlay_diag *diag)
{
    (void)model;
    (void)cancel;
    (void)diag;
    return INLAY_UNSUPPORTED;
}

bool text_model_is_likely(const char *path)
{
    (void)path;
    return false;
}

void text_model_close(text_model *model)
{
    (void)model;
}

bool text_model_is_end(const text_model *model, int64_t token)
{
    (void)model;
    (void)token;
    return false;
}
