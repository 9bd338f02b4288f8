/* serve/protocol/protocol.h - the choice between HTTP/1.1 and HTTP/2. */
#ifndef SERVE_PROTOCOL_H
#define SERVE_PROTOCOL_H
#include "serve/network/connection.h"

/* Opens the protocol of a new connection. ALPN has chosen it, or the socket is gRPC's. A connection without TLS begins
 * as HTTP/1.1, whose first bytes may be HTTP/2's preface. false: the connection has to be closed. */
bool protocol_open(struct connection *connection);
#endif
