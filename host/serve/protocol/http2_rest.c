#include "serve/protocol/http2_rest.h"
#include "inlay/check.h"
#include "serve/chat/completion.h"
#include "serve/network/connection.h"
#include "serve/exchange/header.h"
#include "serve/routes/routes.h"
#include "serve/exchange/watch.h"
#include "serve/http/http1.h"
#include <stddef.h>
#include <string.h>

enum { MAX_REPLY_FIELDS = 16, NAME_BYTES = 40 };

/* Copies the next bytes of the body: of the exchange's reply, or of events in call->out. */
static ssize_t read_body(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
                         nghttp2_data_source *source, void *user)
{
    struct call *call = source->ptr;
    const struct strbuf *from = call->rest.is_stream ? &call->out : &call->rest.exchange->reply;
    size_t bytes;

    (void)session;
    (void)stream;
    (void)user;
    if (call->rest.has_more && call->sent == call->out.size) {
        completion_state state;

        strbuf_deinit(&call->out);
        call->sent = 0;
        state = completion_take(call->rest.exchange->completion, &call->out);
        if (state == COMPLETION_WAITS) { /* another thread may wake it from here */
            strbuf_deinit(&call->out);
            return NGHTTP2_ERR_DEFERRED;
        }
        call->rest.has_more = state != COMPLETION_DONE;
    }
    bytes = from->size - call->sent < room ? from->size - call->sent : room;
    if (bytes > 0)
        memcpy(to, from->data + call->sent, bytes);
    call->sent += bytes;
    if (!call->rest.has_more && call->sent == from->size)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)bytes;
}

static void add_field(nghttp2_nv *fields, char (*names)[NAME_BYTES], uint32_t i, const char *name, const char *value)
{
    size_t bytes = strlen(name);

    INLAY_CHECK(i < MAX_REPLY_FIELDS && bytes < NAME_BYTES);
    for (size_t k = 0; k < bytes; k++) /* RFC 9113, section 8.2.1: lower case */
        names[i][k] = (char)(name[k] >= 'A' && name[k] <= 'Z' ? name[k] | 32 : name[k]);
    fields[i] =
        (nghttp2_nv){ (uint8_t *)names[i], (uint8_t *)(uintptr_t)value, bytes, strlen(value), NGHTTP2_NV_FLAG_NONE };
}

static void send_reply(struct call *call)
{
    nghttp2_nv fields[MAX_REPLY_FIELDS];
    char names[MAX_REPLY_FIELDS][NAME_BYTES], status[16], length[24];
    nghttp2_data_provider provider = { .source.ptr = call, .read_callback = read_body };
    exchange_reply reply;
    uint32_t count = 0;

    exchange_reply_get(call->rest.exchange, &reply);
    (void)snprintf(status, sizeof status, "%d", reply.code);
    add_field(fields, names, count++, ":status", status);
    for (uint32_t i = 0; i < reply.field_count; i++)
        add_field(fields, names, count++, reply.fields[i].name, reply.fields[i].value);
    if (!reply.streams) {
        (void)snprintf(length, sizeof length, "%zu", reply.body_bytes);
        add_field(fields, names, count++, "content-length", length);
        if (reply.is_head_only)
            call->sent = reply.body_bytes;
    }
    call->rest.is_stream = call->rest.has_more = reply.streams;
    call->answering = call->ended = true;
    (void)nghttp2_submit_response(call->session, call->stream, fields, count,
                                  reply.is_head_only || (!reply.streams && reply.body_bytes == 0) ? NULL : &provider);
}

static void resume(front_task *task)
{
    struct exchange *exchange = exchange_of(task);
    struct call *call = exchange->transport;

    request_resumed(&exchange->request);
    if (call->session == NULL) { /* its stream was closed meanwhile */
        rest_leave(call);
        return;
    }
    call->working = false;
    if (call->answering)
        (void)nghttp2_session_resume_data(call->session, call->stream);
    else
        send_reply(call);
    call->streams->flush(call->streams->connection);
}

/* The next field in the list of call_header(); false: the end. */
static bool next_field(const struct strbuf *list, size_t *at, const char **name, uint32_t bytes[2])
{
    if (*at == list->size)
        return false;
    memcpy(bytes, list->data + *at, 2 * sizeof bytes[0]);
    *name = list->data + *at + 2 * sizeof bytes[0];
    *at += 2 * sizeof bytes[0] + bytes[0] + bytes[1];
    return true;
}

