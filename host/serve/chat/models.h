/* serve/chat/models.h - GET /v1/models and /v1/models/NAME: the models for texts, in the form of OpenAI's API. */
#ifndef SERVE_MODELS_H
#define SERVE_MODELS_H
#include "serve/exchange/exchange.h"

void answer_models(struct exchange *exchange);
#endif
