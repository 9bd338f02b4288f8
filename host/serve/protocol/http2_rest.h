/* serve/protocol/http2_rest.h - REST over HTTP/2: a stream whose request is not gRPC's has an exchange instead of
 * messages. */
#ifndef SERVE_HTTP2_REST_H
#define SERVE_HTTP2_REST_H
#include "serve/grpc/grpc_internal.h"

/* The header, a part of the body, and the end of a request for REST. rest_begin() false: out of memory. */
bool rest_begin(struct call *call);
void rest_data(struct call *call, const uint8_t *data, size_t bytes);
void rest_end(struct call *call);
/* The client no longer waits for the request. */
void rest_leave(struct call *call);
#endif
