/* serve/embedding.h - POST /v1/embeddings: one run per text, sequentially. */
#ifndef SERVE_EMBEDDING_H
#define SERVE_EMBEDDING_H
#include "serve/server.h"

void embedding_destroy(struct embedding *embedding); /* NULL is a no-op */
#endif
