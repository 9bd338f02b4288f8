/* A call: its header, its messages, its replies, its status. */
#include "base/utf8.h"
#include "serve/grpc_internal.h"
#include "serve/load.h"
#include "serve/supervise.h"
#include <stdlib.h>
#include <string.h>

enum { PREFIX = 5 }; /* of a message: a byte that says whether it is compressed, four of its length */

const struct method *method_find(const char *path)
{
    static const struct method methods[] = {
#define SERVICE "/inference.GRPCInferenceService/"
        { SERVICE "ModelInfer", grpc_infer, 1, false },
        { SERVICE "ModelStreamInfer", grpc_infer, 1, true },
        { SERVICE "ServerLive", grpc_live, 0, false },
        { SERVICE "ServerReady", grpc_ready, 0, false },
        { SERVICE "ModelReady", grpc_model_ready, 0, false },
        { SERVICE "ServerMetadata", grpc_server_metadata, 1, false },
        { SERVICE "ModelMetadata", grpc_model_metadata, 1, false },
        { SERVICE "RepositoryIndex", grpc_index, 1, false },
        { SERVICE "RepositoryModelLoad", grpc_load, 2, false },
        { SERVICE "RepositoryModelUnload", grpc_unload, 2, false },
        { SERVICE "ModelStatistics", grpc_statistics, 1, false },
        { SERVICE "TraceSetting", grpc_trace_setting, 1, false },
        { SERVICE "LogSettings", grpc_log_settings, 1, false },
        { "/grpc.health.v1.Health/Check", grpc_health, 0, false },
#undef SERVICE
    };

    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (strcmp(methods[i].path, path) == 0)
            return &methods[i];
    return NULL;
}

struct call *call_create(struct grpc *g, struct server *s, nghttp2_session *session, int32_t stream)
{
    struct call *x = calloc(1, sizeof *x);

    if (x == NULL)
        return NULL;
    x->grpc = g;
    x->server = s;
    x->session = session;
    x->stream = stream;
    x->is_plain = true;
    x->arrived_ns = clock_ns();
    (void)atomic_fetch_add(&s->exchanges, 1);
    return x;
}

void call_destroy(struct call *x)
{
    grpc_infer_deinit(x);
    strbuf_deinit(&x->in);
    strbuf_deinit(&x->out);
    strbuf_deinit(&x->reply);
    (void)atomic_fetch_sub(&x->server->exchanges, 1);
    (void)atomic_fetch_add_explicit(&x->server->requests, 1, memory_order_relaxed);
    free(x);
}

/* ------------------------------------------------------------------ its header */

/* 1 to 8 digits and a unit. */
static uint64_t read_timeout(const char *text, size_t bytes)
{
    static const char units[] = "HMSmun";
    static const uint64_t ns[] = { 3600000000000u, 60000000000u, 1000000000u, 1000000u, 1000u, 1u };
    uint64_t number = 0;
    const char *unit;

    if (bytes < 2 || bytes > 9)
        return 0;
    for (size_t i = 0; i + 1 < bytes; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        number = number * 10 + (uint64_t)(text[i] - '0');
    }
    unit = strchr(units, text[bytes - 1]);
    if (text[bytes - 1] == '\0' || unit == NULL)
        return 0;
    return number == 0 ? 1 : number * ns[unit - units]; /* below 2^62 */
}

static bool is_name(const char *name, size_t bytes, const char *wanted)
{
    return bytes == strlen(wanted) && memcmp(name, wanted, bytes) == 0;
}

void call_header(struct call *x, const char *name, size_t name_bytes, const char *value, size_t value_bytes)
{
    x->header_bytes += name_bytes + value_bytes + 32;
    if (is_name(name, name_bytes, ":path") && value_bytes < sizeof x->path)
        memcpy(x->path, value, value_bytes);
    else if (is_name(name, name_bytes, "content-type"))
        x->is_grpc = value_bytes >= 16 && memcmp(value, "application/grpc", 16) == 0;
    else if (is_name(name, name_bytes, "grpc-encoding"))
        x->is_plain = is_name(value, value_bytes, "identity");
    else if (is_name(name, name_bytes, "grpc-timeout"))
        x->timeout_ns = read_timeout(value, value_bytes);
    else if (is_name(name, name_bytes, "authorization") && value_bytes < sizeof x->authorization)
        memcpy(x->authorization, value, value_bytes);
}

