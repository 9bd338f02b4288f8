/* POST /tokenize and /detokenize: the tokens of a text, and the text of tokens, as vLLM and llama-server have them. */
#include "serve/chat/tokenize.h"
#include "serve/chat/body.h"
#include "serve/chat/models.h"
#include "serve/model/text.h"
#include "serve/repository/folder.h"
#include "serve/repository/repository.h"
#include <stdlib.h>
#include <string.h>

typedef struct token_request {
    const char *model, *text;
    int64_t *tokens; /* [count], owned */
    size_t count;
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

static bool read_tokens(void *user, json_t *value, body_error *error)
{
    token_request *request = user;

    return json_is_array(value) ? body_tokens(value, &request->tokens, &request->count, error)
                                : body_fail(error, "not an array of token ids");
}

/* "content" is llama-server's name of the text. */
static const body_parameter tokenize_parameters[] = { { "model", read_model },
                                                      { "prompt", read_text },
                                                      { "content", read_text },
                                                      { "add_special_tokens", read_adds_special },
                                                      { "add_special", read_adds_special } };
static const body_parameter detokenize_parameters[] = { { "model", read_model }, { "tokens", read_tokens } };

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

static bool tokenize(struct exchange *exchange, token_request *request, const text_model *model, body_error *error)
{
    if (request->text == NULL)
        return body_fail(error, "the request has no prompt (a text)");
    if (strlen(request->text) > model->most_bytes)
        return body_fail_length(error, "the text", strlen(request->text), model->most_bytes);
    if (!tokenizer_encode(model->tokenizer, request->text, !request->is_plain, &request->tokens, &request->count))
        return body_fail(error, "out of memory for the tokens");
    write_tokens(exchange, request, model);
    return true;
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

/* The only model for texts, for requests that name none. */
typedef struct only_text {
    char name[FOLDER_MAX_NAME + 1]; /* "" = none */
    bool several;
} only_text;

static void find_only(void *user, const repository_entry *entry)
{
    only_text *only = user;

    if (!entry->is_text || entry->loaded == NULL || entry->loaded->text == NULL)
        return;
    only->several |= only->name[0] != '\0' && strcmp(only->name, entry->name) != 0;
    (void)snprintf(only->name, sizeof only->name, "%s", entry->name);
}

/* The model of the request, which must be loaded already. NULL: the failure is set. */
static const text_model *find_model(struct exchange *exchange, const char *name)
{
    only_text only = { .several = false };

    if (name == NULL) {
        repository_each(exchange->request.server->repository, find_only, &only);
        name = only.several ? "" : only.name;
    }
    if (models_acquire(exchange, name, NULL, NULL) != ACQUIRED_MODEL)
        return NULL;
    if (exchange->request.job.model->text == NULL)
        models_fail_unknown(exchange);
    return exchange->request.job.model->text;
}

void answer_tokens(struct exchange *exchange)
{
    const bool splits = exchange->route.kind == ROUTE_TOKENIZE;
    const body_parameter *parameters = splits ? tokenize_parameters : detokenize_parameters;
    const size_t count = splits ? sizeof tokenize_parameters / sizeof *tokenize_parameters
                                : sizeof detokenize_parameters / sizeof *detokenize_parameters;
    token_request request = { .model = NULL };
    body_error error = { .code = NULL };
    json_t *body = body_read(exchange, parameters, count, &request, &error);
    const text_model *model = body != NULL ? find_model(exchange, request.model) : NULL;

    if (body == NULL || (model != NULL && !(splits ? tokenize(exchange, &request, model, &error)
                                                   : detokenize(exchange, &request, model, &error))))
        body_refuse(exchange, &error);
    free(request.tokens);
    json_decref(body);
}
