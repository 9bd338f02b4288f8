/* A gRPC call: its header, its messages, its replies, its status. */
#include "base/clock.h"
#include "base/utf8.h"
#include "inlay/check.h"
#include "serve/grpc/grpc_internal.h"
#include "serve/exchange/access_log.h"
#include "serve/exchange/prepare.h"
#include "serve/network/connection.h"
#include "serve/schedule/load.h"
#include <stdlib.h>
#include <string.h>

enum { MIN_COMPRESSED_BYTES = 1024 }; /* smaller replies are not compressed */
enum { PREFIX = 5 };                  /* before each message: a byte for compression, four bytes of length */
enum { MAX_OTHER_BYTES = 1 << 20 };   /* of a message that does not run a model */

struct call *call_create(http2_streams *streams, nghttp2_session *session, int32_t stream)
{
    struct call *call = calloc(1, sizeof *call);

    if (call == NULL)
        return NULL;
    call->streams = streams;
    call->session = session;
    call->stream = stream;
    request_init(&call->request, streams->server, streams->connection, grpc_resume);
    call->request.traceparent = call->head.traceparent;
    call->request.request_id = call->head.request_id;
    return call;
}

static void release(struct call *call)
{
    if (call->release != NULL)
        call->release(call);
}

/* Counts and logs a message, or a call without messages, that has ended with this status of gRPC. */
static void note_end(const struct call *call, int status)
{
    const access_entry entry = { .method = "POST",
                                 .path = call->head.path,
                                 .status = 200,
                                 .grpc_status = status,
                                 .bytes_in = call->in.message_bytes,
                                 .bytes_out = call->reply.size };

    INLAY_CHECK(status >= 0 && status < GRPC_STATUSES);
    (void)atomic_fetch_add_explicit(&call->request.server->counts->grpc_answers[status], 1, memory_order_relaxed);
    access_log_write(&call->request, &entry);
}

void call_destroy(struct call *call)
{
    if (call->rest.exchange == NULL && (call->in.messages == 0 || call->working))
        note_end(call, call->ended ? call->result.status : GRPC_CANCELLED);
    release(call);
    strbuf_deinit(&call->in.bytes);
    strbuf_deinit(&call->in.taken);
    strbuf_deinit(&call->out);
    strbuf_deinit(&call->reply);
    strbuf_deinit(&call->head.fields);
    if (call->rest.exchange == NULL)
        request_deinit(&call->request);
    free(call);
}

/* Reads a grpc-timeout, 1 to 8 digits and a unit, as nanoseconds; 0: it is invalid. */
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

static void note_accepted(struct call *call, const char *value, size_t bytes)
{
    char list[128];

    (void)snprintf(list, sizeof list, "%.*s", (int)(bytes < sizeof list ? bytes : sizeof list - 1), value);
    for (int i = CODING_GZIP; i < CODING_UNKNOWN; i++)
        call->head.accepts[i] = coding_is_accepted(list, (coding)i);
}

void call_header(struct call *call, const char *name, size_t name_bytes, const char *value, size_t value_bytes)
{
    call->head.bytes += name_bytes + value_bytes + 32;
    if (call->streams->has_rest && !call->head.is_grpc &&
        call->head.bytes <= call->request.server->limits.header_bytes) {
        uint32_t sizes[2] = { (uint32_t)name_bytes, (uint32_t)value_bytes };

        strbuf_add(&call->head.fields, sizes, sizeof sizes);
        strbuf_add(&call->head.fields, name, name_bytes);
        strbuf_add(&call->head.fields, value, value_bytes);
    }
    if (is_name(name, name_bytes, ":path") && value_bytes < sizeof call->head.path)
        memcpy(call->head.path, value, value_bytes);
    else if (is_name(name, name_bytes, "content-type"))
        call->head.is_grpc = value_bytes >= 16 && memcmp(value, "application/grpc", 16) == 0;
    else if (is_name(name, name_bytes, "grpc-encoding"))
        call->head.message_coding = coding_find(value, value_bytes);
    else if (is_name(name, name_bytes, "grpc-accept-encoding"))
        note_accepted(call, value, value_bytes);
    else if (is_name(name, name_bytes, "grpc-timeout"))
        call->head.timeout_ns = read_timeout(value, value_bytes);
    else if (is_name(name, name_bytes, "traceparent") && value_bytes < sizeof call->head.traceparent)
        memcpy(call->head.traceparent, value, value_bytes);
    else if (is_name(name, name_bytes, "x-request-id") && value_bytes < sizeof call->head.request_id)
        memcpy(call->head.request_id, value, value_bytes);
    else if (is_name(name, name_bytes, "authorization") && value_bytes < sizeof call->head.authorization)
        memcpy(call->head.authorization, value, value_bytes);
}

