/* serve/exchange/request.h - the state of a request that all protocols share: client, deadline, memory reserved for it,
 * and the job that runs it. The protocols embed it: struct exchange (REST and OpenAI's API) and struct call (gRPC).
 *
 * The thread of the connection owns a request, except between request_suspend() and resume(). */
#ifndef SERVE_REQUEST_H
#define SERVE_REQUEST_H
#include "serve/base/server.h"
#include "serve/network/front_task.h"
#include "serve/repository/loader.h"
#include "serve/schedule/sched.h"

struct request_codec;
struct request;
struct prepare_worker;

/* failure: see prepare_submit(); NULL: none. */
typedef void (*prepare_work)(struct request *request, const inlay_diag *failure);
/* The work before a run that other threads do, see prepare.h; guarded by the lock there. */
struct preparation {
    prepare_work work;
    bool waits, is_large;
    struct prepare_worker *worker;            /* has the request; NULL: none */
    void (*pass_on)(struct request *request); /* another thread gets it from the worker; NULL: no worker has it */
    struct request *next;
    atomic_bool stopped; /* see request_goes_on() */
};

struct request {
    struct server *server;
    front_task task; /* for request_wake() */
    struct client client;
    uint64_t arrived_ns;      /* when the header arrived; of a later message of a stream: when it was complete */
    uint64_t received_ns;     /* when the request was complete; 0 = not yet */
    atomic_size_t held_bytes; /* see server_hold(); the connection may receive more while another thread reads */
    /* See request_hold_reply(): of this connection; of max_inflight_bytes. */
    uint64_t reply_bytes, counted_reply_bytes;
    uint32_t retry_after;                 /* seconds, for the reply; 0 = not sent */
    bool suspended;                       /* another thread has it */
    bool watched;                         /* see watch_add(); guarded by the lock there */
    const char *traceparent, *request_id; /* of its header; NULL or "": none */
    const struct request_codec *codec;    /* see request_infer() */
    infer_request infer;
    struct job job;
    load_task load_task;
    uint64_t queue_ns, compute_ns, run_rows; /* of its runs, for the log */
    struct preparation preparation;
};

/* resume() gets request->task when another thread has finished the request. */
void request_init(struct request *request, struct server *server, struct connection *connection,
                  void (*resume)(front_task *task));
/* The request is over: gives back what it holds. */
void request_deinit(struct request *request);
/* Counts memory of the request in max_inflight_bytes until it ends. false: REQUEST_IS_LARGE; retry_after is set. */
bool request_count(struct request *request, uint64_t bytes);
#define REQUEST_IS_LARGE "all requests in progress exceed max_inflight_bytes; try again later"
/* Counts further bytes that the request makes the server hold. INLAY_LIMIT_EXCEEDED: they are more than max_body_bytes;
 * INLAY_BUSY: they exceed max_inflight_bytes, and retry_after is set. */
INLAY_NODISCARD inlay_status request_hold(struct request *request, uint64_t bytes, inlay_diag *diag);
/* Counts further bytes of replies, which stand until request_release_reply(). INLAY_BUSY, and retry_after is set: they
 * exceed max_inflight_bytes, or a quarter of it with the other replies that the client of this connection has not read.
 * A few bytes, as errors and health checks have, are not refused. A reply that is no result, such as metrics, which
 * have to be seen also then, is neither refused nor counted if it is the only one of its connection. Called by the
 * connection's thread. */
INLAY_NODISCARD inlay_status request_hold_reply(struct request *request, uint64_t bytes, bool is_result,
                                                inlay_diag *diag);
/* The replies are gone: their client has read them, or has left. Before the request leaves its connection. */
void request_release_reply(struct request *request);
/* Another thread gets the request until request_wake(). Called by the connection's thread, or by one that has the
 * request already. */
void request_suspend(struct request *request);
/* Any thread; from here the request may be freed. */
void request_wake(struct request *request);
/* Whether work for the request is of use; false: its client has left, or its deadline has passed, as diag says. */
bool request_goes_on(const struct request *request, inlay_diag *diag);
/* The first call of resume(). */
void request_resumed(struct request *request);
/* Suspends the request until the loader has done the task: then done() gets `user`, on the loader's
 * thread. name: of the model. */
void request_load(struct request *request, load_task_kind what, const char *name, size_t name_bytes, uint64_t version,
                  void (*done)(void *user, const inlay_diag *failure), void *user);
/* The same for an adapter of the model, whose texts are borrowed until done(). */
void request_load_adapter(struct request *request, const char *name, size_t name_bytes, const load_adapter *adapter,
                          void (*done)(void *user, const inlay_diag *failure), void *user);
/* For done() of LOAD_TASK_DEFERRED: sets job.model to the model that the request has waited for. INLAY_BUSY: it was
 * unloaded again, and retry_after is set. */
INLAY_NODISCARD inlay_status request_take_model(struct request *request, const inlay_diag *failure, inlay_diag *diag);
#endif
