/* serve/protocol/http1_connection.h - HTTP/1.1 on a connection: requests in, replies out (RFC 9112). The parser is
 * http1.c. */
#ifndef SERVE_HTTP1_CONNECTION_H
#define SERVE_HTTP1_CONNECTION_H
#include "serve/network/connection.h"

/* The connection speaks HTTP/1.1, unless its first bytes are HTTP/2's preface. false: out of memory. */
bool http1_open(struct connection *connection);
/* Answers 503 before any request, because all max_connections are in use. false: it has to be closed. */
bool http1_refuse(struct connection *connection);
#endif
