/* HTTP/2 connections, and the thread that waits for all of them. */
#include "serve/grpc_internal.h"
#include "inlay/check.h"
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

struct grpc_connection {
    struct grpc *grpc;
    int fd;
    gnutls_session_t tls; /* NULL: no TLS */
    bool secured;         /* the TLS handshake is complete */
    nghttp2_session *session;
    grpc_streams streams;
    struct strbuf out; /* output; the socket has taken the first `sent` bytes */
    size_t sent;
    bool blocked;         /* waits for EPOLLOUT */
    uint64_t progress_ns; /* time of accept, or when the socket last took output */
    grpc_connection *next, *previous;
};

struct grpc {
    struct server *server;
    int listening, epoll, event;
    pthread_t thread;
    grpc_connection *connections;
    uint32_t connection_count, max_connections;
    pthread_mutex_t lock;  /* guards the fields below */
    struct call *finished; /* linked by next_finished, latest first */
    bool stop, drain, cancel;
};

void grpc_finished(struct call *call)
{
    struct grpc *grpc = call->grpc;
    uint64_t one = 1;

    (void)pthread_mutex_lock(&grpc->lock);
    INLAY_CHECK(!call->finished);
    call->finished = true;
    call->next_finished = grpc->finished;
    grpc->finished = call;
    (void)pthread_mutex_unlock(&grpc->lock); /* from here the call may be freed; grpc stays valid */
    if (write(grpc->event, &one, sizeof one) < 0) {
        /* The counter is at its maximum, so the thread wakes up anyway. */
    }
}

/* If the call's request runs, the runner owns the call until grpc->finished returns it. */
void grpc_leave(struct call *call)
{
    bool mine = true;

    call->session = NULL;
    if (call->working && call->in_loader) {
        mine = false;
    } else if (call->working && call->queued) {
        (void)pthread_mutex_lock(&call->grpc->lock);
        mine = !call->finished && sched_cancel(call->server->sched, &call->job);
        (void)pthread_mutex_unlock(&call->grpc->lock);
        if (mine) {
            INLAY_CHECK(atomic_load(&call->server->suspended) > 0);
            (void)atomic_fetch_sub(&call->server->suspended, 1);
            stats_add_error(&call->job.model->stats, STATS_CANCELLED, clock_ns() - call->arrived_ns);
        }
    }
    if (mine)
        call_destroy(call);
}

/* ------------------------------------------------------------------ connections */

static void watch_events(grpc_connection *connection, bool blocked)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | (blocked ? EPOLLOUT : 0u), .data.ptr = connection };

    if (connection->blocked == blocked)
        return;
    connection->blocked = blocked;
    (void)epoll_ctl(connection->grpc->epoll, EPOLL_CTL_MOD, connection->fd, &event);
}

static void destroy_connection(grpc_connection *connection)
{
    struct grpc *grpc = connection->grpc;

    grpc_streams_close(&connection->streams, connection->session);
    CHAIN_REMOVE(grpc->connections, connection, next, previous);
    INLAY_CHECK(grpc->connection_count > 0);
    grpc->connection_count--;
    (void)atomic_fetch_sub(&grpc->server->connections, 1);
    tls_close(connection->tls);
    (void)close(connection->fd);
    strbuf_deinit(&connection->out);
    free(connection);
}

/* Sends the pending output. false: the connection has ended. */
static bool flush(grpc_connection *connection)
{
    if (connection->tls != NULL && !connection->secured)
        return true;
    INLAY_CHECK(connection->sent <= connection->out.size);
    for (;;) {
        ssize_t count;

        if (connection->sent == connection->out.size) {
            const uint8_t *data;

            connection->out.size = connection->sent = 0;
            while ((count = nghttp2_session_mem_send(connection->session, &data)) > 0) {
                strbuf_add(&connection->out, data, (size_t)count);
                if (connection->out.size >= READ_BYTES)
                    break;
            }
            if (count < 0 || connection->out.failed)
                return false;
            if (connection->out.size == 0)
                break;
        }
        count = connection->tls != NULL ? tls_send(connection->tls, connection->out.data + connection->sent,
                                                   connection->out.size - connection->sent)
                                        : send(connection->fd, connection->out.data + connection->sent,
                                               connection->out.size - connection->sent, MSG_NOSIGNAL);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
            watch_events(connection, true);
            return true;
        }
        if (count <= 0)
            return false;
        connection->sent += (size_t)count;
        connection->progress_ns = clock_ns();
    }
    watch_events(connection, false);
    return nghttp2_session_want_read(connection->session) || nghttp2_session_want_write(connection->session);
}

