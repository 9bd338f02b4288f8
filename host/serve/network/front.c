#include "serve/network/front.h"
#include "inlay/check.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "serve/base/chain.h"
#include "serve/network/front_internal.h"
#include "serve/process/listen.h"
#include "serve/base/log.h"
#include "serve/process/supervise.h"
#include <errno.h>
#include <linux/filter.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MAX_EVENTS = 256,
    MAX_TICK_MS = 500,
    STOP_TICK_MS = 5,
    PROBE_TICK_MS = 50,
    MAX_STOP_MS = 2000,
    MAX_OTHER_FILES = 128,
};

/* Adds the connections that were accepted to the thread's list and its epoll. */
static void take_incoming(struct front_thread *thread)
{
    struct connection *list, *next;

    (void)pthread_mutex_lock(&thread->lock);
    list = thread->incoming;
    thread->incoming = NULL;
    for (struct connection *at = list; at != NULL; at = next) {
        next = at->next;
        CHAIN_ADD(thread->connections, at, next, previous);
    }
    (void)pthread_mutex_unlock(&thread->lock);
    for (struct connection *at = thread->connections; at != NULL; at = next) {
        struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = at };

        next = at->next;
        if (at->is_registered)
            break; /* new ones come first */
        at->is_registered = true;
        at->interest = event.events;
        if (epoll_ctl(thread->epoll, EPOLL_CTL_ADD, at->fd, &event) != 0)
            connection_close(at);
        else
            connection_event(at, 0); /* begins HTTP/2, which sends first */
    }
}

/* Applies what other threads have requested. false: the thread has to end. */
static bool apply_requests(struct front_thread *thread)
{
    bool goaway, cancel, stop, evicted, close_idle;

    (void)pthread_mutex_lock(&thread->lock);
    goaway = thread->goaway;
    cancel = thread->cancel;
    stop = thread->stop;
    evicted = thread->evicted;
    close_idle = thread->close_idle;
    thread->goaway = thread->cancel = thread->evicted = false;
    (void)pthread_mutex_unlock(&thread->lock);
    thread->serving.ending = stop;
    if (!goaway && !cancel && !stop && !evicted && !close_idle)
        return true;
    for (struct connection *at = thread->connections, *next; at != NULL; at = next) {
        next = at->next;
        if (at->lent.active) {
            at->lent.missed_goaway |= goaway;
            at->lent.missed_cancel |= cancel;
        } else if (stop || (cancel && at->protocol != NULL && at->protocol->goaway != NULL)) {
            connection_close(at);
        } else if (evicted && atomic_load(&at->evicted) && !at->lingers) {
            connection_event(at, 0);
        } else if (goaway && at->protocol != NULL && at->protocol->goaway != NULL && !at->protocol->goaway(at)) {
            connection_leave(at);
        } else if (close_idle && (at->protocol == NULL || at->protocol->goaway == NULL) &&
                   atomic_load(&at->turn) == CONNECTION_IDLE && !connection_has_input(at)) {
            connection_close(at);
        }
    }
    if (close_idle) {
        (void)pthread_mutex_lock(&thread->lock);
        thread->close_idle = false;
        (void)pthread_mutex_unlock(&thread->lock);
    }
    return !stop || thread->connections != NULL || atomic_load(&thread->server->suspended) > 0;
}

/* Milliseconds between two calls of check_times(). */
static int tick_ms(const struct front_thread *thread)
{
    return (thread->serving.has_probes || thread->serving.delayed != NULL) && thread->front->tick_ms > PROBE_TICK_MS
               ? PROBE_TICK_MS
               : thread->front->tick_ms;
}

static void check_times(struct front_thread *thread)
{
    uint64_t now = clock_ns();

    thread->serving.has_probes = false;

    for (struct connection *at = thread->connections, *next; at != NULL; at = next) {
        next = at->next;
        if (!at->lent.active)
            connection_check_time(at, now);
    }
}

static listener_socket *listener_of(struct front *front, const void *user)
{
    for (uint32_t i = 0; i < front->listener_count; i++)
        if (user == &front->listeners[i])
            return &front->listeners[i];
    return NULL;
}

