/* One HTTP request: its header, its body, its reply. */
#include "inlay/check.h"
#include "serve/completion.h"
#include "serve/exchange.h"
#include "serve/http1.h"
#include "serve/embedding.h"
#include "serve/sequence.h"
#include "serve/server.h"
#include "serve/supervise.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

/* The value of a header field, or NULL. */
static const char *field(const struct exchange *exchange, exchange_field which)
{
    return exchange->field_at[which] > 0 ? exchange->field_text.data + exchange->field_at[which] - 1 : NULL;
}

const char *exchange_field_get(const struct exchange *exchange, exchange_field which)
{
    return field(exchange, which);
}

/* ------------------------------------------------------------------ replies */

static void set_error(struct exchange *exchange, int code, const char *text)
{
    exchange->code = code;
    exchange->type = "application/json";
    exchange->reply_json_bytes = 0;
    strbuf_deinit(&exchange->reply);
    strbuf_text(&exchange->reply, "{\"error\":");
    strbuf_json(&exchange->reply, text, strlen(text));
    strbuf_text(&exchange->reply, "}");
}

void exchange_fail(struct exchange *exchange, int code, const char *text)
{
    set_error(exchange, code, text);
}

static int code_of(inlay_status status)
{
    switch (status) {
    case INLAY_INVALID_ARGUMENT:
    case INLAY_SHAPE_MISMATCH:
        return HTTP_BAD_REQUEST;
    case INLAY_NOT_FOUND:
        return HTTP_NOT_FOUND;
    case INLAY_LIMIT_EXCEEDED:
        return 413;
    case INLAY_OUT_OF_MEMORY:
    case INLAY_BUSY:
    case INLAY_DEVICE_LOST:
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
    set_error(exchange, code_of(diag->code), diag->text[0] != '\0' ? diag->text : inlay_status_text(diag->code));
}

static void add_reply_field(exchange_reply *reply, const char *name, const char *value)
{
    INLAY_CHECK(reply->field_count < sizeof reply->fields / sizeof reply->fields[0]);
    reply->fields[reply->field_count].name = name;
    reply->fields[reply->field_count++].value = value;
}

static void add_fields(struct exchange *exchange, exchange_reply *reply)
{
    const char *wanted = field(exchange, FIELD_LOAD_FORMAT);

    add_reply_field(reply, "Content-Type", exchange->type);
    if (exchange->reply_json_bytes > 0) {
        (void)snprintf(reply->numbers[0], sizeof reply->numbers[0], "%zu", exchange->reply_json_bytes);
        add_reply_field(reply, "Inference-Header-Content-Length", reply->numbers[0]);
    }
    if (exchange->retry_after > 0) {
        (void)snprintf(reply->numbers[1], sizeof reply->numbers[1], "%u", exchange->retry_after);
        add_reply_field(reply, "Retry-After", reply->numbers[1]);
    }
    if (wanted != NULL || exchange->server->load_header) {
        load_report(exchange->server, wanted != NULL && strcasecmp(wanted, "json") == 0, reply->load);
        add_reply_field(reply, "endpoint-load-metrics", reply->load);
    }
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

void exchange_reply_get(struct exchange *exchange, exchange_reply *out)
{
    static const char no_memory[] = "{\"error\":\"out of memory for the reply\"}";

    INLAY_CHECK(exchange->code >= 100 && exchange->code < 600);
    out->field_count = 0;
    out->streams = strcmp(exchange->type, "text/event-stream") == 0;
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
    (void)atomic_fetch_add_explicit(&exchange->server->answers[exchange->code / 100 % 6], 1, memory_order_relaxed);
}

/* ------------------------------------------------------------------ header */

static bool read_size(const char *text, size_t *out)
{
    size_t value = 0;

    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || value > SIZE_MAX / 10 - 1)
            return false;
        value = value * 10 + (size_t)(*text - '0');
    }
    *out = value;
    return true;
}

uint32_t server_wrong_token(struct server *server, const struct sockaddr *client)
{
    server_refused(server, REFUSED_TOKEN);
    return guard_failed(&server->guard, client, clock_ns());
}

