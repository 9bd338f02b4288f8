/* serve/chat/models.h - the models of OpenAI's API: GET /v1/models and /v1/models/NAME, and the model of a request. */
#ifndef SERVE_MODELS_H
#define SERVE_MODELS_H
#include "serve/exchange/exchange.h"
#include "serve/exchange/request_infer.h"

void answer_models(struct exchange *exchange);

/* Finds the latest version of the model NAME as request_acquire() does, which gets loaded() for the exchange;
 * ACQUIRED_NOTHING: the reply says why, and the exchange is dropped. With out_adapter, name may be NAME:ADAPTER. */
acquired models_acquire(struct exchange *exchange, const char *name, const char **out_adapter,
                        void (*loaded)(void *user, const inlay_diag *failure));
/* The reply to a request whose model or adapter does not exist. */
void models_fail_unknown(struct exchange *exchange);
#endif