static int timeout_ms(const struct front_thread *thread)
{
    const uint64_t accepts_ns = atomic_load(&thread->front->accepts_ns);
    int ms = thread->serving.ending                                           ? STOP_TICK_MS
             : thread->connections == NULL && thread->serving.delayed == NULL ? -1
                                                                              : tick_ms(thread);

    if (accepts_ns > 0) {
        const uint64_t now = clock_ns(), left_ms = accepts_ns > now ? (accepts_ns - now) / 1000000 + 1 : 0;

        ms = ms < 0 || left_ms < (uint64_t)ms ? (int)left_ms : ms;
    }
    return ms;
}

/* Adds a descriptor to the thread's epoll. exclusive: an event wakes one of the threads that wait for it. */
static bool wait_for(struct front_thread *thread, int fd, void *user, bool exclusive)
{
    struct epoll_event event = { .events = EPOLLIN | (exclusive ? EPOLLEXCLUSIVE : 0u), .data.ptr = user };

    return epoll_ctl(thread->epoll, EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST;
}

/* With accepts_ns 0, the threads wait for new clients from now on; otherwise they stop until accepts_ns. The port for
 * health checks always accepts. */
static void set_accepting(struct front *front, uint64_t accepts_ns)
{
    bool good = true;

    (void)pthread_mutex_lock(&front->accepting);
    for (uint32_t i = 0; i < front->listener_count; i++) {
        listener_socket *listener = &front->listeners[i];

        for (uint32_t k = 0; k < front->thread_count && listener->kind != LISTENER_ADMIN && listener->fd >= 0; k++) {
            if (accepts_ns == 0)
                good &= wait_for(front->threads[k], listener->fd, listener, true);
            else
                (void)epoll_ctl(front->threads[k]->epoll, EPOLL_CTL_DEL, listener->fd, NULL);
        }
    }
    atomic_store(&front->accepts_ns, good ? accepts_ns : clock_ns() + QUIET_NS); /* without memory, once more */
    (void)pthread_mutex_unlock(&front->accepting);
}

/* Accepts clients again once the time has come or connections have ended. */
static void resume_accepting(struct front *front)
{
    const uint64_t accepts_ns = atomic_load(&front->accepts_ns);

    if (accepts_ns > 0 && (clock_ns() >= accepts_ns ||
                           atomic_load(&front->counts[CONNECTION_CLIENTS]) < front->limits[CONNECTION_CLIENTS]))
        set_accepting(front, 0);
}

/* Accepts the connections that wait: with one at a time, each would wait for the requests of all connections before
 * it. No more are accepted while MAX_EVICTED connections that gave way are not closed yet, because these still have
 * descriptors, or none may give way yet: then the kernel keeps them. */
static void accept_all(struct front *front, const listener_socket *listener)
{
    uint64_t wait_ns = 0;

    for (uint32_t i = 0; i < MAX_EVENTS && atomic_load(&front->evicted) < MAX_EVICTED; i++) {
        if (!front_accept(front, listener, &wait_ns))
            break;
    }
    if (wait_ns > 0)
        set_accepting(front, clock_ns() + wait_ns);
}

/* See struct front. */
static bool serve(struct front_thread *thread)
{
    struct front *front = thread->front;
    struct epoll_event events[MAX_EVENTS];
    uint64_t ticked = clock_ns(), ignored;

    while (apply_requests(thread)) {
        int count = epoll_wait(thread->epoll, events, MAX_EVENTS, timeout_ms(thread));
        uint64_t takeovers = thread->serving.takeovers;

        /* A spare thread has handled the rest of these events if it took over meanwhile. */
        for (int i = 0; i < count && takeovers == thread->serving.takeovers; i++) {
            const listener_socket *listener = listener_of(front, events[i].data.ptr);

            if (events[i].data.ptr == thread) {
                if (read(thread->event, &ignored, sizeof ignored) < 0)
                    continue;
            } else if (listener != NULL) {
                accept_all(front, listener);
            } else {
                connection_event(events[i].data.ptr, events[i].events);
            }
        }
        do
            take_incoming(thread);
        while (front_resume_tasks(thread));
        front_resume_delayed(thread);
        if (clock_ns() - ticked > (uint64_t)tick_ms(thread) * 1000000) {
            ticked = clock_ns();
            check_times(thread);
        }
        resume_accepting(front);
        if (lending_yield(thread))
            return false;
    }
    return true;
}

static void *run_thread(void *user)
{
    struct front_thread *thread = user;

    do {
        lending_begin(thread);
        thread->serving.buffer = thread->own_buffer;
    } while (!serve(thread));
    (void)atomic_fetch_sub(&thread->front->running, 1);
    return NULL;
}

static uint32_t thread_count(const struct settings *settings)
{
    uint32_t count = (uint32_t)settings_int(settings, SET_serve_threads), cpus = cpus_allowed();

    return count > 0 ? count : cpus < 8 ? cpus : 8;
}

static inlay_status open_listener(struct front *front, listener_kind kind, int port, bool also_grpc, inlay_diag *diag)
{
    static const char *const names[] = { "rest", "grpc", "admin" };
    listener_socket *listener = &front->listeners[front->listener_count];
    const char *secure = front->server->tls != NULL ? "s" : "";
    char name[128];
    inlay_status status = listen_open(names[kind], settings_text(front->server->settings, SET_listen), port,
                                      &listener->fd, &listener->is_ours, name, sizeof name, diag);

    if (status != INLAY_OK)
        return status;
    listener->kind = kind;
    listener->is_loopback = listen_is_loopback(listener->fd);
    front->listener_count++;
    if (kind != LISTENER_GRPC)
        log_line(LOG_INFO_LINE, "listening on http%s://%s%s", secure, name,
                 kind == LISTENER_ADMIN ? " (health and metrics)" : "");
    if (kind == LISTENER_GRPC || also_grpc)
        log_line(LOG_INFO_LINE, "listening on grpc%s://%s", secure, name);
    return INLAY_OK;
}

static inlay_status open_listeners(struct front *front, inlay_diag *diag)
{
    const struct settings *settings = front->server->settings;
    int port = (int)settings_int(settings, SET_port), grpc_port = (int)settings_int(settings, SET_grpc_port),
        admin_port = (int)settings_int(settings, SET_admin_port);
    bool one = port > 0 && port == grpc_port;
    inlay_status status = open_listener(front, LISTENER_REST, port, one, diag);

    front->server->has_grpc = grpc_port >= 0;
    if (status == INLAY_OK && grpc_port >= 0 && !one)
        status = open_listener(front, LISTENER_GRPC, grpc_port, false, diag);
    if (status == INLAY_OK && admin_port >= 0)
        status = open_listener(front, LISTENER_ADMIN, admin_port, false, diag);
    if (status == INLAY_OK && !supervise_is_worker()) /* whose supervisor has done it */
        listen_warn(settings, front->listeners[0].is_loopback);
    return status;
}

static inlay_status open_thread(struct front *front, inlay_diag *diag)
{
    struct front_thread *thread = calloc(1, sizeof *thread);
    bool good;

    if (thread == NULL)
        return no_memory(diag, "for a thread of the server");
    front->threads[front->thread_count++] = thread;
    thread->front = front;
    thread->server = front->server;
    (void)pthread_mutex_init(&thread->lock, NULL);
    (void)pthread_cond_init(&thread->lending.free, NULL);
    thread->epoll = epoll_create1(EPOLL_CLOEXEC);
    thread->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    good = thread->epoll >= 0 && thread->event >= 0 && wait_for(thread, thread->event, thread, false);
    for (uint32_t i = 0; i < front->listener_count; i++)
        good = good && wait_for(thread, front->listeners[i].fd, &front->listeners[i], true);
    return good ? INLAY_OK : inlay_fail(diag, INLAY_IO_ERROR, "cannot wait for connections: %s", strerror(errno));
}

static void destroy(struct front *front)
{
    for (uint32_t i = 0; i < front->thread_count; i++) {
        struct front_thread *thread = front->threads[i];

        if (thread->started)
            (void)pthread_join(thread->thread, NULL);
    }
    lending_end(front);
    for (uint32_t i = 0; i < front->thread_count; i++) {
        struct front_thread *thread = front->threads[i];

        if (thread->epoll >= 0)
            (void)close(thread->epoll);
        if (thread->event >= 0)
            (void)close(thread->event);
        (void)pthread_cond_destroy(&thread->lending.free);
        (void)pthread_mutex_destroy(&thread->lock);
        free(thread);
    }
    for (uint32_t i = 0; i < front->listener_count; i++)
        if (front->listeners[i].fd >= 0)
            (void)close(front->listeners[i].fd);
    (void)pthread_cond_destroy(&front->relief);
    (void)pthread_mutex_destroy(&front->spare_lock);
    (void)pthread_mutex_destroy(&front->accepting);
    free(front->threads);
    free(front);
}

/* max_connections, or fewer if the process may not have as many files open: half of them, at most MAX_OTHER_FILES, are
 * left for models and logs, which are opened again while the server runs. */
static uint32_t connection_limit(const struct settings *settings)
{
    const uint32_t wanted = (uint32_t)settings_int(settings, SET_max_connections);
    struct rlimit files;
    rlim_t most;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted + MAX_OTHER_FILES)
        return wanted;
    most = files.rlim_cur - (files.rlim_cur / 2 < MAX_OTHER_FILES ? files.rlim_cur / 2 : MAX_OTHER_FILES);
    if (most >= wanted)
        return wanted;
    log_line(
        LOG_WARNING_LINE,
        "at most %llu connections instead of max_connections (%u): the process may have only %llu files open; raise "
        "ulimit -n",
        (unsigned long long)most, wanted, (unsigned long long)files.rlim_cur);
    return (uint32_t)most;
}

