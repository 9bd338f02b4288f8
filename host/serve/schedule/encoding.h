/* serve/schedule/encoding.h - runs an embedding model on the texts of all its requests together.
 *
 * The texts of a run have similar lengths: at most a quarter of its tokens is padding, which the mask hides. A run has
 * the text that waits longest, and those of similar length. A model without a mask or without a symbolic batch axis
 * runs each text alone. */
#ifndef SERVE_ENCODING_H
#define SERVE_ENCODING_H
#include "serve/model/model.h"
#include "serve/schedule/sched.h"

typedef struct encoding_text encoding_text;

/* A text. Its owner sets the first part, and keeps it until end() is called. */
struct encoding_text {
    struct job *request;   /* of its request: deadline_ns, cancelled; in no queue itself */
    const int64_t *tokens; /* [count] */
    size_t count;
    size_t second;       /* the first token of a second text, whose token type is 1; 0: there is none */
    encoding_text *next; /* the request's next text */
    /* Takes the vectors [vectors, size] of the text, one or one for each token; or else failure, which is NULL if there
     * are vectors. Returns whether this was the last text of its request. Under the model's lock of texts. */
    bool (*take)(encoding_text *text, const float *vectors, size_t count, size_t size, const inlay_diag *failure);
    /* Called after take() has returned true, without the lock: from here on the texts of the request may be freed. */
    void (*end)(encoding_text *text);

    uint64_t order;      /* of its arrival */
    uint64_t compute_ns; /* of its run */
    uint64_t rows;       /* texts of its run */
};

/* Runs the texts of a request, linked by next. INLAY_BUSY: max_queue texts wait already. From here on another thread
 * may end the texts. */
INLAY_NODISCARD inlay_status encoding_add(struct sched *sched, struct model *model, encoding_text *texts,
                                          inlay_diag *diag);
#endif
