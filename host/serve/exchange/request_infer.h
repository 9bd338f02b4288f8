/* serve/exchange/request_infer.h - a request that runs a model, in every protocol: finds the model, waits for its load,
 * checks, queues and runs the request, and counts how it ended. Requests for texts only find their model here. */
#ifndef SERVE_REQUEST_INFER_H
#define SERVE_REQUEST_INFER_H
#include "serve/exchange/request.h"

/* What request_acquire() has found. */
typedef enum acquired {
    ACQUIRED_MODEL,   /* job.model is set */
    ACQUIRED_LATER,   /* the request is suspended until loaded() gets it, on the loader's thread */
    ACQUIRED_NOTHING, /* diag says why */
} acquired;

/* Finds the model that a request of any protocol runs. version 0: the latest. loaded NULL: the request does not wait
 * for a model that is loaded on demand. INLAY_NOT_FOUND: there is no such model; INLAY_BUSY: it could not be
 * loaded, or is not because the server starts, and retry_after is set, or ends. */
acquired request_acquire(struct request *request, const char *name, size_t name_bytes, uint64_t version,
                         void (*loaded)(void *user, const inlay_diag *failure), void *user, inlay_diag *diag);

/* What differs between the protocols. Any thread that has the request calls these. */
typedef struct request_codec {
    /* Reads the message into request->infer, for the model job.model. */
    inlay_status (*read)(struct request *request, inlay_diag *diag);
    /* Writes the reply. */
    inlay_status (*write)(struct request *request, const infer_output *outputs, uint32_t output_count,
                          inlay_diag *diag);
    /* Makes the reply a failure. is_busy: the client should ask again in request->retry_after seconds. */
    void (*fail)(struct request *request, const inlay_diag *diag, bool is_busy);
} request_codec;

/* Runs the request on the model's version (0: the latest, or the one that a rollout chooses). Before, its times and
 * job.deadline_ns are set. Then the request has its reply, or is suspended until it has. */
void request_infer(struct request *request, const request_codec *codec, const char *name, size_t name_bytes,
                   uint64_t version);
#endif
