#include "serve/exchange/header.h"
#include "base/among.h"
#include <string.h>

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
    const char *token = exchange_field_get(exchange, FIELD_AUTHORIZATION);
    const char *key = exchange_field_get(exchange, FIELD_API_KEY); /* of clients of /v1/messages */
    const access_refusal *refusal;
    char bearer[1024];

    if (token == NULL && key != NULL) {
        (void)snprintf(bearer, sizeof bearer, "Bearer %s", key);
        token = bearer;
    }
    refusal = access_check(exchange->request.server, &exchange->request.client, token,
                           route_access(exchange->route.kind, exchange->method), &exchange->delay_ms);
    if (refusal != NULL)
        exchange_fail(exchange, refusal->code, refusal->text);
}

/* Methods of RFC 9110, section 9, and of RFC 5789: others are not implemented for any path. */
static bool is_known_method(const char *method)
{
    return is_among(method, "GET HEAD POST PUT DELETE OPTIONS TRACE PATCH");
}

static void fail_path(struct exchange *exchange)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)inlay_fail(&diag, INLAY_NOT_FOUND, "unknown path '%.200s'; GET / lists the paths", exchange->path);
    exchange_fail_diag(exchange, &diag);
}

static void check_header(struct exchange *exchange, uint64_t length)
{
    const char *text;

    if (!is_known_method(exchange->method))
        exchange_fail(exchange, HTTP_NOT_IMPLEMENTED, "this method is not implemented");
    else if (strcmp(exchange->path, "*") == 0)
        exchange_fail(exchange, HTTP_METHOD_NOT_ALLOWED, "the server has no options");
    else if (exchange->request.client.is_admin && !route_is_admin(exchange->route.kind))
        exchange_fail(exchange, HTTP_NOT_FOUND, "admin_port has only /v2/health/live, /v2/health/ready and /metrics");
    else if (exchange->route.kind == ROUTE_NONE)
        fail_path(exchange);
    else if (route_access(exchange->route.kind, exchange->method) == ACCESS_NO_METHOD)
        exchange_fail(exchange, HTTP_METHOD_NOT_ALLOWED, "method not allowed for this path");
    else if (exchange->field_text.failed)
        exchange_fail(exchange, HTTP_SERVICE_UNAVAILABLE, "no memory for the header");
    else if (browser_is_allowed(exchange))
        check_access(exchange);
    if (route_reads_texts(exchange->route.kind) && exchange->most_bytes > EXCHANGE_TEXT_BYTES)
        exchange->most_bytes = EXCHANGE_TEXT_BYTES;
    if (length > exchange->most_bytes) {
        exchange_fail_size(exchange);
        return;
    }
    text = exchange_field_get(exchange, FIELD_CONTENT_ENCODING);
    if (text != NULL)
        exchange->body_coding = coding_find(text, strlen(text));
    if (exchange->code == 0 && exchange->body_coding == CODING_UNKNOWN)
        exchange_fail(exchange, HTTP_UNSUPPORTED_MEDIA_TYPE, "Content-Encoding must be gzip, deflate or identity");
    text = exchange_field_get(exchange, FIELD_JSON_BYTES);
    exchange->json_bytes = SIZE_MAX;
    if (exchange->code == 0 && text != NULL && !read_size(text, &exchange->json_bytes))
        exchange_fail(exchange, HTTP_BAD_REQUEST, "Inference-Header-Content-Length is not a number");
}

/* The client's or a proxy's timeout in milliseconds overrides the server's setting. */
static void read_deadline(struct exchange *exchange)
{
    static const exchange_field names[] = { FIELD_TIMEOUT, FIELD_ENVOY_TIMEOUT };
    uint64_t allowed = exchange->request.server->limits.timeout_ns;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = exchange_field_get(exchange, names[i]);
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
    exchange->request.job.deadline_ns = allowed > 0 ? exchange->request.arrived_ns + allowed : 0;
}

void exchange_begin(struct exchange *exchange, uint64_t length)
{
    exchange->request.traceparent = exchange_field_get(exchange, FIELD_TRACEPARENT);
    exchange->request.request_id = exchange_field_get(exchange, FIELD_REQUEST_ID);
    check_header(exchange, length);
    if (exchange->code == 0 && (exchange->route.kind == ROUTE_INFER || route_reads_texts(exchange->route.kind) ||
                                route_reads_sounds(exchange->route.kind)))
        read_deadline(exchange);
    if (exchange->code == 0 && length > 0)
        exchange_expect(exchange, length);
}
