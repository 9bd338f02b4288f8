#include "serve/load.h"
#include "serve/chain.h"
#include "serve/monitor.h"
#include "serve/server.h"
#include "serve/tls.h"
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

enum {
    TICK_NS = 10000000,  /* between two rounds */
    FRESH_NS = 10000000, /* a request this young is not looked at: most are answered before */
    MAX_POLLED = 64      /* requests asked about in one call */
};

/* A socket, and whose turn it is. */
struct peer {
    int fd;
    atomic_bool busy;           /* the request is here, its answer is not yet */
    atomic_uint_fast64_t since; /* of the client's turn */
    bool closed;                /* shut down by us */
    bool asked, trusted;        /* the client's certificate; the connection's own thread's */
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
    struct server *s = user;
    struct watch *w = s->watch;
    struct peer *c = *socket_context;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

        c = info != NULL ? calloc(1, sizeof *c) : NULL;
        *socket_context = c; /* NULL: its first request ends it */
        if (c == NULL)
            return;
        c->fd = info->connect_fd;
        atomic_store(&c->since, clock_ns());
        (void)atomic_fetch_add(&s->connections, 1);
        (void)pthread_mutex_lock(&w->lock);
        CHAIN_ADD(w->connections, c, next, previous);
        (void)pthread_mutex_unlock(&w->lock);
    } else if (c != NULL) {
        (void)pthread_mutex_lock(&w->lock);
        CHAIN_REMOVE(w->connections, c, next, previous);
        (void)pthread_mutex_unlock(&w->lock);
        (void)atomic_fetch_sub(&s->connections, 1);
        free(c);
        *socket_context = NULL;
    }
}

void watch_busy(struct peer *c, bool busy)
{
    if (!busy) /* before anybody sees that it is the client's turn */
        atomic_store_explicit(&c->since, clock_ns(), memory_order_relaxed);
    atomic_store_explicit(&c->busy, busy, memory_order_release);
}

bool watch_is_trusted(struct peer *c, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    if (!c->asked) {
        c->asked = true;
        c->trusted = info != NULL && info->tls_session != NULL && tls_is_trusted(info->tls_session);
    }
    return c->trusted;
}

/* Under the lock. */
static void unlink_request(struct watch *w, struct exchange *x)
{
    CHAIN_REMOVE(w->requests, x, next_watched, previous_watched);
    x->next_watched = x->previous_watched = NULL;
    x->watched = false;
}

void watch_add(struct watch *w, struct exchange *x)
{
    (void)pthread_mutex_lock(&w->lock);
    x->watched = true;
    CHAIN_ADD(w->requests, x, next_watched, previous_watched);
    (void)pthread_mutex_unlock(&w->lock);
}

void watch_remove(struct watch *w, struct exchange *x)
{
    (void)pthread_mutex_lock(&w->lock);
    if (x->watched)
        unlink_request(w, x);
    (void)pthread_mutex_unlock(&w->lock);
}

/* ------------------------------------------------------------------ rounds */

/* Clients that are slow to send, or to take an answer: the socket is shut down, and libmicrohttpd finds it so. */
static void close_slow(struct watch *w, uint64_t now)
{
    (void)pthread_mutex_lock(&w->lock);
    for (struct peer *c = w->connections; c != NULL; c = c->next) {
        bool busy = atomic_load_explicit(&c->busy, memory_order_acquire);
        uint64_t since = atomic_load_explicit(&c->since, memory_order_relaxed);

        if (c->closed || busy || now < since || now - since < w->server->receive_ns)
            continue;
        (void)shutdown(c->fd, SHUT_RDWR);
        c->closed = true;
    }
    (void)pthread_mutex_unlock(&w->lock);
}

/* Cancels a request. Under the lock; those that nobody will finish are put before *waited. */
static void cancel(struct watch *w, struct exchange *x, struct exchange **waited)
{
    if (!sched_cancel(w->server->sched, &x->job))
        return;
    unlink_request(w, x);
    x->next_watched = *waited;
    *waited = x;
}

static void finish_cancelled(struct exchange *x, const char *why)
{
    for (struct exchange *next; x != NULL; x = next) {
        inlay_diag diag = INLAY_DIAG_INIT;

        next = x->next_watched;
        x->next_watched = NULL;
        (void)inlay_fail(&diag, INLAY_CANCELLED, "%s", why);
        x->job.started_ns = clock_ns();
        x->job.finish(&x->job, &diag, NULL, 0);
    }
}

/* Requests whose client has hung up. */
static void cancel_lost(struct watch *w, uint64_t now)
{
    struct pollfd polled[MAX_POLLED];
    struct exchange *asked[MAX_POLLED], *waited = NULL;

    (void)pthread_mutex_lock(&w->lock);
    for (struct exchange *x = w->requests; x != NULL;) {
        nfds_t count = 0;

        for (; x != NULL && count < MAX_POLLED; x = x->next_watched) {
            if (now < x->arrived_ns + FRESH_NS || x->job.cancelled)
                continue;
            asked[count] = x;
            polled[count++] = (struct pollfd){ .fd = x->peer->fd, .events = POLLRDHUP };
        }
        if (count == 0 || poll(polled, count, 0) <= 0)
            continue;
        for (nfds_t i = 0; i < count; i++)
            if ((polled[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0)
                cancel(w, asked[i], &waited);
    }
    (void)pthread_mutex_unlock(&w->lock);
    finish_cancelled(waited, "the client went away");
}

void watch_cancel_all(struct watch *w)
{
    struct exchange *waited = NULL;

    (void)pthread_mutex_lock(&w->lock);
    for (struct exchange *x = w->requests, *next; x != NULL; x = next) {
        next = x->next_watched;
        cancel(w, x, &waited);
    }
    (void)pthread_mutex_unlock(&w->lock);
    finish_cancelled(waited, "the server is going down");
}

static void *rounds(void *user)
{
    struct watch *w = user;
    struct timespec until;

    for (;;) {
        uint64_t now = clock_ns(), at = now + TICK_NS;
        bool stop;

        until = (struct timespec){ (time_t)(at / 1000000000u), (long)(at % 1000000000u) };
        (void)pthread_mutex_lock(&w->lock);
        if (!w->stop)
            (void)pthread_cond_timedwait(&w->stopped, &w->lock, &until);
        stop = w->stop;
        (void)pthread_mutex_unlock(&w->lock);
        if (stop)
            return NULL;
        now = clock_ns();
        close_slow(w, now);
        cancel_lost(w, now);
        sched_expire(w->server->sched);
        repository_tidy(w->server->repository);
        load_follow(w->server);
    }
}

inlay_status watch_create(struct server *s, struct watch **out_watch, inlay_diag *diag)
{
    struct watch *w = calloc(1, sizeof *w);

    *out_watch = NULL;
    if (w == NULL)
        return no_memory(diag, "for the watch");
    w->server = s;
    monitor_init(&w->lock, &w->stopped);
    if (pthread_create(&w->thread, NULL, rounds, w) != 0) {
        free(w);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "cannot start a thread");
    }
    *out_watch = w;
    return INLAY_OK;
}

void watch_destroy(struct watch *w)
{
    if (w == NULL)
        return;
    (void)pthread_mutex_lock(&w->lock);
    w->stop = true;
    (void)pthread_cond_signal(&w->stopped);
    (void)pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
    (void)pthread_cond_destroy(&w->stopped);
    (void)pthread_mutex_destroy(&w->lock);
    free(w);
}
