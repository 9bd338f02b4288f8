#include "serve/protocol/http1_connection.h"
#include "base/clock.h"
#include "inlay/check.h"
#include "serve/chat/completion.h"
#include "serve/exchange/header.h"
#include "serve/routes/routes.h"
#include "serve/exchange/watch.h"
#include "serve/protocol/http1_reply.h"
#include "serve/protocol/http2_connection.h"
#include "serve/http/http1.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
    MAX_ROUNDS = 16,  /* receive calls for one event, so that no connection keeps the others waiting */
    PROBE_MS = 250,   /* see check_client() */
    LINGER_MS = 2000, /* see begin_linger() */
};

typedef enum http1_step {
    STEP_HEAD,   /* receives a head */
    STEP_LENGTH, /* receives a body of known length */
    STEP_CHUNKS, /* receives a chunked body */
    STEP_WAIT,   /* another thread has the request */
    STEP_STREAM, /* sends events while they are generated */
    STEP_REPLY,  /* sends the rest of a reply */
    STEP_LINGER, /* the reply is sent; drops what the client still sends */
} http1_step;

struct http1_connection {
    http1_step step;
    bool began;       /* the first bytes are not HTTP/2's preface */
    bool keep_alive;  /* after the current request */
    bool is_1_0;      /* HTTP/1.0 */
    bool half_closed; /* the client sends no more */
    bool probed;
    bool lost;        /* the client is gone; the request has not ended */
    struct strbuf in; /* received, not processed yet */
    http1_head *head; /* of a head that has arrived in part */
    http1_chunks chunks;
    uint64_t left; /* STEP_LENGTH: bytes to receive */
    struct exchange *exchange;
    const char *body; /* of the reply, in the exchange */
    size_t body_bytes, body_sent;
};

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"; /* of HTTP/2: RFC 9113, section 3.4 */
static const char continues[] = "HTTP/1.1 100 Continue\r\n\r\n";

typedef enum sent_state { SENT_ALL, SENT_PART, SENT_FAILED } sent_state;

static sent_state send_pending(struct connection *connection)
{
    struct http1_connection *http1 = connection->http1;

    while (connection->sent < connection->out.size || http1->body_sent < http1->body_bytes) {
        ssize_t count = connection_send(connection, connection->out.data + connection->sent,
                                        connection->out.size - connection->sent, http1->body + http1->body_sent,
                                        http1->body_bytes - http1->body_sent);
        size_t first;

        if (count < 0 && errno == EAGAIN) {
            connection_watch(connection, EPOLLOUT | (http1->half_closed ? 0u : EPOLLRDHUP));
            return SENT_PART;
        }
        if (count <= 0)
            return SENT_FAILED;
        first = connection->out.size - connection->sent < (size_t)count ? connection->out.size - connection->sent
                                                                        : (size_t)count;
        connection->sent += first;
        http1->body_sent += (size_t)count - first;
    }
    connection->out.size = connection->sent = 0;
    http1->body_bytes = http1->body_sent = 0;
    return connection->out.failed ? SENT_FAILED : SENT_ALL;
}

/* RFC 9112, section 9.6: closing a socket that has unread bytes resets the connection, and the client may lose the
 * reply. So the server only stops sending, and closes when the client does, or after LINGER_MS. */
static bool begin_linger(struct connection *connection)
{
    connection->http1->step = STEP_LINGER;
    connection_set_turn(connection, CONNECTION_CLIENT);
    tls_finish(connection->tls.session);
    if (shutdown(connection->fd, SHUT_WR) != 0)
        return false;
    connection_watch(connection, EPOLLIN | EPOLLRDHUP);
    return true;
}

