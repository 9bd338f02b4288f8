/* grpc_client.h - a simple gRPC client: nghttp2 over a socket, optionally with TLS. */
#ifndef SERVE_GRPC_CLIENT_H
#define SERVE_GRPC_CLIENT_H
#include "client.h"
#include <gnutls/gnutls.h>
#include <nghttp2/nghttp2.h>
#include <protobuf-c/protobuf-c.h>

#define SERVICE "/inference.GRPCInferenceService/"

typedef struct grpc_call {
    const char *path, *timeout, *token; /* timeout and token may be NULL */
    const char *coding;                 /* grpc-encoding and grpc-accept-encoding; NULL: none */
    bool is_coded;                      /* the reply has the same grpc-encoding */
    uint8_t sent[8192];                 /* framed messages */
    size_t sent_bytes, sent_at;
    uint8_t got[16384];
    size_t got_bytes;
    int status; /* grpc-status; -1: none received */
    int code;   /* :status */
    char text[512];
    bool closed;
    int32_t stream;
} grpc_call;

typedef struct grpc_client {
    int fd;
    gnutls_session_t tls; /* NULL: none */
    nghttp2_session *session;
} grpc_client;

/* Returns the port in the server's log after "grpc://127.0.0.1:" or "grpcs://127.0.0.1:". */
int grpc_port_of(const struct serving *serving);
int grpc_connect(int port);
void grpc_open(grpc_client *client, int port);
/* Opens a connection with TLS. Returns false if the server refuses it. With TLS 1.3 the server may also refuse it after
 * the client's handshake; calls then get no answer. */
bool grpc_open_tls(grpc_client *client, int port, gnutls_certificate_credentials_t credentials);
void grpc_close(grpc_client *client);
void grpc_submit(grpc_client *client, grpc_call *call);
void grpc_wait(grpc_client *client, grpc_call *call);
/* Waits for `count` messages, or until the call is closed. */
void grpc_wait_messages(grpc_client *client, grpc_call *call, uint32_t count);

/* Sends a request for REST with this body. */
void grpc_submit_rest(grpc_client *client, grpc_call *call, const char *method, const char *body);

/* Appends a message to the call. */
void grpc_add(grpc_call *call, const ProtobufCMessage *message);
/* Appends a ModelInfer request with one input x of floats, of which `bytes` bytes are sent. */
void grpc_add_infer(grpc_call *call, const char *model, const int64_t *shape, size_t rank, const float *numbers,
                    size_t bytes);
/* Returns the index-th received message, unpacked; NULL if there are fewer. */
void *grpc_message(const grpc_call *call, uint32_t index, const ProtobufCMessageDescriptor *type);
/* Makes the call on a new connection; fails the test unless it ends with this status and a text that contains
 * `part`. */
void grpc_expect(int port, const char *path, grpc_call *call, int status, const char *part);
#endif
