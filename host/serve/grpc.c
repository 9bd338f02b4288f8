/* HTTP/2 connections, and the thread that waits for all of them. */
#include "serve/grpc_internal.h"
#include "serve/chain.h"
#include "serve/listen.h"
#include "serve/tls.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_EVENTS = 64, READ_BYTES = 65536, TICK_MS = 100 };

struct wire_link {
    struct grpc *grpc;
    int fd;
    gnutls_session_t tls; /* NULL: none */
    bool secured;         /* its handshake is done */
    nghttp2_session *session;
    grpc_streams streams;
    struct strbuf out; /* what the socket has not taken yet, from `sent` on */
    size_t sent;
    bool blocked;         /* waits for EPOLLOUT */
    uint64_t progress_ns; /* when it was made, or the socket last took something */
    wire_link *next, *previous;
};

struct grpc {
    struct server *server;
    int listening, epoll, event;
    pthread_t thread;
    wire_link *links;
    uint32_t link_count, max_links;
    pthread_mutex_t lock;  /* of what follows */
    struct call *finished; /* by next_finished, latest first */
    bool stop, drain, cancel;
};

void grpc_finished(struct call *x)
{
    struct grpc *g = x->grpc;
    uint64_t one = 1;

    (void)pthread_mutex_lock(&g->lock);
    x->finished = true;
    x->next_finished = g->finished;
    g->finished = x;
    (void)pthread_mutex_unlock(&g->lock); /* from here the call may be gone; g stays */
    if (write(g->event, &one, sizeof one) < 0) {
        /* The counter is full, so the thread will wake all the same. */
    }
}

/* A call whose request runs is left to who runs it; g->finished brings it back. */
void grpc_leave(struct call *x)
{
    bool mine = true;

    x->session = NULL;
    if (x->working && x->keeping) {
        mine = false;
    } else if (x->working && x->queued) {
        (void)pthread_mutex_lock(&x->grpc->lock);
        mine = !x->finished && sched_cancel(x->server->sched, &x->job);
        (void)pthread_mutex_unlock(&x->grpc->lock);
        if (mine) {
            (void)atomic_fetch_sub(&x->server->suspended, 1);
            stats_add_error(&x->job.model->stats, STATS_CANCELLED, clock_ns() - x->arrived_ns);
        }
    }
    if (mine)
        call_destroy(x);
}

/* ------------------------------------------------------------------ connections */

static void watch_link(wire_link *l, bool blocked)
{
    struct epoll_event e = { .events = EPOLLIN | EPOLLRDHUP | (blocked ? EPOLLOUT : 0u), .data.ptr = l };

    if (l->blocked == blocked)
        return;
    l->blocked = blocked;
    (void)epoll_ctl(l->grpc->epoll, EPOLL_CTL_MOD, l->fd, &e);
}

static void destroy_link(wire_link *l)
{
    struct grpc *g = l->grpc;

    grpc_streams_close(&l->streams, l->session);
    CHAIN_REMOVE(g->links, l, next, previous);
    g->link_count--;
    (void)atomic_fetch_sub(&g->server->connections, 1);
    tls_close(l->tls);
    (void)close(l->fd);
    strbuf_deinit(&l->out);
    free(l);
}

/* Sends what there is. false: the connection is at its end. */
static bool flush(wire_link *l)
{
    if (l->tls != NULL && !l->secured)
        return true;
    for (;;) {
        ssize_t n;

        if (l->sent == l->out.size) {
            const uint8_t *data;

            l->out.size = l->sent = 0;
            while ((n = nghttp2_session_mem_send(l->session, &data)) > 0) {
                strbuf_add(&l->out, data, (size_t)n);
                if (l->out.size >= READ_BYTES)
                    break;
            }
            if (n < 0 || l->out.failed)
                return false;
            if (l->out.size == 0)
                break;
        }
        n = l->tls != NULL ? tls_send(l->tls, l->out.data + l->sent, l->out.size - l->sent)
                           : send(l->fd, l->out.data + l->sent, l->out.size - l->sent, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            watch_link(l, true);
            return true;
        }
        if (n <= 0)
            return false;
        l->sent += (size_t)n;
        l->progress_ns = clock_ns();
    }
    watch_link(l, false);
    return nghttp2_session_want_read(l->session) || nghttp2_session_want_write(l->session);
}

