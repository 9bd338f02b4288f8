/* grpc_fake.h - gRPC connections of the server without its models: each method echoes its message, and inference
 * requests are parsed as in the server. */
#ifndef FUZZ_GRPC_FAKE_H
#define FUZZ_GRPC_FAKE_H
#include "serve/network/connection.h"
#include "serve/grpc/grpc_internal.h"

typedef struct fake_link {
    struct server server;
    board_counts counts;
    struct connection connection; /* of the streams; only its address is used */
    http2_streams streams;
    nghttp2_session *session;
} fake_link;

bool fake_open(fake_link *link);
/* Processes bytes from the client. Returns false if the connection has ended. */
bool fake_receive(fake_link *link, const uint8_t *data, size_t bytes);
/* Passes all pending output of the server to take, which may be NULL. */
void fake_send(fake_link *link, void (*take)(void *user, const uint8_t *data, size_t bytes), void *user);
void fake_close(fake_link *link);

/* A conforming client that makes one call: data[0] selects the method, data[1] the size of the pieces in which it sends
 * the rest. */
typedef struct fake_client {
    nghttp2_session *session;
    const uint8_t *data;
    size_t bytes, at, step;
    bool has_status; /* the call ended with a status, or was reset */
} fake_client;
bool fake_client_open(fake_client *client, const uint8_t *data, size_t bytes);
#endif
