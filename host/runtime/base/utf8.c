#include "base/utf8.h"
#include <string.h>

static bool is_character(uint32_t point)
{
    return point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
}

size_t utf8_get(const char *text, size_t bytes, uint32_t *out_point)
{
    static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *c = (const unsigned char *)text;
    size_t n;
    uint32_t point;

    if (bytes == 0)
        return 0;
    *out_point = c[0];
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
    *out_point = point;
    return point >= smallest[n] && is_character(point) ? n : 0;
}

size_t utf8_put(char *to, uint32_t point)
{
    size_t n = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;

    if (!is_character(point))
        return 0;
    if (point < 0x80) {
        to[0] = (char)point;
        return 1;
    }
    for (size_t i = n - 1; i > 0; i--, point >>= 6)
        to[i] = (char)(0x80 | (point & 0x3f));
    to[0] = (char)((0xf00u >> n & 0xff) | point);
    return n;
}

bool utf8_is_valid(const char *text, size_t bytes)
{
    while (bytes > 0) {
        uint32_t point;
        uint64_t word;
        size_t n;

        if (bytes >= sizeof word) { /* eight ASCII characters at once */
            memcpy(&word, text, sizeof word);
            if ((word & UINT64_C(0x8080808080808080)) == 0) {
                text += sizeof word;
                bytes -= sizeof word;
                continue;
            }
        }
        n = utf8_get(text, bytes, &point);
        if (n == 0)
            return false;
        text += n;
        bytes -= n;
    }
    return true;
}
