/* Loading and unloading of models on request. */
#include "serve/routes/answers.h"
#include <string.h>

static void answer(void *user, const inlay_diag *diag)
{
    struct exchange *exchange = user;

    if (diag->code == INLAY_OK)
        exchange->code = HTTP_OK;
    else
        exchange_fail(exchange, diag->code == INLAY_NOT_FOUND ? HTTP_NOT_FOUND : HTTP_BAD_REQUEST, diag->text);
    exchange_wake(exchange);
}

void answer_repository(struct exchange *exchange)
{
    if (exchange->route.kind == ROUTE_LOAD && exchange->body_bytes > 0 &&
        memmem(exchange->body, exchange->body_bytes, "\"parameters\"", 12) != NULL) {
        exchange_fail(exchange, HTTP_BAD_REQUEST,
                      "parameters are not supported: models are always loaded from the repository");
        return;
    }
    exchange->load_task = (load_task){ .what = exchange->route.kind == ROUTE_LOAD ? LOAD_TASK_LOAD : LOAD_TASK_UNLOAD,
                                       .done = answer,
                                       .user = exchange };
    (void)snprintf(exchange->load_task.name, sizeof exchange->load_task.name, "%.*s", (int)exchange->route.name_bytes,
                   exchange->route.name);
    exchange_suspend(exchange);
    loader_submit(exchange->server->loader, &exchange->load_task);
}