static bool receive(wire_link *l)
{
    uint8_t bytes[READ_BYTES];
    ssize_t n;

    if (l->tls != NULL && !l->secured) {
        int done = tls_handshake(l->tls);

        if (done <= 0) {
            watch_link(l, tls_wants_write(l->tls));
            return done == 0;
        }
        l->secured = true;
    }
    do {
        n = l->tls != NULL ? tls_receive(l->tls, bytes, sizeof bytes) : recv(l->fd, bytes, sizeof bytes, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n <= 0 || nghttp2_session_mem_recv(l->session, bytes, (size_t)n) != n)
            return false;
    } while (l->tls != NULL && tls_has_more(l->tls)); /* the socket does not tell of these */
    return true;
}

static void accept_one(struct grpc *g)
{
    int fd = accept4(g->listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), on = 1;
    wire_link *l = fd >= 0 && g->link_count < g->max_links ? calloc(1, sizeof *l) : NULL;
    struct epoll_event e = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = l };

    if (l != NULL) {
        l->grpc = g;
        l->fd = fd;
        l->progress_ns = clock_ns();
        l->streams = (grpc_streams){ .grpc = g, .server = g->server };
        l->session = grpc_streams_open(&l->streams);
        if (g->server->tls != NULL)
            l->tls = tls_accept(g->server->tls, fd);
    }
    if (l == NULL || l->session == NULL || (g->server->tls != NULL && l->tls == NULL) ||
        epoll_ctl(g->epoll, EPOLL_CTL_ADD, fd, &e) != 0) {
        if (l != NULL) {
            nghttp2_session_del(l->session);
            tls_close(l->tls);
        }
        free(l);
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    CHAIN_ADD(g->links, l, next, previous);
    g->link_count++;
    (void)atomic_fetch_add(&g->server->connections, 1);
    if (!flush(l))
        destroy_link(l);
}

/* ------------------------------------------------------------------ the thread */

static wire_link *link_of(struct grpc *g, const struct call *x)
{
    for (wire_link *l = g->links; l != NULL; l = l->next)
        if (l->session == x->session)
            return l;
    return NULL;
}

/* Requests that others have finished: their answers. */
static void take_finished(struct grpc *g)
{
    struct call *list, *next;

    (void)pthread_mutex_lock(&g->lock);
    list = g->finished;
    g->finished = NULL;
    (void)pthread_mutex_unlock(&g->lock);
    for (struct call *x = list; x != NULL; x = next) {
        wire_link *l = x->session != NULL ? link_of(g, x) : NULL;

        next = x->next_finished;
        (void)atomic_fetch_sub(&g->server->suspended, 1);
        if (l == NULL) { /* its stream went meanwhile */
            call_destroy(x);
            continue;
        }
        call_finish_message(x);
        call_advance(x);
        if (!flush(l)) {
            /* Other calls of this list may be the connection's: it is closed at the next round, when it can be read. */
            (void)shutdown(l->fd, SHUT_RDWR);
        }
    }
}

/* Clients that are slow to send a message, or to take an answer. */
static void close_slow(struct grpc *g)
{
    uint64_t now = clock_ns(), limit = g->server->receive_ns;

    for (wire_link *l = g->links, *next; l != NULL; l = next) {
        bool slow = l->blocked && now - l->progress_ns > limit, any = l->streams.calls != NULL;

        next = l->next;
        for (const struct call *x = l->streams.calls; x != NULL; x = x->next)
            slow |= !x->client_done && !x->working && (x->ended || x->messages == 0 || x->in.size > 0) &&
                    now - x->arrived_ns > limit;
        /* Who has never said anything is no client of this protocol. */
        slow |= !any && nghttp2_session_get_last_proc_stream_id(l->session) == 0 && now - l->progress_ns > limit;
        if (slow)
            destroy_link(l);
    }
}

static void end_calls(struct grpc *g)
{
    for (wire_link *l = g->links, *next; l != NULL; l = next) {
        next = l->next;
        destroy_link(l);
    }
}