bool http1_refuse(struct connection *connection)
{
    static const char answer[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                                 "Content-Length: 42\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
                                 "{\"error\":\"all max_connections are in use\"}";

    strbuf_add(&connection->out, answer, sizeof answer - 1);
    return send_pending(connection) == SENT_ALL && begin_linger(connection);
}

static bool finish_reply(struct connection *connection)
{
    struct http1_connection *http1 = connection->http1;

    exchange_finish(http1->exchange, true);
    http1->exchange = NULL;
    if (!http1->keep_alive)
        return begin_linger(connection);
    http1->step = STEP_HEAD;
    connection_set_turn(connection, CONNECTION_IDLE);
    connection_watch(connection, EPOLLIN | (http1->half_closed ? 0u : EPOLLRDHUP));
    return true;
}

/* Sends events of a stream until none is left for now. */
static bool stream(struct connection *connection)
{
    struct http1_connection *http1 = connection->http1;
    struct exchange *exchange = http1->exchange;
    struct strbuf events = { .data = NULL };

    for (;;) {
        sent_state sent = send_pending(connection);
        completion_state state;

        if (sent != SENT_ALL) {
            connection_set_turn(connection, CONNECTION_CLIENT);
            return sent == SENT_PART;
        }
        if (http1->step == STEP_REPLY)
            return finish_reply(connection);
        connection_set_turn(connection, CONNECTION_SERVER);
        state = completion_take(exchange->completion, &events);
        if (state == COMPLETION_WAITS) { /* another thread may wake it from here */
            strbuf_deinit(&events);
            connection_watch(connection, http1->half_closed ? 0u : EPOLLRDHUP);
            return true;
        }
        if (!http1->is_1_0)
            strbuf_format(&connection->out, "%zx\r\n", events.size);
        strbuf_add(&connection->out, events.data, events.size);
        if (!http1->is_1_0)
            strbuf_text(&connection->out, state == COMPLETION_DONE && events.size > 0 ? "\r\n0\r\n\r\n" : "\r\n");
        if (state == COMPLETION_DONE)
            http1->step = STEP_REPLY;
        strbuf_deinit(&events);
    }
}

/* Sends the reply that the exchange has. */
static bool reply(struct connection *connection)
{
    struct http1_connection *http1 = connection->http1;
    exchange_reply reply;
    sent_state sent;

    if (atomic_load_explicit(&connection->server->phase.draining, memory_order_relaxed))
        http1->keep_alive = false;
    exchange_reply_get(http1->exchange, &reply);
    if (reply.streams && http1->is_1_0)
        http1->keep_alive = false; /* the end of the connection ends the body */
    http1_write_head(&connection->out, &reply, http1->is_1_0, http1->keep_alive);
    if (reply.streams) {
        http1->step = STEP_STREAM;
        return stream(connection);
    }
    http1->step = STEP_REPLY;
    http1->body = reply.body;
    http1->body_bytes = reply.is_head_only ? 0 : reply.body_bytes;
    http1->body_sent = 0;
    sent = send_pending(connection);
    if (sent == SENT_ALL)
        return finish_reply(connection);
    connection_set_turn(connection, CONNECTION_CLIENT);
    return sent == SENT_PART;
}

/* Answers a request whose rest cannot be read: the connection ends. */
static bool refuse(struct connection *connection, int code, const char *error)
{
    exchange_fail(connection->http1->exchange, code, error);
    connection->http1->keep_alive = false;
    return reply(connection);
}

/* The request is complete. */
static bool run(struct connection *connection)
{
    connection->http1->step = STEP_WAIT;
    connection_set_turn(connection, CONNECTION_SERVER);
    return routes_run(connection->http1->exchange) ? reply(connection) : true;
}

static void resume(front_task *task);

static bool open_exchange(struct connection *connection, const http1_head *head, const char *data)
{
    struct http1_connection *http1 = connection->http1;
    struct exchange *exchange = exchange_create(connection->server, connection, resume);

    if (exchange == NULL)
        return false;
    exchange->transport = connection;
    http1->exchange = exchange;
    http1->is_1_0 = head->minor == 0;
    http1->keep_alive = head->keep_alive;
    exchange_set_target(exchange, data + head->method.at, head->method.bytes,
                        head->is_asterisk ? "*" : data + head->path.at, head->is_asterisk ? 1 : head->path.bytes);
    if (head->authority.bytes > 0) /* which replaces Host (RFC 9112, section 3.2.2) */
        exchange_add_field(exchange, "host", 4, data + head->authority.at, head->authority.bytes);
    for (uint32_t i = 0; i < head->field_count; i++)
        exchange_add_field(exchange, data + head->fields[i].name.at, head->fields[i].name.bytes,
                           data + head->fields[i].value.at, head->fields[i].value.bytes);
    return true;
}

/* A head is complete; `more`: bytes of the body have arrived, too. */
static bool take_request(struct connection *connection, const http1_head *head, const char *data, bool more)
{
    struct http1_connection *http1 = connection->http1;
    struct exchange *exchange;

    if (!open_exchange(connection, head, data))
        return false;
    exchange = http1->exchange;
    exchange_begin(exchange, head->body == HTTP1_LENGTH ? head->length : 0);
    if (head->method.bytes == 7 && memcmp(data + head->method.at, "CONNECT", 7) == 0)
        return refuse(connection, 501, "the server is not a proxy");
    /* A client that expects 100-continue may omit the body, so the connection cannot go on. */
    if (exchange->code == 413 || (exchange->code != 0 && head->expects_continue && head->body != HTTP1_NO_BODY)) {
        http1->keep_alive = false;
        return run(connection);
    }
    if (head->body == HTTP1_NO_BODY)
        return run(connection);
    http1->step = head->body == HTTP1_LENGTH ? STEP_LENGTH : STEP_CHUNKS;
    http1->left = head->length;
    http1_chunks_init(&http1->chunks, exchange->most_bytes, connection->server->limits.header_bytes);
    connection_set_turn(connection, CONNECTION_CLIENT);
    if (head->expects_continue && !more) {
        strbuf_add(&connection->out, continues, sizeof continues - 1);
        return send_pending(connection) != SENT_FAILED;
    }
    return true;
}

static bool take_head(struct connection *connection, const char *data, size_t bytes, size_t *used)
{
    static _Thread_local http1_head shared; /* of heads that arrive at once, as most do */
    struct http1_connection *http1 = connection->http1;
    http1_head *head = http1->head;
    http1_state state;
    bool good;

    if (head == NULL) {
        head = &shared;
        http1_head_init(head, connection->server->limits.header_bytes);
    }
    state = http1_head_read(head, data, bytes);
    if (state == HTTP1_MORE) {
        if (http1->head == NULL) {
            http1->head = malloc(sizeof *head);
            if (http1->head == NULL)
                return false;
            *http1->head = *head;
        }
        return true;
    }
    good = connection_begin_request(connection);
    if (good && state == HTTP1_BAD) {
        *used += bytes; /* nothing after it is a request */
        good = open_exchange(connection, head, data) && refuse(connection, head->status, head->error);
    } else if (good) {
        *used += head->bytes;
        good = take_request(connection, head, data, head->bytes < bytes);
    }
    free(http1->head);
    http1->head = NULL;
    return good;
}

static bool take_body(struct connection *connection, const char *data, size_t bytes, size_t *used)
{
    struct http1_connection *http1 = connection->http1;
    size_t part = http1->left < bytes ? (size_t)http1->left : bytes;

    exchange_take_body(http1->exchange, data, part);
    *used += part;
    http1->left -= part;
    return http1->left > 0 || run(connection);
}

static bool take_chunks(struct connection *connection, const char *data, size_t bytes, size_t *used)
{
    struct http1_connection *http1 = connection->http1;
    http1_slice part;
    size_t count;
    http1_state state = http1_chunks_read(&http1->chunks, data, bytes, &count, &part);

    *used += count;
    if (part.bytes > 0)
        exchange_take_body(http1->exchange, data + part.at, part.bytes);
    if (state == HTTP1_BAD && http1->chunks.status == 413) {
        exchange_fail_size(http1->exchange);
        http1->keep_alive = false;
        return reply(connection);
    }
    if (state == HTTP1_BAD)
        return refuse(connection, http1->chunks.status, http1->chunks.error);
    return state == HTTP1_MORE || run(connection);
}

/* Processes received bytes until a request waits for another thread, or more bytes are needed. */
static bool consume(struct connection *connection, const char *data, size_t bytes, size_t *out_used)
{
    size_t used = 0, before;
    bool good = true;

    do {
        before = used;
        if (connection->http1->step == STEP_HEAD)
            good = take_head(connection, data + used, bytes - used, &used);
        else if (connection->http1->step == STEP_LENGTH)
            good = take_body(connection, data + used, bytes - used, &used);
        else if (connection->http1->step == STEP_CHUNKS)
            good = take_chunks(connection, data + used, bytes - used, &used);
    } while (good && used < bytes && used > before);
    *out_used = connection->http1->step == STEP_LINGER ? bytes : used;
    return good;
}

/* Processes the bytes in `in`. */
static bool consume_rest(struct connection *connection)
{
    struct http1_connection *http1 = connection->http1;
    size_t used = 0;
    bool good = http1->in.size == 0 || consume(connection, http1->in.data, http1->in.size, &used);

    INLAY_CHECK(used <= http1->in.size);
    if (used > 0) {
        memmove(http1->in.data, http1->in.data + used, http1->in.size - used);
        http1->in.size -= used;
    }
    if (http1->in.size == 0)
        strbuf_deinit(&http1->in);
    return good;
}

/* The first bytes of a connection without TLS may be HTTP/2's preface. true: they are, or a part of it. */
static bool is_preface(struct connection *connection, const char *data, size_t bytes)
{
    size_t part = bytes < sizeof preface - 1 ? bytes : sizeof preface - 1;

    if (connection->http1->began)
        return false;
    connection->http1->began = connection->tls.session != NULL || memcmp(data, preface, part) != 0;
    return !connection->http1->began;
}

static bool take(struct connection *connection, const char *data, size_t bytes)
{
    struct http1_connection *http1 = connection->http1;
    size_t used = 0;
    bool good;

    if (http1->in.size > 0) { /* the bytes of a head are kept together */
        strbuf_add(&http1->in, data, bytes);
        if (http1->in.failed)
            return false;
        data = http1->in.data;
        bytes = http1->in.size;
    }
    if (is_preface(connection, data, bytes)) {
        if (bytes >= sizeof preface - 1) {
            connection->http1 = NULL;
            good = http2_open(connection, data, bytes);
            strbuf_deinit(&http1->in);
            free(http1);
            return good;
        }
        if (http1->in.size == 0)
            strbuf_add(&http1->in, data, bytes);
        return !http1->in.failed;
    }
    if (http1->in.size > 0)
        return consume_rest(connection);
    good = consume(connection, data, bytes, &used);
    if (good && used < bytes)
        strbuf_add(&http1->in, data + used, bytes - used);
    return good && !http1->in.failed;
}

/* The client sends no more. A complete request that is in progress is answered. */
static bool end_of_input(struct connection *connection)
{
    struct http1_connection *http1 = connection->http1;

    http1->half_closed = true;
    if (http1->step != STEP_LENGTH && http1->step != STEP_CHUNKS)
        return false;
    return refuse(connection, 400, "the connection ended within the body");
}

static bool receives(const struct http1_connection *http1)
{
    return http1->step == STEP_HEAD || http1->step == STEP_LENGTH || http1->step == STEP_CHUNKS ||
           http1->step == STEP_LINGER;
}

static bool receive(struct connection *connection)
{
    for (uint32_t round = 0; receives(connection->http1) && (round < MAX_ROUNDS || connection_has_more(connection));
         round++) {
        struct http1_connection *http1 = connection->http1;
        char *body = http1->step == STEP_LENGTH && http1->in.size == 0 ? exchange_room(http1->exchange) : NULL;
        size_t room = body == NULL                 ? (size_t)CONNECTION_READ_BYTES
                      : http1->left < SIZE_MAX / 2 ? (size_t)http1->left
                                                   : 0;
        ssize_t count = connection_receive(connection, body != NULL ? body : connection->thread->serving.buffer, room);

        if (count < 0)
            return errno == EAGAIN;
        if (count == 0)
            return end_of_input(connection);
        if (http1->step == STEP_LINGER)
            continue;
        if (body != NULL) {
            exchange_received(http1->exchange, (size_t)count);
            http1->left -= (size_t)count;
            if (http1->left == 0 && !run(connection))
                return false;
        } else if (!take(connection, connection->thread->serving.buffer, (size_t)count)) {
            return false;
        }
        if (connection->http1 == NULL) /* HTTP/2 */
            return true;
        if ((size_t)count < room && !connection_has_more(connection))
            return true;
    }
    return true;
}

/* A FIN is all that the server sees of a client that closed its socket and of one that only sends no more. The first
 * answers anything with a reset. RFC 9110, section 15.2.1, lets the server send 100 (Continue) at any time, and clients
 * discard it. A fast reply makes that unnecessary. */
static bool check_client(struct connection *connection)
{
    struct http1_connection *http1 = connection->http1;

    http1->probed = true;
    if (http1->is_1_0 || http1->step != STEP_WAIT || connection->out.size > 0)
        return true;
    strbuf_add(&connection->out, continues, sizeof continues - 1);
    return send_pending(connection) != SENT_FAILED;
}

/* Finds out whether a client that sends no more still waits for its reply. */
static bool probe(struct connection *connection, uint64_t now)
{
    struct http1_connection *http1 = connection->http1;

    if (http1 == NULL || !http1->half_closed || http1->probed || http1->lost || http1->step != STEP_WAIT)
        return true;
    if (now < atomic_load_explicit(&connection->since_ns, memory_order_relaxed) + (uint64_t)PROBE_MS * 1000000) {
        connection->thread->serving.has_probes = true;
        return true;
    }
    return check_client(connection);
}

static bool is_slow(struct connection *connection, uint64_t now)
{
    uint64_t waited = connection_waited_ns(connection, now);

    if (atomic_load_explicit(&connection->turn, memory_order_acquire) == CONNECTION_SERVER)
        return !probe(connection, now);
    return waited > connection->server->limits.receive_ns ||
           (connection->http1 != NULL && connection->http1->step == STEP_LINGER &&
            waited > (uint64_t)LINGER_MS * 1000000);
}

/* After a reply that was not sent at once: the next request may have been received already. */
static bool next_request(struct connection *connection)
{
    return connection->http1->step != STEP_HEAD ||
           (consume_rest(connection) &&
            (!receives(connection->http1) || !connection_has_more(connection) || receive(connection)));
}

static bool send_more(struct connection *connection)
{
    sent_state sent;

    if (connection->http1->step == STEP_STREAM)
        return stream(connection) && next_request(connection);
    sent = send_pending(connection);
    if (sent == SENT_ALL && connection->http1->step == STEP_REPLY)
        return finish_reply(connection) && next_request(connection);
    if (sent == SENT_ALL)
        connection_watch(connection, (receives(connection->http1) ? EPOLLIN : 0u) |
                                         (connection->http1->half_closed ? 0u : EPOLLRDHUP));
    return sent != SENT_FAILED;
}

static bool handle_event(struct connection *connection, uint32_t events)
{
    struct http1_connection *http1 = connection->http1;

    if (http1->lost || (events & (EPOLLHUP | EPOLLERR)) != 0)
        return false;
    if ((events & EPOLLOUT) != 0 && !send_more(connection))
        return false;
    if (receives(http1))
        return (events & (EPOLLIN | EPOLLRDHUP)) == 0 || receive(connection);
    if ((events & EPOLLRDHUP) != 0 && !http1->half_closed) {
        http1->half_closed = true;
        atomic_store_explicit(&connection->since_ns, clock_ns(), memory_order_relaxed);
        connection->thread->serving.has_probes = true;
    }
    /* Bytes that it sends meanwhile wait in the socket. */
    connection_watch(connection,
                     connection->interest & ~(uint32_t)EPOLLIN & ~(http1->half_closed ? (uint32_t)EPOLLRDHUP : 0u));
    return true;
}

static void destroy(struct connection *connection)
{
    struct http1_connection *http1 = connection->http1;

    if (http1->exchange != NULL)
        exchange_finish(http1->exchange, false);
    strbuf_deinit(&http1->in);
    free(http1->head);
    free(http1);
    connection->http1 = NULL;
}

/* The client of a stream is gone: drops its events until the run ends. false: it has not ended. */
static bool drop_stream(struct connection *connection)
{
    struct strbuf events = { .data = NULL };
    completion_state state;

    do {
        state = completion_take(connection->http1->exchange->completion, &events);
        strbuf_deinit(&events);
    } while (state == COMPLETION_SENDS);
    return state == COMPLETION_DONE;
}

static bool close_connection(struct connection *connection)
{
    struct http1_connection *http1 = connection->http1;

    if (http1 == NULL)
        return true;
    if (!http1->lost && http1->exchange != NULL && (http1->step == STEP_WAIT || http1->step == STEP_STREAM)) {
        bool waits = http1->exchange->request.suspended;

        http1->lost = true;
        connection_set_turn(connection, CONNECTION_SERVER);
        (void)epoll_ctl(connection->thread->epoll, EPOLL_CTL_DEL, connection->fd, NULL);
        watch_cancel(connection->server->watch, &http1->exchange->request);
        if (waits || !drop_stream(connection))
            return false;
        http1->lost = false; /* the stream has ended */
    }
    if (http1->lost)
        return false;
    destroy(connection);
    return true;
}

/* Another thread has finished the request, or has events of its stream. */
static void resume(front_task *task)
{
    struct exchange *exchange = exchange_of(task);
    struct connection *connection = exchange->transport;
    struct http1_connection *http1 = connection->http1;

    request_resumed(&exchange->request);
    if (http1->lost) {
        watch_cancel(connection->server->watch,
                     &exchange->request); /* which was not possible while its model was loaded */
        if (exchange->completion != NULL && !drop_stream(connection))
            return;
        destroy(connection);
        connection_destroy(connection);
        return;
    }
    if (!(http1->step == STEP_STREAM ? stream(connection) : reply(connection)) || !next_request(connection))
        connection_close(connection);
}

static const struct protocol http1_protocol = { handle_event, is_slow, NULL, close_connection };

bool http1_open(struct connection *connection)
{
    connection->http1 = calloc(1, sizeof *connection->http1);
    connection->protocol = &http1_protocol;
    return connection->http1 != NULL;
}
