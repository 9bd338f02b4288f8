/* base/json_string.h - writes a text as a JSON string. */
#ifndef BASE_JSON_STRING_H
#define BASE_JSON_STRING_H
#include <stddef.h>

/* Writes a text in pieces, quotes included; invalid UTF-8 becomes U+FFFD. escaped: additional ASCII characters to write
 * as \uXXXX, for instance "<>&" for text within an HTML page. */
void json_string_write(const char *text, size_t bytes, const char *escaped,
                       void (*write)(void *user, const char *piece, size_t piece_bytes), void *user);
#endif
