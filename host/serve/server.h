/* serve/server.h - shared by the parts of the server; and one HTTP request from its first byte to its last. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H
#include "serve/folder.h"
#include "serve/front.h"
#include "serve/guard.h"
#include "serve/repository.h"
#include "serve/route.h"
#include "serve/json.h"
#include "serve/sched.h"
#include "serve/tokens.h"
#include <netinet/in.h>
#include <pthread.h>

struct exchange;
struct watch;
struct loader;
struct completion;
struct embedding;

/* See load.h; only load_sample() uses the first three. */
typedef struct load_figures {
    double busy;                 /* smoothed share of the runners that are active, 0 to 1 */
    uint64_t requests, since_ns; /* completed requests at the time of the last rate */
    atomic_uint utilization;     /* ten-thousandths of the runners */
    atomic_uint rate;            /* requests a second */
} load_figures;

/* Why the server refuses requests; labels of inlay_refused_total. */
#define REFUSED_LIST(X)                                                                                                \
    X(CONNECTIONS, "connections") /* all max_connections are in use */                                                 \
    X(BYTES, "inflight_bytes")                                                                                         \
    X(TOKEN, "token") /* a token that is none of the server's */                                                       \
    X(HOST, "host")                                                                                                    \
    X(ORIGIN, "origin")
typedef enum refused_reason {
#define REFUSED_ENUM(name, label) REFUSED_##name,
    REFUSED_LIST(REFUSED_ENUM)
#undef REFUSED_ENUM
        REFUSED_COUNT
} refused_reason;

struct server {
    const struct settings *settings;
    struct repository *repository;
    struct sched *sched;
    struct watch *watch;
    struct loader *loader;
    struct trace *trace;
    struct tls *tls;          /* NULL: no TLS */
    bool client_certificates; /* clients must show one */
    bool has_grpc;            /* gRPC is enabled */
    struct tokens tokens, admin_tokens;
    struct guard guard;
    atomic_bool loaded;   /* loading at the start has ended */
    atomic_bool ready;    /* see server_update_ready() */
    bool all_stop;        /* the supervisor stops all workers; set before front_drain() */
    atomic_bool draining; /* replies close their connections */
    atomic_bool refusing; /* inference requests are refused */
    atomic_uint connections, exchanges;
    atomic_uint suspended;           /* requests that other threads have */
    atomic_uint_fast64_t answers[6]; /* number of replies by the first digit of their code */
    atomic_uint_fast64_t refused[REFUSED_COUNT];
    atomic_uint_fast64_t copied_bytes;   /* of tensors that could not be used in place */
    atomic_uint_fast64_t moved_bytes;    /* of bodies, copied out of receive buffers */
    atomic_uint_fast64_t inflight_bytes; /* of bodies of requests in progress */
    uint64_t max_inflight_bytes;         /* 0 = no limit */
    uint64_t max_body_bytes, max_header_bytes, receive_ns, timeout_ns;
    int access_log; /* -1 = none */
    uint64_t started_ns;
    uint32_t runners;              /* most concurrent runs */
    bool load_header;              /* every reply reports the server's load */
    atomic_uint_fast64_t requests; /* completed requests */
    load_figures load;
};

static inline void server_refused(struct server *server, refused_reason reason)
{
    (void)atomic_fetch_add_explicit(&server->refused[reason], 1, memory_order_relaxed);
}

/* Counts further bytes of a body; the request already has `own`. false: they exceed max_inflight_bytes, and are not
 * counted. A request that is alone is not refused. Any thread. */
static inline bool server_hold(struct server *server, uint64_t own, uint64_t bytes)
{
    uint64_t total = atomic_fetch_add_explicit(&server->inflight_bytes, bytes, memory_order_relaxed) + bytes;

    if (server->max_inflight_bytes == 0 || total <= server->max_inflight_bytes || total == own + bytes)
        return true;
    (void)atomic_fetch_sub_explicit(&server->inflight_bytes, bytes, memory_order_relaxed);
    server_refused(server, REFUSED_BYTES);
    return false;
}

static inline void server_release(struct server *server, uint64_t bytes)
{
    (void)atomic_fetch_sub_explicit(&server->inflight_bytes, bytes, memory_order_relaxed);
}

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

enum {
    HTTP_OK = 200,
    HTTP_BAD_REQUEST = 400,
    HTTP_UNAUTHORIZED = 401,
    HTTP_FORBIDDEN = 403,
    HTTP_NOT_FOUND = 404,
    HTTP_METHOD_NOT_ALLOWED = 405,
    HTTP_UNSUPPORTED_MEDIA_TYPE = 415,
    HTTP_TOO_MANY_REQUESTS = 429,
    HTTP_INTERNAL_SERVER_ERROR = 500,
    HTTP_NOT_IMPLEMENTED = 501,
    HTTP_SERVICE_UNAVAILABLE = 503,
    HTTP_GATEWAY_TIMEOUT = 504
};

