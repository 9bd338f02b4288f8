#include "serve/exchange/exchange.h"
#include "base/clock.h"
#include "inlay/check.h"
#include "serve/rollout/trial.h"
#include "serve/exchange/access_log.h"
#include "serve/http/http1.h"
#include "serve/network/connection.h"
#include "serve/repository/repository.h"
#include "serve/schedule/load.h"
#include "serve/model/sequence.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MIN_CODED_BYTES = 1024 }; /* smaller replies are not compressed */

static const char *const field_names[FIELD_COUNT] = {
#define FIELD_NAME(name, text) text,
    EXCHANGE_FIELDS(FIELD_NAME)
#undef FIELD_NAME
};

static const uint8_t field_bytes[FIELD_COUNT] = {
#define FIELD_BYTES(name, text) sizeof(text) - 1,
    EXCHANGE_FIELDS(FIELD_BYTES)
#undef FIELD_BYTES
};

/* The type of an error in OpenAI's API. */
static const char *error_type(int code)
{
    return code == HTTP_TOO_MANY_REQUESTS ? "rate_limit_error"
           : code == HTTP_UNAUTHORIZED    ? "authentication_error"
           : code == HTTP_FORBIDDEN       ? "permission_error"
           : code >= 500                  ? "server_error"
                                          : "invalid_request_error";
}

static void write_text_or_null(struct strbuf *to, const char *text)
{
    if (text != NULL && text[0] != '\0')
        strbuf_json(to, text, strlen(text));
    else
        strbuf_text(to, "null");
}

void exchange_write_error(const struct exchange *exchange, struct strbuf *to, int code, const char *text,
                          const char *parameter, const char *error_code)
{
    bool is_object = strncmp(exchange->path, "/v1/", 4) == 0; /* OpenAI's paths */

    strbuf_text(to, exchange->route.kind == ROUTE_MESSAGES ? "{\"type\":\"error\"," : "{");
    strbuf_text(to, is_object ? "\"error\":{\"message\":" : "\"error\":");
    strbuf_json(to, text, strlen(text));
    if (is_object) {
        strbuf_format(to, ",\"type\":\"%s\",\"param\":", error_type(code));
        write_text_or_null(to, parameter);
        strbuf_text(to, ",\"code\":");
        write_text_or_null(to, error_code);
    }
    strbuf_text(to, is_object ? "}}" : "}");
}

void exchange_fail_parameter(struct exchange *exchange, int code, const char *text, const char *parameter,
                             const char *error_code)
{
    exchange->code = code;
    exchange->type = "application/json";
    exchange->reply_json_bytes = 0;
    exchange->encoding.tried = exchange->encoding.varies = false;
    exchange->encoding.coding = CODING_IDENTITY;
    strbuf_deinit(&exchange->reply);
    exchange_write_error(exchange, &exchange->reply, code, text, parameter, error_code);
}

void exchange_fail(struct exchange *exchange, int code, const char *text)
{
    exchange_fail_parameter(exchange, code, text, NULL, NULL);
}

void exchange_fail_size(struct exchange *exchange)
{
    char text[100];

    (void)snprintf(text, sizeof text,
                   exchange->most_bytes < exchange->request.server->limits.body_bytes
                       ? "the body is larger than %d MiB, the limit of requests for texts"
                       : "the body is larger than max_body_bytes",
                   EXCHANGE_TEXT_BYTES >> 20);
    exchange_fail(exchange, 413, text);
}

int exchange_code_of(inlay_status status)
{
    switch (status) {
    case INLAY_INVALID_ARGUMENT:
    case INLAY_SHAPE_MISMATCH:
    case INLAY_INVALID_MODEL: /* of a run: with these inputs, such as a negative size */
        return HTTP_BAD_REQUEST;
    case INLAY_NOT_FOUND:
        return HTTP_NOT_FOUND;
    case INLAY_LIMIT_EXCEEDED:
        return 413;
    case INLAY_OUT_OF_MEMORY:
    case INLAY_BUSY:
    case INLAY_DEVICE_LOST:
    case INLAY_IO_ERROR: /* of a run: its model's file was written to */
        return HTTP_SERVICE_UNAVAILABLE;
    case INLAY_CANCELLED:
        return 499; /* the client closed its connection; only the access log shows this code */
    case INLAY_DEADLINE_EXCEEDED:
        return HTTP_GATEWAY_TIMEOUT;
    default:
        return HTTP_INTERNAL_SERVER_ERROR;
    }
}

