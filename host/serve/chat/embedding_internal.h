/* serve/chat/embedding_internal.h - the texts of a request for embeddings; for embedding.c and similarity.c. */
#ifndef SERVE_EMBEDDING_INTERNAL_H
#define SERVE_EMBEDDING_INTERNAL_H
#include "serve/chat/body.h"
#include "serve/chat/embedding.h"
#include "serve/schedule/encoding.h"

enum { EMBEDDING_MAX_TEXTS = 2048 }; /* as OpenAI's API */

typedef struct embedded_text {
    encoding_text encoding; /* its tokens are those below */
    struct embedding *embedding;
    const char *text; /* in the request; NULL: tokens were given */
    int64_t *tokens;  /* [token_count], owned */
    size_t token_count;
} embedded_text;

struct embedding {
    struct exchange *exchange;
    json_t *body; /* owned; model and texts point into it */
    const char *model;
    embedded_text *texts; /* [count], owned */
    uint32_t count, done;
    bool is_base64;
    uint32_t dimensions; /* of the vectors in the reply; 0: all */

    /* Of /v1/rerank and /v1/score: the texts are those of `query` and then those of `documents`. */
    json_t *query, *documents; /* borrowed from the body */
    uint32_t query_count;
    uint32_t top; /* documents in the reply; 0: all */
    bool hides_documents;

    float *vectors; /* [count x size], after the first run */
    double *sums;   /* [size] scratch */
    size_t size;
    inlay_diag failure; /* of the first text that failed */
};

/* embedding_texts.c: adds a text, or the tokens of one. */
bool embedding_add_text(struct embedding *embedding, const json_t *value, body_error *error);
/* Tokenizes the texts, or checks their tokens. false: the reply says why that failed. */
bool embedding_tokenize(struct exchange *exchange, struct embedding *embedding);

/* similarity.c: adds the texts to compare; writes how similar they are. */
bool similarity_texts(struct embedding *embedding, body_error *error);
void similarity_write(struct embedding *embedding);
#endif
