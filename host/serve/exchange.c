/* One HTTP request: its header, its body, its reply. */
#include "inlay/check.h"
#include "serve/completion.h"
#include "serve/embedding.h"
#include "serve/load.h"
#include "serve/sequence.h"
#include "serve/server.h"
#include "serve/supervise.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
        return MHD_HTTP_BAD_REQUEST;
    case INLAY_NOT_FOUND:
        return MHD_HTTP_NOT_FOUND;
    case INLAY_LIMIT_EXCEEDED:
        return 413;
    case INLAY_OUT_OF_MEMORY:
    case INLAY_BUSY:
    case INLAY_DEVICE_LOST:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    case INLAY_CANCELLED:
        return 499; /* the client closed its connection; only the access log shows this code */
    case INLAY_DEADLINE_EXCEEDED:
        return MHD_HTTP_GATEWAY_TIMEOUT;
    default:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

void exchange_fail_diag(struct exchange *exchange, const inlay_diag *diag)
{
    set_error(exchange, code_of(diag->code), diag->text[0] != '\0' ? diag->text : inlay_status_text(diag->code));
}

static enum MHD_Result add_headers(const struct exchange *exchange, struct MHD_Response *response)
{
    char number[24], load[LOAD_BYTES];
    const char *wanted;
    enum MHD_Result good = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, exchange->type);

    if (exchange->reply_json_bytes > 0) {
        (void)snprintf(number, sizeof number, "%zu", exchange->reply_json_bytes);
        good &= MHD_add_response_header(response, "Inference-Header-Content-Length", number);
    }
    if (exchange->retry_after > 0) {
        (void)snprintf(number, sizeof number, "%u", exchange->retry_after);
        good &= MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, number);
    }
    wanted = MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, "endpoint-load-metrics-format");
    if (wanted != NULL || exchange->server->load_header) {
        load_report(exchange->server, wanted != NULL && strcasecmp(wanted, "json") == 0, load);
        good &= MHD_add_response_header(response, "endpoint-load-metrics", load);
    }
    if (exchange->code == MHD_HTTP_UNAUTHORIZED)
        good &= MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (exchange->code == MHD_HTTP_METHOD_NOT_ALLOWED)
        good &= MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, route_methods(exchange->route.kind));
    if (exchange->route.kind == ROUTE_PAGE)
        good &= MHD_add_response_header(response, "Content-Security-Policy",
                                        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                                        "connect-src 'self'; frame-ancestors 'none'");
    if (atomic_load_explicit(&exchange->server->draining, memory_order_relaxed))
        good &= MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    return good;
}

/* Passes the reply to libmicrohttpd, which frees it. */
static enum MHD_Result send_answer(struct exchange *exchange)
{
    static char no_memory[] = "{\"error\":\"out of memory for the reply\"}";
    struct MHD_Response *response;
    enum MHD_Result good;

    INLAY_CHECK(exchange->code >= 100 && exchange->code < 600);
    if (strcmp(exchange->type, "text/event-stream") == 0) {
        response = completion_response(exchange->completion);
    } else if (exchange->reply.failed) {
        strbuf_deinit(&exchange->reply);
        exchange->code = MHD_HTTP_SERVICE_UNAVAILABLE;
        exchange->type = "application/json";
        response = MHD_create_response_from_buffer(sizeof no_memory - 1, no_memory, MHD_RESPMEM_PERSISTENT);
    } else {
        response = MHD_create_response_from_buffer_with_free_callback(exchange->reply.size, exchange->reply.data, free);
        if (response != NULL)
            exchange->reply.data = NULL; /* owned by the response */
    }
    if (response == NULL)
        return MHD_NO;
    good = add_headers(exchange, response);
    if (good == MHD_YES)
        good = MHD_queue_response(exchange->connection, (unsigned)exchange->code, response);
    MHD_destroy_response(response);
    (void)atomic_fetch_add_explicit(&exchange->server->answers[exchange->code / 100 % 6], 1, memory_order_relaxed);
    watch_busy(exchange->peer, false);
    return good;
}

/* ------------------------------------------------------------------ header */