void exchange_fail_diag(struct exchange *exchange, const inlay_diag *diag)
{
    exchange_fail(exchange, exchange_code_of(diag->code),
                  diag->text[0] != '\0' ? diag->text : inlay_status_text(diag->code));
}

static void add_reply_field(exchange_reply *reply, const char *name, const char *value)
{
    INLAY_CHECK(reply->field_count < sizeof reply->fields / sizeof reply->fields[0]);
    reply->fields[reply->field_count].name = name;
    reply->fields[reply->field_count++].value = value;
}

static void add_fields(struct exchange *exchange, exchange_reply *reply)
{
    const char *wanted = exchange_field_get(exchange, FIELD_LOAD_FORMAT);

    add_reply_field(reply, "Content-Type", exchange->type);
    if (exchange->reply_json_bytes > 0) {
        (void)snprintf(reply->numbers[0], sizeof reply->numbers[0], "%zu", exchange->reply_json_bytes);
        add_reply_field(reply, "Inference-Header-Content-Length", reply->numbers[0]);
    }
    if (exchange->request.retry_after > 0) {
        (void)snprintf(reply->numbers[1], sizeof reply->numbers[1], "%u", exchange->request.retry_after);
        add_reply_field(reply, "Retry-After", reply->numbers[1]);
    }
    if (wanted != NULL || exchange->request.server->load_header) {
        load_report(exchange->request.server, wanted != NULL && strcasecmp(wanted, "json") == 0, reply->load);
        add_reply_field(reply, "endpoint-load-metrics", reply->load);
    }
    if (exchange->encoding.coding != CODING_IDENTITY)
        add_reply_field(reply, "Content-Encoding", coding_name(exchange->encoding.coding));
    if (exchange->encoding.varies)
        add_reply_field(reply, "Vary", "Accept-Encoding");
    if (exchange->code == HTTP_UNSUPPORTED_MEDIA_TYPE && exchange->body_coding == CODING_UNKNOWN)
        add_reply_field(reply, "Accept-Encoding", "gzip, deflate");
    if (exchange->code == HTTP_UNAUTHORIZED)
        add_reply_field(reply, "WWW-Authenticate", "Bearer");
    if (exchange->code == HTTP_METHOD_NOT_ALLOWED)
        add_reply_field(reply, "Allow",
                        exchange->route.kind != ROUTE_NONE ? route_methods(exchange->route.kind) : "GET, HEAD, POST");
    if (exchange->route.kind == ROUTE_PAGE)
        add_reply_field(reply, "Content-Security-Policy",
                        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                        "connect-src 'self'; frame-ancestors 'none'");
}

/* Of the Open Inference Protocol, only inference has compressed replies: tritonclient.http.aio accepts gzip in every
 * request, and decodes only those. */
static bool may_be_coded(const struct exchange *exchange)
{
    const size_t bytes = strlen(exchange->path), end = strlen("/infer");

    return strncmp(exchange->path, "/v2/", strlen("/v2/")) != 0 ||
           (bytes >= end && strcmp(exchange->path + bytes - end, "/infer") == 0);
}

void exchange_encode(struct exchange *exchange)
{
    struct strbuf coded = { .data = NULL };
    coding which;

    if (exchange->encoding.tried || exchange->reply.failed || exchange->reply.size < MIN_CODED_BYTES ||
        !may_be_coded(exchange))
        return;
    exchange->encoding.tried = exchange->encoding.varies = true;
    which = coding_accepted(exchange_field_get(exchange, FIELD_ACCEPT_ENCODING));
    if (which == CODING_IDENTITY)
        return;
    if (!coding_compress(which, exchange->reply.data, exchange->reply.size, &coded) ||
        coded.size >= exchange->reply.size) {
        strbuf_deinit(&coded);
        return;
    }
    strbuf_deinit(&exchange->reply);
    exchange->reply = coded;
    exchange->encoding.coding = which;
}

void exchange_reply_get(struct exchange *exchange, exchange_reply *out)
{
    static const char no_memory[] = "{\"error\":\"out of memory for the reply\"}";
    inlay_diag diag = INLAY_DIAG_INIT;

    INLAY_CHECK(exchange->code >= 100 && exchange->code < 600);
    out->field_count = 0;
    exchange_encode(exchange);
    while (request_hold_reply(&exchange->request, exchange->reply.size, strcmp(exchange->method, "POST") == 0, &diag) !=
           INLAY_OK)
        exchange_fail(exchange, HTTP_TOO_MANY_REQUESTS, diag.text); /* a small reply, which is not refused */
    out->streams =
        strcmp(exchange->type, "text/event-stream") == 0 || strcmp(exchange->type, "application/x-ndjson") == 0;
    out->is_head_only = strcmp(exchange->method, "HEAD") == 0;
    if (exchange->reply.failed) {
        strbuf_deinit(&exchange->reply);
        exchange->code = HTTP_SERVICE_UNAVAILABLE;
        exchange->type = "application/json";
        exchange->reply_json_bytes = 0;
        strbuf_text(&exchange->reply, no_memory);
    }
    out->code = exchange->code;
    out->body = exchange->reply.data;
    out->body_bytes = exchange->reply.size;
    add_fields(exchange, out);
    (void)atomic_fetch_add_explicit(&exchange->request.server->counts->answers[exchange->code / 100 % 6], 1,
                                    memory_order_relaxed);
}

