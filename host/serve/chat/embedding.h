/* serve/chat/embedding.h - POST /v1/embeddings: texts of all requests, of similar lengths, share runs. */
#ifndef SERVE_EMBEDDING_H
#define SERVE_EMBEDDING_H
#include "serve/exchange/exchange.h"

void answer_embeddings(struct exchange *exchange);
#endif
