#include "base/strbuf.h"
#include "base/json_string.h"
#include <stdlib.h>
#include <string.h>

void strbuf_deinit(struct strbuf *b)
{
    free(b->data);
    *b = (struct strbuf){ .data = NULL };
}

char *strbuf_reserve(struct strbuf *b, size_t bytes)
{
    size_t wanted;
    char *more;

    if (b->failed)
        return NULL;
    if (b->capacity - b->size >= bytes && b->data != NULL)
        return b->data + b->size;
    if (bytes > SIZE_MAX / 2 - b->size) {
        b->failed = true;
        return NULL;
    }
    wanted = b->capacity * 2 > b->size + bytes ? b->capacity * 2 : b->size + bytes;
    if (wanted < 256)
        wanted = 256;
    more = realloc(b->data, wanted);
    if (more == NULL) {
        b->failed = true;
        return NULL;
    }
    b->data = more;
    b->capacity = wanted;
    return b->data + b->size;
}

void strbuf_add(struct strbuf *b, const void *data, size_t bytes)
{
    char *to = strbuf_reserve(b, bytes);

    if (to == NULL || bytes == 0)
        return;
    memcpy(to, data, bytes);
    b->size += bytes;
}

void strbuf_write(void *buffer, const char *text, size_t bytes)
{
    strbuf_add(buffer, text, bytes);
}

void strbuf_text(struct strbuf *b, const char *text)
{
    strbuf_add(b, text, strlen(text));
}

void strbuf_format(struct strbuf *b, const char *format, ...)
{
    va_list args;
    int bytes;
    char *to;

    va_start(args, format);
    bytes = vsnprintf(NULL, 0, format, args);
    va_end(args);
    to = bytes < 0 ? NULL : strbuf_reserve(b, (size_t)bytes + 1);
    if (to == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(to, (size_t)bytes + 1, format, args);
    va_end(args);
    b->size += (size_t)bytes;
}

void strbuf_uint(struct strbuf *b, uint64_t number)
{
    char digits[20];
    size_t n = sizeof digits;

    do {
        digits[--n] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    strbuf_add(b, digits + n, sizeof digits - n);
}

void strbuf_int(struct strbuf *b, int64_t number)
{
    if (number < 0)
        strbuf_add(b, "-", 1);
    strbuf_uint(b, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

void strbuf_json(struct strbuf *b, const char *text, size_t bytes)
{
    json_string_write(text, bytes, "", strbuf_write, b);
}