static bool is_name(const char *name, uint32_t bytes, const char *wanted)
{
    return bytes == strlen(wanted) && memcmp(name, wanted, bytes) == 0;
}

static uint64_t read_length(const char *text, uint32_t bytes)
{
    uint64_t length = 0;

    for (uint32_t i = 0; i < bytes && text[i] >= '0' && text[i] <= '9'; i++) /* nghttp2 has checked it */
        length = length > UINT64_MAX / 16 ? UINT64_MAX / 16 : length * 10 + (uint64_t)(text[i] - '0');
    return length;
}

bool rest_begin(struct call *call)
{
    struct server *server = call->request.server;
    struct exchange *exchange = exchange_create(server, call->streams->connection, resume);
    const char *name, *method = "", *path = "";
    uint32_t bytes[2], method_bytes = 0, path_bytes = 0;
    size_t path_only = 0;
    uint64_t length = 0;
    bool good;

    if (exchange == NULL)
        return false;
    (void)atomic_fetch_sub(&server->counts->exchanges, 1); /* the exchange counts instead of the call */
    call->rest.exchange = exchange;
    exchange->transport = call;
    for (size_t at = 0; next_field(&call->head.fields, &at, &name, bytes);) {
        if (is_name(name, bytes[0], ":method")) {
            method = name + bytes[0];
            method_bytes = bytes[1];
        } else if (is_name(name, bytes[0], ":path")) {
            path = name + bytes[0];
            path_bytes = bytes[1];
        } else if (is_name(name, bytes[0], ":authority")) {
            exchange_add_field(exchange, "host", 4, name + bytes[0], bytes[1]);
        } else {
            if (is_name(name, bytes[0], "content-length"))
                length = read_length(name + bytes[0], bytes[1]);
            exchange_add_field(exchange, name, bytes[0], name + bytes[0], bytes[1]);
        }
    }
    good = is_name(path, path_bytes, "*") || http1_is_origin_form(path, path_bytes, &path_only);
    exchange_set_target(exchange, method, method_bytes, path,
                        is_name(path, path_bytes, "*") ? 1
                        : good                         ? path_only
                                                       : 0);
    if (call->head.fields.failed)
        exchange_fail(exchange, HTTP_SERVICE_UNAVAILABLE, "no memory for the header");
    else if (call->head.bytes > server->limits.header_bytes)
        exchange_fail(exchange, 431, "the header is larger than max_header_bytes");
    else if (!good)
        exchange_fail(exchange, HTTP_BAD_REQUEST, "the path has a character that must be percent-encoded");
    else
        exchange_begin(exchange, length);
    strbuf_deinit(&call->head.fields);
    if (exchange->code == 413)
        send_reply(call); /* the rest of the body is refused */
    return true;
}

void rest_data(struct call *call, const uint8_t *data, size_t bytes)
{
    struct exchange *exchange = call->rest.exchange;

    if (call->ended)
        return;
    if (bytes > exchange->most_bytes - exchange->body_bytes) {
        exchange_fail_size(exchange);
        send_reply(call);
    } else {
        exchange_take_body(exchange, (const char *)data, bytes);
    }
}

void rest_end(struct call *call)
{
    if (call->ended || call->working)
        return;
    if (routes_run(call->rest.exchange))
        send_reply(call);
    else
        call->working = true;
}

void rest_leave(struct call *call)
{
    struct exchange *exchange = call->rest.exchange;
    struct strbuf events = { .data = NULL };
    completion_state state = COMPLETION_DONE;

    call->session = NULL;
    request_release_reply(&exchange->request);
    exchange->request.task.connection = NULL;
    if (exchange->request.suspended) {
        watch_cancel(call->request.server->watch, &exchange->request);
        return; /* resume() calls this function again */
    }
    if (exchange->completion != NULL) { /* the text may not be complete, and its reply not have begun */
        watch_cancel(call->request.server->watch, &exchange->request);
        do {
            state = completion_take(exchange->completion, &events);
            strbuf_deinit(&events);
        } while (state == COMPLETION_SENDS);
    }
    if (state == COMPLETION_WAITS)
        return;
    exchange_finish(exchange,
                    call->ended && call->sent == (call->rest.is_stream ? call->out.size : exchange->reply.size));
    call_destroy(call);
}
