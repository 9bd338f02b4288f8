/* POST /tokenize, /detokenize and /apply-template: the tokens of a text or of messages, the text of tokens, and the
 * prompt of messages, as vLLM and llama-server have them. */
#include "serve/chat/tokenize.h"
#include "serve/chat/body.h"
#include "texts/model/messages.h"
#include "serve/chat/models.h"
#include "texts/chat/tools.h"
#include "serve/model/text.h"
#include <stdlib.h>
#include <string.h>

typedef struct token_request {
    const char *model, *text;
    int64_t *tokens; /* [count], owned */
    size_t count;
    json_t *messages, *variables; /* messages: owned; NULL: the request has a text. variables: of the template */
    tool_set tools;
    bool is_plain; /* without the special tokens that the tokenizer adds to a text */
} token_request;

static bool read_model(void *user, json_t *value, body_error *error)
{
    ((token_request *)user)->model = json_string_value(value);
    return json_is_string(value) || body_fail(error, "not a text");
}

static bool read_text(void *user, json_t *value, body_error *error)
{
    ((token_request *)user)->text = json_string_value(value);
    return json_is_string(value) || body_fail(error, "not a text");
}

static bool read_adds_special(void *user, json_t *value, body_error *error)
{
    bool adds = true;
    const bool good = body_bool(value, &adds, error);

    ((token_request *)user)->is_plain = !adds;
    return good;
}

static bool read_messages(void *user, json_t *value, body_error *error)
{
    token_request *request = user;

    request->messages = json_array();
    return request->messages != NULL ? messages_read(request->messages, value, false, NULL, error)
                                     : body_fail(error, "out of memory for the messages");
}

static bool read_variables(void *user, json_t *value, body_error *error)
{
    ((token_request *)user)->variables = value;
    return json_is_object(value) || body_fail(error, "not an object");
}

static bool read_tools(void *user, json_t *value, body_error *error)
{
    return tool_set_read(&((token_request *)user)->tools, value, false, error);
}

static bool read_true(void *user, json_t *value, body_error *error)
{
    (void)user;
    return json_is_true(value) || body_fail(error, "only true is supported");
}

static bool read_tokens(void *user, json_t *value, body_error *error)
{
    token_request *request = user;

    return json_is_array(value) ? body_tokens(value, &request->tokens, &request->count, error)
                                : body_fail(error, "not an array of token ids");
}

static const body_parameter template_rows[] = { { "model", read_model },
                                                { "messages", read_messages },
                                                { "tools", read_tools },
                                                { "chat_template_kwargs", read_variables },
                                                { "add_generation_prompt", read_true } };
static const body_table template_table = { template_rows, sizeof template_rows / sizeof *template_rows, NULL };
/* "content" is llama-server's name of the text. */
static const body_parameter text_rows[] = { { "prompt", read_text },
                                            { "content", read_text },
                                            { "add_special_tokens", read_adds_special },
                                            { "add_special", read_adds_special } };
static const body_table text_table = { text_rows, sizeof text_rows / sizeof *text_rows, &template_table };
static const body_parameter token_rows[] = { { "model", read_model }, { "tokens", read_tokens } };
static const body_table token_table = { token_rows, sizeof token_rows / sizeof *token_rows, NULL };

static void write_tokens(struct exchange *exchange, const token_request *request, const text_model *model)
{
    strbuf_format(&exchange->reply, "{\"count\":%zu,\"max_model_len\":%zu,\"tokens\":[", request->count,
                  model->decode.context);
    for (size_t i = 0; i < request->count; i++) {
        strbuf_text(&exchange->reply, i > 0 ? "," : "");
        strbuf_int(&exchange->reply, request->tokens[i]);
    }
    strbuf_text(&exchange->reply, "]}");
    exchange->code = HTTP_OK;
}

/* The prompt of the messages, which the caller frees; NULL: *error says why. */
static char *render(const token_request *request, text_model *model, body_error *error)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    char *text = NULL;

    if (messages_render(model, request->messages, request->tools.list, request->variables, true, &text, &diag) !=
        INLAY_OK)
        (void)body_fail(error, "%.250s", diag.text);
    return text;
}