/* Whether who has sent the header may call the method, or change the server; ends the call where not. */
bool call_may(struct call *x, int access)
{
    const struct server *s = x->server;
    bool user = tokens_match(&s->tokens, x->authorization), admin = tokens_match(&s->admin_tokens, x->authorization);

    if (access == 0 || (access == 1 && (user || admin || s->tokens.count == 0)) ||
        (access == 2 && admin && !supervise_is_worker()))
        return true;
    if (access == 2 && supervise_is_worker())
        call_end(x, GRPC_PERMISSION_DENIED, "one of several workers: restart the server to change it");
    else if (access == 2 && s->admin_tokens.count == 0)
        call_end(x, GRPC_PERMISSION_DENIED, "this server is read-only; start it with an admin_token_file");
    else if (access == 2 && user)
        call_end(x, GRPC_PERMISSION_DENIED, "this token may not change the server");
    else
        call_end(x, GRPC_UNAUTHENTICATED, "a bearer token is needed: authorization: Bearer TOKEN");
    return false;
}

/* Whether the call may go on, once its header is complete. */
static bool check_header(struct call *x)
{
    struct server *s = x->server;

    x->method = method_find(x->path);
    if (x->header_bytes > s->max_header_bytes)
        call_end(x, GRPC_RESOURCE_EXHAUSTED, "the header is larger than max_header_bytes");
    else if (!x->is_grpc)
        call_end(x, GRPC_INTERNAL, "the content-type is not application/grpc");
    else if (x->method == NULL)
        call_end(x, GRPC_UNIMPLEMENTED, "there is no such method");
    else if (!x->is_plain)
        call_end(x, GRPC_UNIMPLEMENTED, "compressed messages are not supported");
    else
        (void)call_may(x, x->method->access);
    return !x->ended;
}

/* ------------------------------------------------------------------ what is sent */

static ssize_t read_out(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
                        nghttp2_data_source *source, void *user)
{
    struct call *x = source->ptr;
    size_t bytes = x->out.size - x->sent;

    (void)user;
    if (bytes > room)
        bytes = room;
    if (bytes > 0)
        memcpy(to, x->out.data + x->sent, bytes);
    x->sent += bytes;
    if (x->sent < x->out.size)
        return (ssize_t)bytes;
    x->out.size = x->sent = 0;
    if (x->ended) {
        char status[8];
        nghttp2_nv trailers[3] = {
            { (uint8_t *)(uintptr_t) "grpc-status", (uint8_t *)status, 11, 0, NGHTTP2_NV_FLAG_NONE },
            { (uint8_t *)(uintptr_t) "grpc-message", (uint8_t *)x->text, 12, strlen(x->text), NGHTTP2_NV_FLAG_NONE }
        };
        char load[LOAD_BYTES];
        size_t count = x->text[0] != '\0' ? 2 : 1;

        trailers[0].valuelen = (size_t)snprintf(status, sizeof status, "%d", x->status);
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (x->server->load_header) {
            load_report(x->server, false, load);
            trailers[count++] = (nghttp2_nv){ (uint8_t *)(uintptr_t) "endpoint-load-metrics", (uint8_t *)load, 21,
                                              strlen(load), NGHTTP2_NV_FLAG_NONE };
        }
        (void)nghttp2_submit_trailer(session, stream, trailers, count);
    } else if (bytes == 0) {
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)bytes;
}

#define HEADER(name, value)                                                                                            \
    {                                                                                                                  \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1, sizeof(value) - 1,              \
            NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE                                               \
    }

static void begin_answer(struct call *x)
{
    static const nghttp2_nv headers[] = { HEADER(":status", "200"), HEADER("content-type", "application/grpc") };
    nghttp2_data_provider provider = { .source.ptr = x, .read_callback = read_out };

    if (x->answering) {
        (void)nghttp2_session_resume_data(x->session, x->stream);
    } else {
        x->answering = true;
        (void)nghttp2_submit_response(x->session, x->stream, headers, 2, &provider);
    }
}

/* grpc-message: what is not printable ASCII, and '%', as %XX. */
static void set_text(struct call *x, const char *text)
{
    size_t used = 0;

    for (; *text != '\0' && used + 4 < sizeof x->text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c >= ' ' && c <= '~' && c != '%')
            x->text[used++] = (char)c;
        else
            used += (size_t)snprintf(x->text + used, sizeof x->text - used, "%%%02X", c);
    }
    x->text[used] = '\0';
}

