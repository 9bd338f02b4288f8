/* The texts of a request for embeddings, and their tokens. */
#include "serve/chat/embedding_internal.h"
#include "serve/model/text.h"
#include <stdlib.h>
#include <string.h>

bool embedding_add_text(struct embedding *embedding, const json_t *value, body_error *error)
{
    embedded_text *text;

    if (embedding->count == EMBEDDING_MAX_TEXTS)
        return body_fail(error, "more than %d texts", EMBEDDING_MAX_TEXTS);
    if (!LIST_GROW(embedding->texts, embedding->count))
        return body_fail(error, "out of memory for the texts");
    text = &embedding->texts[embedding->count];
    *text = (embedded_text){ .text = json_string_value(value) };
    if (text->text == NULL && !json_is_array(value))
        return body_fail(error, "neither a text nor tokens");
    embedding->count++;
    return text->text != NULL || body_tokens(value, &text->tokens, &text->token_count, error);
}

bool embedding_tokenize(struct exchange *exchange, struct embedding *embedding)
{
    const text_model *model = exchange->job.model->text;
    body_error error = { .code = NULL };

    for (uint32_t i = 0; i < embedding->count && error.text[0] == '\0'; i++) {
        embedded_text *text = &embedding->texts[i];
        bool special;
        size_t bytes;

        if (text->text != NULL && strlen(text->text) > model->most_bytes)
            (void)body_fail_length(&error, "the text", strlen(text->text), model->most_bytes);
        else if (text->text != NULL &&
                 !tokenizer_encode(model->tokenizer, text->text, true, &text->tokens, &text->token_count))
            (void)body_fail(&error, "out of memory for the tokens of input %u", i);
        for (size_t k = 0; text->text == NULL && k < text->token_count; k++)
            if (tokenizer_bytes(model->tokenizer, text->tokens[k], &bytes, &special) == NULL)
                (void)body_fail(&error, "input %u: the model has no token %lld", i, (long long)text->tokens[k]);
        if (text->token_count == 0 && error.text[0] == '\0')
            (void)body_fail(&error, "input %u has no tokens", i);
        if (model->context > 0 && text->token_count > model->context && error.text[0] == '\0') {
            (void)body_fail(&error, "input %u has %zu tokens, and the model's context %zu", i, text->token_count,
                            model->context);
            error.code = "context_length_exceeded";
        }
    }
    if (error.text[0] != '\0') {
        exchange_fail_parameter(exchange, HTTP_BAD_REQUEST, error.text, "input", error.code);
        return false;
    }
    return true;
}
