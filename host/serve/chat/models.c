#include "serve/chat/models.h"
#include "serve/repository/repository.h"
#include <string.h>

typedef struct model_list {
    struct strbuf *to;
    const struct route *route; /* with the name of the only model that is wanted, or without one */
    uint32_t count;
} model_list;

static void add_model(void *user, const repository_entry *entry)
{
    model_list *list = user;
    const struct route *route = list->route;

    if (!entry->is_text)
        return;
    if (route->name != NULL &&
        (strlen(entry->name) != route->name_bytes || memcmp(entry->name, route->name, route->name_bytes) != 0))
        return;
    strbuf_format(list->to, "%s{\"id\":\"%s\",\"object\":\"model\",\"created\":0,\"owned_by\":\"inlay\"}",
                  list->count++ > 0 ? "," : "", entry->name);
}

void answer_models(struct exchange *exchange)
{
    bool one = exchange->route.name != NULL;
    model_list list = { &exchange->reply, &exchange->route, 0 };

    if (!one)
        strbuf_text(&exchange->reply, "{\"object\":\"list\",\"data\":[");
    repository_each(exchange->server->repository, add_model, &list);
    if (!one)
        strbuf_text(&exchange->reply, "]}");
    exchange->code = HTTP_OK;
    if (one && list.count == 0)
        exchange_fail_parameter(exchange, HTTP_NOT_FOUND,
                                "no such model is loaded; GET v1/models lists the models for texts", "model",
                                "model_not_found");
}
