#include "serve/network/connection.h"
#include "base/clock.h"
#include "inlay/check.h"
#include "serve/base/chain.h"
#include "serve/base/log.h"
#include "serve/network/front_internal.h"
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* Limits of connections that linger, because each has a descriptor and its client may never close it. */
enum { MAX_LINGERING = 16, LINGER_NS = 1000000000, MAX_IGNORED = 16 };

static void note_bytes(atomic_uint_fast64_t *total, ssize_t count)
{
    if (count > 0)
        (void)atomic_fetch_add_explicit(total, (uint64_t)count, memory_order_relaxed);
}

ssize_t connection_receive(struct connection *connection, void *to, size_t bytes)
{
    ssize_t count;

    do
        count = connection->tls.session != NULL ? tls_receive(connection->tls.session, to, bytes)
                                                : recv(connection->fd, to, bytes, 0);
    while (count < 0 && errno == EINTR);
    connection->is_heard |= count > 0;
    note_bytes(&connection->server->counts->received_bytes, count);
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
        count = connection->tls.session == NULL ? sendmsg(connection->fd, &message, MSG_NOSIGNAL)
                : first_bytes > 0               ? tls_send(connection->tls.session, first, first_bytes)
                                                : tls_send(connection->tls.session, second, second_bytes);
    while (count < 0 && errno == EINTR);
    note_bytes(&connection->server->counts->sent_bytes, count);
    return count;
}

bool connection_has_more(const struct connection *connection)
{
    return connection->tls.session != NULL && tls_has_more(connection->tls.session);
}

void connection_watch(struct connection *connection, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = connection };

    if (connection->interest == events)
        return;
    connection->interest = events;
    (void)epoll_ctl(connection->thread->epoll, EPOLL_CTL_MOD, connection->fd, &event);
}

void connection_set_turn(struct connection *connection, connection_turn turn)
{
    if (turn != CONNECTION_SERVER) /* before other threads read it */
        atomic_store_explicit(&connection->since_ns, clock_ns(), memory_order_relaxed);
    atomic_store_explicit(&connection->turn, turn, memory_order_release);
}

/* Changes CONNECTION_IDLE to `turn`; false: the connection was evicted. */
static bool end_idle(struct connection *connection, connection_turn turn)
{
    int idle = CONNECTION_IDLE;

    return atomic_compare_exchange_strong(&connection->turn, &idle, turn) || idle != CONNECTION_EVICTED;
}

/* A request arrived while its connection gave way. It is answered, because the client of a connection that ends without
 * an answer may not send every request again (RFC 9110, section 9.2.2). After GOAWAY, it may. false: there are too many
 * such connections beyond the limit. */
static bool take_back(struct connection *connection, connection_turn turn)
{
    struct front_thread *thread = connection->thread;
    struct front *front = thread->front;
    bool good;

    if (connection->protocol != NULL && connection->protocol->goaway != NULL)
        return false;
    (void)pthread_mutex_lock(&thread->lock);
    good = atomic_fetch_add(&front->counts[connection->group], 1) < front->limits[connection->group] + MAX_EVICTED;
    if (good) {
        atomic_store(&connection->evicted, false);
        (void)atomic_fetch_sub(&front->evicted, 1);
        connection_set_turn(connection, turn);
    } else {
        (void)atomic_fetch_sub(&front->counts[connection->group], 1);
    }
    (void)pthread_mutex_unlock(&thread->lock);
    return good;
}

bool connection_has_input(const struct connection *connection)
{
    char byte;

    return recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

bool connection_begin_request(struct connection *connection)
{
    int reading = CONNECTION_READING;

    return atomic_compare_exchange_strong(&connection->turn, &reading, CONNECTION_SERVER) ||
           end_idle(connection, CONNECTION_SERVER) || take_back(connection, CONNECTION_SERVER);
}

const struct client *connection_client(struct connection *connection)
{
    if (!connection->checked) {
        connection->checked = true;
        connection->client.is_trusted = connection->tls.session != NULL &&
                                        connection->server->access.needs_certificates &&
                                        tls_is_trusted(connection->tls.session);
    }
    return &connection->client;
}

/* The counter of the front that counts it. */
static atomic_uint *place_of(const struct connection *connection)
{
    struct front *front = connection->thread->front;

    return connection->lingers                 ? &front->lingering
           : atomic_load(&connection->evicted) ? &front->evicted
                                               : &front->counts[connection->group];
}

void connection_destroy(struct connection *connection)
{
    struct front_thread *thread = connection->thread;

    INLAY_CHECK(connection->http1 == NULL && connection->http2 == NULL);
    (void)pthread_mutex_lock(&thread->lock);
    CHAIN_REMOVE(thread->connections, connection, next, previous);
    (void)pthread_mutex_unlock(&thread->lock);
    tls_close(connection->tls.session);
    /* A process that is being started may hold a copy of the descriptor until its exec: closing it here would not end
     * its events. */
    (void)epoll_ctl(thread->epoll, EPOLL_CTL_DEL, connection->fd, NULL);
    (void)close(connection->fd);
    (void)atomic_fetch_sub(&thread->connection_count, 1);
    (void)atomic_fetch_sub(place_of(connection), 1);
    INLAY_CHECK(atomic_load(&connection->server->counts->connections) > 0);
    (void)atomic_fetch_sub(&connection->server->counts->connections, 1);
    strbuf_deinit(&connection->out);
    free(connection);
}

void connection_close(struct connection *connection)
{
    if (connection->protocol == NULL || connection->protocol->close(connection))
        connection_destroy(connection);
}

/* Ignores the input of a connection that lingers; closes it at its end. */
static void ignore_input(struct connection *connection)
{
    ssize_t count = 1;

    for (uint32_t round = 0; round < MAX_IGNORED && count > 0; round++)
        count = recv(connection->fd, connection->thread->serving.buffer, CONNECTION_READ_BYTES, 0);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
        connection_close(connection);
}

/* Whether the connection may linger; it then no longer counts as one of its group. */
static bool begin_linger(struct connection *connection)
{
    struct front_thread *thread = connection->thread;

    if (!connection->is_heard)
        return false;
    if (atomic_fetch_add(&thread->front->lingering, 1) >= MAX_LINGERING) {
        (void)atomic_fetch_sub(&thread->front->lingering, 1);
        return false;
    }
    (void)pthread_mutex_lock(&thread->lock); /* another thread may just make it give way */
    (void)atomic_fetch_sub(place_of(connection), 1);
    connection->lingers = true;
    connection_set_turn(connection, CONNECTION_EVICTED);
    (void)pthread_mutex_unlock(&thread->lock);
    return true;
}

void connection_leave(struct connection *connection)
{
    if (!connection->goaway_sent) {
        connection_close(connection);
        return;
    }
    (void)connection->protocol->close(connection); /* HTTP/2, which does not need it any more */
    connection->protocol = NULL;
    tls_close(connection->tls.session);
    connection->tls.session = NULL;
    (void)shutdown(connection->fd, SHUT_WR); /* the client reads its end before a reset because of unread input */
    if (begin_linger(connection)) {
        connection_watch(connection, EPOLLIN | EPOLLRDHUP);
        ignore_input(connection);
    } else {
        connection_close(connection);
    }
}

void connection_client_text(const struct sockaddr *client, char *text, size_t bytes)
{
    text[0] = '\0';
    (void)getnameinfo(client, client->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in),
                      text, (socklen_t)bytes, NULL, 0, NI_NUMERICHOST);
}

