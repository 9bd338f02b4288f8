/* base/json_string.h - a text as a string of JSON. */
#ifndef BASE_JSON_STRING_H
#define BASE_JSON_STRING_H
#include <stddef.h>

/* Writes a text in pieces, quotes included; bytes that are not UTF-8 become U+FFFD. escaped: more characters of ASCII
 * that stand as \uXXXX, for instance "<>&" for what lies in an HTML page. */
void json_string_write(const char *text, size_t bytes, const char *escaped,
                       void (*write)(void *user, const char *piece, size_t piece_bytes), void *user);
#endif
