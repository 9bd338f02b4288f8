/* serve/server.h - shared by the parts of the server; and one HTTP request from its first byte to its last. */
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
struct loader;
struct grpc;
struct completion;
struct embedding;

/* See load.h; only load_sample() uses the first three. */
typedef struct load_figures {
    double busy;                 /* smoothed share of the runners that are active, 0 to 1 */
    uint64_t requests, since_ns; /* completed requests at the time of the last rate */
    atomic_uint utilization;     /* ten-thousandths of the runners */
    atomic_uint rate;            /* requests a second */
} load_figures;

struct server {
    const struct settings *settings;
    struct repository *repository;
    struct sched *sched;
    struct watch *watch;
    struct loader *loader;
    struct trace *trace;
    struct tls *tls;          /* NULL: no TLS */
    bool client_certificates; /* clients must show one */
    struct grpc *grpc;        /* NULL: no gRPC */
    struct tokens tokens, admin_tokens;
    atomic_bool ready;    /* all models are loaded, and no SIGTERM yet */
    atomic_bool draining; /* replies close their connections */
    atomic_bool refusing; /* inference requests are refused */
    atomic_uint connections, exchanges;
    atomic_uint suspended;             /* suspended exchanges */
    atomic_uint_fast64_t answers[6];   /* number of replies by the first digit of their code */
    atomic_uint_fast64_t copied_bytes; /* of tensors that could not be used in place */
    atomic_uint_fast64_t moved_bytes;  /* of bodies, copied out of receive buffers */
    uint64_t max_body_bytes, max_header_bytes, receive_ns, timeout_ns;
    int access_log; /* -1 = none */
    uint64_t started_ns;
    uint32_t runners;              /* most concurrent runs */
    bool load_header;              /* every reply reports the server's load */
    atomic_uint_fast64_t requests; /* completed requests */
    load_figures load;
};

/* A model to load, to unload, or to load for a request that runs it. The loader's thread does it and calls done(). */
typedef enum load_task_kind { LOAD_TASK_LOAD, LOAD_TASK_UNLOAD, LOAD_TASK_DEFERRED } load_task_kind;
typedef struct load_task {
    load_task_kind what;
    uint64_t version;               /* LOAD_TASK_DEFERRED: the version; 0 = the latest */
    char name[FOLDER_MAX_NAME + 2]; /* a truncated name matches no model */
    void (*done)(void *user, const inlay_diag *diag);
    void *user;
    struct load_task *next;
} load_task;

struct exchange {
    struct server *server;
    struct MHD_Connection *connection;
    struct peer *peer;
    const char *method;
    char path[384];
    struct route route;
    uint64_t arrived_ns; /* when the header arrived */

    char *memory, *body; /* memory is owned; body points into it so that the tensors after the JSON are aligned */
    size_t body_bytes, body_room;
    size_t moved_bytes; /* bytes of the body copied so far */
    size_t json_bytes;  /* Inference-Header-Content-Length; SIZE_MAX = none */

    infer_request request;
    struct job job;
    bool suspended; /* another thread resumes it */
    struct exchange *next_watched, *previous_watched;
    bool watched;
    load_task load_task;
    struct completion *completion; /* NULL: not a completion */
    struct embedding *embedding;   /* NULL: not an embedding */

    int code; /* of the reply; 0 = not set yet */
    struct strbuf reply;
    const char *type; /* Content-Type */
    size_t reply_json_bytes;
    uint32_t retry_after;                    /* seconds; 0 = not sent */
    uint64_t queue_ns, compute_ns, run_rows; /* for the log */
};

/* ------------------------------------------------------------------ exchange.c */

/* Callbacks of libmicrohttpd. */
enum MHD_Result exchange_handle(void *user, struct MHD_Connection *mhd, const char *url, const char *method,
                                const char *version, const char *data, size_t *data_bytes, void **memory);
void exchange_completed(void *user, struct MHD_Connection *mhd, void **memory, enum MHD_RequestTerminationCode how);

/* Frees the exchange. Its connection is closed and it has no active run. */
void exchange_release(struct exchange *exchange);
/* Sets the reply {"error": text}. */
void exchange_fail(struct exchange *exchange, int code, const char *text);
/* The same for a failure of the library. */
void exchange_fail_diag(struct exchange *exchange, const inlay_diag *diag);
/* Suspends the request's connection until exchange_wake(). */
void exchange_suspend(struct exchange *exchange);
void exchange_wake(struct exchange *exchange);

/* ------------------------------------------------------------------ routes: they set code and reply, or suspend */

void answer_infer(struct exchange *exchange);  /* infer_route.c */
void answer_server(struct exchange *exchange); /* info_route.c */
/* The extensions that GET /v2 and ServerMetadata list, with Triton's names. */
enum { SERVER_EXTENSIONS = 9 };
extern const char *const server_extensions[SERVER_EXTENSIONS];
void answer_model(struct exchange *exchange);
void answer_model_ready(struct exchange *exchange);
void answer_index(struct exchange *exchange);
void answer_stats(struct exchange *exchange);   /* stats_route.c */
void answer_metrics(struct exchange *exchange); /* metrics_route.c */
void answer_page(struct exchange *exchange);    /* page_route.c */
void answer_trace(struct exchange *exchange);   /* settings_route.c */
void answer_logging(struct exchange *exchange);
void answer_completions(struct exchange *exchange); /* completion.c */
void answer_models(struct exchange *exchange);
void answer_embeddings(struct exchange *exchange); /* embedding.c */
void answer_repository(struct exchange *exchange); /* loader.c */

/* ------------------------------------------------------------------ watch.c */

/* A thread that handles slow and lost clients: it closes connections that take too long to send or to read, cancels
 * requests whose client has disconnected, and fails those whose deadline has passed. */
INLAY_NODISCARD inlay_status watch_create(struct server *server, struct watch **out_watch, inlay_diag *diag);
void watch_destroy(struct watch *watch);
/* libmicrohttpd calls it when a connection was opened or closed. */
void watch_connection(void *user, struct MHD_Connection *mhd, void **socket_context,
                      enum MHD_ConnectionNotificationCode what);
/* busy: the connection waits for the server's reply; otherwise it waits for the client from now on. */
void watch_busy(struct peer *peer, bool busy);
/* Whether the client has shown a certificate signed by an authority of tls_client_ca. */
bool watch_is_trusted(struct peer *peer, struct MHD_Connection *mhd);
/* Adds and removes requests that run or wait to run. */
void watch_add(struct watch *watch, struct exchange *exchange);
void watch_remove(struct watch *watch, struct exchange *exchange);
/* Cancels all requests in progress. */
void watch_cancel_all(struct watch *watch);

/* ------------------------------------------------------------------ loader.c */

/* The thread that loads and unloads models on request. */
INLAY_NODISCARD inlay_status loader_create(struct server *server, struct loader **out_loader, inlay_diag *diag);
void loader_destroy(struct loader *loader);
void loader_submit(struct loader *loader, load_task *task);
/* Whether no task is waiting or running: then loader_destroy() returns at once, unless a task is submitted. NULL is
 * idle. */
bool loader_is_idle(struct loader *loader);

/* ------------------------------------------------------------------ access_log.c */

void access_log_write(const struct exchange *exchange);
#endif
