/* serve/chat/embedding.h - POST /v1/embeddings: one run per text, sequentially. */
#ifndef SERVE_EMBEDDING_H
#define SERVE_EMBEDDING_H
#include "serve/exchange/exchange.h"

void answer_embeddings(struct exchange *exchange);
#endif
