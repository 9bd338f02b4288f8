/* serve/protocol/http2_connection.h - HTTP/2 on a connection: bytes between the socket and nghttp2. */
#ifndef SERVE_HTTP2_CONNECTION_H
#define SERVE_HTTP2_CONNECTION_H
#include "serve/network/connection.h"

/* The connection speaks HTTP/2. data: bytes that were received already. false: it has to be closed. */
bool http2_open(struct connection *connection, const char *data, size_t bytes);
#endif
