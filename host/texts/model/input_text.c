#include "texts/model/input_text.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include <stdlib.h>
#include <string.h>

bool input_list_add(input_list *list, const json_t *value, uint32_t most, body_error *error)
{
    input_text *one;

    if (list->count == most)
        return body_fail(error, "more than %u texts", most);
    if (!LIST_GROW(list->texts, list->count))
        return body_fail(error, "out of memory for the texts");
    one = &list->texts[list->count];
    *one = (input_text){ .text = json_string_value(value) };
    if (one->text == NULL && !json_is_array(value))
        return body_fail(error, "neither a text nor tokens");
    list->count++;
    return one->text != NULL || body_tokens(value, &one->tokens, &one->token_count, error);
}

bool input_list_read(input_list *list, const json_t *value, uint32_t most, body_error *error)
{
    if (!json_is_array(value) || json_is_integer(json_array_get(value, 0)))
        return input_list_add(list, value, most, error);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!input_list_add(list, json_array_get(value, i), most, error))
            return false;
    return true;
}

size_t input_list_tokens(const input_list *list)
{
    size_t count = 0;

    for (uint32_t i = 0; i < list->count; i++)
        count += list->texts[i].token_count;
    return count;
}

void input_list_deinit(input_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        free(list->texts[i].tokens);
    free(list->texts);
}

/* The text of two texts in the model's form, with a NUL. */
static void join_pair(const input_text *text, const char *form, struct strbuf *joined)
{
    static const char query[] = "{query}", document[] = "{document}";

    while (form[0] != '\0') {
        if (strncmp(form, query, sizeof query - 1) == 0) {
            strbuf_text(joined, text->text);
            form += sizeof query - 1;
        } else if (strncmp(form, document, sizeof document - 1) == 0) {
            strbuf_text(joined, text->second);
            form += sizeof document - 1;
        } else {
            strbuf_add(joined, form++, 1);
        }
    }
    strbuf_add(joined, "", 1);
}

/* Makes the tokens of two texts. */
static bool tokenize_pair(input_text *text, const text_model *model, const char *name, body_error *error)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct strbuf joined = { 0 };
    bool good;

    if (model->pair_template == NULL)
        return tokenizer_encode_pair(model->tokenizer, text->text, text->second, &text->tokens, &text->token_count,
                                     &text->second_begin, &diag) == INLAY_OK ||
               body_fail(error, "%s: %s", name, diag.text);
    join_pair(text, model->pair_template, &joined);
    good = !joined.failed && tokenizer_encode(model->tokenizer, joined.data, false, &text->tokens, &text->token_count);
    strbuf_deinit(&joined);
    return good || body_fail(error, "out of memory for the tokens of %s", name);
}

bool input_text_tokenize(input_text *text, const text_model *model, bool whole, const char *name, body_error *error)
{
    size_t bytes;

    if (text->text == NULL)
        return true;
    bytes = strlen(text->text) + (text->second != NULL ? strlen(text->second) : 0);
    if (bytes > model->most_bytes)
        return body_fail_length(error, name, bytes, model->most_bytes);
    if (text->second != NULL)
        return tokenize_pair(text, model, name, error);
    return tokenizer_encode(model->tokenizer, text->text, whole, &text->tokens, &text->token_count) ||
           body_fail(error, "out of memory for the tokens of %s", name);
}

bool input_text_check(const input_text *text, const text_model *model, bool has_reply, const char *name,
                      body_error *error)
{
    bool special;
    size_t bytes;

    for (size_t i = 0; text->text == NULL && i < text->token_count; i++)
        if (tokenizer_bytes(model->tokenizer, text->tokens[i], &bytes, &special) == NULL)
            return body_fail(error, "%s: the model has no token %lld", name, (long long)text->tokens[i]);
    if (text->token_count == 0)
        return body_fail(error, "%s has no tokens", name);
    if (model->decode.context == 0 || text->token_count + has_reply <= model->decode.context)
        return true;
    error->code = "context_length_exceeded";
    return body_fail(error, "%s has %zu tokens, and the model's context%s %zu", name, text->token_count,
                     has_reply ? ", with the reply," : "", model->decode.context);
}
