#include "serve/load.h"
#include "inlay/check.h"
#include "serve/chain.h"
#include "serve/monitor.h"
#include "serve/server.h"
#include "serve/tls.h"
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

enum {
    TICK_NS = 10000000,  /* interval of the checks */
    FRESH_NS = 10000000, /* younger requests are not checked: most are answered before */
    MAX_POLLED = 64      /* requests per call of poll() */
};

/* A connection, and whether it waits for the server or the client. */
struct peer {
    int fd;
    atomic_bool busy;           /* waits for the server's reply */
    atomic_uint_fast64_t since; /* when it began to wait for the client */
    bool closed;                /* shut down by the server */
    bool checked, trusted;      /* the client's certificate; used by the connection's thread only */
    struct peer *next, *previous;
};

struct watch {
    struct server *server;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stopped;
    bool stop;
    struct peer *connections;
    struct exchange *requests;
};

/* ------------------------------------------------------------------ lists */

void watch_connection(void *user, struct MHD_Connection *mhd, void **socket_context,
                      enum MHD_ConnectionNotificationCode what)
{
    struct server *server = user;
    struct watch *watch = server->watch;
    struct peer *peer = *socket_context;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

        peer = info != NULL ? calloc(1, sizeof *peer) : NULL;
        *socket_context = peer; /* NULL: its first request closes it */
        if (peer == NULL)
            return;
        peer->fd = info->connect_fd;
        atomic_store(&peer->since, clock_ns());
        (void)atomic_fetch_add(&server->connections, 1);
        (void)pthread_mutex_lock(&watch->lock);
        CHAIN_ADD(watch->connections, peer, next, previous);
        (void)pthread_mutex_unlock(&watch->lock);
    } else if (peer != NULL) {
        (void)pthread_mutex_lock(&watch->lock);
        CHAIN_REMOVE(watch->connections, peer, next, previous);
        (void)pthread_mutex_unlock(&watch->lock);
        INLAY_CHECK(atomic_load(&server->connections) > 0);
        (void)atomic_fetch_sub(&server->connections, 1);
        free(peer);
        *socket_context = NULL;
    }
}

void watch_busy(struct peer *peer, bool busy)
{
    if (!busy) /* before other threads read it, which they do once `busy` is false */
        atomic_store_explicit(&peer->since, clock_ns(), memory_order_relaxed);
    atomic_store_explicit(&peer->busy, busy, memory_order_release);
}

bool watch_is_trusted(struct peer *peer, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    if (!peer->checked) {
        peer->checked = true;
        peer->trusted = info != NULL && info->tls_session != NULL && tls_is_trusted(info->tls_session);
    }
    return peer->trusted;
}

/* The caller holds the lock. */
static void unlink_request(struct watch *watch, struct exchange *exchange)
{
    INLAY_CHECK(exchange->watched);
    CHAIN_REMOVE(watch->requests, exchange, next_watched, previous_watched);
    exchange->next_watched = exchange->previous_watched = NULL;
    exchange->watched = false;
}

void watch_add(struct watch *watch, struct exchange *exchange)
{
    INLAY_CHECK(!exchange->watched);
    (void)pthread_mutex_lock(&watch->lock);
    exchange->watched = true;
    CHAIN_ADD(watch->requests, exchange, next_watched, previous_watched);
    (void)pthread_mutex_unlock(&watch->lock);
}

void watch_remove(struct watch *watch, struct exchange *exchange)
{
    (void)pthread_mutex_lock(&watch->lock);
    if (exchange->watched)
        unlink_request(watch, exchange);
    (void)pthread_mutex_unlock(&watch->lock);
}

/* ------------------------------------------------------------------ periodic checks */

/* Shuts down the sockets of clients that are slow to send or to read; libmicrohttpd then closes the connections. */
static void close_slow(struct watch *watch, uint64_t now)
{
    (void)pthread_mutex_lock(&watch->lock);
    for (struct peer *peer = watch->connections; peer != NULL; peer = peer->next) {
        bool busy = atomic_load_explicit(&peer->busy, memory_order_acquire);
        uint64_t since = atomic_load_explicit(&peer->since, memory_order_relaxed);

        if (peer->closed || busy || now < since || now - since < watch->server->receive_ns)
            continue;
        (void)shutdown(peer->fd, SHUT_RDWR);
        peer->closed = true;
    }
    (void)pthread_mutex_unlock(&watch->lock);
}

