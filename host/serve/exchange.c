/* One request over HTTP: its header, its body, its answer. */
#include "serve/completion.h"
#include "serve/embedding.h"
#include "serve/load.h"
#include "serve/sequence.h"
#include "serve/server.h"
#include "serve/supervise.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ------------------------------------------------------------------ answers */

static void set_error(struct exchange *x, int code, const char *text)
{
    x->code = code;
    x->type = "application/json";
    x->reply_json_bytes = 0;
    strbuf_deinit(&x->reply);
    strbuf_text(&x->reply, "{\"error\":");
    strbuf_json(&x->reply, text, strlen(text));
    strbuf_text(&x->reply, "}");
}

void exchange_fail(struct exchange *x, int code, const char *text)
{
    set_error(x, code, text);
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
        return 499; /* the client closed its connection: seen in the log only */
    case INLAY_DEADLINE_EXCEEDED:
        return MHD_HTTP_GATEWAY_TIMEOUT;
    default:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

void exchange_fail_diag(struct exchange *x, const inlay_diag *diag)
{
    set_error(x, code_of(diag->code), diag->text[0] != '\0' ? diag->text : inlay_status_text(diag->code));
}

static enum MHD_Result add_headers(const struct exchange *x, struct MHD_Response *response)
{
    char number[24], load[LOAD_BYTES];
    const char *wanted;
    enum MHD_Result good = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, x->type);

    if (x->reply_json_bytes > 0) {
        (void)snprintf(number, sizeof number, "%zu", x->reply_json_bytes);
        good &= MHD_add_response_header(response, "Inference-Header-Content-Length", number);
    }
    if (x->retry_after > 0) {
        (void)snprintf(number, sizeof number, "%u", x->retry_after);
        good &= MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, number);
    }
    wanted = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "endpoint-load-metrics-format");
    if (wanted != NULL || x->server->load_header) {
        load_report(x->server, wanted != NULL && strcasecmp(wanted, "json") == 0, load);
        good &= MHD_add_response_header(response, "endpoint-load-metrics", load);
    }
    if (x->code == MHD_HTTP_UNAUTHORIZED)
        good &= MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (x->code == MHD_HTTP_METHOD_NOT_ALLOWED)
        good &= MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, route_methods(x->route.kind));
    if (x->route.kind == ROUTE_PAGE)
        good &= MHD_add_response_header(response, "Content-Security-Policy",
                                        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                                        "connect-src 'self'; frame-ancestors 'none'");
    if (atomic_load_explicit(&x->server->draining, memory_order_relaxed))
        good &= MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    return good;
}

/* Hands the answer to libmicrohttpd, which frees it. */
static enum MHD_Result send_answer(struct exchange *x)
{
    static char no_memory[] = "{\"error\":\"no memory for the answer\"}";
    struct MHD_Response *response;
    enum MHD_Result good;

    if (strcmp(x->type, "text/event-stream") == 0) {
        response = completion_response(x->completion);
    } else if (x->reply.failed) {
        strbuf_deinit(&x->reply);
        x->code = MHD_HTTP_SERVICE_UNAVAILABLE;
        x->type = "application/json";
        response = MHD_create_response_from_buffer(sizeof no_memory - 1, no_memory, MHD_RESPMEM_PERSISTENT);
    } else {
        response = MHD_create_response_from_buffer_with_free_callback(x->reply.size, x->reply.data, free);
        if (response != NULL)
            x->reply.data = NULL; /* the response's */
    }
    if (response == NULL)
        return MHD_NO;
    good = add_headers(x, response);
    if (good == MHD_YES)
        good = MHD_queue_response(x->connection, (unsigned)x->code, response);
    MHD_destroy_response(response);
    (void)atomic_fetch_add_explicit(&x->server->answers[x->code / 100 % 6], 1, memory_order_relaxed);
    watch_busy(x->peer, false);
    return good;
}

/* ------------------------------------------------------------------ its header */

