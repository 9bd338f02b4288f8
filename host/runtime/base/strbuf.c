#include "base/strbuf.h"
#include "base/json_string.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

void strbuf_deinit(struct strbuf *strbuf)
{
    free(strbuf->data);
    *strbuf = (struct strbuf){ .data = NULL };
}

char *strbuf_reserve(struct strbuf *strbuf, size_t bytes)
{
    size_t wanted;
    char *more;

    INLAY_CHECK(strbuf->size <= strbuf->capacity);
    if (strbuf->failed)
        return NULL;
    if (strbuf->capacity - strbuf->size >= bytes && strbuf->data != NULL)
        return strbuf->data + strbuf->size;
    if (bytes > SIZE_MAX / 2 - strbuf->size) {
        strbuf->failed = true;
        return NULL;
    }
    wanted = strbuf->capacity * 2 > strbuf->size + bytes ? strbuf->capacity * 2 : strbuf->size + bytes;
    if (wanted < 256)
        wanted = 256;
    more = realloc(strbuf->data, wanted);
    if (more == NULL) {
        strbuf->failed = true;
        return NULL;
    }
    strbuf->data = more;
    strbuf->capacity = wanted;
    return strbuf->data + strbuf->size;
}

void strbuf_add(struct strbuf *strbuf, const void *data, size_t bytes)
{
    char *to = strbuf_reserve(strbuf, bytes);

    if (to == NULL || bytes == 0)
        return;
    memcpy(to, data, bytes);
    strbuf->size += bytes;
}

void strbuf_write(void *buffer, const char *text, size_t bytes)
{
    strbuf_add(buffer, text, bytes);
}

void strbuf_text(struct strbuf *strbuf, const char *text)
{
    strbuf_add(strbuf, text, strlen(text));
}

void strbuf_format(struct strbuf *strbuf, const char *format, ...)
{
    enum { USUAL_BYTES = 128 };
    char *to = strbuf_reserve(strbuf, USUAL_BYTES);
    size_t room = strbuf->capacity - strbuf->size;
    va_list args;
    int bytes;

    if (to == NULL)
        return;
    va_start(args, format);
    bytes = vsnprintf(to, room, format, args);
    va_end(args);
    if (bytes >= 0 && (size_t)bytes >= room) { /* a second time, with enough room */
        to = strbuf_reserve(strbuf, (size_t)bytes + 1);
        if (to == NULL)
            return;
        va_start(args, format);
        (void)vsnprintf(to, (size_t)bytes + 1, format, args);
        va_end(args);
    }
    strbuf->size += bytes > 0 ? (size_t)bytes : 0;
}

void strbuf_uint(struct strbuf *strbuf, uint64_t number)
{
    char digits[20];
    size_t begin = sizeof digits;

    do {
        digits[--begin] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    strbuf_add(strbuf, digits + begin, sizeof digits - begin);
}

void strbuf_int(struct strbuf *strbuf, int64_t number)
{
    if (number < 0)
        strbuf_add(strbuf, "-", 1);
    strbuf_uint(strbuf, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

void strbuf_json(struct strbuf *strbuf, const char *text, size_t bytes)
{
    json_string_write(text, bytes, "", strbuf_write, strbuf);
}
