/* Accepts connections, and selects those that give way to new ones. */
#include "base/clock.h"
#include "serve/network/front_internal.h"
#include "serve/network/tls.h"
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The connection of the list that has waited longest for its client's next request, if longer than `oldest`. */
static struct connection *longer_idle(struct connection *list, connection_group group, struct connection *oldest)
{
    for (struct connection *at = list; at != NULL; at = at->next)
        if (at->group == group && atomic_load_explicit(&at->turn, memory_order_acquire) == CONNECTION_IDLE &&
            (oldest == NULL || atomic_load_explicit(&at->since_ns, memory_order_relaxed) <
                                   atomic_load_explicit(&oldest->since_ns, memory_order_relaxed)))
            oldest = at;
    return oldest;
}

static void lock_threads(struct front *front)
{
    for (uint32_t i = 0; i < front->thread_count; i++)
        (void)pthread_mutex_lock(&front->threads[i]->lock);
}

static void unlock_threads(struct front *front)
{
    for (uint32_t i = 0; i < front->thread_count; i++)
        (void)pthread_mutex_unlock(&front->threads[i]->lock);
}

/* The connection of the group that has waited longest for its client's next request; NULL: all have a request in
 * progress. Those on which a request has arrived come last: they have waited since now. The caller has called
 * lock_threads(), at the time `began` or later. */
static struct connection *oldest_idle(struct front *front, connection_group group, uint64_t began)
{
    for (;;) {
        struct connection *oldest = NULL;

        for (uint32_t i = 0; i < front->thread_count; i++)
            oldest = longer_idle(front->threads[i]->incoming, group,
                                 longer_idle(front->threads[i]->connections, group, oldest));
        if (oldest == NULL || atomic_load_explicit(&oldest->since_ns, memory_order_relaxed) >= began ||
            !connection_has_input(oldest))
            return oldest;
        atomic_store_explicit(&oldest->since_ns, clock_ns(), memory_order_relaxed);
    }
}

/* Makes an idle connection give way: its thread closes it. false: it is no longer idle. The caller has called
 * lock_threads(). */
static bool give_way(struct front *front, struct connection *connection)
{
    int idle = CONNECTION_IDLE;

    if (!atomic_compare_exchange_strong(&connection->turn, &idle, CONNECTION_EVICTED))
        return false; /* its thread has begun a request, or will */
    atomic_store(&connection->evicted, true);
    (void)atomic_fetch_sub(&front->counts[connection->group], 1);
    (void)atomic_fetch_add(&front->evicted, 1);
    connection->thread->evicted = true;
    if (!pthread_equal(connection->thread->lending.served_by, pthread_self()))
        front_interrupt(connection->thread);
    return true;
}

/* Lets the connection of the group that has waited longest for its client's next request give way to a new one. false:
 * all have a request in progress, or one may be on its way (see quiet_ns()). */
static bool evict(struct front *front, connection_group group)
{
    const uint64_t began = clock_ns();
    struct connection *oldest;

    lock_threads(front);
    do {
        oldest = oldest_idle(front, group, began);
        if (oldest != NULL && group == CONNECTION_CLIENTS && connection_waited_ns(oldest, began) < QUIET_NS)
            oldest = NULL;
    } while (oldest != NULL && !give_way(front, oldest));
    unlock_threads(front);
    return oldest != NULL;
}

/* Nanoseconds until a client may give way to a new one: it must have sent nothing for QUIET_NS. Closed sooner, its
 * connection could lose a request that is on its way. 0: one may, or none ever. */
static uint64_t quiet_ns(struct front *front)
{
    const uint64_t now = clock_ns();
    const struct connection *oldest;
    uint64_t waited = QUIET_NS;

    lock_threads(front);
    oldest = oldest_idle(front, CONNECTION_CLIENTS, now);
    if (oldest != NULL)
        waited = connection_waited_ns(oldest, now);
    unlock_threads(front);
    return waited < QUIET_NS ? QUIET_NS - waited : 0;
}

