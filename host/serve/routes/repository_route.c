/* Loading and unloading of models and of their adapters on request. */
#include "codecs/json.h"
#include "serve/chat/models.h"
#include "serve/repository/repository.h"
#include "serve/routes/answers.h"
#include <string.h>

static void fail(struct exchange *exchange, const inlay_diag *diag)
{
    exchange_fail(exchange,
                  diag->code == INLAY_NOT_FOUND ? HTTP_NOT_FOUND
                  : repository_may_pass(diag)   ? HTTP_SERVICE_UNAVAILABLE
                                                : HTTP_BAD_REQUEST,
                  diag->text);
}

static void answer(void *user, const inlay_diag *diag)
{
    struct exchange *exchange = user;

    if (diag->code == INLAY_OK)
        exchange->code = HTTP_OK;
    else
        fail(exchange, diag);
    request_wake(&exchange->request);
}

void answer_repository(struct exchange *exchange)
{
    if (exchange->route.kind == ROUTE_LOAD && exchange->body_bytes > 0 &&
        memmem(exchange->body, exchange->body_bytes, "\"parameters\"", 12) != NULL) {
        exchange_fail(exchange, HTTP_BAD_REQUEST,
                      "parameters are not supported: models are always loaded from the repository");
        return;
    }
    request_load(&exchange->request, exchange->route.kind == ROUTE_LOAD ? LOAD_TASK_LOAD : LOAD_TASK_UNLOAD,
                 exchange->route.name, exchange->route.name_bytes, 0, answer, exchange);
}

/* The body of a request of vLLM's form. Texts are borrowed from it. */
typedef struct adapter_body {
    char *name, *path;
    bool replaces;
} adapter_body;

/* Reads a member; a member that is null is missing. */
static bool read_member(json_reader *reader, json_text key, bool loads, adapter_body *out)
{
    json_text ignored;

    if (reader_peek(reader) == 'n')
        return reader_skip(reader, &ignored);
    if (text_is(key, "lora_name"))
        return reader_c_string(reader, &out->name);
    if (loads && text_is(key, "lora_path"))
        return reader_c_string(reader, &out->path);
    if (loads && text_is(key, "load_inplace"))
        return reader_bool(reader, &out->replaces);
    if (!loads && text_is(key, "lora_int_id")) /* vLLM's own number, which it ignores, too */
        return reader_skip(reader, &ignored);
    return reader_fail(reader, loads ? "the parameters are lora_name, lora_path and load_inplace"
                                     : "the parameter is lora_name");
}

static bool read_adapter(struct exchange *exchange, bool loads, adapter_body *out)
{
    json_reader reader;
    json_text key;
    char text[256];

    reader_begin(&reader, exchange->body, exchange->body_bytes);
    if (reader_open(&reader, '{'))
        while (reader_member(&reader, &key) && read_member(&reader, key, loads, out))
            ;
    if (reader_end(&reader))
        return true;
    (void)snprintf(text, sizeof text, "the request's JSON, byte %zu: %s", (size_t)(reader.at - reader.start),
                   reader.error != NULL ? reader.error : "expected an object");
    exchange_fail(exchange, HTTP_BAD_REQUEST, text);
    return false;
}

static void answer_changed(void *user, const inlay_diag *diag)
{
    struct exchange *exchange = user;
    const load_adapter *adapter = &exchange->request.load_task.adapter;

    if (diag->code == INLAY_OK) {
        strbuf_format(&exchange->reply, "Success: LoRA adapter '%s' %s successfully.", adapter->name,
                      adapter->path != NULL ? "added" : "removed");
        exchange->type = "text/plain; charset=utf-8";
        exchange->code = HTTP_OK;
    } else {
        fail(exchange, diag);
    }
    request_wake(&exchange->request);
}

void answer_adapter(struct exchange *exchange)
{
    const bool loads = exchange->route.kind == ROUTE_LOAD_ADAPTER;
    adapter_body body = { .name = NULL };
    char only[MODELS_NAME_BYTES];
    const char *colon, *model;
    load_adapter adapter;

    if (!read_adapter(exchange, loads, &body))
        return;
    if (body.name == NULL || (loads && body.path == NULL)) {
        exchange_fail(exchange, HTTP_BAD_REQUEST, loads ? "lora_name or lora_path is missing" : "lora_name is missing");
        return;
    }
    colon = strrchr(body.name, ':');
    model = colon != NULL ? body.name : only;
    if (colon == NULL && !models_stand_in(exchange->request.server->repository, NULL, TEXT_GENERATES, only)) {
        exchange_fail(exchange, HTTP_BAD_REQUEST,
                      "several models are for texts, or none: lora_name has to be MODEL:ADAPTER");
        return;
    }
    adapter =
        (load_adapter){ .name = colon != NULL ? colon + 1 : body.name, .path = body.path, .replaces = body.replaces };
    request_load_adapter(&exchange->request, model, colon != NULL ? (size_t)(colon - model) : strlen(model), &adapter,
                         answer_changed, exchange);
}
