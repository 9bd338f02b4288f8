#include "base/json_string.h"
#include "base/utf8.h"
#include <stdio.h>
#include <string.h>

void json_string_write(const char *text, size_t bytes, const char *escaped,
                       void (*write)(void *user, const char *piece, size_t piece_bytes), void *user)
{
    size_t start = 0, i = 0;
    char escape[8];

    write(user, "\"", 1);
    while (i < bytes) {
        const unsigned char c = (unsigned char)text[i];
        uint32_t point;
        const size_t n = c < 0x80 ? 1 : utf8_get(text + i, bytes - i, &point);

        if (n > 1 || (n == 1 && c >= ' ' && c != '"' && c != '\\' && c != 0x7f &&
                      (escaped[0] == '\0' || strchr(escaped, c) == NULL))) {
            i += n;
            continue;
        }
        if (i > start)
            write(user, text + start, i - start);
        if (c == '"' || c == '\\')
            write(user, escape, (size_t)snprintf(escape, sizeof escape, "\\%c", c));
        else
            write(user, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", n == 0 ? 0xfffdu : c));
        start = ++i;
    }
    if (i > start)
        write(user, text + start, i - start);
    write(user, "\"", 1);
}
