/* serve/buf.h - bytes that grow: replies, log lines, pages.
 *
 * A buffer starts as {0}. When memory runs out it turns `failed`, drops what comes after, and is asked once at the end.
 */
#ifndef SERVE_BUF_H
#define SERVE_BUF_H
#include "base/memory.h"
#include "inlay/status.h"
#include <stdbool.h>

typedef struct buf {
    char *data; /* owned; not terminated */
    size_t size, capacity;
    bool failed;
} buf;

void buf_deinit(buf *b);
/* Room for so many more bytes at data + size, or NULL; the caller adds to size what it wrote. */
char *buf_reserve(buf *b, size_t bytes);
void buf_add(buf *b, const void *data, size_t bytes);
void buf_text(buf *b, const char *text);
INLAY_PRINTF(2, 3) void buf_format(buf *b, const char *format, ...);
void buf_uint(buf *b, uint64_t number);
void buf_int(buf *b, int64_t number);
/* Text as a string of JSON, quotes included; bytes that are not UTF-8 become U+FFFD. */
void buf_json(buf *b, const char *text, size_t bytes);

/* Bytes of the UTF-8 sequence at text, 0 if there is none. */
size_t utf8_sequence(const char *text, size_t bytes);
bool utf8_is_valid(const char *text, size_t bytes);
#endif
