/* base/utf8.h - the UTF-8 encoder and decoder. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes the character at text (at most `bytes`) into *out_point and returns its length in bytes. Returns 0 if the
 * text is empty or truncated, or if the character is overlong, a surrogate, or beyond U+10FFFF. */
size_t utf8_get(const char *text, size_t bytes, uint32_t *out_point);
/* Writes a code point to `to`, which has room for 4 bytes, and returns its length; 0 if the code point is invalid. */
size_t utf8_put(char *to, uint32_t point);
bool utf8_is_valid(const char *text, size_t bytes);
#endif
