/* serve/base/server.h - what all parts of the server share: its limits, its counters and its parts. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H
#include "serve/base/access.h"
#include "serve/base/board.h"
#include "serve/base/settings.h"
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

/* The settings that bound a request. */
typedef struct server_limits {
    uint64_t inflight_bytes; /* of all processes; 0 = no limit */
    uint64_t body_bytes, header_bytes;
    uint64_t receive_ns;
    uint64_t timeout_ns; /* of requests without one; 0 = no limit */
} server_limits;

/* From its start to its end. */
typedef struct server_phase {
    atomic_bool loaded;   /* loading at the start has ended */
    atomic_bool ready;    /* see server_update_ready() */
    bool all_stop;        /* the supervisor stops all workers; set before front_drain() */
    atomic_bool draining; /* replies close their connections */
    atomic_bool refusing; /* inference requests are refused */
} server_phase;

struct server {
    const struct settings *settings;
    struct repository *repository;
    struct sched *sched;
    struct watch *watch;
    struct loader *loader;
    struct prepare *prepare;
    struct trace *trace;
    struct otlp *otlp;                   /* NULL: none are exported */
    struct shared_memory *shared_memory; /* NULL: not enabled */
    struct tls *tls;                     /* NULL: no TLS */
    bool has_grpc;                       /* gRPC is enabled */
    struct access_policy access;
    server_phase phase;
    atomic_uint suspended; /* requests that other threads have */
    struct board board;
    board_counts *counts;                     /* of this process, in the board */
    atomic_uint_fast64_t copied_bytes;        /* of this process, see server_hold_copy() */
    atomic_uint_fast64_t most_inflight_bytes; /* of this process, since watch.c has last given memory back */
    server_limits limits;
    int access_log;             /* -1 = none */
    atomic_bool access_log_cut; /* it ends within a line */
    uint64_t started_ns;
    uint32_t runners; /* most concurrent runs */
    bool load_header; /* every reply reports the server's load */
    load_figures load;
};

static inline void server_refused(struct server *server, refused_reason reason)
{
    (void)atomic_fetch_add_explicit(&server->counts->refused[reason], 1, memory_order_relaxed);
}

/* Counts further bytes of a body or a reply, whatever the limit is. Returns those of this process. Any thread. */
static inline uint64_t server_count(struct server *server, uint64_t bytes)
{
    /* The order of this addition and of the reads of other processes' numbers matters: of two processes, at least one
     * sees the other's bytes. */
    uint64_t total = atomic_fetch_add(&server->counts->inflight_bytes, bytes) + bytes;

    if (total > atomic_load_explicit(&server->most_inflight_bytes, memory_order_relaxed))
        atomic_store_explicit(&server->most_inflight_bytes, total, memory_order_relaxed); /* about the highest */
    return total;
}

/* Counts further bytes of a body or a reply; the request already has `own`. false: they exceed max_inflight_bytes of
 * all processes together, and are not counted. A request that is alone is not refused. Any thread. */
static inline bool server_hold(struct server *server, uint64_t own, uint64_t bytes)
{
    uint64_t total = server_count(server, bytes);

    if (server->limits.inflight_bytes == 0)
        return true;
    total += board_others_inflight_bytes(&server->board);
    if (total <= server->limits.inflight_bytes || total == own + bytes)
        return true;
    (void)atomic_fetch_sub_explicit(&server->counts->inflight_bytes, bytes, memory_order_relaxed);
    server_refused(server, REFUSED_BYTES);
    return false;
}

static inline void server_release(struct server *server, uint64_t bytes)
{
    (void)atomic_fetch_sub_explicit(&server->counts->inflight_bytes, bytes, memory_order_relaxed);
}

/* Counts bytes of a copy of a request, which already has `own`: all copies together have at most a quarter of
 * max_inflight_bytes in addition to it, so that requests are not refused because of copies. false: they have more, and
 * the bytes are not counted. A copy that is alone is not refused. Any thread. */
static inline bool server_hold_copy(struct server *server, uint64_t own, uint64_t bytes)
{
    uint64_t total = atomic_fetch_add_explicit(&server->copied_bytes, bytes, memory_order_relaxed) + bytes,
             most = server->limits.inflight_bytes > 0 ? server->limits.inflight_bytes / 4 / server->board.count
                                                      : UINT64_C(256) << 20;

    if (total <= most || total == own + bytes)
        return true;
    (void)atomic_fetch_sub_explicit(&server->copied_bytes, bytes, memory_order_relaxed);
    return false;
}

static inline void server_release_copy(struct server *server, uint64_t bytes)
{
    (void)atomic_fetch_sub_explicit(&server->copied_bytes, bytes, memory_order_relaxed);
}
#endif
