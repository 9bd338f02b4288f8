/* grpc_fake.h - the server's connections over gRPC without its models: each method answers with what it was sent, and
 * an inference request is read as the server reads it. */
#ifndef FUZZ_GRPC_FAKE_H
#define FUZZ_GRPC_FAKE_H
#include "serve/grpc_internal.h"

typedef struct fake_link {
    struct server server;
    grpc_streams streams;
    nghttp2_session *session;
} fake_link;

bool fake_open(fake_link *link);
/* Bytes from the client; false: the connection is at its end. */
bool fake_receive(fake_link *link, const uint8_t *data, size_t bytes);
/* What the server has to send is given to take (may be NULL), until there is no more. */
void fake_send(fake_link *link, void (*take)(void *user, const uint8_t *data, size_t bytes), void *user);
void fake_close(fake_link *link);

/* A good client that makes one call: data[0] says of which method, data[1] in how large pieces it sends the rest. */
typedef struct fake_client {
    nghttp2_session *session;
    const uint8_t *data;
    size_t bytes, at, step;
    bool has_status; /* the call ended with one, or was reset */
} fake_client;
bool fake_client_open(fake_client *client, const uint8_t *data, size_t bytes);
#endif