static bool apply_template(struct exchange *exchange, const token_request *request, text_model *model,
                           body_error *error)
{
    char *text = NULL;

    if (request->messages == NULL)
        return body_fail(error, "the request has no messages");
    text = render(request, model, error);
    if (text == NULL)
        return false;
    strbuf_text(&exchange->reply, "{\"prompt\":");
    strbuf_json(&exchange->reply, text, strlen(text));
    strbuf_text(&exchange->reply, "}");
    exchange->code = HTTP_OK;
    free(text);
    return true;
}

static bool tokenize_text(struct exchange *exchange, token_request *request, const text_model *model, body_error *error)
{
    if (strlen(request->text) > model->most_bytes)
        return body_fail_length(error, "the text", strlen(request->text), model->most_bytes);
    if (!tokenizer_encode(model->tokenizer, request->text, !request->is_plain, &request->tokens, &request->count))
        return body_fail(error, "out of memory for the tokens");
    write_tokens(exchange, request, model);
    return true;
}

static bool tokenize(struct exchange *exchange, token_request *request, text_model *model, body_error *error)
{
    char *text;
    bool good;

    if ((request->text == NULL) == (request->messages == NULL))
        return body_fail(error, request->text == NULL ? "the request has no prompt (a text)"
                                                      : "the request has both a prompt and messages");
    if (request->text != NULL)
        return tokenize_text(exchange, request, model, error);
    request->text = text = render(request, model, error);
    request->is_plain = true; /* the template has the special tokens */
    good = text != NULL && tokenize_text(exchange, request, model, error);
    free(text);
    return good;
}

static bool detokenize(struct exchange *exchange, const token_request *request, const text_model *model,
                       body_error *error)
{
    struct strbuf text = { 0 };
    size_t bytes = 0;
    bool special;

    if (request->tokens == NULL)
        return body_fail(error, "the request has no tokens");
    for (size_t i = 0; i < request->count; i++) {
        const char *part = tokenizer_bytes(model->tokenizer, request->tokens[i], &bytes, &special);

        if (part == NULL) {
            strbuf_deinit(&text);
            return body_fail(error, "the model has no token %lld", (long long)request->tokens[i]);
        }
        strbuf_add(&text, part, bytes);
    }
    strbuf_text(&exchange->reply, "{\"prompt\":");
    strbuf_json(&exchange->reply, text.size > 0 ? text.data : "", text.size);
    strbuf_text(&exchange->reply, ",\"content\":");
    strbuf_json(&exchange->reply, text.size > 0 ? text.data : "", text.size);
    strbuf_text(&exchange->reply, "}");
    exchange->reply.failed |= text.failed;
    strbuf_deinit(&text);
    exchange->code = HTTP_OK;
    return true;
}

void answer_tokens(struct exchange *exchange)
{
    static const body_table *const tables[] = { &text_table, &token_table, &template_table };
    const int form = exchange->route.kind == ROUTE_TOKENIZE ? 0 : exchange->route.kind == ROUTE_DETOKENIZE ? 1 : 2;
    token_request request = { .model = NULL };
    body_error error = { .code = NULL };
    json_t *body = body_read(exchange, tables[form], &request, &error);
    const uint32_t purposes = form == 2 ? TEXT_GENERATES : TEXT_GENERATES | TEXT_EMBEDS;
    text_model *model = body != NULL ? models_find_text(exchange, request.model, purposes) : NULL;

    if (body == NULL || (model != NULL && !(form == 0   ? tokenize(exchange, &request, model, &error)
                                            : form == 1 ? detokenize(exchange, &request, model, &error)
                                                        : apply_template(exchange, &request, model, &error))))
        body_refuse(exchange, &error);
    free(request.tokens);
    json_decref(request.messages);
    tool_set_deinit(&request.tools);
    json_decref(body);
}