inlay_status front_start(struct server *server, bool (*open)(struct connection *connection), struct front **out_front,
                         inlay_diag *diag)
{
    uint64_t tick_ms = server->limits.receive_ns / 10000000;
    uint32_t count = thread_count(server->settings);
    struct front *front = calloc(1, sizeof *front);
    inlay_status status;

    *out_front = NULL;
    if (front == NULL)
        return no_memory(diag, "for the server");
    front->server = server;
    front->open = open;
    front->serve = serve;
    front->limits[CONNECTION_CLIENTS] = connection_limit(server->settings);
    front->limits[CONNECTION_ADMIN] = MAX_ADMIN_CONNECTIONS;
    front->limits[CONNECTION_REFUSED] = MAX_REFUSED_CONNECTIONS;
    front->tick_ms = tick_ms < MAX_TICK_MS ? (int)tick_ms : MAX_TICK_MS;
    (void)pthread_mutex_init(&front->accepting, NULL);
    (void)pthread_mutex_init(&front->spare_lock, NULL);
    (void)pthread_cond_init(&front->relief, NULL);
    front->threads = calloc(count, sizeof(struct front_thread *));
    status = front->threads != NULL ? open_listeners(front, diag) : no_memory(diag, "for the server");
    for (uint32_t i = 0; status == INLAY_OK && i < count; i++)
        status = open_thread(front, diag);
    for (uint32_t i = 0; status == INLAY_OK && i < count; i++) {
        struct front_thread *thread = front->threads[i];

        (void)atomic_fetch_add(&front->running, 1);
        thread->started = pthread_create(&thread->thread, NULL, run_thread, thread) == 0;
        if (!thread->started) {
            (void)atomic_fetch_sub(&front->running, 1);
            status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "cannot start a thread");
        }
    }
    if (status != INLAY_OK) {
        (void)front_stop(front);
        return status;
    }
    *out_front = front;
    return INLAY_OK;
}