static void check_access(struct exchange *exchange)
{
    struct server *server = exchange->server;
    int needed = route_access(exchange->route.kind, exchange->method);
    const char *authorization;

    if (needed > 0 && server->client_certificates && !exchange->is_trusted) {
        exchange_fail(exchange, HTTP_FORBIDDEN,
                      "a client certificate signed by an authority of tls_client_ca is required");
        return;
    }
    if (needed == 0 || (needed == 1 && tokens_are_none(&server->tokens)))
        return;
    if (needed == 2 && supervise_is_worker()) {
        exchange_fail(exchange, HTTP_FORBIDDEN, "not possible with several workers; restart the server to change it");
        return;
    }
    if (needed == 2 && tokens_are_none(&server->admin_tokens)) {
        exchange_fail(exchange, HTTP_FORBIDDEN, "this server is read-only; start it with an admin_token_file");
        return;
    }
    authorization = field(exchange, FIELD_AUTHORIZATION);
    if (tokens_match(&server->admin_tokens, authorization) ||
        (needed == 1 && tokens_match(&server->tokens, authorization)))
        return;
    if (needed == 2 && tokens_match(&server->tokens, authorization))
        exchange_fail(exchange, HTTP_FORBIDDEN, "this token may not change the server");
    else
        exchange_fail(exchange, HTTP_UNAUTHORIZED, "a bearer token is required: Authorization: Bearer TOKEN");
    if (exchange->code == HTTP_UNAUTHORIZED && authorization != NULL)
        exchange->delay_ms = server_wrong_token(server, &exchange->client.any);
}

/* Methods of RFC 9110, section 9, and of RFC 5789: others are not implemented for any path. */
static bool is_known_method(const char *method)
{
    static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH" };

    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (strcmp(methods[i], method) == 0)
            return true;
    return false;
}

static void check_header(struct exchange *exchange, uint64_t length)
{
    const char *text;

    if (!is_known_method(exchange->method))
        exchange_fail(exchange, HTTP_NOT_IMPLEMENTED, "this method is not implemented");
    else if (strcmp(exchange->path, "*") == 0)
        exchange_fail(exchange, HTTP_METHOD_NOT_ALLOWED, "the server has no options");
    else if (exchange->is_admin && !route_is_admin(exchange->route.kind))
        exchange_fail(exchange, HTTP_NOT_FOUND, "admin_port has only /v2/health/live, /v2/health/ready and /metrics");
    else if (exchange->route.kind == ROUTE_NONE)
        exchange_fail(exchange, HTTP_NOT_FOUND, "unknown path; GET / lists the paths");
    else if (!route_takes(exchange->route.kind, exchange->method))
        exchange_fail(exchange, HTTP_METHOD_NOT_ALLOWED, "method not allowed for this path");
    else if (exchange->field_text.failed)
        exchange_fail(exchange, HTTP_SERVICE_UNAVAILABLE, "no memory for the header");
    else if (browser_is_allowed(exchange))
        check_access(exchange);
    if (length > exchange->server->max_body_bytes) {
        exchange->code = 0;
        exchange_fail(exchange, 413, "the body is larger than max_body_bytes");
        return;
    }
    text = field(exchange, FIELD_CONTENT_ENCODING);
    if (exchange->code == 0 && text != NULL && strcmp(text, "identity") != 0)
        exchange_fail(exchange, HTTP_UNSUPPORTED_MEDIA_TYPE, "a body with a Content-Encoding is not supported");
    text = field(exchange, FIELD_JSON_BYTES);
    exchange->json_bytes = SIZE_MAX;
    if (exchange->code == 0 && text != NULL && !read_size(text, &exchange->json_bytes))
        exchange_fail(exchange, HTTP_BAD_REQUEST, "Inference-Header-Content-Length is not a number");
}

/* The client's or a proxy's timeout in milliseconds overrides the server's setting. */
static void read_deadline(struct exchange *exchange)
{
    static const exchange_field names[] = { FIELD_TIMEOUT, FIELD_ENVOY_TIMEOUT };
    uint64_t allowed = exchange->server->timeout_ns;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = field(exchange, names[i]);
        size_t ms;

        if (text == NULL)
            continue;
        if (!read_size(text, &ms) || ms == 0 || ms > 86400000) {
            exchange_fail(exchange, HTTP_BAD_REQUEST, "Inference-Timeout-Ms must be from 1 to 86400000");
            return;
        }
        allowed = (uint64_t)ms * 1000000;
        break;
    }
    exchange->job.deadline_ns = allowed > 0 ? exchange->arrived_ns + allowed : 0;
}

/* The request would exceed max_inflight_bytes: drops its body. */
static void refuse_body(struct exchange *exchange)
{
    server_release(exchange->server, exchange->held_bytes);
    exchange->held_bytes = 0;
    free(exchange->memory);
    exchange->memory = exchange->body = NULL;
    exchange->body_room = 0;
    exchange->retry_after = 1;
    exchange_fail(exchange, HTTP_TOO_MANY_REQUESTS,
                  "the bodies of all requests in progress exceed max_inflight_bytes; try again later");
}

/* false: it was refused. */
static bool hold(struct exchange *exchange, size_t bytes)
{
    if (!server_hold(exchange->server, exchange->held_bytes, bytes)) {
        refuse_body(exchange);
        return false;
    }
    exchange->held_bytes += bytes;
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

struct exchange *exchange_create(struct server *server, struct front_thread *thread, void (*resume)(front_task *task),
                                 const struct sockaddr *client)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);

    if (exchange == NULL)
        return NULL;
    (void)atomic_fetch_add(&server->exchanges, 1);
    exchange->server = server;
    exchange->task.thread = thread;
    exchange->task.resume = resume;
    memcpy(&exchange->client, client, sizeof exchange->client);
    exchange->arrived_ns = clock_ns();
    exchange->type = "application/json";
    return exchange;
}

