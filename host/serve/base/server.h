/* serve/base/server.h - what all parts of the server share: its limits, its counters and its parts. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H
#include "serve/base/guard.h"
#include "serve/base/settings.h"
#include "serve/base/tokens.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

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
#endif