/* What threads are requested to do. */
enum { GOAWAY = 1, CLOSE_IDLE = 2, CANCEL = 4, STOP = 8 };

static void request(struct front *front, unsigned what)
{
    for (uint32_t i = 0; i < front->thread_count; i++) {
        struct front_thread *thread = front->threads[i];

        (void)pthread_mutex_lock(&thread->lock);
        thread->goaway |= (what & GOAWAY) != 0;
        thread->close_idle |= (what & CLOSE_IDLE) != 0;
        thread->cancel |= (what & CANCEL) != 0;
        thread->stop |= (what & STOP) != 0;
        front_interrupt(thread);
        (void)pthread_mutex_unlock(&thread->lock);
    }
}

/* Makes the kernel drop the first packet of new connections, so that none is established between the last accept() and
 * close(), which would reset it. The client repeats the packet and is then refused, or reaches the next server. */
static void stop_handshakes(int fd)
{
    struct sock_filter drop_syn[] = {
        { BPF_LD | BPF_B | BPF_ABS, 0, 0, 13 },  /* the flags of TCP */
        { BPF_ALU | BPF_AND | BPF_K, 0, 0, 18 }, /* SYN and ACK */
        { BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 2 },  /* SYN alone */
        { BPF_RET | BPF_K, 0, 0, 0 },
        { BPF_RET | BPF_K, 0, 0, UINT32_MAX },
    };
    struct sock_fprog program = { sizeof drop_syn / sizeof drop_syn[0], drop_syn };
    const struct timespec pause = { 0, 20000000 }; /* for handshakes that have begun */

    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0)
        (void)nanosleep(&pause, NULL);
}