struct exchange *exchange_create(struct server *server, struct connection *connection, void (*resume)(front_task *task))
{
    struct exchange *exchange = calloc(1, sizeof *exchange);

    if (exchange == NULL)
        return NULL;
    request_init(&exchange->request, server, connection, resume);
    exchange->type = "application/json";
    exchange->most_bytes = server->limits.body_bytes;
    return exchange;
}

struct exchange *exchange_of(front_task *task)
{
    return (struct exchange *)(void *)((char *)task - offsetof(struct exchange, request.task));
}

void exchange_set_target(struct exchange *exchange, const char *method, size_t method_bytes, const char *path,
                         size_t path_bytes)
{
    if (method_bytes < sizeof exchange->method)
        memcpy(exchange->method, method, method_bytes);
    else
        memcpy(exchange->method, method, sizeof exchange->method - 1); /* longer than all that are known */
    if (path_bytes == 0)
        (void)snprintf(exchange->path, sizeof exchange->path, "/");
    else if (!http1_decode_path(path, path_bytes, exchange->path, sizeof exchange->path))
        (void)snprintf(exchange->path, sizeof exchange->path, "%.*s", (int)sizeof exchange->path - 1, path);
    else
        exchange->route = route_find(exchange->path);
    if (path_bytes == 0)
        exchange->route = route_find(exchange->path);
}

void exchange_add_field(struct exchange *exchange, const char *name, size_t name_bytes, const char *value,
                        size_t value_bytes)
{
    for (uint32_t i = 0; i < FIELD_COUNT; i++) {
        if (field_bytes[i] != name_bytes || strncasecmp(field_names[i], name, name_bytes) != 0)
            continue;
        if (exchange->field_at[i] > 0)
            return; /* the first one counts */
        exchange->field_at[i] = (uint32_t)exchange->field_text.size + 1;
        strbuf_add(&exchange->field_text, value, value_bytes);
        strbuf_add(&exchange->field_text, "", 1);
        if (exchange->field_text.failed)
            memset(exchange->field_at, 0, sizeof exchange->field_at);
        return;
    }
}

/* The request would exceed max_inflight_bytes: drops its body. */
static void refuse_body(struct exchange *exchange)
{
    server_release(exchange->request.server, exchange->request.held_bytes);
    exchange->request.held_bytes = 0;
    free(exchange->memory);
    exchange->memory = exchange->body = NULL;
    exchange->body_room = 0;
    exchange->request.retry_after = 1;
    exchange_fail(exchange, HTTP_TOO_MANY_REQUESTS,
                  "the bodies of all requests in progress exceed max_inflight_bytes; try again later");
}

/* false: it was refused. */
static bool hold(struct exchange *exchange, size_t bytes)
{
    if (!server_hold(exchange->request.server, exchange->request.held_bytes, bytes)) {
        refuse_body(exchange);
        return false;
    }
    exchange->request.held_bytes += bytes;
    return true;
}

/* Allocates a body of `bytes` bytes, placed so that the binary data after its JSON begins at a multiple of 64. */
static bool make_room(struct exchange *exchange, size_t bytes)
{
    size_t ahead = exchange->json_bytes != SIZE_MAX ? (64 - exchange->json_bytes % 64) % 64 : 0;
    char *memory = malloc(bytes + ahead + 64); /* aligned_alloc() takes longer than this whole function */
    char *body;

    if (memory == NULL)
        return false;
    INLAY_CHECK(exchange->body_bytes <= bytes);
    body = memory + (64 - (uintptr_t)memory % 64) % 64 + ahead;
    if (exchange->body_bytes > 0)
        memcpy(body, exchange->body, exchange->body_bytes);
    exchange->moved_bytes += exchange->body_bytes;
    free(exchange->memory);
    exchange->memory = memory;
    exchange->body = body;
    exchange->body_room = bytes;
    return true;
}

