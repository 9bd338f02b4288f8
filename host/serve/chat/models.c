#include "serve/chat/models.h"
#include "serve/model/text.h"
#include "serve/repository/folder.h"
#include "serve/repository/repository.h"
#include <stdio.h>
#include <string.h>

typedef struct model_list {
    struct strbuf *to;
    const struct route *route; /* with the name of the only model that is wanted, or without one */
    uint32_t count;
} model_list;

/* Adds an entry. adapter NULL: the model itself. context: in tokens; 0: unknown. */
static void add_id(model_list *list, const char *model, const char *adapter, size_t context)
{
    const struct route *route = list->route;
    char id[2 * FOLDER_MAX_NAME + 2];

    (void)snprintf(id, sizeof id, "%s%s%s", model, adapter != NULL ? ":" : "", adapter != NULL ? adapter : "");
    if (route->name != NULL && (strlen(id) != route->name_bytes || memcmp(id, route->name, route->name_bytes) != 0))
        return;
    strbuf_format(list->to, "%s{\"id\":\"%s\",\"object\":\"model\",\"created\":0,\"owned_by\":\"inlay\"",
                  list->count++ > 0 ? "," : "", id);
    strbuf_format(list->to, ",\"root\":\"%s\"", model);
    if (adapter != NULL)
        strbuf_format(list->to, ",\"parent\":\"%s\"", model);
    if (context > 0)
        strbuf_format(list->to, ",\"max_model_len\":%zu", context);
    strbuf_text(list->to, "}");
}

static void add_model(void *user, const repository_entry *entry)
{
    const text_model *text = entry->loaded != NULL ? entry->loaded->text : NULL;
    const size_t context = text != NULL ? text->decode.context : 0;

    if (!entry->is_text)
        return;
    add_id(user, entry->name, NULL, context);
    for (uint32_t i = 0; entry->loaded != NULL && i < entry->loaded->decoding.adapter_count; i++)
        add_id(user, entry->name, entry->loaded->decoding.adapters[i], context);
}

void answer_models(struct exchange *exchange)
{
    bool one = exchange->route.name != NULL;
    model_list list = { &exchange->reply, &exchange->route, 0 };

    if (!one)
        strbuf_text(&exchange->reply, "{\"object\":\"list\",\"data\":[");
    repository_each(exchange->request.server->repository, add_model, &list);
    if (!one)
        strbuf_text(&exchange->reply, "]}");
    exchange->code = HTTP_OK;
    if (one && list.count == 0)
        models_fail_unknown(exchange);
}

void models_fail_unknown(struct exchange *exchange)
{
    exchange_fail_parameter(exchange, HTTP_NOT_FOUND,
                            "no such model is loaded; GET v1/models lists the models for texts", "model",
                            "model_not_found");
}

acquired models_acquire(struct exchange *exchange, const char *name, const char **out_adapter,
                        void (*loaded)(void *user, const inlay_diag *failure))
{
    struct request *request = &exchange->request;
    const char *colon = out_adapter != NULL ? strrchr(name, ':') : NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    acquired found = request_acquire(request, name, strlen(name), 0, loaded, exchange, &diag);

    if (found == ACQUIRED_NOTHING && diag.code == INLAY_NOT_FOUND && colon != NULL) {
        diag = (inlay_diag)INLAY_DIAG_INIT;
        *out_adapter = colon + 1; /* loaded() uses it at once */
        found = request_acquire(request, name, (size_t)(colon - name), 0, loaded, exchange, &diag);
    }
    if (found != ACQUIRED_NOTHING)
        return found;
    if (diag.code == INLAY_NOT_FOUND)
        models_fail_unknown(exchange);
    else
        exchange_fail_diag(exchange, &diag);
    exchange_drop(exchange);
    return found;
}
