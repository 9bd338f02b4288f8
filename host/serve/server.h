/* serve/server.h - what the parts of the server share, and one request over HTTP from its first byte to its last. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H
#include "serve/folder.h"
#include "serve/repository.h"
#include "serve/route.h"
#include "serve/json.h"
#include "serve/sched.h"
#include "serve/tokens.h"
#include <microhttpd.h>
#include <pthread.h>

struct exchange;
struct peer;
struct watch;
struct keeper;
struct grpc;
struct completion;
struct embedding;

/* See load.h; the first three are load_follow()'s own. */
typedef struct load_figures {
    double busy;
    uint64_t requests, since_ns;
    atomic_uint utilization; /* ten-thousandths of the runs that are possible at once */
    atomic_uint rate;        /* requests a second */
} load_figures;

struct server {
    const struct settings *settings;
    struct repository *repository;
    struct sched *sched;
    struct watch *watch;
    struct keeper *keeper;
    struct trace *trace;
    struct tls *tls;          /* NULL: no TLS */
    bool client_certificates; /* are asked for */
    struct grpc *grpc;        /* NULL: not served */
    struct tokens tokens, admin_tokens;
    atomic_bool ready;    /* all models are loaded, and no SIGTERM yet */
    atomic_bool draining; /* answers end their connections */
    atomic_bool refusing; /* no inference is taken any more */
    atomic_uint connections, exchanges;
    atomic_uint suspended;             /* exchanges that sleep */
    atomic_uint_fast64_t answers[6];   /* by the first digit of their code */
    atomic_uint_fast64_t copied_bytes; /* of tensors that could not stay where they arrived */
    atomic_uint_fast64_t moved_bytes;  /* of bodies, from what they were received into to where they stay */
    uint64_t max_body_bytes, max_header_bytes, receive_ns, timeout_ns;
    int access_log; /* -1 = none */
    uint64_t started_ns;
    uint32_t runners;              /* runs at once */
    bool load_header;              /* each answer says how busy the server is */
    atomic_uint_fast64_t requests; /* that are over */
    load_figures load;
};

/* A model to load, unload, or to load because a request wants to run it, on the keeper's thread, which calls done(). */
typedef enum kept_what { KEPT_LOAD, KEPT_UNLOAD, KEPT_WAKE } kept_what;
struct kept {
    kept_what what;
    uint64_t version;               /* KEPT_WAKE: that one; 0 = the latest */
    char name[FOLDER_MAX_NAME + 2]; /* one that is cut off is no model's */
    void (*done)(void *user, const inlay_diag *diag);
    void *user;
    struct kept *next;
};

struct exchange {
    struct server *server;
    struct MHD_Connection *connection;
    struct peer *peer;
    const char *method;
    char path[384];
    struct route route;
    uint64_t arrived_ns; /* its header */

    char *memory, *body; /* memory is owned, body lies in it so that the tensors behind the JSON are aligned */
    size_t body_bytes, body_room;
    size_t moved_bytes; /* of the body, so far */
    size_t json_bytes;  /* Inference-Header-Content-Length; SIZE_MAX = none */

    infer_request request;
    struct job job;
    bool suspended; /* waits for another thread */
    struct exchange *next_watched, *previous_watched;
    bool watched;
    struct kept kept;
    struct completion *completion; /* NULL: no text is made */
    struct embedding *embedding;   /* NULL: no vectors are */

    int code; /* of the answer; 0 = none yet */
    struct strbuf reply;
    const char *type; /* Content-Type */
    size_t reply_json_bytes;
    uint32_t retry_after;                    /* seconds; 0 = not said */
    uint64_t queue_ns, compute_ns, run_rows; /* for the log */
};

/* ------------------------------------------------------------------ exchange.c */

/* What libmicrohttpd calls. */
enum MHD_Result exchange_handle(void *user, struct MHD_Connection *mhd, const char *url, const char *method,
                                const char *version, const char *data, size_t *data_bytes, void **memory);
void exchange_completed(void *user, struct MHD_Connection *mhd, void **memory, enum MHD_RequestTerminationCode how);

/* Frees it; its connection is gone, and none of its runs is at work. */
void exchange_release(struct exchange *exchange);
/* Answers with {"error": text}. */
void exchange_fail(struct exchange *exchange, int code, const char *text);
/* The same for a failure of the library. */
void exchange_fail_diag(struct exchange *exchange, const inlay_diag *diag);
/* Sends the request's connection to sleep until exchange_wake(). */
void exchange_suspend(struct exchange *exchange);
void exchange_wake(struct exchange *exchange);

/* ------------------------------------------------------------------ what routes do: set code and reply, or suspend */

void answer_infer(struct exchange *exchange);  /* infer_route.c */
void answer_server(struct exchange *exchange); /* info_route.c */
/* What GET /v2 and ServerMetadata name, as Triton does. */
enum { SERVER_EXTENSIONS = 9 };
extern const char *const server_extensions[SERVER_EXTENSIONS];
void answer_model(struct exchange *exchange);
void answer_model_ready(struct exchange *exchange);
void answer_index(struct exchange *exchange);
void answer_stats(struct exchange *exchange);   /* stats_route.c */
void answer_metrics(struct exchange *exchange); /* metrics_route.c */
void answer_page(struct exchange *exchange);    /* page_route.c */
void answer_trace(struct exchange *exchange);   /* tuning_route.c */
void answer_logging(struct exchange *exchange);
void answer_completions(struct exchange *exchange); /* completion.c */
void answer_models(struct exchange *exchange);
void answer_embeddings(struct exchange *exchange); /* embedding.c */
void answer_repository(struct exchange *exchange); /* keeper.c */

/* ------------------------------------------------------------------ watch.c */

/* A thread that looks after slow and lost clients: it closes connections that take too long to send or to read, cancels
 * requests whose client is gone, and ends those whose time is up. */
INLAY_NODISCARD inlay_status watch_create(struct server *server, struct watch **out_watch, inlay_diag *diag);
void watch_destroy(struct watch *watch);
/* Connections: made and gone, and whose turn it is: ours (busy) or the client's, from now on. */
void watch_connection(void *user, struct MHD_Connection *mhd, void **socket_context,
                      enum MHD_ConnectionNotificationCode what);
void watch_busy(struct peer *peer, bool busy);
/* Whether the connection's client has shown a certificate that tls_client_ca vouches for. */
bool watch_is_trusted(struct peer *peer, struct MHD_Connection *mhd);
/* Requests that run or wait to run. */
void watch_add(struct watch *watch, struct exchange *exchange);
void watch_remove(struct watch *watch, struct exchange *exchange);
/* Cancels all requests that still run. */
void watch_cancel_all(struct watch *watch);

/* ------------------------------------------------------------------ keeper.c */

/* The thread that loads and unloads models on request. */
INLAY_NODISCARD inlay_status keeper_create(struct server *server, struct keeper **out_keeper, inlay_diag *diag);
void keeper_destroy(struct keeper *keeper);
void keeper_submit(struct keeper *keeper, struct kept *task);
/* Whether it has nothing to do: keeper_destroy() returns at once, where nobody submits more. NULL is idle. */
bool keeper_is_idle(struct keeper *keeper);

/* ------------------------------------------------------------------ access_log.c */

void access_log_write(const struct exchange *exchange);
#endif