static const char *header(const struct exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
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

static void check_access(struct exchange *x)
{
    struct server *s = x->server;
    int needed = route_access(x->route.kind, x->method);
    const char *authorization;

    if (needed > 0 && s->client_certificates && !watch_is_trusted(x->peer, x->connection)) {
        exchange_fail(x, MHD_HTTP_FORBIDDEN, "a client certificate that tls_client_ca vouches for is needed");
        return;
    }
    if (needed == 0 || (needed == 1 && s->tokens.count == 0))
        return;
    if (needed == 2 && supervise_is_worker()) {
        exchange_fail(x, MHD_HTTP_FORBIDDEN, "one of several workers: restart the server to change it");
        return;
    }
    if (needed == 2 && s->admin_tokens.count == 0) {
        exchange_fail(x, MHD_HTTP_FORBIDDEN, "this server is read-only; start it with an admin_token_file");
        return;
    }
    authorization = header(x, MHD_HTTP_HEADER_AUTHORIZATION);
    if (tokens_match(&s->admin_tokens, authorization) || (needed == 1 && tokens_match(&s->tokens, authorization)))
        return;
    if (needed == 2 && tokens_match(&s->tokens, authorization))
        exchange_fail(x, MHD_HTTP_FORBIDDEN, "this token may not change the server");
    else
        exchange_fail(x, MHD_HTTP_UNAUTHORIZED, "a bearer token is needed: Authorization: Bearer TOKEN");
}

static void check_header(struct exchange *x, size_t *out_length)
{
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const char *length = header(x, MHD_HTTP_HEADER_CONTENT_LENGTH), *text;

    *out_length = 0;
    if (size != NULL && size->header_size > x->server->max_header_bytes)
        exchange_fail(x, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, "the header is larger than max_header_bytes");
    else if (x->route.kind == ROUTE_NONE)
        exchange_fail(x, MHD_HTTP_NOT_FOUND, "there is nothing at this path; / lists what there is");
    else if (!route_takes(x->route.kind, x->method))
        exchange_fail(x, MHD_HTTP_METHOD_NOT_ALLOWED, "this path has another method");
    else
        check_access(x);
    if (length != NULL && !read_size(length, out_length) && x->code == 0)
        exchange_fail(x, MHD_HTTP_BAD_REQUEST, "Content-Length is no number");
    if (*out_length > x->server->max_body_bytes) {
        x->code = 0;
        exchange_fail(x, 413, "the body is larger than max_body_bytes");
        return;
    }
    text = header(x, MHD_HTTP_HEADER_CONTENT_ENCODING);
    if (x->code == 0 && text != NULL && strcmp(text, "identity") != 0)
        exchange_fail(x, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "a body with a Content-Encoding is not supported");
    text = header(x, "Inference-Header-Content-Length");
    x->json_bytes = SIZE_MAX;
    if (x->code == 0 && text != NULL && !read_size(text, &x->json_bytes))
        exchange_fail(x, MHD_HTTP_BAD_REQUEST, "Inference-Header-Content-Length is no number");
}

/* Time that the client or a proxy allows: in milliseconds, over what the server's settings say. */
static void read_deadline(struct exchange *x)
{
    static const char *const names[] = { "Inference-Timeout-Ms", "x-envoy-expected-rq-timeout-ms" };
    uint64_t allowed = x->server->timeout_ns;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = header(x, names[i]);
        size_t ms;

        if (text == NULL)
            continue;
        if (!read_size(text, &ms) || ms == 0 || ms > 86400000) {
            exchange_fail(x, MHD_HTTP_BAD_REQUEST, "Inference-Timeout-Ms is from 1 to 86400000");
            return;
        }
        allowed = (uint64_t)ms * 1000000;
        break;
    }
    x->job.deadline_ns = allowed > 0 ? x->arrived_ns + allowed : 0;
}

/* Room for a body of so many bytes, its JSON placed so that what follows it begins at a multiple of 64. */
static bool make_room(struct exchange *x, size_t bytes)
{
    size_t ahead = x->json_bytes != SIZE_MAX ? (64 - x->json_bytes % 64) % 64 : 0;
    char *memory = malloc(bytes + ahead + 64); /* aligned_alloc() takes longer than the rest of this */
    char *body;

    if (memory == NULL)
        return false;
    body = memory + (64 - (uintptr_t)memory % 64) % 64 + ahead;
    if (x->body_bytes > 0)
        memcpy(body, x->body, x->body_bytes);
    x->moved_bytes += x->body_bytes;
    free(x->memory);
    x->memory = memory;
    x->body = body;
    x->body_room = bytes;
    return true;
}

static enum MHD_Result begin(struct server *s, struct MHD_Connection *mhd, const char *url, const char *method,
                             void **memory)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct exchange *x = calloc(1, sizeof *x);
    size_t bytes = strlen(url), length;

    if (x == NULL || info == NULL || info->socket_context == NULL) {
        free(x);
        return MHD_NO;
    }
    *memory = x;
    (void)atomic_fetch_add(&s->exchanges, 1);
    x->server = s;
    x->connection = mhd;
    x->peer = info->socket_context;
    x->method = method;
    x->arrived_ns = clock_ns();
    x->type = "application/json";
    memcpy(x->path, url, bytes < sizeof x->path ? bytes : sizeof x->path - 1);
    if (bytes < sizeof x->path)
        x->route = route_find(x->path);
    check_header(x, &length);
    if (x->code == 413)
        return send_answer(x); /* what is not read ends the connection */
    if (x->code == 0 &&
        (x->route.kind == ROUTE_INFER || x->route.kind == ROUTE_COMPLETIONS || x->route.kind == ROUTE_EMBEDDINGS))
        read_deadline(x);
    if (x->code == 0 && length > 0 && !make_room(x, length))
        exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory for the body");
    return MHD_YES;
}

