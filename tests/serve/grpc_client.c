#include "grpc_client.h"
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cmocka_all.h"

static ssize_t send_bytes(nghttp2_session *session, const uint8_t *data, size_t bytes, int flags, void *user)
{
    const grpc_client *k = user;

    (void)session;
    (void)flags;
    return k->tls != NULL ? gnutls_record_send(k->tls, data, bytes) : send(k->fd, data, bytes, MSG_NOSIGNAL);
}

static ssize_t read_sent(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
                         nghttp2_data_source *source, void *user)
{
    grpc_call *c = source->ptr;
    size_t bytes = c->sent_bytes - c->sent_at;

    (void)session;
    (void)stream;
    (void)user;
    bytes = bytes < room ? bytes : room;
    memcpy(to, c->sent + c->sent_at, bytes);
    c->sent_at += bytes;
    if (c->sent_at == c->sent_bytes)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)bytes;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_bytes,
                     const uint8_t *value, size_t value_bytes, uint8_t flags, void *user)
{
    grpc_call *c = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)flags;
    (void)user;
    if (c != NULL && name_bytes == 11 && memcmp(name, "grpc-status", 11) == 0)
        c->status = (int)strtol((const char *)value, NULL, 10);
    if (c != NULL && name_bytes == 12 && memcmp(name, "grpc-message", 12) == 0)
        (void)snprintf(c->text, sizeof c->text, "%.*s", (int)value_bytes, (const char *)value);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t bytes,
                   void *user)
{
    grpc_call *c = nghttp2_session_get_stream_user_data(session, stream);

    (void)flags;
    (void)user;
    assert_true(c != NULL && c->got_bytes + bytes <= sizeof c->got);
    memcpy(c->got + c->got_bytes, data, bytes);
    c->got_bytes += bytes;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
    grpc_call *c = nghttp2_session_get_stream_user_data(session, stream);

    (void)code;
    (void)user;
    if (c != NULL)
        c->closed = true;
    return 0;
}

static void begin(grpc_client *k)
{
    nghttp2_session_callbacks *callbacks;

    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_send_callback(callbacks, send_bytes);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    assert_int_equal(nghttp2_session_client_new(&k->session, callbacks, k), 0);
    nghttp2_session_callbacks_del(callbacks);
    assert_int_equal(nghttp2_submit_settings(k->session, NGHTTP2_FLAG_NONE, NULL, 0), 0);
}

void grpc_close(grpc_client *k)
{
    nghttp2_session_del(k->session);
    if (k->tls != NULL)
        gnutls_deinit(k->tls);
    (void)close(k->fd);
}

int grpc_port_of(const struct serving *s)
{
    char path[128], text[4096];
    const char *at;
    FILE *f;

    (void)snprintf(path, sizeof path, "%s/log", s->folder);
    f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    (void)fclose(f);
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

void grpc_open(grpc_client *k, int port)
{
    *k = (grpc_client){ .fd = grpc_connect(port) };
    begin(k);
}

bool grpc_open_tls(grpc_client *k, int port, gnutls_certificate_credentials_t credentials)
{
    const gnutls_datum_t protocol = { (unsigned char *)(uintptr_t) "h2", 2 };
    gnutls_datum_t chosen;

    *k = (grpc_client){ .fd = grpc_connect(port) };
    assert_int_equal(gnutls_init(&k->tls, GNUTLS_CLIENT), 0);
    assert_int_equal(gnutls_set_default_priority(k->tls), 0);
    assert_int_equal(gnutls_credentials_set(k->tls, GNUTLS_CRD_CERTIFICATE, credentials), 0);
    assert_int_equal(gnutls_alpn_set_protocols(k->tls, &protocol, 1, 0), 0);
    gnutls_transport_set_int(k->tls, k->fd);
    if (gnutls_handshake(k->tls) != 0) {
        gnutls_deinit(k->tls);
        (void)close(k->fd);
        return false;
    }
    assert_int_equal(gnutls_alpn_get_selected_protocol(k->tls, &chosen), 0);
    begin(k);
    return true;
}

#define NV(name, value)                                                                                                \
    {                                                                                                                  \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE \
    }

void grpc_submit(grpc_client *k, grpc_call *c)
{
    const nghttp2_nv headers[] = { NV(":method", "POST"),
                                   NV(":scheme", "http"),
                                   NV(":path", c->path),
                                   NV(":authority", "a"),
                                   NV("content-type", "application/grpc"),
                                   NV("authorization", c->token != NULL ? c->token : "none"),
                                   NV("grpc-timeout", c->timeout != NULL ? c->timeout : "") };
    nghttp2_data_provider provider = { .source.ptr = c, .read_callback = read_sent };

    c->status = -1;
    c->stream = nghttp2_submit_request(k->session, NULL, headers, c->timeout != NULL ? 7 : 6, &provider, c);
    assert_true(c->stream > 0);
    assert_true(nghttp2_session_send(k->session) == 0 || k->tls != NULL);
}

void grpc_wait(grpc_client *k, grpc_call *c)
{
    while (!c->closed) {
        uint8_t bytes[16384];
        ssize_t n =
            k->tls != NULL ? gnutls_record_recv(k->tls, bytes, sizeof bytes) : recv(k->fd, bytes, sizeof bytes, 0);

        if (n <= 0)
            return;
        assert_int_equal(nghttp2_session_mem_recv(k->session, bytes, (size_t)n), n);
        assert_true(nghttp2_session_send(k->session) == 0 || k->tls != NULL);
    }
}

/* ------------------------------------------------------------------ messages */

void grpc_add(grpc_call *c, const ProtobufCMessage *message)
{
    size_t bytes = protobuf_c_message_get_packed_size(message);
    uint8_t *to = c->sent + c->sent_bytes;

    assert_true(c->sent_bytes + bytes + 5 <= sizeof c->sent);
    to[0] = 0;
    for (int i = 0; i < 4; i++)
        to[1 + i] = (uint8_t)(bytes >> (24 - 8 * i));
    (void)protobuf_c_message_pack(message, to + 5);
    c->sent_bytes += bytes + 5;
}

/* The index-th message that came, unpacked; NULL: not so many. */
void *grpc_message(const grpc_call *c, uint32_t index, const ProtobufCMessageDescriptor *type)
{
    const uint8_t *at = c->got, *end = c->got + c->got_bytes;

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

void grpc_expect(int port, const char *path, grpc_call *c, int status, const char *part)
{
    grpc_client k;

    c->path = path;
    grpc_open(&k, port);
    grpc_submit(&k, c);
    grpc_wait(&k, c);
    grpc_close(&k);
    if (c->status != status || strstr(c->text, part) == NULL)
        fail_msg("%s: expected status %d with '%s', got %d: %s", path, status, part, c->status, c->text);
}