/* The length is only a claim, so it is not counted. */
void exchange_expect(struct exchange *exchange, uint64_t length)
{
    if (server_hold(exchange->request.server, 0, length))
        server_release(exchange->request.server, length);
    else
        refuse_body(exchange);
    if (exchange->code == 0 && !make_room(exchange, (size_t)length))
        exchange_fail(exchange, HTTP_SERVICE_UNAVAILABLE, "no memory for the body");
}

char *exchange_room(struct exchange *exchange)
{
    return exchange->code == 0 ? exchange->body + exchange->body_bytes : NULL;
}

void exchange_received(struct exchange *exchange, size_t bytes)
{
    INLAY_CHECK(bytes <= exchange->body_room - exchange->body_bytes);
    exchange->body_bytes += bytes;
    (void)hold(exchange, bytes);
}

/* The body of a refused request is read, too, so that the client receives the reply. */
void exchange_take_body(struct exchange *exchange, const char *data, size_t bytes)
{
    size_t limit = exchange->most_bytes;

    INLAY_CHECK(bytes <= limit - exchange->body_bytes); /* the protocols check it */
    if (exchange->code == 0 && bytes > 0)
        (void)hold(exchange, bytes);
    if (exchange->code == 0 && exchange->body_room - exchange->body_bytes < bytes &&
        !make_room(exchange, exchange->body_bytes + bytes > limit / 2 ? limit : 2 * (exchange->body_bytes + bytes)))
        exchange_fail(exchange, HTTP_SERVICE_UNAVAILABLE, "no memory for the body");
    if (exchange->code == 0 && bytes > 0) {
        memcpy(exchange->body + exchange->body_bytes, data, bytes);
        exchange->moved_bytes += bytes;
    }
    exchange->body_bytes += bytes;
}

static bool take_expanded(void *user, const void *part, size_t bytes)
{
    struct exchange *exchange = user;

    inlay_diag diag = INLAY_DIAG_INIT;

    if (!request_goes_on(&exchange->request, &diag))
        exchange_fail_diag(exchange, &diag);
    else if (bytes > exchange->most_bytes - exchange->body_bytes)
        exchange_fail_size(exchange);
    else
        exchange_take_body(exchange, part, bytes);
    return exchange->code == 0;
}

void exchange_expand(struct exchange *exchange)
{
    char *memory = exchange->memory;
    const char *coded = exchange->body;
    size_t bytes = exchange->body_bytes, held = exchange->request.held_bytes;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    if (exchange->body_coding == CODING_IDENTITY || bytes == 0)
        return;
    exchange->memory = exchange->body = NULL;
    exchange->body_bytes = exchange->body_room = 0;
    status = coding_expand(exchange->body_coding, coded, bytes, take_expanded, exchange, &diag);
    free(memory);
    if (exchange->request.held_bytes > 0) { /* it was not refused */
        server_release(exchange->request.server, held);
        exchange->request.held_bytes -= held;
    }
    if (exchange->code == 0 && status != INLAY_OK)
        exchange_fail_diag(exchange, &diag);
}

void exchange_model_loaded(struct exchange *exchange, const inlay_diag *failure,
                           void (*go_on)(struct exchange *exchange))
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (request_take_model(&exchange->request, failure, &diag) == INLAY_OK) {
        go_on(exchange);
        return;
    }
    exchange_fail_diag(exchange, &diag);
    request_wake(&exchange->request);
}

void exchange_drop(struct exchange *exchange)
{
    if (exchange->release != NULL)
        exchange->release(exchange);
    else
        infer_request_deinit(&exchange->request.infer);
    exchange->release = NULL;
    exchange->completion = NULL;
    exchange->embedding = NULL;
    exchange->spoken = NULL;
}

static void log_request(const struct exchange *exchange)
{
    const access_entry entry = { .method = exchange->method,
                                 .path = exchange->path,
                                 .status = exchange->code,
                                 .grpc_status = -1,
                                 .bytes_in = exchange->body_bytes,
                                 .bytes_out = exchange->reply.size };

    access_log_write(&exchange->request, &entry);
}

void exchange_finish(struct exchange *exchange, bool sent)
{
    if (!sent && exchange->code / 100 == 2)
        exchange->code = 499; /* the client did not read it */
    log_request(exchange);
    trial_end(&exchange->request.job);
    exchange_drop(exchange);
    sequence_leave(&exchange->request.job);
    model_unref(exchange->request.job.model);
    strbuf_deinit(&exchange->reply);
    strbuf_deinit(&exchange->field_text);
    request_deinit(&exchange->request);
    free(exchange->memory);
    free(exchange);
}
