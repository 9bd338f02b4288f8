/* base/strbuf.h - a growing byte buffer: texts, replies, log lines, pages.
 *
 * A buffer starts as {0}. When memory runs out, `failed` becomes true and later additions are dropped; the caller
 * checks `failed` once at the end. */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H
#include "base/memory.h"
#include "inlay/status.h"
#include <stdbool.h>

struct strbuf {
    char *data; /* owned; without a NUL */
    size_t size, capacity;
    bool failed;
};

void strbuf_deinit(struct strbuf *strbuf);
/* Makes room for `bytes` more at data + size, which it returns, or NULL. The caller adds the bytes that it wrote to
 * size. */
char *strbuf_reserve(struct strbuf *strbuf, size_t bytes);
void strbuf_add(struct strbuf *strbuf, const void *data, size_t bytes);
/* strbuf_add() as a callback that receives pieces of a text; `buffer` is the strbuf. */
void strbuf_write(void *buffer, const char *text, size_t bytes);
void strbuf_text(struct strbuf *strbuf, const char *text);
INLAY_PRINTF(2, 3) void strbuf_format(struct strbuf *strbuf, const char *format, ...);
void strbuf_uint(struct strbuf *strbuf, uint64_t number);
void strbuf_int(struct strbuf *strbuf, int64_t number);
/* Adds text as a JSON string, quotes included; invalid UTF-8 becomes U+FFFD. */
void strbuf_json(struct strbuf *strbuf, const char *text, size_t bytes);
#endif
