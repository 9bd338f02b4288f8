/* Loading and unloading of models on request. */
#include "serve/repository/repository.h"
#include "serve/routes/answers.h"
#include <string.h>

static void answer(void *user, const inlay_diag *diag)
{
    struct exchange *exchange = user;

    if (diag->code == INLAY_OK)
        exchange->code = HTTP_OK;
    else
        exchange_fail(exchange,
                      diag->code == INLAY_NOT_FOUND ? HTTP_NOT_FOUND
                      : repository_may_pass(diag)   ? HTTP_SERVICE_UNAVAILABLE
                                                    : HTTP_BAD_REQUEST,
                      diag->text);
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
