#include "serve/protocol/http2_filter.h"
#include "inlay/check.h"
#include <stdbool.h>
#include <string.h>

enum { DATA = 0, HEADERS = 1, PRIORITY = 2, RST_STREAM = 3, WINDOW_UPDATE = 8, CONTINUATION = 9, END_STREAM = 1 };
enum { MAX_DROPPED = 10000 };

static uint32_t read_bytes(const uint8_t *from, uint32_t count)
{
    uint32_t value = 0;

    for (uint32_t i = 0; i < count; i++)
        value = value << 8 | from[i];
    return value;
}

/* The held header is a RST_STREAM for a stream of the client that is still idle. */
static bool is_harmless(const http2_filter *filter, int32_t last_stream)
{
    uint32_t stream = read_bytes(filter->held + 5, 4) & 0x7fffffff;

    return read_bytes(filter->held, 3) == HTTP2_RST_STREAM_BYTES - HTTP2_FRAME_HEADER &&
           filter->held[3] == RST_STREAM && stream % 2 == 1 && stream > (uint32_t)last_stream &&
           filter->dropped < MAX_DROPPED;
}

/* Counts the frame of the held header. */
static void count_idle(http2_filter *filter)
{
    const uint8_t type = filter->held[3];
    const bool empty = read_bytes(filter->held, 3) == 0 && (filter->held[4] & END_STREAM) == 0;

    if ((type == DATA && empty) || type == PRIORITY || type == WINDOW_UPDATE || type > CONTINUATION)
        filter->idle++;
    else if (type == DATA || type == HEADERS)
        filter->idle = 0;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t http2_filter_next(http2_filter *filter, const uint8_t *data, size_t bytes, int32_t last_stream,
                         const uint8_t **out_part, size_t *out_part_bytes)
{
    size_t used = 0, wanted;

    INLAY_CHECK(bytes > 0);
    *out_part = data;
    *out_part_bytes = 0;
    if (filter->preface < HTTP2_PREFACE_BYTES) {
        used = smaller(bytes, HTTP2_PREFACE_BYTES - filter->preface);
        filter->preface += (uint32_t)used;
        *out_part_bytes = used;
        return used;
    }
    if (filter->left > 0) {
        used = smaller(bytes, filter->left);
        filter->left -= (uint32_t)used;
        *out_part_bytes = used;
        return used;
    }
    wanted = filter->held_bytes < HTTP2_FRAME_HEADER ? HTTP2_FRAME_HEADER : HTTP2_RST_STREAM_BYTES;
    used = smaller(bytes, wanted - filter->held_bytes);
    memcpy(filter->held + filter->held_bytes, data, used);
    filter->held_bytes += (uint32_t)used;
    if (filter->held_bytes < wanted)
        return used;
    if (wanted == HTTP2_RST_STREAM_BYTES) {
        filter->dropped++;
        filter->held_bytes = 0;
        return used;
    }
    if (is_harmless(filter, last_stream))
        return used;
    count_idle(filter);
    filter->left = read_bytes(filter->held, 3);
    filter->held_bytes = 0;
    *out_part = filter->held;
    *out_part_bytes = HTTP2_FRAME_HEADER;
    return used;
}