void front_drain(struct front *front)
{
    if (front == NULL)
        return;
    for (uint32_t i = 0; i < front->listener_count; i++) {
        listener_socket *listener = &front->listeners[i];

        /* A socket that a parent holds keeps its connections: another process accepts them, unless all workers stop. */
        if (listener->is_ours || front->server->phase.all_stop) {
            stop_handshakes(listener->fd);
            while (front_accept(front, listener, NULL))
                ;
        }
        (void)pthread_mutex_lock(&front->accepting);
        /* If other processes share the socket, closing does not remove it from epoll. */
        for (uint32_t k = 0; k < front->thread_count; k++)
            (void)epoll_ctl(front->threads[k]->epoll, EPOLL_CTL_DEL, listener->fd, NULL);
        (void)close(listener->fd);
        listener->fd = -1;
        (void)pthread_mutex_unlock(&front->accepting);
    }
    request(front, GOAWAY);
}

/* Whether it has waited for its client for a while. */
static bool has_waited(const struct connection *connection, uint64_t now)
{
    const int turn = atomic_load_explicit(&connection->turn, memory_order_acquire);

    return turn != CONNECTION_SERVER && turn != CONNECTION_READING &&
           now > atomic_load_explicit(&connection->since_ns, memory_order_relaxed) + QUIET_NS;
}

bool front_is_quiet(struct front *front)
{
    uint64_t now = clock_ns();
    bool quiet = true;

    if (front == NULL)
        return true;
    for (uint32_t i = 0; i < front->thread_count; i++) {
        struct front_thread *thread = front->threads[i];

        (void)pthread_mutex_lock(&thread->lock);
        quiet &= thread->incoming == NULL && !thread->close_idle;
        for (struct connection *at = thread->connections; at != NULL; at = at->next)
            quiet &= has_waited(at, now);
        (void)pthread_mutex_unlock(&thread->lock);
    }
    return quiet;
}

void front_close_idle(struct front *front)
{
    if (front != NULL)
        request(front, CLOSE_IDLE);
}

void front_cancel_calls(struct front *front)
{
    if (front != NULL)
        request(front, CANCEL);
}

bool front_stop(struct front *front)
{
    const struct timespec pause = { 0, 1000000 };

    if (front == NULL)
        return true;
    request(front, STOP);
    for (uint32_t i = 0; atomic_load(&front->running) > 0; i++) {
        if (i == MAX_STOP_MS)
            return false;
        (void)nanosleep(&pause, NULL);
    }
    destroy(front);
    return true;
}
