#include "serve/protocol/http2_connection.h"
#include "base/clock.h"
#include "inlay/check.h"
#include "serve/protocol/http2_filter.h"
#include "serve/protocol/http2_streams.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

enum { MAX_ROUNDS = 16 }; /* receive calls for one event, so that no connection keeps the others waiting */

struct http2_connection {
    nghttp2_session *session;
    http2_streams streams;
    http2_filter filter;
    bool blocked;         /* the socket takes no output */
    uint64_t progress_ns; /* time of accept, or when the socket last took output */
    int32_t last_stream;  /* the latest stream that had begun at the end of the last event */
};

/* Sends the pending output. false: the connection has ended. */
static bool flush(struct connection *connection)
{
    struct http2_connection *http2 = connection->http2;

    INLAY_CHECK(connection->sent <= connection->out.size);
    for (;;) {
        ssize_t count;

        if (connection->sent == connection->out.size) {
            const uint8_t *data;

            connection->out.size = connection->sent = 0;
            while ((count = nghttp2_session_mem_send(http2->session, &data)) > 0) {
                strbuf_add(&connection->out, data, (size_t)count);
                if (connection->out.size >= CONNECTION_READ_BYTES)
                    break;
            }
            if (count < 0 || connection->out.failed)
                return false;
            if (connection->out.size == 0)
                break;
        }
        count = connection_send(connection, connection->out.data + connection->sent,
                                connection->out.size - connection->sent, NULL, 0);
        http2->blocked = count < 0 && errno == EAGAIN;
        if (http2->blocked) {
            connection_watch(connection, EPOLLIN | EPOLLRDHUP | EPOLLOUT);
            return true;
        }
        if (count <= 0)
            return false;
        connection->sent += (size_t)count;
        http2->progress_ns = clock_ns();
        http2->filter.idle = 0; /* WINDOW_UPDATE may answer it */
    }
    connection_watch(connection, EPOLLIN | EPOLLRDHUP);
    return nghttp2_session_want_read(http2->session) || nghttp2_session_want_write(http2->session);
}

/* A connection without calls and pending output may give way to another one. */
static bool update_turn(struct connection *connection, bool good)
{
    struct http2_connection *http2 = connection->http2;
    const int32_t last = nghttp2_session_get_last_proc_stream_id(http2->session);
    const bool busy = http2->streams.calls != NULL || connection->sent < connection->out.size,
               answered = last != http2->last_stream;
    const int turn = atomic_load_explicit(&connection->turn, memory_order_acquire);

    http2->last_stream = last;
    if (turn == CONNECTION_EVICTED || (busy && !connection_begin_request(connection)))
        return false;
    if (!busy && (turn == CONNECTION_SERVER || answered))
        connection_set_turn(connection, CONNECTION_IDLE);
    return good;
}

static bool take(struct connection *connection, const uint8_t *data, size_t bytes)
{
    struct http2_connection *http2 = connection->http2;

    while (bytes > 0) {
        const uint8_t *part;
        size_t part_bytes,
            used = http2_filter_next(&http2->filter, data, bytes,
                                     nghttp2_session_get_last_proc_stream_id(http2->session), &part, &part_bytes);

        if (http2->filter.idle > HTTP2_MOST_IDLE)
            return false;
        if (part_bytes > 0 && nghttp2_session_mem_recv(http2->session, part, part_bytes) != (ssize_t)part_bytes)
            return false;
        data += used;
        bytes -= used;
    }
    return true;
}

static bool receive(struct connection *connection)
{
    uint8_t *buffer = (uint8_t *)connection->thread->serving.buffer;

    for (uint32_t round = 0; round < MAX_ROUNDS || connection_has_more(connection); round++) {
        ssize_t count = connection_receive(connection, buffer, (size_t)CONNECTION_READ_BYTES);

        if (count < 0)
            return errno == EAGAIN;
        if (count == 0 || !take(connection, buffer, (size_t)count))
            return false;
        if ((size_t)count < (size_t)CONNECTION_READ_BYTES && !connection_has_more(connection))
            return true;
    }
    return true;
}

static bool handle_event(struct connection *connection, uint32_t events)
{
    bool good = ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0 && !connection_has_more(connection)) ||
                receive(connection);

    return update_turn(connection, good && flush(connection));
}

static bool flush_all(struct connection *connection)
{
    return update_turn(connection, flush(connection));
}

/* Whether the client is slow to send a message or to read a reply. */
static bool is_slow(struct connection *connection, uint64_t now)
{
    const struct http2_connection *http2 = connection->http2;
    uint64_t limit = connection->server->limits.receive_ns;
    bool slow = http2->blocked && now > http2->progress_ns + limit;

    for (const struct call *call = http2->streams.calls; call != NULL; call = call->next)
        slow |= !call->in.ended && !call->working &&
                (call->ended || call->in.messages == 0 || call->in.bytes.size > 0) &&
                now > call->request.arrived_ns + limit;
    /* A client that has never sent a request does not speak this protocol. */
    return slow || (http2->streams.calls == NULL && nghttp2_session_get_last_proc_stream_id(http2->session) == 0 &&
                    now > http2->progress_ns + limit);
}

/* Open connections accept no new calls. */
static bool goaway(struct connection *connection)
{
    nghttp2_session *session = connection->http2->session;

    connection->goaway_sent = true;
    (void)nghttp2_submit_goaway(session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session),
                                NGHTTP2_NO_ERROR, NULL, 0);
    return flush_all(connection);
}

static bool close_connection(struct connection *connection)
{
    struct http2_connection *http2 = connection->http2;

    if (http2 == NULL)
        return true;
    if (http2->session != NULL)
        http2_streams_close(&http2->streams, http2->session);
    free(http2);
    connection->http2 = NULL;
    return true;
}

static const struct protocol http2_protocol = { handle_event, is_slow, goaway, close_connection };

/* After a reply of a stream was submitted by another event than the connection's. */
static void flush_or_close(struct connection *connection)
{
    if (!flush_all(connection))
        connection_leave(connection);
}

bool http2_open(struct connection *connection, const char *data, size_t bytes)
{
    struct http2_connection *http2 = calloc(1, sizeof *http2);

    if (http2 == NULL)
        return false;
    connection->http2 = http2;
    connection->protocol = &http2_protocol;
    http2->progress_ns = clock_ns();
    http2->streams = (http2_streams){ .connection = connection, .server = connection->server, .flush = flush_or_close };
    http2->streams.has_rest = connection->from->kind != LISTENER_GRPC;
    http2->session = http2_streams_open(&http2->streams);
    return http2->session != NULL &&
           update_turn(connection, take(connection, (const uint8_t *)data, bytes) && flush(connection));
}