/* The header fields that the server uses after it has read the header. */
#define EXCHANGE_FIELDS(X)                                                                                             \
    X(AUTHORIZATION, "authorization")                                                                                  \
    X(CONTENT_ENCODING, "content-encoding")                                                                            \
    X(JSON_BYTES, "inference-header-content-length")                                                                   \
    X(TIMEOUT, "inference-timeout-ms")                                                                                 \
    X(ENVOY_TIMEOUT, "x-envoy-expected-rq-timeout-ms")                                                                 \
    X(LOAD_FORMAT, "endpoint-load-metrics-format")                                                                     \
    X(HOST, "host")                                                                                                    \
    X(ORIGIN, "origin")                                                                                                \
    X(TRACEPARENT, "traceparent")                                                                                      \
    X(REQUEST_ID, "x-request-id")
typedef enum exchange_field {
#define FIELD_ENUM(name, text) FIELD_##name,
    EXCHANGE_FIELDS(FIELD_ENUM)
#undef FIELD_ENUM
        FIELD_COUNT
} exchange_field;

struct exchange {
    struct server *server;
    front_task task; /* for exchange_wake() */
    void *transport; /* the connection or the stream of HTTP/2 that has the request */
    union {
        struct sockaddr any;
        struct sockaddr_in6 ip;
    } client;
    bool is_admin;     /* it came to admin_port */
    bool is_loopback;  /* it came to a socket that only this machine reaches */
    uint32_t delay_ms; /* of the reply, because of a wrong token */
    bool is_trusted;   /* it has shown a certificate, or none is needed */
    char method[16];
    char path[384];                 /* decoded */
    uint32_t field_at[FIELD_COUNT]; /* 1 + where the value begins in field_text; 0 = none */
    struct strbuf field_text;       /* values, each with a NUL */
    struct route route;
    uint64_t arrived_ns; /* when the header arrived */

    char *memory, *body; /* memory is owned; body points into it so that the tensors after the JSON are aligned */
    size_t body_bytes, body_room;
    size_t held_bytes;  /* see server_hold() */
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

/* ------------------------------------------------------------------ exchange.c: for the routes; see also exchange.h */

/* The value of a header field, or NULL. */
const char *exchange_field_get(const struct exchange *exchange, exchange_field which);
/* Sets the reply {"error": text}. */
void exchange_fail(struct exchange *exchange, int code, const char *text);
/* The same for a failure of the library. */
void exchange_fail_diag(struct exchange *exchange, const inlay_diag *diag);
/* Counts a wrong token of this client. Returns the delay of the reply in milliseconds. Any thread. */
uint32_t server_wrong_token(struct server *server, const struct sockaddr *client);
/* Another thread has the request until exchange_wake(). Called by the connection's thread. */
void exchange_suspend(struct exchange *exchange);
/* Any thread; from here the exchange may be freed. */
void exchange_wake(struct exchange *exchange);

/* ------------------------------------------------------------------ ready.c */

/* Whether every model that was found is ready, and there is one; always with strict = 0. Counts versions. */
bool server_is_complete(struct server *server, uint32_t *out_ready, uint32_t *out_failed);
/* After a load: the server becomes ready if it is complete, and stays ready until SIGTERM. true: it has just become
 * ready; call server_announce_ready(). Any thread. */
bool server_update_ready(struct server *server);
void server_announce_ready(struct server *server);

/* ------------------------------------------------------------------ routes: they set code and reply, or suspend */

void answer_infer(struct exchange *exchange);  /* infer_route.c */
void answer_ready(struct exchange *exchange);  /* ready.c */
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

/* ------------------------------------------------------------------ browser.c */

/* Checks Host and Origin. false: the exchange has its failure. */
bool browser_is_allowed(struct exchange *exchange);

/* ------------------------------------------------------------------ watch.c */

/* The requests in progress, and a thread that fails those whose deadline has passed. */
INLAY_NODISCARD inlay_status watch_create(struct server *server, struct watch **out_watch, inlay_diag *diag);
void watch_destroy(struct watch *watch);
/* Adds and removes requests that run or wait to run. */
void watch_add(struct watch *watch, struct exchange *exchange);
void watch_remove(struct watch *watch, struct exchange *exchange);
/* Cancels a request whose client has disconnected. Called by the connection's thread. */
void watch_cancel(struct watch *watch, struct exchange *exchange);
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
