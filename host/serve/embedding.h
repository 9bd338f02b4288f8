/* serve/embedding.h - POST /v1/embeddings: each text is a run, one after another. */
#ifndef SERVE_EMBEDDING_H
#define SERVE_EMBEDDING_H
#include "serve/server.h"

void embedding_destroy(struct embedding *embedding); /* NULL is a no-op */
#endif