/* An answer that is only a status. */
static void send_status(struct call *x)
{
    char status[8];
    nghttp2_nv headers[] = { HEADER(":status", "200"),
                             HEADER("content-type", "application/grpc"),
                             { (uint8_t *)(uintptr_t) "grpc-status", (uint8_t *)status, 11, 0, NGHTTP2_NV_FLAG_NONE },
                             { (uint8_t *)(uintptr_t) "grpc-message", (uint8_t *)x->text, 12, strlen(x->text),
                               NGHTTP2_NV_FLAG_NONE } };

    headers[2].valuelen = (size_t)snprintf(status, sizeof status, "%d", x->status);
    x->answering = true;
    (void)nghttp2_submit_response(x->session, x->stream, headers, x->text[0] != '\0' ? 4 : 3, NULL);
}

void call_end(struct call *x, int status, const char *text)
{
    if (x->ended)
        return;
    x->ended = true;
    x->status = status;
    set_text(x, text);
    if (x->session == NULL)
        return;
    if (x->answering || x->out.size > 0)
        begin_answer(x); /* the status comes behind what is still to be sent */
    else
        send_status(x);
}

/* ------------------------------------------------------------------ messages */

void call_pack(struct call *x, const ProtobufCMessage *message)
{
    size_t bytes = protobuf_c_message_get_packed_size(message);
    char *to = strbuf_reserve(&x->reply, bytes + 1);

    if (to != NULL)
        x->reply.size += protobuf_c_message_pack(message, (uint8_t *)to);
}

/* What a message may take, so that many tiny parts do not take many times its size. */
struct budget {
    size_t left;
};

static void *budget_alloc(void *user, size_t bytes)
{
    struct budget *b = user;

    if (bytes > SIZE_MAX / 2 || b->left < bytes + 16)
        return NULL;
    b->left -= bytes + 16;
    return malloc(bytes > 0 ? bytes : 1);
}

static void budget_free(void *user, void *memory)
{
    (void)user;
    free(memory);
}

void *call_unpack(struct call *x, const ProtobufCMessageDescriptor *type, const uint8_t *message, size_t bytes)
{
    struct budget b = { bytes > SIZE_MAX / 32 ? SIZE_MAX / 2 : 16 * bytes + 65536 };
    ProtobufCAllocator allocator = { budget_alloc, budget_free, &b };
    void *unpacked = protobuf_c_message_unpack(type, &allocator, bytes, message);

    if (unpacked == NULL)
        call_fail(x, GRPC_INVALID_ARGUMENT, "the message is not of the method's type");
    return unpacked;
}

void call_release(void *unpacked)
{
    if (unpacked != NULL)
        protobuf_c_message_free_unpacked(unpacked, NULL); /* the allocator's free() is malloc's */
}

void call_fail(struct call *x, int status, const char *text)
{
    strbuf_deinit(&x->reply);
    x->reply_status = status;
    (void)snprintf(x->reply_text, sizeof x->reply_text, "%s", text);
}

static int status_of(inlay_status status)
{
    switch (status) {
    case INLAY_INVALID_ARGUMENT:
    case INLAY_SHAPE_MISMATCH:
        return GRPC_INVALID_ARGUMENT;
    case INLAY_NOT_FOUND:
        return GRPC_NOT_FOUND;
    case INLAY_OUT_OF_MEMORY:
    case INLAY_LIMIT_EXCEEDED:
        return GRPC_RESOURCE_EXHAUSTED;
    case INLAY_UNSUPPORTED:
        return GRPC_UNIMPLEMENTED;
    case INLAY_CANCELLED:
        return GRPC_CANCELLED;
    case INLAY_DEADLINE_EXCEEDED:
        return GRPC_DEADLINE_EXCEEDED;
    case INLAY_BUSY:
    case INLAY_DEVICE_LOST:
        return GRPC_UNAVAILABLE;
    default:
        return GRPC_INTERNAL;
    }
}

void call_fail_diag(struct call *x, const inlay_diag *diag)
{
    call_fail(x, status_of(diag->code), diag->text[0] != '\0' ? diag->text : inlay_status_text(diag->code));
}