/* What other threads have asked for. */
static bool obey(struct grpc *g)
{
    bool stop, drain, cancel;

    (void)pthread_mutex_lock(&g->lock);
    stop = g->stop;
    drain = g->drain;
    cancel = g->cancel;
    g->drain = g->cancel = false;
    (void)pthread_mutex_unlock(&g->lock);
    if (drain && g->listening >= 0) {
        /* Closing alone does not take it out of epoll where other processes have the socket, too. */
        (void)epoll_ctl(g->epoll, EPOLL_CTL_DEL, g->listening, NULL);
        (void)close(g->listening);
        g->listening = -1;
        for (wire_link *l = g->links, *next; l != NULL; l = next) {
            next = l->next;
            (void)nghttp2_submit_goaway(l->session, NGHTTP2_FLAG_NONE,
                                        nghttp2_session_get_last_proc_stream_id(l->session), NGHTTP2_NO_ERROR, NULL, 0);
            if (!flush(l))
                destroy_link(l);
        }
    }
    if (cancel || stop)
        end_calls(g);
    return !stop;
}

/* A handshake goes on whichever way the socket has become ready. */
static bool wants_receive(const wire_link *l, uint32_t events)
{
    return (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0 || (l->tls != NULL && !l->secured);
}

static void *serve(void *user)
{
    struct grpc *g = user;
    struct epoll_event events[MAX_EVENTS];
    uint64_t ticked = 0;

    while (obey(g)) {
        int count = epoll_wait(g->epoll, events, MAX_EVENTS, TICK_MS);

        for (int i = 0; i < count; i++) {
            wire_link *l = events[i].data.ptr;
            uint64_t ignored;

            if (events[i].data.ptr == &g->event) {
                if (read(g->event, &ignored, sizeof ignored) < 0)
                    continue;
            } else if (events[i].data.ptr == g) {
                accept_one(g);
            } else if ((wants_receive(l, events[i].events) && !receive(l)) || !flush(l)) {
                destroy_link(l);
            }
        }
        take_finished(g);
        if (clock_ns() - ticked > (uint64_t)TICK_MS * 1000000) {
            ticked = clock_ns();
            close_slow(g);
        }
    }
    take_finished(g);
    return NULL;
}

/* ------------------------------------------------------------------ from outside */

bool grpc_is_built(void)
{
    return true;
}

static void ask(struct grpc *g, bool *what)
{
    uint64_t one = 1;

    (void)pthread_mutex_lock(&g->lock);
    *what = true;
    (void)pthread_mutex_unlock(&g->lock);
    if (write(g->event, &one, sizeof one) < 0) {
        /* It is awake, then. */
    }
}

void grpc_drain(struct grpc *g)
{
    if (g != NULL)
        ask(g, &g->drain);
}

void grpc_cancel_all(struct grpc *g)
{
    if (g != NULL)
        ask(g, &g->cancel);
}

static void release(struct grpc *g)
{
    if (g->listening >= 0)
        (void)close(g->listening);
    if (g->epoll >= 0)
        (void)close(g->epoll);
    if (g->event >= 0)
        (void)close(g->event);
    (void)pthread_mutex_destroy(&g->lock);
    free(g);
}

void grpc_stop(struct grpc *g)
{
    if (g == NULL)
        return;
    ask(g, &g->stop);
    (void)pthread_join(g->thread, NULL);
    release(g);
}

inlay_status grpc_start(struct server *s, const char *address, int port, struct grpc **out_grpc, char *name,
                        size_t name_bytes, inlay_diag *diag)
{
    struct epoll_event e = { .events = EPOLLIN };
    struct grpc *g = calloc(1, sizeof *g);
    inlay_status status;
    int family;

    *out_grpc = NULL;
    if (g == NULL)
        return no_memory(diag, "for gRPC");
    g->server = s;
    g->max_links = (uint32_t)settings_int(s->settings, SET_max_connections);
    (void)pthread_mutex_init(&g->lock, NULL);
    g->listening = -1;
    g->epoll = epoll_create1(EPOLL_CLOEXEC);
    g->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    status = listen_open("grpc", address, port, &g->listening, &family, name, name_bytes, diag);
    if (status == INLAY_OK) {
        e.data.ptr = g;
        (void)epoll_ctl(g->epoll, EPOLL_CTL_ADD, g->listening, &e);
        e.data.ptr = &g->event;
        (void)epoll_ctl(g->epoll, EPOLL_CTL_ADD, g->event, &e);
        if (pthread_create(&g->thread, NULL, serve, g) != 0)
            status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "cannot start a thread for gRPC");
    }
    if (status != INLAY_OK) {
        release(g);
        return status;
    }
    *out_grpc = g;
    return INLAY_OK;
}