struct exchange *exchange_of(front_task *task)
{
    return (struct exchange *)(void *)((char *)task - offsetof(struct exchange, task));
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

void exchange_begin(struct exchange *exchange, uint64_t length, bool is_trusted)
{
    exchange->is_trusted = is_trusted;
    check_header(exchange, length);
    if (exchange->code == 0 && (exchange->route.kind == ROUTE_INFER || exchange->route.kind == ROUTE_COMPLETIONS ||
                                exchange->route.kind == ROUTE_CHAT || exchange->route.kind == ROUTE_EMBEDDINGS))
        read_deadline(exchange);
    /* The length is only a claim, so it is not counted. */
    if (exchange->code == 0 && length > 0) {
        if (server_hold(exchange->server, 0, length))
            server_release(exchange->server, length);
        else
            refuse_body(exchange);
    }
    if (exchange->code == 0 && length > 0 && !make_room(exchange, (size_t)length))
        exchange_fail(exchange, HTTP_SERVICE_UNAVAILABLE, "no memory for the body");
}

/* ------------------------------------------------------------------ body */

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
    size_t limit = exchange->server->max_body_bytes;

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

static void answer(struct exchange *exchange)
{
    switch (exchange->route.kind) {
    case ROUTE_INFER:
        answer_infer(exchange);
        break;
    case ROUTE_LIVE:
        exchange->code = HTTP_OK;
        break;
    case ROUTE_READY:
        answer_ready(exchange);
        break;
    case ROUTE_SERVER:
        answer_server(exchange);
        break;
    case ROUTE_MODEL:
        answer_model(exchange);
        break;
    case ROUTE_MODEL_READY:
        answer_model_ready(exchange);
        break;
    case ROUTE_STATS:
        answer_stats(exchange);
        break;
    case ROUTE_INDEX:
        answer_index(exchange);
        break;
    case ROUTE_METRICS:
        answer_metrics(exchange);
        break;
    case ROUTE_PAGE:
        answer_page(exchange);
        break;
    case ROUTE_COMPLETIONS:
    case ROUTE_CHAT:
        answer_completions(exchange);
        break;
    case ROUTE_EMBEDDINGS:
        answer_embeddings(exchange);
        break;
    case ROUTE_MODELS:
        answer_models(exchange);
        break;
    case ROUTE_TRACE:
        answer_trace(exchange);
        break;
    case ROUTE_LOGGING:
        answer_logging(exchange);
        break;
    default:
        answer_repository(exchange);
        break;
    }
}

bool exchange_run(struct exchange *exchange)
{
    (void)atomic_fetch_add_explicit(&exchange->server->moved_bytes, exchange->moved_bytes, memory_order_relaxed);
    exchange->moved_bytes = 0;
    if (exchange->code == 0)
        answer(exchange);
    else if (exchange->delay_ms > 0 &&
             front_delay(&exchange->task, clock_ns() + exchange->delay_ms * UINT64_C(1000000)))
        exchange_suspend(exchange);
    return !exchange->suspended;
}

void exchange_suspend(struct exchange *exchange)
{
    INLAY_CHECK(!exchange->suspended);
    exchange->suspended = true;
    (void)atomic_fetch_add(&exchange->server->suspended, 1);
}

void exchange_wake(struct exchange *exchange)
{
    front_wake(&exchange->task);
}

void exchange_resumed(struct exchange *exchange)
{
    INLAY_CHECK(exchange->suspended && atomic_load(&exchange->server->suspended) > 0);
    exchange->suspended = false;
    (void)atomic_fetch_sub(&exchange->server->suspended, 1);
}

void exchange_finish(struct exchange *exchange, bool sent)
{
    if (!sent && exchange->code / 100 == 2)
        exchange->code = 499; /* the client did not read it */
    access_log_write(exchange);
    if (exchange->completion == NULL && exchange->embedding == NULL) /* which free their requests */
        infer_request_deinit(&exchange->request);
    sequence_leave(&exchange->job);
    model_unref(exchange->job.model);
    completion_destroy(exchange->completion);
    embedding_destroy(exchange->embedding);
    strbuf_deinit(&exchange->reply);
    strbuf_deinit(&exchange->field_text);
    INLAY_CHECK(atomic_load(&exchange->server->exchanges) > 0);
    (void)atomic_fetch_sub(&exchange->server->exchanges, 1);
    (void)atomic_fetch_add_explicit(&exchange->server->requests, 1, memory_order_relaxed);
    server_release(exchange->server, exchange->held_bytes);
    free(exchange->memory);
    free(exchange);
}
