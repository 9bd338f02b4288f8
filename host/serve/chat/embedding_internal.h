/* serve/chat/embedding_internal.h - the texts of a request for embeddings; for embedding.c and similarity.c. */
#ifndef SERVE_EMBEDDING_INTERNAL_H
#define SERVE_EMBEDDING_INTERNAL_H
#include "serve/chat/embedding.h"
#include "serve/chat/body.h"
#include "texts/model/input_text.h"
#include "serve/schedule/encoding.h"

enum { EMBEDDING_MAX_TEXTS = 2048 }; /* as OpenAI's API */

typedef struct embedded_text {
    encoding_text encoding;
    struct embedding *embedding;
} embedded_text;

struct embedding {
    struct exchange *exchange;
    json_t *body; /* owned; model and texts point into it */
    const char *model;
    input_list inputs;
    embedded_text *texts; /* [inputs.count], owned; while they are computed */
    uint32_t done;
    bool is_base64;
    uint32_t dimensions; /* of the vectors in the reply; 0: all */

    /* /v1/rerank and /v1/score only: the texts of `query`, followed by those of `documents`, are embedded. */
    json_t *query, *documents; /* borrowed from the body */
    uint32_t query_count;
    bool is_joined; /* each text is read with its query, and query_count is 0; see similarity_join() */
    uint32_t top;   /* documents in the reply; 0: all */
    bool hides_documents;

    float *vectors; /* [inputs.count x size], after the first run */
    double *sums;   /* [size] scratch */
    size_t size;
    inlay_diag failure; /* of the first text that failed */
};

/* similarity.c: adds the texts to compare; joins them to pairs, for a model that reads two texts together; writes how
 * similar they are. */
bool similarity_texts(struct embedding *embedding, body_error *error);
void similarity_join(struct embedding *embedding);
void similarity_write(struct embedding *embedding);
#endif