/* In a stream of requests a failure is a message, and the stream goes on. */
static void wrap_stream_reply(struct call *x)
{
    Inference__StreamInferReply reply = INFERENCE__STREAM_INFER_REPLY__INIT;

    if (x->reply_status == GRPC_OK)
        return; /* grpc_infer() has wrapped it */
    reply.error_message = x->reply_text;
    if (!utf8_is_valid(x->reply_text, strlen(x->reply_text)))
        reply.error_message = (char *)(uintptr_t) "the request is wrong";
    x->reply_status = GRPC_OK;
    call_pack(x, &reply.base);
}

void call_finish_message(struct call *x)
{
    uint8_t prefix[PREFIX];

    x->working = false;
    grpc_infer_deinit(x);
    if (x->session == NULL || x->ended)
        return;
    if (x->method->streams)
        wrap_stream_reply(x);
    if (x->reply_status != GRPC_OK) {
        call_end(x, x->reply_status, x->reply_text);
        return;
    }
    prefix[0] = 0;
    for (int i = 1; i < PREFIX; i++)
        prefix[i] = (uint8_t)(x->reply.size >> (8 * (4 - i)));
    strbuf_add(&x->out, prefix, sizeof prefix);
    strbuf_add(&x->out, x->reply.data, x->reply.size);
    if (x->reply.failed || x->out.failed || x->reply.size > UINT32_MAX)
        call_end(x, GRPC_RESOURCE_EXHAUSTED, "no memory for the answer");
    else if (!x->method->streams)
        call_end(x, GRPC_OK, "");
    else
        begin_answer(x);
    strbuf_deinit(&x->reply);
}

static uint32_t message_bytes(const struct call *x)
{
    const uint8_t *p = (const uint8_t *)x->in.data;

    return (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
}

bool call_data(struct call *x, const uint8_t *data, size_t bytes)
{
    if (x->ended)
        return true;
    if (x->in.size + bytes > 2 * x->server->max_body_bytes + 65536)
        return false; /* of a stream that does not wait for its replies */
    strbuf_add(&x->in, data, bytes);
    (void)atomic_fetch_add_explicit(&x->server->moved_bytes, bytes, memory_order_relaxed);
    if (x->in.failed) {
        call_end(x, GRPC_RESOURCE_EXHAUSTED, "no memory for the message");
    } else if (x->in.size >= PREFIX && x->in.data[0] != 0) {
        call_end(x, GRPC_UNIMPLEMENTED, "compressed messages are not supported");
    } else if (x->in.size >= PREFIX && message_bytes(x) > x->server->max_body_bytes) {
        call_end(x, GRPC_RESOURCE_EXHAUSTED, "the message is larger than max_body_bytes");
    }
    return true;
}

/* The next message, if it is complete. */
static bool take_message(struct call *x)
{
    size_t bytes;

    if (x->in.size < PREFIX)
        return false;
    bytes = message_bytes(x);
    if (x->in.data[0] != 0 || bytes > x->server->max_body_bytes) {
        call_end(x, GRPC_RESOURCE_EXHAUSTED, "the message is compressed, or larger than max_body_bytes");
        return false;
    }
    if (x->in.size - PREFIX < bytes)
        return false;
    x->messages++;
    x->reply_status = GRPC_OK;
    x->working = true;
    if (x->messages > 1)
        x->arrived_ns = clock_ns();
    x->method->run(x, (const uint8_t *)x->in.data + PREFIX, bytes);
    if (x->in.size > PREFIX + bytes)
        memmove(x->in.data, x->in.data + PREFIX + bytes, x->in.size - PREFIX - bytes);
    x->in.size -= PREFIX + bytes;
    return true;
}

void call_advance(struct call *x)
{
    if (x->method == NULL && !x->ended && !check_header(x))
        return;
    while (!x->ended && !x->working && x->session != NULL && (x->method->streams || x->client_done)) {
        if (take_message(x)) {
            if (!x->queued)
                call_finish_message(x);
            continue;
        }
        if (x->ended || !x->client_done)
            break;
        if (x->in.size > 0 || (!x->method->streams && x->messages == 0))
            call_end(x, GRPC_INTERNAL, "the call ended within a message");
        else
            call_end(x, GRPC_OK, "");
    }
}
