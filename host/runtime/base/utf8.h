/* base/utf8.h - characters as UTF-8: the one encoder and the one decoder. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the character at text (at most `bytes`), whose code point goes to *out_point; 0: there is none, or it is
 * overlong, a surrogate, or beyond U+10FFFF. */
size_t utf8_get(const char *text, size_t bytes, uint32_t *out_point);
/* Writes a code point to `to`, which has room for 4 bytes; returns how many it took, 0 where utf8_get() finds none. */
size_t utf8_put(char *to, uint32_t point);
bool utf8_is_valid(const char *text, size_t bytes);
#endif