/* Writes at most one line a second, so that clients do not fill the log; the metric counts all. */
static void report_certificate(struct connection *connection, const char *fault)
{
    static atomic_uint_fast64_t next_ns;
    uint64_t now = clock_ns(), next = atomic_load(&next_ns);
    char client[64];

    server_refused(connection->server, REFUSED_CERTIFICATE);
    if (now < next || !atomic_compare_exchange_strong(&next_ns, &next, now + UINT64_C(1000000000)))
        return;
    connection_client_text(&connection->client.address.any, client, sizeof client);
    log_line(LOG_WARNING_LINE, "refused a connection of %s to gRPC: %s (tls_client_ca)", client, fault);
}

static bool continue_handshake(struct connection *connection)
{
    char fault[256];
    int done = tls_handshake(connection->tls.session, fault, sizeof fault);

    if (done > 0) {
        connection->tls.secured = true;
        connection_watch(connection, EPOLLIN | EPOLLRDHUP);
    } else if (done == 0) {
        connection_watch(connection, EPOLLIN | EPOLLRDHUP | (tls_wants_write(connection->tls.session) ? EPOLLOUT : 0u));
    } else if (fault[0] != '\0') {
        report_certificate(connection, fault);
    }
    return done >= 0;
}

static bool handle(struct connection *connection, uint32_t events)
{
    if (connection->tls.session != NULL && !connection->tls.secured) {
        if (!continue_handshake(connection))
            return false;
        if (!connection->tls.secured)
            return true;
    }
    if (connection->protocol == NULL && !connection->thread->front->open(connection))
        return false;
    return connection->protocol->event(connection, events);
}

/* Closes a connection without requests. After GOAWAY, a client sends the requests again that it sent meanwhile. */
static void leave_idle(struct connection *connection)
{
    if (connection->protocol != NULL && connection->protocol->goaway != NULL)
        (void)connection->protocol->goaway(connection);
    else
        (void)shutdown(connection->fd, SHUT_WR); /* the client reads its end before a reset because of unread input */
    connection_leave(connection);
}

void connection_event(struct connection *connection, uint32_t events)
{
    int reading = CONNECTION_READING;

    connection->thread->serving.current = connection;
    if (connection->lingers) {
        ignore_input(connection);
    } else if (!end_idle(connection, CONNECTION_READING) &&
               !(connection_has_input(connection) && take_back(connection, CONNECTION_READING))) {
        leave_idle(connection);
    } else if (!handle(connection, events)) {
        connection_leave(connection);
    } else { /* if no request has begun, it still waits for the same one */
        (void)atomic_compare_exchange_strong(&connection->turn, &reading, CONNECTION_IDLE);
    }
}

uint64_t connection_waited_ns(const struct connection *connection, uint64_t now)
{
    uint64_t since = atomic_load_explicit(&connection->since_ns, memory_order_relaxed);

    return now > since ? now - since : 0;
}

void connection_check_time(struct connection *connection, uint64_t now)
{
    const uint64_t limit = connection->lingers ? LINGER_NS : connection->server->limits.receive_ns;

    if (connection->protocol == NULL) {
        if (connection_waited_ns(connection, now) > limit)
            connection_close(connection);
    } else if (connection->protocol->is_slow(connection, now)) {
        if (atomic_load(&connection->turn) == CONNECTION_IDLE && connection_has_input(connection))
            return; /* its next request has arrived */
        if (connection->protocol->goaway != NULL && atomic_load(&connection->turn) == CONNECTION_IDLE)
            leave_idle(connection);
        else
            connection_close(connection);
    }
}
