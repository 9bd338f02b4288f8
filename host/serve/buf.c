#include "serve/buf.h"
#include <stdlib.h>
#include <string.h>

void buf_deinit(buf *b)
{
    free(b->data);
    *b = (buf){ .data = NULL };
}

char *buf_reserve(buf *b, size_t bytes)
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

void buf_add(buf *b, const void *data, size_t bytes)
{
    char *to = buf_reserve(b, bytes);

    if (to == NULL || bytes == 0)
        return;
    memcpy(to, data, bytes);
    b->size += bytes;
}

void buf_text(buf *b, const char *text)
{
    buf_add(b, text, strlen(text));
}

void buf_format(buf *b, const char *format, ...)
{
    va_list args;
    int bytes;
    char *to;

    va_start(args, format);
    bytes = vsnprintf(NULL, 0, format, args);
    va_end(args);
    to = bytes < 0 ? NULL : buf_reserve(b, (size_t)bytes + 1);
    if (to == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(to, (size_t)bytes + 1, format, args);
    va_end(args);
    b->size += (size_t)bytes;
}

void buf_uint(buf *b, uint64_t number)
{
    char digits[20];
    size_t n = sizeof digits;

    do {
        digits[--n] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    buf_add(b, digits + n, sizeof digits - n);
}

void buf_int(buf *b, int64_t number)
{
    if (number < 0)
        buf_add(b, "-", 1);
    buf_uint(b, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

size_t utf8_sequence(const char *text, size_t bytes)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *c = (const unsigned char *)text;
    size_t n;
    uint32_t point;

    if (bytes == 0)
        return 0;
    if (c[0] < 0x80)
        return 1;
    n = c[0] >= 0xf0 ? 4 : c[0] >= 0xe0 ? 3 : 2;
    if (c[0] < 0xc2 || c[0] > 0xf4 || n > bytes)
        return 0;
    point = c[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((c[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (c[i] & 0x3f);
    }
    return point < least[n] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff) ? 0 : n;
}

bool utf8_is_valid(const char *text, size_t bytes)
{
    while (bytes > 0) {
        size_t n;
        uint64_t word;

        if (bytes >= sizeof word) { /* eight of ASCII at once */
            memcpy(&word, text, sizeof word);
            if ((word & UINT64_C(0x8080808080808080)) == 0) {
                text += sizeof word;
                bytes -= sizeof word;
                continue;
            }
        }
        n = utf8_sequence(text, bytes);
        if (n == 0)
            return false;
        text += n;
        bytes -= n;
    }
    return true;
}

void buf_json(buf *b, const char *text, size_t bytes)
{
    size_t start = 0, i = 0;

    buf_add(b, "\"", 1);
    while (i < bytes) {
        unsigned char c = (unsigned char)text[i];
        size_t n = utf8_sequence(text + i, bytes - i);

        if (n > 0 && c >= ' ' && c != '"' && c != '\\' && c != 0x7f) {
            i += n;
            continue;
        }
        buf_add(b, text + start, i - start);
        if (n == 0)
            buf_text(b, "\\ufffd");
        else if (c == '"' || c == '\\')
            buf_format(b, "\\%c", c);
        else
            buf_format(b, "\\u%04x", c);
        start = ++i;
    }
    buf_add(b, text + start, bytes - start);
    buf_add(b, "\"", 1);
}
