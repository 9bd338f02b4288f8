/* serve/chat/embedding.h - POST /v1/embeddings: texts of similar lengths share a run. */
#ifndef SERVE_EMBEDDING_H
#define SERVE_EMBEDDING_H
#include "serve/exchange/exchange.h"

void answer_embeddings(struct exchange *exchange);
#endif
