/* serve/protocol/http2_filter.h - drops frames that nghttp2 answers by closing the connection although they are
 * harmless.
 *
 * gRPC's C core (1.51 and others) sends RST_STREAM for a call whose deadline passed before its HEADERS were sent.
 * RFC 9113, section 5.1, lets a server close the connection then, which would end all other calls on it. The bytes of
 * the client pass through here.
 *
 * Also counts frames that ask for nothing, which nghttp2 takes without limit: DATA without bytes, PRIORITY,
 * WINDOW_UPDATE and unknown types. */
#ifndef SERVE_HTTP2_FILTER_H
#define SERVE_HTTP2_FILTER_H
#include <stddef.h>
#include <stdint.h>

enum { HTTP2_FRAME_HEADER = 9, HTTP2_RST_STREAM_BYTES = 13, HTTP2_PREFACE_BYTES = 24 };

typedef struct http2_filter {
    uint32_t preface;                     /* bytes of the preface that have passed */
    uint32_t left;                        /* bytes of the current frame's payload that still pass */
    uint32_t held_bytes;                  /* of the next frame; 0 to HTTP2_RST_STREAM_BYTES */
    uint8_t held[HTTP2_RST_STREAM_BYTES]; /* bytes that arrived before the frame's header was complete */
    uint32_t dropped;                     /* frames so far */
    uint32_t idle; /* frames that ask for nothing since HEADERS or DATA with bytes; the owner resets it with output */
} http2_filter;

enum { HTTP2_MOST_IDLE = 10000 }; /* with more idle frames, the client floods the connection */

/* Reads some of the bytes, at least one, and returns how many. *out_part: bytes to pass on, maybe none, valid until the
 * next call. last_stream: the highest stream that the client has opened. */
size_t http2_filter_next(http2_filter *filter, const uint8_t *data, size_t bytes, int32_t last_stream,
                         const uint8_t **out_part, size_t *out_part_bytes);
#endif