static const char *header(const struct exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

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

static void check_access(struct exchange *exchange)
{
    struct server *server = exchange->server;
    int needed = route_access(exchange->route.kind, exchange->method);
    const char *authorization;

    if (needed > 0 && server->client_certificates && !watch_is_trusted(exchange->peer, exchange->connection)) {
        exchange_fail(exchange, MHD_HTTP_FORBIDDEN,
                      "a client certificate signed by an authority of tls_client_ca is required");
        return;
    }
    if (needed == 0 || (needed == 1 && server->tokens.count == 0))
        return;
    if (needed == 2 && supervise_is_worker()) {
        exchange_fail(exchange, MHD_HTTP_FORBIDDEN,
                      "not possible with several workers; restart the server to change it");
        return;
    }
    if (needed == 2 && server->admin_tokens.count == 0) {
        exchange_fail(exchange, MHD_HTTP_FORBIDDEN, "this server is read-only; start it with an admin_token_file");
        return;
    }
    authorization = header(exchange, MHD_HTTP_HEADER_AUTHORIZATION);
    if (tokens_match(&server->admin_tokens, authorization) ||
        (needed == 1 && tokens_match(&server->tokens, authorization)))
        return;
    if (needed == 2 && tokens_match(&server->tokens, authorization))
        exchange_fail(exchange, MHD_HTTP_FORBIDDEN, "this token may not change the server");
    else
        exchange_fail(exchange, MHD_HTTP_UNAUTHORIZED, "a bearer token is required: Authorization: Bearer TOKEN");
}

static void check_header(struct exchange *exchange, size_t *out_length)
{
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const char *length = header(exchange, MHD_HTTP_HEADER_CONTENT_LENGTH), *text;

    *out_length = 0;
    if (size != NULL && size->header_size > exchange->server->max_header_bytes)
        exchange_fail(exchange, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, "the header is larger than max_header_bytes");
    else if (exchange->route.kind == ROUTE_NONE)
        exchange_fail(exchange, MHD_HTTP_NOT_FOUND, "unknown path; GET / lists the paths");
    else if (!route_takes(exchange->route.kind, exchange->method))
        exchange_fail(exchange, MHD_HTTP_METHOD_NOT_ALLOWED, "method not allowed for this path");
    else
        check_access(exchange);
    if (length != NULL && !read_size(length, out_length) && exchange->code == 0)
        exchange_fail(exchange, MHD_HTTP_BAD_REQUEST, "Content-Length is not a number");
    if (*out_length > exchange->server->max_body_bytes) {
        exchange->code = 0;
        exchange_fail(exchange, 413, "the body is larger than max_body_bytes");
        return;
    }
    text = header(exchange, MHD_HTTP_HEADER_CONTENT_ENCODING);
    if (exchange->code == 0 && text != NULL && strcmp(text, "identity") != 0)
        exchange_fail(exchange, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "a body with a Content-Encoding is not supported");
    text = header(exchange, "Inference-Header-Content-Length");
    exchange->json_bytes = SIZE_MAX;
    if (exchange->code == 0 && text != NULL && !read_size(text, &exchange->json_bytes))
        exchange_fail(exchange, MHD_HTTP_BAD_REQUEST, "Inference-Header-Content-Length is not a number");
}

/* The client's or a proxy's timeout in milliseconds overrides the server's setting. */
static void read_deadline(struct exchange *exchange)
{
    static const char *const names[] = { "Inference-Timeout-Ms", "x-envoy-expected-rq-timeout-ms" };
    uint64_t allowed = exchange->server->timeout_ns;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = header(exchange, names[i]);
        size_t ms;

        if (text == NULL)
            continue;
        if (!read_size(text, &ms) || ms == 0 || ms > 86400000) {
            exchange_fail(exchange, MHD_HTTP_BAD_REQUEST, "Inference-Timeout-Ms must be from 1 to 86400000");
            return;
        }
        allowed = (uint64_t)ms * 1000000;
        break;
    }
    exchange->job.deadline_ns = allowed > 0 ? exchange->arrived_ns + allowed : 0;
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

static enum MHD_Result begin(struct server *server, struct MHD_Connection *mhd, const char *url, const char *method,
                             void **memory)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct exchange *exchange = calloc(1, sizeof *exchange);
    size_t bytes = strlen(url), length;

    if (exchange == NULL || info == NULL || info->socket_context == NULL) {
        free(exchange);
        return MHD_NO;
    }
    *memory = exchange;
    (void)atomic_fetch_add(&server->exchanges, 1);
    exchange->server = server;
    exchange->connection = mhd;
    exchange->peer = info->socket_context;
    exchange->method = method;
    exchange->arrived_ns = clock_ns();
    exchange->type = "application/json";
    memcpy(exchange->path, url, bytes < sizeof exchange->path ? bytes : sizeof exchange->path - 1);
    if (bytes < sizeof exchange->path)
        exchange->route = route_find(exchange->path);
    check_header(exchange, &length);
    if (exchange->code == 413)
        return send_answer(exchange); /* an unread body ends the connection */
    if (exchange->code == 0 && (exchange->route.kind == ROUTE_INFER || exchange->route.kind == ROUTE_COMPLETIONS ||
                                exchange->route.kind == ROUTE_CHAT || exchange->route.kind == ROUTE_EMBEDDINGS))
        read_deadline(exchange);
    if (exchange->code == 0 && length > 0 && !make_room(exchange, length))
        exchange_fail(exchange, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory for the body");
    return MHD_YES;
}

/* ------------------------------------------------------------------ body */

/* Appends received bytes to the body. The body of a refused request is read, too, so that the client receives the
 * reply. */
static enum MHD_Result take_body(struct exchange *exchange, const char *data, size_t bytes)
{
    size_t limit = exchange->server->max_body_bytes;

    INLAY_CHECK(exchange->body_bytes <= limit);
    if (bytes > limit - exchange->body_bytes) {
        if (exchange->code == 413)
            return MHD_NO; /* beyond the limit again, after a reset */
        exchange_fail(exchange, 413, "the body is larger than max_body_bytes");
        exchange->body_bytes = 0;
        return MHD_YES;
    }
    if (exchange->code == 0 && exchange->body_room - exchange->body_bytes < bytes &&
        !make_room(exchange, exchange->body_bytes + bytes > limit / 2 ? limit : 2 * (exchange->body_bytes + bytes)))
        exchange_fail(exchange, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory for the body");
    if (exchange->code == 0) {
        memcpy(exchange->body + exchange->body_bytes, data, bytes);
        exchange->moved_bytes += bytes;
    }
    exchange->body_bytes += bytes;
    return MHD_YES;
}

static void answer(struct exchange *exchange)
{
    switch (exchange->route.kind) {
    case ROUTE_INFER:
        answer_infer(exchange);
        break;
    case ROUTE_LIVE:
        exchange->code = MHD_HTTP_OK;
        break;
    case ROUTE_READY:
        if (atomic_load(&exchange->server->ready))
            exchange->code = MHD_HTTP_OK;
        else
            exchange_fail(exchange, MHD_HTTP_BAD_REQUEST,
                          atomic_load(&exchange->server->draining) ? "the server is shutting down"
                                                                   : "models are being loaded");
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

enum MHD_Result exchange_handle(void *user, struct MHD_Connection *mhd, const char *url, const char *method,
                                const char *version, const char *data, size_t *data_bytes, void **memory)
{
    struct exchange *exchange = *memory;

    (void)version;
    if (exchange == NULL)
        return begin(user, mhd, url, method, memory);
    if (*data_bytes > 0) {
        enum MHD_Result good = take_body(exchange, data, *data_bytes);

        *data_bytes = 0;
        return good;
    }
    (void)atomic_fetch_add_explicit(&exchange->server->moved_bytes, exchange->moved_bytes, memory_order_relaxed);
    exchange->moved_bytes = 0;
    if (exchange->code == 0) {
        watch_busy(exchange->peer, true);
        answer(exchange);
        if (*memory == NULL || exchange->suspended)
            return MHD_YES;
    }
    return send_answer(exchange);
}

void exchange_suspend(struct exchange *exchange)
{
    INLAY_CHECK(!exchange->suspended);
    exchange->suspended = true;
    (void)atomic_fetch_add(&exchange->server->suspended, 1);
    MHD_suspend_connection(exchange->connection);
}

void exchange_wake(struct exchange *exchange)
{
    struct server *server = exchange->server;

    MHD_resume_connection(exchange->connection); /* from here another thread may free it */
    INLAY_CHECK(atomic_load(&server->suspended) > 0);
    (void)atomic_fetch_sub(&server->suspended, 1);
}

void exchange_release(struct exchange *exchange)
{
    if (exchange->completion == NULL && exchange->embedding == NULL) /* which free their requests */
        infer_request_deinit(&exchange->request);
    sequence_leave(&exchange->job);
    model_unref(exchange->job.model);
    completion_destroy(exchange->completion);
    embedding_destroy(exchange->embedding);
    strbuf_deinit(&exchange->reply);
    INLAY_CHECK(atomic_load(&exchange->server->exchanges) > 0);
    (void)atomic_fetch_sub(&exchange->server->exchanges, 1);
    (void)atomic_fetch_add_explicit(&exchange->server->requests, 1, memory_order_relaxed);
    free(exchange->memory);
    free(exchange);
}

void exchange_completed(void *user, struct MHD_Connection *mhd, void **memory, enum MHD_RequestTerminationCode how)
{
    struct exchange *exchange = *memory;

    (void)user;
    (void)mhd;
    if (exchange == NULL)
        return;
    if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK && exchange->code / 100 == 2)
        exchange->code = 499; /* the client did not read it */
    access_log_write(exchange);
    watch_busy(exchange->peer, false);
    *memory = NULL;
    if (!completion_leave(exchange))
        exchange_release(exchange);
}
