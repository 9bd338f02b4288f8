/* serve/exchange/exchange.h - one request for REST from its header to its reply.
 *
 * The protocols (HTTP/1.1, HTTP/2) drive it: exchange_create(), exchange_set_target(), exchange_add_field() for each
 * field, exchange_begin(), the body, routes_run(), exchange_reply_get(), exchange_finish(): all on the thread of the
 * connection. The routes set its code and its reply, or suspend it. */
#ifndef SERVE_EXCHANGE_H
#define SERVE_EXCHANGE_H
#include "base/strbuf.h"
#include "serve/exchange/request.h"
#include "serve/schedule/load.h"
#include "serve/http/route.h"
#include "codecs/coding.h"

struct completion;
struct embedding;
struct spoken;

enum {
    HTTP_OK = 200,
    HTTP_BAD_REQUEST = 400,
    HTTP_UNAUTHORIZED = 401,
    HTTP_FORBIDDEN = 403,
    HTTP_NOT_FOUND = 404,
    HTTP_METHOD_NOT_ALLOWED = 405,
    HTTP_UNSUPPORTED_MEDIA_TYPE = 415,
    HTTP_TOO_MANY_REQUESTS = 429,
    HTTP_INTERNAL_SERVER_ERROR = 500,
    HTTP_NOT_IMPLEMENTED = 501,
    HTTP_SERVICE_UNAVAILABLE = 503,
    HTTP_GATEWAY_TIMEOUT = 504
};

/* The header fields that the server uses after it has read the header. */
#define EXCHANGE_FIELDS(X)                                                                                             \
    X(AUTHORIZATION, "authorization")                                                                                  \
    X(API_KEY, "x-api-key")                                                                                            \
    X(ACCEPT, "accept")                                                                                                \
    X(ACCEPT_ENCODING, "accept-encoding")                                                                              \
    X(CONTENT_ENCODING, "content-encoding")                                                                            \
    X(CONTENT_TYPE, "content-type")                                                                                    \
    X(JSON_BYTES, "inference-header-content-length")                                                                   \
    X(TIMEOUT, "inference-timeout-ms")                                                                                 \
    X(ENVOY_TIMEOUT, "x-envoy-expected-rq-timeout-ms")                                                                 \
    X(LOAD_FORMAT, "endpoint-load-metrics-format")                                                                     \
    X(HOST, "host")                                                                                                    \
    X(ORIGIN, "origin")                                                                                                \
    X(TRACEPARENT, "traceparent")                                                                                      \
    X(REQUEST_ID, "x-request-id")
typedef enum exchange_field {
#define FIELD_ENUM(name, text) FIELD_##name,
    EXCHANGE_FIELDS(FIELD_ENUM)
#undef FIELD_ENUM
        FIELD_COUNT
} exchange_field;

/* Largest body of a request for texts: twice the longest text of a template, for the escapes of JSON. */
enum { EXCHANGE_TEXT_BYTES = 32 << 20 };

struct exchange {
    struct request request;
    void *transport;   /* the connection or the stream of HTTP/2 that has the request */
    uint32_t delay_ms; /* of the reply, because of a wrong token */
    char method[16];
    char path[384];                 /* decoded */
    uint32_t field_at[FIELD_COUNT]; /* 1 + where the value begins in field_text; 0 = none */
    struct strbuf field_text;       /* values, each with a NUL */
    struct route route;

    char *memory, *body; /* memory is owned; body points into it so that the tensors after the JSON are aligned */
    size_t body_bytes, body_room, most_bytes; /* most_bytes: of the body, decoded or not */
    size_t moved_bytes;                       /* bytes of the body copied so far */
    size_t json_bytes;                        /* Inference-Header-Content-Length; SIZE_MAX = none */
    coding body_coding;                       /* of the body, until routes_run() */

    struct completion *completion;              /* NULL: not a completion */
    struct embedding *embedding;                /* NULL: not an embedding */
    struct spoken *spoken;                      /* NULL: not a sound */
    void (*release)(struct exchange *exchange); /* frees these and request.infer; NULL: neither is set */

