/* base/strbuf.h - bytes that grow: texts, replies, log lines, pages.
 *
 * A buffer starts as {0}. When memory runs out it turns `failed`, drops what comes after, and is asked once at the end.
 */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H
#include "base/memory.h"
#include "inlay/status.h"
#include <stdbool.h>

struct strbuf {
    char *data; /* owned; not terminated */
    size_t size, capacity;
    bool failed;
};

void strbuf_deinit(struct strbuf *strbuf);
/* Room for so many more bytes at data + size, or NULL; the caller adds to size what it wrote. */
char *strbuf_reserve(struct strbuf *strbuf, size_t bytes);
void strbuf_add(struct strbuf *strbuf, const void *data, size_t bytes);
/* The same as a callback that takes pieces of a text; the first argument is the strbuf. */
void strbuf_write(void *buffer, const char *text, size_t bytes);
void strbuf_text(struct strbuf *strbuf, const char *text);
INLAY_PRINTF(2, 3) void strbuf_format(struct strbuf *strbuf, const char *format, ...);
void strbuf_uint(struct strbuf *strbuf, uint64_t number);
void strbuf_int(struct strbuf *strbuf, int64_t number);
/* Text as a string of JSON, quotes included; bytes that are not UTF-8 become U+FFFD. */
void strbuf_json(struct strbuf *strbuf, const char *text, size_t bytes);
#endif
