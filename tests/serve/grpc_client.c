#include "grpc_client.h"
#include "inference.pb-c.h"
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cmocka_all.h"

static ssize_t send_bytes(nghttp2_session *session, const uint8_t *data, size_t bytes, int flags, void *user)
{
    const grpc_client *client = user;

    (void)session;
    (void)flags;
    return client->tls != NULL ? gnutls_record_send(client->tls, data, bytes)
                               : send(client->fd, data, bytes, MSG_NOSIGNAL);
}

static ssize_t read_sent(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
                         nghttp2_data_source *source, void *user)
{
    grpc_call *call = source->ptr;
    size_t bytes = call->sent_bytes - call->sent_at;

    (void)session;
    (void)stream;
    (void)user;
    bytes = bytes < room ? bytes : room;
    memcpy(to, call->sent + call->sent_at, bytes);
    call->sent_at += bytes;
    if (call->sent_at == call->sent_bytes)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)bytes;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_bytes,
                     const uint8_t *value, size_t value_bytes, uint8_t flags, void *user)
{
    grpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)flags;
    (void)user;
    if (call != NULL && name_bytes == 11 && memcmp(name, "grpc-status", 11) == 0)
        call->status = (int)strtol((const char *)value, NULL, 10);
    if (call != NULL && name_bytes == 13 && memcmp(name, "grpc-encoding", 13) == 0)
        call->is_coded = call->coding != NULL && value_bytes == strlen(call->coding) &&
                         memcmp(value, call->coding, value_bytes) == 0;
    if (call != NULL && name_bytes == 7 && memcmp(name, ":status", 7) == 0)
        call->code = (int)strtol((const char *)value, NULL, 10);
    if (call != NULL && name_bytes == 12 && memcmp(name, "grpc-message", 12) == 0)
        (void)snprintf(call->text, sizeof call->text, "%.*s", (int)value_bytes, (const char *)value);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t bytes,
                   void *user)
{
    grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);

    (void)flags;
    (void)user;
    assert_true(call != NULL && call->got_bytes + bytes <= sizeof call->got);
    memcpy(call->got + call->got_bytes, data, bytes);
    call->got_bytes += bytes;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
    grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);

    (void)code;
    (void)user;
    if (call != NULL)
        call->closed = true;
    return 0;
}

static void begin(grpc_client *client)
{
    nghttp2_session_callbacks *callbacks;

    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_send_callback(callbacks, send_bytes);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    assert_int_equal(nghttp2_session_client_new(&client->session, callbacks, client), 0);
    nghttp2_session_callbacks_del(callbacks);
    assert_int_equal(nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, NULL, 0), 0);
}

void grpc_close(grpc_client *client)
{
    nghttp2_session_del(client->session);
    if (client->tls != NULL)
        gnutls_deinit(client->tls);
    (void)close(client->fd);
}

int grpc_port_of(const struct serving *serving)
{
    char path[128], text[4096];
    const char *at;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/log", serving->folder);
    file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    at = strstr(text, "listening on grpc");
    assert_non_null(at);
    at = strstr(at, "://127.0.0.1:");
    assert_non_null(at);
    return (int)strtol(at + strlen("://127.0.0.1:"), NULL, 10);
}

int grpc_connect(int port)
{
    struct serving at = { .port = port };
    int fd = client_connect(&at);

    assert_true(fd >= 0);
    return fd;
}

void grpc_open(grpc_client *client, int port)
{
    *client = (grpc_client){ .fd = grpc_connect(port) };
    begin(client);
}

bool grpc_open_tls(grpc_client *client, int port, gnutls_certificate_credentials_t credentials)
{
    const gnutls_datum_t protocol = { (unsigned char *)(uintptr_t) "h2", 2 };
    gnutls_datum_t chosen;

    *client = (grpc_client){ .fd = grpc_connect(port) };
    assert_int_equal(gnutls_init(&client->tls, GNUTLS_CLIENT), 0);
    assert_int_equal(gnutls_set_default_priority(client->tls), 0);
    assert_int_equal(gnutls_credentials_set(client->tls, GNUTLS_CRD_CERTIFICATE, credentials), 0);
    assert_int_equal(gnutls_alpn_set_protocols(client->tls, &protocol, 1, 0), 0);
    gnutls_transport_set_int(client->tls, client->fd);
    if (gnutls_handshake(client->tls) != 0) {
        gnutls_deinit(client->tls);
        (void)close(client->fd);
        return false;
    }
    assert_int_equal(gnutls_alpn_get_selected_protocol(client->tls, &chosen), 0);
    begin(client);
    return true;
}

#define NV(name, value)                                                                                                \
    {                                                                                                                  \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE \
    }