/* Cancels a request. The caller holds the lock. A request that was still queued is added to *waited, to be finished. */
static void cancel(struct watch *watch, struct exchange *exchange, struct exchange **waited)
{
    if (!sched_cancel(watch->server->sched, &exchange->job))
        return;
    unlink_request(watch, exchange);
    exchange->next_watched = *waited;
    *waited = exchange;
}

static void finish_cancelled(struct exchange *exchange, const char *why)
{
    for (struct exchange *next; exchange != NULL; exchange = next) {
        inlay_diag diag = INLAY_DIAG_INIT;

        next = exchange->next_watched;
        exchange->next_watched = NULL;
        (void)inlay_fail(&diag, INLAY_CANCELLED, "%s", why);
        exchange->job.started_ns = clock_ns();
        exchange->job.finish(&exchange->job, &diag, NULL, 0);
    }
}

/* Cancels requests whose client has disconnected. */
static void cancel_lost(struct watch *watch, uint64_t now)
{
    struct pollfd polled[MAX_POLLED];
    struct exchange *exchanges[MAX_POLLED], *waited = NULL;

    (void)pthread_mutex_lock(&watch->lock);
    for (struct exchange *exchange = watch->requests; exchange != NULL;) {
        nfds_t count = 0;

        for (; exchange != NULL && count < MAX_POLLED; exchange = exchange->next_watched) {
            if (now < exchange->arrived_ns + FRESH_NS || exchange->job.cancelled)
                continue;
            exchanges[count] = exchange;
            polled[count++] = (struct pollfd){ .fd = exchange->peer->fd, .events = POLLRDHUP };
        }
        if (count == 0 || poll(polled, count, 0) <= 0)
            continue;
        for (nfds_t i = 0; i < count; i++)
            if ((polled[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0)
                cancel(watch, exchanges[i], &waited);
    }
    (void)pthread_mutex_unlock(&watch->lock);
    finish_cancelled(waited, "the client disconnected");
}

void watch_cancel_all(struct watch *watch)
{
    struct exchange *waited = NULL;

    (void)pthread_mutex_lock(&watch->lock);
    for (struct exchange *exchange = watch->requests, *next; exchange != NULL; exchange = next) {
        next = exchange->next_watched;
        cancel(watch, exchange, &waited);
    }
    (void)pthread_mutex_unlock(&watch->lock);
    finish_cancelled(waited, "the server is shutting down");
}

static void *check_loop(void *user)
{
    struct watch *watch = user;
    struct timespec until;

    for (;;) {
        uint64_t now = clock_ns(), at = now + TICK_NS;
        bool stop;

        until = (struct timespec){ (time_t)(at / 1000000000u), (long)(at % 1000000000u) };
        (void)pthread_mutex_lock(&watch->lock);
        if (!watch->stop)
            (void)pthread_cond_timedwait(&watch->stopped, &watch->lock, &until);
        stop = watch->stop;
        (void)pthread_mutex_unlock(&watch->lock);
        if (stop)
            return NULL;
        now = clock_ns();
        close_slow(watch, now);
        cancel_lost(watch, now);
        sched_expire(watch->server->sched);
        repository_collect(watch->server->repository);
        load_sample(watch->server);
    }
}

inlay_status watch_create(struct server *server, struct watch **out_watch, inlay_diag *diag)
{
    struct watch *watch = calloc(1, sizeof *watch);

    *out_watch = NULL;
    if (watch == NULL)
        return no_memory(diag, "for the connection checks");
    watch->server = server;
    monitor_init(&watch->lock, &watch->stopped);
    if (pthread_create(&watch->thread, NULL, check_loop, watch) != 0) {
        free(watch);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "cannot start a thread");
    }
    *out_watch = watch;
    return INLAY_OK;
}

void watch_destroy(struct watch *watch)
{
    if (watch == NULL)
        return;
    (void)pthread_mutex_lock(&watch->lock);
    watch->stop = true;
    (void)pthread_cond_signal(&watch->stopped);
    (void)pthread_mutex_unlock(&watch->lock);
    (void)pthread_join(watch->thread, NULL);
    (void)pthread_cond_destroy(&watch->stopped);
    (void)pthread_mutex_destroy(&watch->lock);
    free(watch);
}
