/* unicode_case.h - upper and lower case of letters, independent of the system's locale.
 *
 * Contains the mappings of one character to one character, such as title case U+01C5 to lower case U+01C6. Characters
 * that map to several, such as U+00DF to "SS", do not change. */
#ifndef UNICODE_CASE_H
#define UNICODE_CASE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The letters first, first + step .. last map to themselves plus delta. */
typedef struct case_block {
    uint32_t first, last;
    int32_t delta;
    uint32_t step;
} case_block;

#include "reference/unicode_case.inc"

static inline uint32_t case_map(uint32_t code, bool upper)
{
    const case_block *blocks = upper ? upper_blocks : lower_blocks;
    size_t low = 0, high = (upper ? sizeof upper_blocks : sizeof lower_blocks) / sizeof *blocks;

    while (low < high) { /* the first block that does not end before the code */
        const size_t middle = (low + high) / 2;

        if (blocks[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == (upper ? sizeof upper_blocks : sizeof lower_blocks) / sizeof *blocks || code < blocks[low].first ||
        (code - blocks[low].first) % blocks[low].step != 0)
        return code;
    return code + (uint32_t)blocks[low].delta;
}

/* Converts the first character of UTF-8 text and writes its bytes, at most 4, to out. A byte that begins no valid
 * character stays as it is. Returns the bytes read; *out_bytes are those written. */
static inline size_t case_convert_one(const char *text, size_t bytes, bool upper, char *out, size_t *out_bytes)
{
    const unsigned char *from = (const unsigned char *)text;
    const size_t length = from[0] < 0x80 ? 1 : from[0] < 0xc2 ? 0 : from[0] < 0xe0 ? 2 : from[0] < 0xf0 ? 3 : 4;
    uint32_t code = length == 1 ? from[0] : from[0] & (0x7fu >> length);
    bool valid = length > 0 && length <= bytes && from[0] < 0xf5;

    for (size_t i = 1; i < length && valid; i++) {
        valid = (from[i] & 0xc0) == 0x80;
        code = code << 6 | (from[i] & 0x3fu);
    }
    valid = valid &&
            code >= (length == 3   ? 0x800u
                     : length == 4 ? 0x10000u
                                   : 0) &&
            code < 0x110000; /* the shortest form */
    *out_bytes = 1;
    out[0] = text[0];
    if (!valid)
        return 1;
    code = case_map(code, upper);
    *out_bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = *out_bytes; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(*out_bytes == 1 ? code : (0xf00u >> *out_bytes & 0xff) | code);
    return length;
}

/* Converts UTF-8 text to upper or lower case. out has room for 2 * bytes. Returns the bytes written. */
static inline size_t case_convert(const char *text, size_t bytes, bool upper, char *out)
{
    size_t written = 0;

    for (size_t at = 0, count; at < bytes; written += count)
        at += case_convert_one(text + at, bytes - at, upper, out + written, &count);
    return written;
}
#endif