static void open_connection(struct front *front, const listener_socket *from, int fd, const struct sockaddr *client,
                            socklen_t bytes, connection_group group)
{
    struct front_thread *thread = front->threads[0];
    struct server *server = front->server;
    struct connection *connection = calloc(1, sizeof *connection);
    int on = 1;

    for (uint32_t i = 1; i < front->thread_count; i++)
        if (atomic_load(&front->threads[i]->connection_count) < atomic_load(&thread->connection_count))
            thread = front->threads[i];
    if (connection != NULL && server->tls != NULL)
        connection->tls.session = tls_accept(server->tls, fd, from->kind == LISTENER_GRPC);
    if (connection == NULL || (server->tls != NULL && connection->tls.session == NULL)) {
        free(connection);
        (void)close(fd);
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection->thread = thread;
    connection->server = server;
    connection->from = from;
    connection->fd = fd;
    connection->group = group;
    memcpy(&connection->client.address, client,
           bytes < sizeof connection->client.address ? bytes : sizeof connection->client.address);
    connection->client.is_admin = from->kind == LISTENER_ADMIN;
    connection->client.is_loopback = from->is_loopback;
    connection_set_turn(connection, CONNECTION_IDLE);
    (void)atomic_fetch_add(&front->counts[group], 1);
    (void)atomic_fetch_add(&server->counts->connections, 1);
    (void)atomic_fetch_add(&thread->connection_count, 1);
    (void)pthread_mutex_lock(&thread->lock);
    connection->next = thread->incoming;
    thread->incoming = connection;
    if (!pthread_equal(thread->lending.served_by, pthread_self()))
        front_interrupt(thread);
    (void)pthread_mutex_unlock(&thread->lock);
}

/* The group of a new connection of that listener; CONNECTION_GROUPS: it is closed at once. Only the port of REST
 * without TLS has an answer for a connection beyond max_connections. */
static connection_group group_of(struct front *front, const listener_socket *listener)
{
    connection_group group = listener->kind == LISTENER_ADMIN ? CONNECTION_ADMIN : CONNECTION_CLIENTS;

    if (atomic_load(&front->counts[group]) < front->limits[group] || evict(front, group))
        return group;
    server_refused(front->server, REFUSED_CONNECTIONS);
    return front->server->tls == NULL && listener->kind == LISTENER_REST &&
                   atomic_load(&front->counts[CONNECTION_REFUSED]) < front->limits[CONNECTION_REFUSED]
               ? CONNECTION_REFUSED
               : CONNECTION_GROUPS;
}

/* As front_accept(), for a listener that is open. */
static bool accept_one(struct front *front, const listener_socket *listener, uint64_t *out_wait_ns)
{
    const bool waits = out_wait_ns != NULL && listener->kind != LISTENER_ADMIN;
    struct sockaddr_in6 client = { .sin6_family = AF_UNSPEC };
    socklen_t bytes = sizeof client;
    connection_group group;
    int fd;

    if (waits && atomic_load(&front->counts[CONNECTION_CLIENTS]) >= front->limits[CONNECTION_CLIENTS]) {
        *out_wait_ns = quiet_ns(front);
        if (*out_wait_ns > 0)
            return false;
    }
    fd = accept4(listener->fd, (struct sockaddr *)&client, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        if (waits)
            *out_wait_ns = quiet_ns(front);
        if (!waits || *out_wait_ns == 0)
            (void)evict(front, CONNECTION_CLIENTS);
        return false;
    }
    if (fd < 0)
        return errno == ECONNABORTED || errno == EINTR;
    group = group_of(front, listener);
    if (group == CONNECTION_GROUPS)
        (void)close(fd);
    else
        open_connection(front, listener, fd, (const struct sockaddr *)&client, bytes, group);
    return true;
}

bool front_accept(struct front *front, const listener_socket *listener, uint64_t *out_wait_ns)
{
    bool accepted;

    if (out_wait_ns != NULL)
        *out_wait_ns = 0;
    (void)pthread_mutex_lock(&front->accepting);
    accepted = listener->fd >= 0 && accept_one(front, listener, out_wait_ns);
    (void)pthread_mutex_unlock(&front->accepting);
    return accepted;
}
