/* serve/protocol/http2_streams.h - HTTP/2 of one connection, without its socket: frames to calls. */
#ifndef SERVE_HTTP2_STREAMS_H
#define SERVE_HTTP2_STREAMS_H
#include "serve/grpc/grpc_internal.h"

nghttp2_session *http2_streams_open(http2_streams *streams); /* NULL: out of memory */
void http2_streams_close(http2_streams *streams, nghttp2_session *session);
#endif