void grpc_submit(grpc_client *client, grpc_call *call)
{
    const nghttp2_nv headers[] = { NV(":method", "POST"),
                                   NV(":scheme", "http"),
                                   NV(":path", call->path),
                                   NV(":authority", "localhost"),
                                   NV("content-type", "application/grpc"),
                                   NV("authorization", call->token != NULL ? call->token : "none"),
                                   NV("grpc-encoding", call->coding != NULL ? call->coding : "identity"),
                                   NV("grpc-accept-encoding", call->coding != NULL ? call->coding : "identity"),
                                   NV("grpc-timeout", call->timeout != NULL ? call->timeout : "") };
    nghttp2_data_provider provider = { .source.ptr = call, .read_callback = read_sent };

    call->status = -1;
    call->stream =
        nghttp2_submit_request(client->session, NULL, headers, call->timeout != NULL ? 9 : 8, &provider, call);
    assert_true(call->stream > 0);
    assert_true(nghttp2_session_send(client->session) == 0 || client->tls != NULL);
}

void grpc_submit_rest(grpc_client *client, grpc_call *call, const char *method, const char *body)
{
    const nghttp2_nv headers[] = { NV(":method", method), NV(":path", call->path), NV(":scheme", "http"),
                                   NV(":authority", "localhost"), NV("user-agent", "test") };
    nghttp2_data_provider provider = { .source.ptr = call, .read_callback = read_sent };

    call->sent_bytes = strlen(body);
    assert_true(call->sent_bytes <= sizeof call->sent);
    memcpy(call->sent, body, call->sent_bytes);
    call->stream =
        nghttp2_submit_request(client->session, NULL, headers, 5, call->sent_bytes > 0 ? &provider : NULL, call);
    assert_true(call->stream > 0);
    assert_true(nghttp2_session_send(client->session) == 0 || client->tls != NULL);
}

static uint32_t message_count(const grpc_call *call)
{
    const uint8_t *at = call->got, *end = call->got + call->got_bytes;
    uint32_t count = 0;

    while (end - at >= 5 && (size_t)(end - at) >= 5 + ((size_t)at[3] << 8 | at[4])) {
        at += 5 + ((size_t)at[3] << 8 | at[4]);
        count++;
    }
    return count;
}

void grpc_wait_messages(grpc_client *client, grpc_call *call, uint32_t count)
{
    while (!call->closed && message_count(call) < count) {
        uint8_t bytes[16384];
        ssize_t n = client->tls != NULL ? gnutls_record_recv(client->tls, bytes, sizeof bytes)
                                        : recv(client->fd, bytes, sizeof bytes, 0);

        if (n <= 0)
            return;
        assert_int_equal(nghttp2_session_mem_recv(client->session, bytes, (size_t)n), n);
        assert_true(nghttp2_session_send(client->session) == 0 || client->tls != NULL);
    }
}

void grpc_wait(grpc_client *client, grpc_call *call)
{
    grpc_wait_messages(client, call, UINT32_MAX);
}

void grpc_add(grpc_call *call, const ProtobufCMessage *message)
{
    size_t bytes = protobuf_c_message_get_packed_size(message);
    uint8_t *to = call->sent + call->sent_bytes;

    assert_true(call->sent_bytes + bytes + 5 <= sizeof call->sent);
    to[0] = 0;
    for (int i = 0; i < 4; i++)
        to[1 + i] = (uint8_t)(bytes >> (24 - 8 * i));
    (void)protobuf_c_message_pack(message, to + 5);
    call->sent_bytes += bytes + 5;
}

void grpc_add_infer(grpc_call *call, const char *model, const int64_t *shape, size_t rank, const float *numbers,
                    size_t bytes)
{
    Inference__Tensor tensor = INFERENCE__TENSOR__INIT, *list = &tensor;
    Inference__InferRequest request = INFERENCE__INFER_REQUEST__INIT;
    ProtobufCBinaryData data = { bytes, (uint8_t *)(uintptr_t)numbers };

    tensor.name = (char *)(uintptr_t) "x";
    tensor.datatype = (char *)(uintptr_t) "FP32";
    tensor.shape = (int64_t *)(uintptr_t)shape;
    tensor.n_shape = rank;
    request.model_name = (char *)(uintptr_t)model;
    request.inputs = &list;
    request.n_inputs = 1;
    request.raw_input_contents = &data;
    request.n_raw_input_contents = 1;
    grpc_add(call, &request.base);
}

void *grpc_message(const grpc_call *call, uint32_t index, const ProtobufCMessageDescriptor *type)
{
    const uint8_t *at = call->got, *end = call->got + call->got_bytes;

    for (;; index--) {
        size_t bytes;

        if (end - at < 5)
            return NULL;
        bytes = (size_t)at[3] << 8 | at[4];
        assert_true((size_t)(end - at) >= 5 + bytes);
        if (index == 0)
            return protobuf_c_message_unpack(type, NULL, bytes, at + 5);
        at += 5 + bytes;
    }
}

void grpc_expect(int port, const char *path, grpc_call *call, int status, const char *part)
{
    grpc_client client;

    call->path = path;
    grpc_open(&client, port);
    grpc_submit(&client, call);
    grpc_wait(&client, call);
    grpc_close(&client);
    if (call->status != status || strstr(call->text, part) == NULL)
        fail_msg("%s: expected status %d with '%s', got %d: %s", path, status, part, call->status, call->text);
}