static bool receive(grpc_connection *connection)
{
    uint8_t bytes[READ_BYTES];
    ssize_t count;

    if (connection->tls != NULL && !connection->secured) {
        int done = tls_handshake(connection->tls);

        if (done <= 0) {
            watch_events(connection, tls_wants_write(connection->tls));
            return done == 0;
        }
        connection->secured = true;
    }
    do {
        count = connection->tls != NULL ? tls_receive(connection->tls, bytes, sizeof bytes)
                                        : recv(connection->fd, bytes, sizeof bytes, 0);
        if (count < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (count <= 0 || nghttp2_session_mem_recv(connection->session, bytes, (size_t)count) != count)
            return false;
    } while (connection->tls != NULL &&
             tls_has_more(connection->tls)); /* epoll does not report data that TLS has already read */
    return true;
}

static void accept_one(struct grpc *grpc)
{
    int fd = accept4(grpc->listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), on = 1;
    grpc_connection *connection =
        fd >= 0 && grpc->connection_count < grpc->max_connections ? calloc(1, sizeof *connection) : NULL;
    struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = connection };

    if (connection != NULL) {
        connection->grpc = grpc;
        connection->fd = fd;
        connection->progress_ns = clock_ns();
        connection->streams = (grpc_streams){ .grpc = grpc, .server = grpc->server };
        connection->session = grpc_streams_open(&connection->streams);
        if (grpc->server->tls != NULL)
            connection->tls = tls_accept(grpc->server->tls, fd);
    }
    if (connection == NULL || connection->session == NULL || (grpc->server->tls != NULL && connection->tls == NULL) ||
        epoll_ctl(grpc->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        if (connection != NULL) {
            nghttp2_session_del(connection->session);
            tls_close(connection->tls);
        }
        free(connection);
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    CHAIN_ADD(grpc->connections, connection, next, previous);
    grpc->connection_count++;
    (void)atomic_fetch_add(&grpc->server->connections, 1);
    if (!flush(connection))
        destroy_connection(connection);
}

/* ------------------------------------------------------------------ the gRPC thread */

static grpc_connection *connection_of(struct grpc *grpc, const struct call *call)
{
    for (grpc_connection *connection = grpc->connections; connection != NULL; connection = connection->next)
        if (connection->session == call->session)
            return connection;
    return NULL;
}

/* Sends the replies of requests that other threads have finished. */
static void take_finished(struct grpc *grpc)
{
    struct call *list, *next;

    (void)pthread_mutex_lock(&grpc->lock);
    list = grpc->finished;
    grpc->finished = NULL;
    (void)pthread_mutex_unlock(&grpc->lock);
    for (struct call *call = list; call != NULL; call = next) {
        grpc_connection *connection = call->session != NULL ? connection_of(grpc, call) : NULL;

        next = call->next_finished;
        (void)atomic_fetch_sub(&grpc->server->suspended, 1);
        if (connection == NULL) { /* its stream was closed meanwhile */
            call_destroy(call);
            continue;
        }
        call_finish_message(call);
        call_advance(call);
        if (!flush(connection)) {
            /* The list may contain more calls of this connection, so it is not freed here. After shutdown() its
             * socket is readable, so the next round frees the connection. */
            (void)shutdown(connection->fd, SHUT_RDWR);
        }
    }
}

/* Closes connections whose client is slow to send a message or to read a reply. */
static void close_slow(struct grpc *grpc)
{
    uint64_t now = clock_ns(), limit = grpc->server->receive_ns;

    for (grpc_connection *connection = grpc->connections, *next; connection != NULL; connection = next) {
        bool slow = connection->blocked && now - connection->progress_ns > limit,
             any = connection->streams.calls != NULL;

        next = connection->next;
        for (const struct call *call = connection->streams.calls; call != NULL; call = call->next)
            slow |= !call->client_done && !call->working && (call->ended || call->messages == 0 || call->in.size > 0) &&
                    now - call->arrived_ns > limit;
        /* A client that has never sent a request does not speak this protocol. */
        slow |= !any && nghttp2_session_get_last_proc_stream_id(connection->session) == 0 &&
                now - connection->progress_ns > limit;
        if (slow)
            destroy_connection(connection);
    }
}

static void end_calls(struct grpc *grpc)
{
    for (grpc_connection *connection = grpc->connections, *next; connection != NULL; connection = next) {
        next = connection->next;
        destroy_connection(connection);
    }
}

/* Applies what other threads have requested. false: the thread has to end. */
static bool apply_requests(struct grpc *grpc)
{
    bool stop, drain, cancel;

    (void)pthread_mutex_lock(&grpc->lock);
    stop = grpc->stop;
    drain = grpc->drain;
    cancel = grpc->cancel;
    grpc->drain = grpc->cancel = false;
    (void)pthread_mutex_unlock(&grpc->lock);
    if (drain && grpc->listening >= 0) {
        /* If other processes share the socket, closing does not remove it from epoll. */
        (void)epoll_ctl(grpc->epoll, EPOLL_CTL_DEL, grpc->listening, NULL);
        (void)close(grpc->listening);
        grpc->listening = -1;
        for (grpc_connection *connection = grpc->connections, *next; connection != NULL; connection = next) {
            next = connection->next;
            (void)nghttp2_submit_goaway(connection->session, NGHTTP2_FLAG_NONE,
                                        nghttp2_session_get_last_proc_stream_id(connection->session), NGHTTP2_NO_ERROR,
                                        NULL, 0);
            if (!flush(connection))
                destroy_connection(connection);
        }
    }
    if (cancel || stop)
        end_calls(grpc);
    return !stop;
}

/* A TLS handshake continues whether the socket is readable or writable. */
static bool wants_receive(const grpc_connection *connection, uint32_t events)
{
    return (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0 ||
           (connection->tls != NULL && !connection->secured);
}

static void *serve(void *user)
{
    struct grpc *grpc = user;
    struct epoll_event events[MAX_EVENTS];
    uint64_t ticked = 0;

    while (apply_requests(grpc)) {
        int count = epoll_wait(grpc->epoll, events, MAX_EVENTS, TICK_MS);

        for (int i = 0; i < count; i++) {
            grpc_connection *connection = events[i].data.ptr;
            uint64_t ignored;

            if (events[i].data.ptr == &grpc->event) {
                if (read(grpc->event, &ignored, sizeof ignored) < 0)
                    continue;
            } else if (events[i].data.ptr == grpc) {
                accept_one(grpc);
            } else if ((wants_receive(connection, events[i].events) && !receive(connection)) || !flush(connection)) {
                destroy_connection(connection);
            }
        }
        take_finished(grpc);
        if (clock_ns() - ticked > (uint64_t)TICK_MS * 1000000) {
            ticked = clock_ns();
            close_slow(grpc);
        }
    }
    take_finished(grpc);
    return NULL;
}

/* ------------------------------------------------------------------ interface */

bool grpc_is_built(void)
{
    return true;
}

static void set_flag(struct grpc *grpc, bool *flag)
{
    uint64_t one = 1;

    (void)pthread_mutex_lock(&grpc->lock);
    *flag = true;
    (void)pthread_mutex_unlock(&grpc->lock);
    if (write(grpc->event, &one, sizeof one) < 0) {
        /* The counter is at its maximum, so the thread wakes up anyway. */
    }
}

void grpc_drain(struct grpc *grpc)
{
    if (grpc != NULL)
        set_flag(grpc, &grpc->drain);
}

void grpc_cancel_all(struct grpc *grpc)
{
    if (grpc != NULL)
        set_flag(grpc, &grpc->cancel);
}

static void release(struct grpc *grpc)
{
    if (grpc->listening >= 0)
        (void)close(grpc->listening);
    if (grpc->epoll >= 0)
        (void)close(grpc->epoll);
    if (grpc->event >= 0)
        (void)close(grpc->event);
    (void)pthread_mutex_destroy(&grpc->lock);
    free(grpc);
}

void grpc_stop(struct grpc *grpc)
{
    if (grpc == NULL)
        return;
    set_flag(grpc, &grpc->stop);
    (void)pthread_join(grpc->thread, NULL);
    release(grpc);
}

inlay_status grpc_start(struct server *server, const char *address, int port, struct grpc **out_grpc, char *name,
                        size_t name_bytes, inlay_diag *diag)
{
    struct epoll_event event = { .events = EPOLLIN };
    struct grpc *grpc = calloc(1, sizeof *grpc);
    inlay_status status;
    int family;

    *out_grpc = NULL;
    if (grpc == NULL)
        return no_memory(diag, "for gRPC");
    grpc->server = server;
    grpc->max_connections = (uint32_t)settings_int(server->settings, SET_max_connections);
    (void)pthread_mutex_init(&grpc->lock, NULL);
    grpc->listening = -1;
    grpc->epoll = epoll_create1(EPOLL_CLOEXEC);
    grpc->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    status = listen_open("grpc", address, port, &grpc->listening, &family, name, name_bytes, diag);
    if (status == INLAY_OK) {
        event.data.ptr = grpc;
        (void)epoll_ctl(grpc->epoll, EPOLL_CTL_ADD, grpc->listening, &event);
        event.data.ptr = &grpc->event;
        (void)epoll_ctl(grpc->epoll, EPOLL_CTL_ADD, grpc->event, &event);
        if (pthread_create(&grpc->thread, NULL, serve, grpc) != 0)
            status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "cannot start a thread for gRPC");
    }
    if (status != INLAY_OK) {
        release(grpc);
        return status;
    }
    *out_grpc = grpc;
    return INLAY_OK;
}