static nghttp2_nv retry_field(const struct call *call, char *seconds, size_t room)
{
    return (nghttp2_nv){ (uint8_t *)(uintptr_t) "retry-after", (uint8_t *)seconds, 11,
                         (size_t)snprintf(seconds, room, "%u", call->request.retry_after), NGHTTP2_NV_FLAG_NONE };
}

static ssize_t read_out(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
                        nghttp2_data_source *source, void *user)
{
    struct call *call = source->ptr;
    size_t bytes = call->out.size - call->sent;

    INLAY_CHECK(call->sent <= call->out.size);
    (void)user;
    if (bytes > room)
        bytes = room;
    if (bytes > 0)
        memcpy(to, call->out.data + call->sent, bytes);
    call->sent += bytes;
    if (call->sent < call->out.size)
        return (ssize_t)bytes;
    call->out.size = call->sent = 0;
    if (call->out.capacity > CONNECTION_READ_BYTES) /* a stream need not keep the room of a large message */
        strbuf_deinit(&call->out);
    request_release_reply(&call->request);
    if (call->ended) {
        char status[8];
        nghttp2_nv trailers[4] = { { (uint8_t *)(uintptr_t) "grpc-status", (uint8_t *)status, 11, 0,
                                     NGHTTP2_NV_FLAG_NONE },
                                   { (uint8_t *)(uintptr_t) "grpc-message", (uint8_t *)call->result.text, 12,
                                     strlen(call->result.text), NGHTTP2_NV_FLAG_NONE } };
        char load[LOAD_BYTES], seconds[12];
        size_t count = call->result.text[0] != '\0' ? 2 : 1;

        trailers[0].valuelen = (size_t)snprintf(status, sizeof status, "%d", call->result.status);
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (call->request.retry_after > 0)
            trailers[count++] = retry_field(call, seconds, sizeof seconds);
        if (call->request.server->load_header) {
            load_report(call->request.server, false, load);
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

/* Whether replies are compressed: as the client's messages are. */
static bool compresses_replies(const struct call *call)
{
    return call->head.message_coding != CODING_IDENTITY && call->head.message_coding != CODING_UNKNOWN &&
           call->head.accepts[call->head.message_coding];
}

/* Writes the fields about compression, at most two, for a client that uses it. Returns their number. */
static size_t coding_fields(const struct call *call, nghttp2_nv *fields)
{
    static const nghttp2_nv known = HEADER("grpc-accept-encoding", "identity,deflate,gzip");
    size_t count = 0;

    if (call->head.message_coding == CODING_IDENTITY)
        return 0;
    fields[count++] = known;
    if (compresses_replies(call)) {
        const char *name = coding_name(call->head.message_coding);

        fields[count++] = (nghttp2_nv){ (uint8_t *)(uintptr_t) "grpc-encoding", (uint8_t *)(uintptr_t)name, 13,
                                        strlen(name), NGHTTP2_NV_FLAG_NONE };
    }
    return count;
}

static void begin_answer(struct call *call)
{
    nghttp2_nv headers[4] = { HEADER(":status", "200"), HEADER("content-type", "application/grpc") };
    size_t count = 2;
    nghttp2_data_provider provider = { .source.ptr = call, .read_callback = read_out };

    if (call->answering) {
        (void)nghttp2_session_resume_data(call->session, call->stream);
    } else {
        call->answering = true;
        count += coding_fields(call, headers + count);
        (void)nghttp2_submit_response(call->session, call->stream, headers, count, &provider);
    }
}

/* grpc-message: '%' and all bytes other than printable ASCII are written as %XX. */
static void set_text(struct call *call, const char *text)
{
    size_t used = 0;

    for (; *text != '\0' && used + 4 < sizeof call->result.text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c >= ' ' && c <= '~' && c != '%')
            call->result.text[used++] = (char)c;
        else
            used += (size_t)snprintf(call->result.text + used, sizeof call->result.text - used, "%%%02X", c);
    }
    call->result.text[used] = '\0';
}

/* Sends a response that has only a status. */
static void send_status(struct call *call)
{
    char status[8], seconds[12];
    nghttp2_nv headers[7] = { HEADER(":status", "200"),
                              HEADER("content-type", "application/grpc"),
                              { (uint8_t *)(uintptr_t) "grpc-status", (uint8_t *)status, 11, 0, NGHTTP2_NV_FLAG_NONE },
                              { (uint8_t *)(uintptr_t) "grpc-message", (uint8_t *)call->result.text, 12,
                                strlen(call->result.text), NGHTTP2_NV_FLAG_NONE } };
    size_t count = call->result.text[0] != '\0' ? 4 : 3;

    headers[2].valuelen = (size_t)snprintf(status, sizeof status, "%d", call->result.status);
    if (call->request.retry_after > 0)
        headers[count++] = retry_field(call, seconds, sizeof seconds);
    count += coding_fields(call, headers + count);
    call->answering = true;
    (void)nghttp2_submit_response(call->session, call->stream, headers, count, NULL);
}

void call_end(struct call *call, int status, const char *text)
{
    if (call->ended)
        return;
    call->ended = true;
    call->result.status = status;
    set_text(call, text);
    if (call->session == NULL)
        return;
    if (call->answering || call->out.size > 0)
        begin_answer(call); /* the status follows the pending output */
    else
        send_status(call);
}

void call_pack(struct call *call, const ProtobufCMessage *message)
{
    size_t bytes = protobuf_c_message_get_packed_size(message);
    char *to = strbuf_reserve(&call->reply, bytes + 1);

    if (to != NULL)
        call->reply.size += protobuf_c_message_pack(message, (uint8_t *)to);
}

/* Limit of the memory of an unpacked message: many tiny fields must not take many times its size. An empty text, which
 * has two bytes in the message, takes up to 57 for each of them. */
enum { UNPACKED_BYTES = 64, ALWAYS_UNPACKED_BYTES = 16 };

struct budget {
    size_t left;
    bool is_exceeded;
};

/* Messages take no more memory than all bodies may have, unless that is little. */
static size_t budget_of(const struct call *call, size_t bytes)
{
    const uint64_t limit = call->request.server->limits.inflight_bytes;
    const size_t least = ALWAYS_UNPACKED_BYTES * bytes + 65536, most = UNPACKED_BYTES * bytes + 65536;

    if (bytes > SIZE_MAX / (2 * UNPACKED_BYTES))
        return SIZE_MAX / 2;
    return limit == 0 || most <= limit ? most : limit > least ? (size_t)limit : least;
}

static void *budget_alloc(void *user, size_t bytes)
{
    struct budget *budget = user;

    if (bytes > SIZE_MAX / 2 || budget->left < bytes + 16) {
        budget->is_exceeded = true;
        return NULL;
    }
    budget->left -= bytes + 16;
    return malloc(bytes > 0 ? bytes : 1);
}

static void budget_free(void *user, void *memory)
{
    (void)user;
    free(memory);
}

void *call_unpack(struct call *call, const ProtobufCMessageDescriptor *type, const uint8_t *message, size_t bytes)
{
    const size_t most = budget_of(call, bytes);
    struct budget budget = { .left = most };
    ProtobufCAllocator allocator = { budget_alloc, budget_free, &budget };
    const char *bad = bytes > 0 ? grpc_bad_text(type, message, bytes) : NULL;
    void *unpacked = bad == NULL ? protobuf_c_message_unpack(type, &allocator, bytes, message) : NULL;
    char text[240];

    (void)snprintf(text, sizeof text, "the text of field '%.64s' is not UTF-8, or has the character U+0000",
                   bad != NULL ? bad : "");
    if (unpacked == NULL && bad == NULL && budget.is_exceeded)
        (void)snprintf(text, sizeof text,
                       "the message of %zu bytes has many small fields and would take more than %zu bytes of memory; "
                       "send fewer, or raw_input_contents",
                       bytes, most);
    if (unpacked == NULL && (bad != NULL || budget.is_exceeded))
        call_fail(call, bad != NULL ? GRPC_INVALID_ARGUMENT : GRPC_RESOURCE_EXHAUSTED, text);
    else if (unpacked == NULL)
        call_fail(call, GRPC_INVALID_ARGUMENT, "the message does not match the method's request type");
    return unpacked;
}

void call_free_unpacked(void *unpacked)
{
    if (unpacked != NULL)
        protobuf_c_message_free_unpacked(unpacked,
                                         NULL); /* the default allocator: its free() is that of budget_free() */
}

void call_fail(struct call *call, int status, const char *text)
{
    strbuf_deinit(&call->reply);
    call->message.status = status;
    (void)snprintf(call->message.text, sizeof call->message.text, "%s", text);
}

static int status_of(inlay_status status)
{
    switch (status) {
    case INLAY_INVALID_ARGUMENT:
    case INLAY_SHAPE_MISMATCH:
    case INLAY_INVALID_MODEL: /* of a run: with these inputs, such as a negative size */
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
    case INLAY_IO_ERROR: /* of a run: its model's file was written to */
        return GRPC_UNAVAILABLE;
    default:
        return GRPC_INTERNAL;
    }
}

void call_fail_diag(struct call *call, const inlay_diag *diag)
{
    call_fail(call, status_of(diag->code), diag->text[0] != '\0' ? diag->text : inlay_status_text(diag->code));
}

/* In a stream of requests, a failure is sent as a message, and the stream continues. */
static void wrap_stream_reply(struct call *call)
{
    Inference__StreamInferReply reply = INFERENCE__STREAM_INFER_REPLY__INIT;

    if (call->message.status == GRPC_OK)
        return; /* grpc_infer() has wrapped it */
    reply.error_message = call->message.text;
    if (!utf8_is_valid(call->message.text, strlen(call->message.text)))
        reply.error_message = (char *)(uintptr_t) "the request is refused, and the text of the reason is not UTF-8";
    call->message.status = GRPC_OK;
    call_pack(call, &reply.base);
}

/* Compresses a large reply. Returns the first byte of its prefix. */
static uint8_t compress_reply(struct call *call)
{
    struct strbuf compressed = { .data = NULL };

    if (!compresses_replies(call) || call->reply.failed || call->reply.size < MIN_COMPRESSED_BYTES)
        return 0;
    if (!coding_compress(call->head.message_coding, call->reply.data, call->reply.size, &compressed) ||
        compressed.size >= call->reply.size) {
        strbuf_deinit(&compressed);
        return 0;
    }
    strbuf_deinit(&call->reply);
    call->reply = compressed;
    return 1;
}

/* Sends the reply as a message, the last one or not. */
static void send_reply(struct call *call, bool is_last)
{
    uint8_t prefix[PREFIX] = { compress_reply(call) };
    inlay_diag diag = INLAY_DIAG_INIT;

    if (request_hold_reply(&call->request, call->reply.size, true, &diag) != INLAY_OK) {
        strbuf_deinit(&call->reply);
        call_end(call, GRPC_RESOURCE_EXHAUSTED, diag.text);
        return;
    }
    for (int i = 1; i < PREFIX; i++)
        prefix[i] = (uint8_t)(call->reply.size >> (8 * (4 - i)));
    strbuf_add(&call->out, prefix, sizeof prefix);
    strbuf_add(&call->out, call->reply.data, call->reply.size);
    if (call->reply.failed || call->out.failed || call->reply.size > UINT32_MAX)
        call_end(call, GRPC_RESOURCE_EXHAUSTED, "out of memory for the reply");
    else if (is_last)
        call_end(call, GRPC_OK, "");
    else
        begin_answer(call);
    strbuf_deinit(&call->reply);
}

void call_send(struct call *call)
{
    send_reply(call, false);
}

void call_finish_message(struct call *call)
{
    INLAY_CHECK(call->head.method != NULL || call->ended || call->session == NULL);

    call->working = false;
    call->waits = WAITS_FOR_REPLY;
    note_end(call, call->session != NULL ? call->message.status : GRPC_CANCELLED);
    release(call);
    strbuf_deinit(&call->in.taken);
    INLAY_CHECK(call->in.bytes.size <= call->request.held_bytes);
    server_release(call->request.server, call->request.held_bytes - call->in.bytes.size);
    call->request.held_bytes = call->in.bytes.size;
    if (call->session == NULL || call->ended)
        return;
    if (call->head.method->wraps_failures)
        wrap_stream_reply(call);
    if (call->message.status != GRPC_OK)
        call_end(call, call->message.status, call->message.text);
    else
        send_reply(call, !call->head.method->streams);
}

static uint32_t message_bytes(const struct call *call)
{
    const uint8_t *prefix = (const uint8_t *)call->in.bytes.data;

    return (uint32_t)prefix[1] << 24 | (uint32_t)prefix[2] << 16 | (uint32_t)prefix[3] << 8 | prefix[4];
}

static bool runs_model(const struct call *call)
{
    return call->head.method->run == grpc_infer;
}

/* Largest message of the call's method. Those that do not run a model are always read by the connection's thread. */
static uint64_t most_bytes(const struct call *call)
{
    const uint64_t most = call->request.server->limits.body_bytes;

    return runs_model(call) || most < MAX_OTHER_BYTES ? most : MAX_OTHER_BYTES;
}

static const char *size_text(const struct call *call)
{
    return runs_model(call) ? "the message is larger than max_body_bytes"
                            : "the message is larger than 1 MiB, the limit of methods that do not run a model";
}

/* Checks the prefix of the next message. false: it has not arrived, or the call has ended because of it. */
static bool check_prefix(struct call *call)
{
    const bool is_compressed = call->in.bytes.size >= PREFIX && call->in.bytes.data[0] != 0;

    if (call->in.bytes.size < PREFIX)
        return false;
    if (is_compressed && (call->in.bytes.data[0] != 1 || call->head.message_coding == CODING_IDENTITY))
        call_end(call, GRPC_UNIMPLEMENTED, "the message is compressed, but the call has no grpc-encoding");
    else if (message_bytes(call) > most_bytes(call))
        call_end(call, GRPC_RESOURCE_EXHAUSTED, size_text(call));
    return !call->ended;
}

bool call_data(struct call *call, const uint8_t *data, size_t bytes)
{
    if (call->ended)
        return true;
    if (call->in.bytes.size + bytes > 2 * call->request.server->limits.body_bytes + 65536)
        return false; /* the client sends faster than it reads replies */
    if (!server_hold(call->request.server, call->request.held_bytes, bytes)) {
        strbuf_deinit(&call->in.bytes);
        call->request.retry_after = 1;
        call_end(call, GRPC_RESOURCE_EXHAUSTED,
                 "the messages of all calls in progress exceed max_inflight_bytes; try again later");
        return true;
    }
    call->request.held_bytes += bytes;
    strbuf_add(&call->in.bytes, data, bytes);
    (void)atomic_fetch_add_explicit(&call->request.server->counts->moved_bytes, bytes, memory_order_relaxed);
    if (call->in.bytes.failed)
        call_end(call, GRPC_RESOURCE_EXHAUSTED, "out of memory for the message");
    else
        (void)check_prefix(call);
    return true;
}

struct expansion {
    struct call *call;
    struct strbuf message;
};

static bool take_expanded(void *user, const void *part, size_t bytes)
{
    struct expansion *expansion = user;
    struct call *call = expansion->call;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (!request_goes_on(&call->request, &diag)) {
        call_fail_diag(call, &diag);
    } else if (bytes > most_bytes(call) - expansion->message.size) {
        call_fail(call, GRPC_RESOURCE_EXHAUSTED, size_text(call));
    } else if (!server_hold(call->request.server, call->request.held_bytes, bytes)) {
        call->request.retry_after = 1;
        call_fail(call, GRPC_RESOURCE_EXHAUSTED,
                  "the messages of all calls in progress exceed max_inflight_bytes; try again later");
    } else {
        call->request.held_bytes += bytes;
        strbuf_add(&expansion->message, part, bytes);
        if (expansion->message.failed)
            call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory for the message");
    }
    return call->message.status == GRPC_OK;
}

/* Runs the method with a message, which is decompressed before if it is compressed. */
static void run(struct call *call, const uint8_t *message, size_t bytes)
{
    struct expansion expansion = { .call = call };
    inlay_diag diag = INLAY_DIAG_INIT;

    if (!call->in.is_coded) {
        call->head.method->run(call, message, bytes);
        return;
    }
    if (coding_expand(call->head.message_coding, message, bytes, take_expanded, &expansion, &diag) != INLAY_OK)
        call_fail_diag(call, &diag);
    else if (call->message.status == GRPC_OK)
        call->head.method->run(call, (const uint8_t *)expansion.message.data, expansion.message.size);
    strbuf_deinit(&expansion.message);
}

/* Moves the first message out of `in`, which may grow while another thread reads the message. */
static void take_out(struct call *call, size_t bytes)
{
    if (call->in.bytes.size == PREFIX + bytes) {
        call->in.taken = call->in.bytes;
        call->in.bytes = (struct strbuf){ .data = NULL };
        return;
    }
    strbuf_add(&call->in.taken, call->in.bytes.data, PREFIX + bytes);
    memmove(call->in.bytes.data, call->in.bytes.data + PREFIX + bytes, call->in.bytes.size - PREFIX - bytes);
    call->in.bytes.size -= PREFIX + bytes;
}

/* Runs the message that was taken out, on another thread. */
static void prepare(struct request *request, const inlay_diag *failure)
{
    struct call *call = (struct call *)(void *)request; /* its first member */

    if (failure != NULL)
        call_fail_diag(call, failure);
    else
        run(call, (const uint8_t *)call->in.taken.data + PREFIX, call->in.message_bytes);
}

/* Runs the first message of `in` on this thread. */
static void run_here(struct call *call, size_t bytes)
{
    run(call, (const uint8_t *)call->in.bytes.data + PREFIX, bytes);
    if (call->in.bytes.size > PREFIX + bytes)
        memmove(call->in.bytes.data, call->in.bytes.data + PREFIX + bytes, call->in.bytes.size - PREFIX - bytes);
    call->in.bytes.size -= PREFIX + bytes;
    if (call->in.bytes.size == 0 &&
        bytes > CONNECTION_READ_BYTES) /* a stream need not keep the room of a large message */
        strbuf_deinit(&call->in.bytes);
}

/* Handles the next message, if it has arrived completely. */
static bool take_message(struct call *call)
{
    const uint64_t allowed =
        call->head.timeout_ns > 0 ? call->head.timeout_ns : call->request.server->limits.timeout_ns;
    size_t bytes;

    if (!check_prefix(call))
        return false;
    bytes = message_bytes(call);
    if (call->in.bytes.size - PREFIX < bytes)
        return false;
    INLAY_CHECK(!call->working);
    call->in.messages++;
    call->message.status = GRPC_OK;
    call->working = true;
    call->in.message_bytes = bytes;
    call->in.is_coded = call->in.bytes.data[0] != 0;
    call->request.received_ns = clock_ns();
    if (call->in.messages > 1)
        call->request.arrived_ns = call->request.received_ns;
    call->request.job.deadline_ns = allowed > 0 ? call->request.arrived_ns + allowed : 0;
    if (!runs_model(call) || !prepare_is_needed(bytes, call->in.is_coded)) {
        run_here(call, bytes);
        return true;
    }
    take_out(call, bytes);
    if (call->in.taken.failed)
        call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory for the message");
    else
        prepare_submit(call->request.server->prepare, &call->request, prepare_is_large(bytes, call->in.is_coded),
                       prepare);
    return true;
}

void call_advance(struct call *call)
{
    while (!call->ended && !call->working && call->session != NULL && (call->head.method->streams || call->in.ended)) {
        if (take_message(call)) {
            if (!call->request.suspended)
                call_finish_message(call);
            continue;
        }
        if (call->ended || !call->in.ended)
            break;
        if (call->in.bytes.size > 0 || (!call->head.method->streams && call->in.messages == 0))
            call_end(call, GRPC_INTERNAL, "the call ended within a message");
        else
            call_end(call, GRPC_OK, "");
    }
}
