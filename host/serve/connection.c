/* Sockets and TLS of a connection, and the choice of its protocol. */
#include "serve/connection.h"
#include "inlay/check.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* ------------------------------------------------------------------ bytes */

ssize_t connection_receive(struct connection *connection, void *to, size_t bytes)
{
    ssize_t count;

    do
        count = connection->tls != NULL ? tls_receive(connection->tls, to, bytes) : recv(connection->fd, to, bytes, 0);
    while (count < 0 && errno == EINTR);
    return count;
}

ssize_t connection_send(struct connection *connection, const void *first, size_t first_bytes, const void *second,
                        size_t second_bytes)
{
    struct iovec parts[2] = { { (void *)(uintptr_t)first, first_bytes }, { (void *)(uintptr_t)second, second_bytes } };
    struct msghdr message = { .msg_iov = first_bytes > 0 ? parts : parts + 1,
                              .msg_iovlen = (first_bytes > 0) + (second_bytes > 0) };
    ssize_t count;

    INLAY_CHECK(first_bytes + second_bytes > 0);
    do
        count = connection->tls == NULL ? sendmsg(connection->fd, &message, MSG_NOSIGNAL)
                : first_bytes > 0       ? tls_send(connection->tls, first, first_bytes)
                                        : tls_send(connection->tls, second, second_bytes);
    while (count < 0 && errno == EINTR);
    return count;
}

bool connection_has_more(const struct connection *connection)
{
    return connection->tls != NULL && tls_has_more(connection->tls);
}

void connection_watch(struct connection *connection, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = connection };

    if (connection->interest == events)
        return;
    connection->interest = events;
    (void)epoll_ctl(connection->thread->epoll, EPOLL_CTL_MOD, connection->fd, &event);
}

/* ------------------------------------------------------------------ state */

void connection_set_turn(struct connection *connection, connection_turn turn)
{
    if (turn != CONNECTION_SERVER) /* before other threads read it */
        atomic_store_explicit(&connection->since_ns, clock_ns(), memory_order_relaxed);
    atomic_store_explicit(&connection->turn, turn, memory_order_release);
}

bool connection_begin_request(struct connection *connection)
{
    int idle = CONNECTION_IDLE;

    return atomic_compare_exchange_strong(&connection->turn, &idle, CONNECTION_SERVER) || idle != CONNECTION_EVICTED;
}

bool connection_is_trusted(struct connection *connection)
{
    if (!connection->checked) {
        connection->checked = true;
        connection->trusted = connection->tls != NULL && tls_is_trusted(connection->tls);
    }
    return connection->trusted;
}

/* ------------------------------------------------------------------ protocol */

/* ALPN has chosen the protocol, or the socket is gRPC's. A connection without TLS begins as HTTP/1.1, whose first bytes
 * may be HTTP/2's preface. */
static bool choose(struct connection *connection)
{
    if (connection->group == CONNECTION_REFUSED)
        return http1_open(connection) && http1_refuse(connection);
    return connection->from->kind == LISTENER_GRPC || (connection->tls != NULL && tls_is_http2(connection->tls))
               ? http2_open(connection, NULL, 0)
               : http1_open(connection);
}

static bool continue_handshake(struct connection *connection)
{
    int done = tls_handshake(connection->tls);

    if (done > 0) {
        connection->secured = true;
        connection_watch(connection, EPOLLIN | EPOLLRDHUP);
    } else if (done == 0) {
        connection_watch(connection, EPOLLIN | EPOLLRDHUP | (tls_wants_write(connection->tls) ? EPOLLOUT : 0u));
    }
    return done >= 0;
}

static bool handle(struct connection *connection, uint32_t events)
{
    if (connection->tls != NULL && !connection->secured) {
        if (!continue_handshake(connection))
            return false;
        if (!connection->secured)
            return true;
    }
    if (connection->http1 == NULL && connection->http2 == NULL && !choose(connection))
        return false;
    if (connection->http2 != NULL)
        return http2_event(connection, events);
    return connection->http1 == NULL || http1_event(connection, events);
}

void connection_event(struct connection *connection, uint32_t events)
{
    if (!handle(connection, events))
        connection_close(connection);
}