    int code; /* of the reply; 0 = not set yet */
    struct strbuf reply;
    const char *type; /* Content-Type */
    size_t reply_json_bytes;
    struct {
        bool tried;  /* exchange_encode() was called */
        bool varies; /* the reply depends on Accept-Encoding */
        coding coding;
    } encoding; /* of the reply */
};

/* The value of a header field, or NULL. */
static inline const char *exchange_field_get(const struct exchange *exchange, exchange_field which)
{
    return exchange->field_at[which] > 0 ? exchange->field_text.data + exchange->field_at[which] - 1 : NULL;
}

/* Sets the reply {"error": text}, or the error object of OpenAI's API for its paths. */
void exchange_fail(struct exchange *exchange, int code, const char *text);
/* The same with the name of the wrong parameter ("" or NULL = none) and OpenAI's code of the error (NULL = none). */
void exchange_fail_parameter(struct exchange *exchange, int code, const char *text, const char *parameter,
                             const char *error_code);
/* Adds the members of an error: {"error":...}. */
void exchange_write_error(const struct exchange *exchange, struct strbuf *to, int code, const char *text,
                          const char *parameter, const char *error_code);
/* The body is larger than most_bytes. */
void exchange_fail_size(struct exchange *exchange);
/* The HTTP code of a failure of the library. */
int exchange_code_of(inlay_status status);
/* The same for a failure of the library. */
void exchange_fail_diag(struct exchange *exchange, const inlay_diag *diag);
/* Compresses a large reply if the client accepts it. A later call does nothing. Any thread that has the request. */
void exchange_encode(struct exchange *exchange);
/* For done() of request_load(): sets job.model and calls go_on(); or the reply says why there is no model, and the
 * exchange continues with that reply. */
void exchange_model_loaded(struct exchange *exchange, const inlay_diag *failure,
                           void (*go_on)(struct exchange *exchange));

typedef struct exchange_reply {
    int code;
    struct {
        const char *name, *value;
    } fields[12];
    uint32_t field_count;
    const char *body; /* [body_bytes] valid until exchange_finish() */
    size_t body_bytes;
    bool is_head_only; /* the reply to HEAD: the length of the body without the body */
    bool streams;      /* the body comes from completion_take() */
    char numbers[2][24], load[LOAD_BYTES];
} exchange_reply;

/* resume() gets exchange->request.task when another thread has finished the request. NULL: out of memory. */
struct exchange *exchange_create(struct server *server, struct connection *connection,
                                 void (*resume)(front_task *task));
struct exchange *exchange_of(front_task *task);
/* path: as in the request, percent-encoded; "" is "/". */
void exchange_set_target(struct exchange *exchange, const char *method, size_t method_bytes, const char *path,
                         size_t path_bytes);
/* Stores the field if the server uses it. */
void exchange_add_field(struct exchange *exchange, const char *name, size_t name_bytes, const char *value,
                        size_t value_bytes);
/* Prepares for a body of `length` bytes. */
void exchange_expect(struct exchange *exchange, uint64_t length);
/* Where the next bytes of a body of known length belong; NULL: drop them. The rest of the length has room there. */
char *exchange_room(struct exchange *exchange);
void exchange_received(struct exchange *exchange, size_t bytes);
/* Copies a part of the body. */
void exchange_take_body(struct exchange *exchange, const char *data, size_t bytes);
/* The body is complete: decodes it. It may refuse the request. */
void exchange_expand(struct exchange *exchange);
void exchange_reply_get(struct exchange *exchange, exchange_reply *out);
/* Frees what the request holds for its run, which may take long for large requests. Any thread that has the request. */
void exchange_drop(struct exchange *exchange);
/* Logs the request and frees it. sent: the client has received the reply, as far as the server knows. */
void exchange_finish(struct exchange *exchange, bool sent);
#endif