/* ------------------------------------------------------------------ its body */

/* A body whose request is refused is read all the same, so that the client hears why. */
static enum MHD_Result take_body(struct exchange *x, const char *data, size_t bytes)
{
    size_t limit = x->server->max_body_bytes;

    if (bytes > limit - x->body_bytes) {
        if (x->code == 413)
            return MHD_NO; /* twice the limit */
        exchange_fail(x, 413, "the body is larger than max_body_bytes");
        x->body_bytes = 0;
        return MHD_YES;
    }
    if (x->code == 0 && x->body_room - x->body_bytes < bytes &&
        !make_room(x, x->body_bytes + bytes > limit / 2 ? limit : 2 * (x->body_bytes + bytes)))
        exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory for the body");
    if (x->code == 0) {
        memcpy(x->body + x->body_bytes, data, bytes);
        x->moved_bytes += bytes;
    }
    x->body_bytes += bytes;
    return MHD_YES;
}

static void answer(struct exchange *x)
{
    switch (x->route.kind) {
    case ROUTE_INFER:
        answer_infer(x);
        break;
    case ROUTE_LIVE:
        x->code = MHD_HTTP_OK;
        break;
    case ROUTE_READY:
        if (atomic_load(&x->server->ready))
            x->code = MHD_HTTP_OK;
        else
            exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                          atomic_load(&x->server->draining) ? "the server is going down" : "models are being loaded");
        break;
    case ROUTE_SERVER:
        answer_server(x);
        break;
    case ROUTE_MODEL:
        answer_model(x);
        break;
    case ROUTE_MODEL_READY:
        answer_model_ready(x);
        break;
    case ROUTE_STATS:
        answer_stats(x);
        break;
    case ROUTE_INDEX:
        answer_index(x);
        break;
    case ROUTE_METRICS:
        answer_metrics(x);
        break;
    case ROUTE_PAGE:
        answer_page(x);
        break;
    case ROUTE_COMPLETIONS:
    case ROUTE_CHAT:
        answer_completions(x);
        break;
    case ROUTE_EMBEDDINGS:
        answer_embeddings(x);
        break;
    case ROUTE_MODELS:
        answer_models(x);
        break;
    case ROUTE_TRACE:
        answer_trace(x);
        break;
    case ROUTE_LOGGING:
        answer_logging(x);
        break;
    default:
        answer_repository(x);
        break;
    }
}

enum MHD_Result exchange_handle(void *user, struct MHD_Connection *mhd, const char *url, const char *method,
                                const char *version, const char *data, size_t *data_bytes, void **memory)
{
    struct exchange *x = *memory;

    (void)version;
    if (x == NULL)
        return begin(user, mhd, url, method, memory);
    if (*data_bytes > 0) {
        enum MHD_Result good = take_body(x, data, *data_bytes);

        *data_bytes = 0;
        return good;
    }
    (void)atomic_fetch_add_explicit(&x->server->moved_bytes, x->moved_bytes, memory_order_relaxed);
    x->moved_bytes = 0;
    if (x->code == 0) {
        watch_busy(x->peer, true);
        answer(x);
        if (*memory == NULL || x->suspended)
            return MHD_YES;
    }
    return send_answer(x);
}

void exchange_suspend(struct exchange *x)
{
    x->suspended = true;
    (void)atomic_fetch_add(&x->server->suspended, 1);
    MHD_suspend_connection(x->connection);
}

void exchange_wake(struct exchange *x)
{
    struct server *s = x->server;

    MHD_resume_connection(x->connection); /* from here it may be gone */
    (void)atomic_fetch_sub(&s->suspended, 1);
}

void exchange_release(struct exchange *x)
{
    if (x->completion == NULL && x->embedding == NULL) /* whose requests lie in these */
        infer_request_deinit(&x->request);
    sequence_leave(&x->job);
    model_unref(x->job.model);
    completion_destroy(x->completion);
    embedding_destroy(x->embedding);
    strbuf_deinit(&x->reply);
    (void)atomic_fetch_sub(&x->server->exchanges, 1);
    (void)atomic_fetch_add_explicit(&x->server->requests, 1, memory_order_relaxed);
    free(x->memory);
    free(x);
}

void exchange_completed(void *user, struct MHD_Connection *mhd, void **memory, enum MHD_RequestTerminationCode how)
{
    struct exchange *x = *memory;

    (void)user;
    (void)mhd;
    if (x == NULL)
        return;
    if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK && x->code / 100 == 2)
        x->code = 499; /* nobody took it */
    access_log_write(x);
    watch_busy(x->peer, false);
    *memory = NULL;
    if (!completion_leave(x))
        exchange_release(x);
}
