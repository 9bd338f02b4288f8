/* codecs/json.h - reads JSON (RFC 8259) without building a tree: a body of a million numbers is read directly
 * into its tensor. Other JSON is read by jansson. For a request of 1 MB, jansson takes 20 times as long if its
 * numbers are floats, and 4 times if they are integers.
 *
 *     json_reader reader;
 *     json_text key;
 *     reader_begin(&reader, text, bytes);
 *     if (reader_open(&reader, '{'))
 *         while (reader_member(&reader, &key)) // reads the key and the colon
 *             reader_skip(&reader, &span);     // or reader_string(), reader_number(), reader_open(): one value
 *     if (!reader_end(&reader)) ... reader.error, reader.at
 *
 * After an error, calls do nothing. Strings are decoded in place, so the text must be writable, and each value may
 * be read only once. reader_skip() does not change the text. */
#ifndef CODECS_JSON_H
#define CODECS_JSON_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { JSON_MAX_DEPTH = 32, JSON_MAX_KEYS = 64 };

typedef struct json_text {
    char *data; /* not terminated */
    size_t bytes;
} json_text;

typedef struct json_reader {
    char *start, *at, *end;
    const char *error; /* NULL: none so far */
    uint32_t depth;
    uint64_t begun;                /* bit n: the container at depth n has a member or element */
    json_text keys[JSON_MAX_KEYS]; /* [key_count] of the open objects, as far as reader_member() has read them */
    uint32_t key_count;
    uint32_t first_keys[JSON_MAX_DEPTH + 1]; /* [depth] index of the first key of the container */
} json_reader;

void reader_begin(json_reader *reader, char *text, size_t bytes);
/* The first character of the next value ('{', '[', '"', 't', 'f', 'n', '-' or a digit); 0 at the end or an error. */
char reader_peek(json_reader *reader);
/* Enters an object ('{') or array ('['). */
bool reader_open(json_reader *reader, char kind);
/* Reads the next member's key, decoded; false at the end of the object, which is then closed, or at an error. A key
 * that the object has twice is an error, because a proxy may have used its other value. */
bool reader_member(json_reader *reader, json_text *key);
/* Whether another element follows; false at the end of the array, which is then closed, or at an error. */
bool reader_element(json_reader *reader);
bool reader_string(json_reader *reader, json_text *out);
/* Like reader_string(), with a NUL in place of the closing quote; a NUL within the string is an error. */
bool reader_c_string(json_reader *reader, char **out);
/* Returns a number's text after a syntax check. */
bool reader_number(json_reader *reader, json_text *out);
bool reader_bool(json_reader *reader, bool *out);
/* Skips one value of any kind after a syntax check. */
bool reader_skip(json_reader *reader, json_text *out);
/* True if there was no error and only white space follows. */
bool reader_end(json_reader *reader);
/* Sets the error, unless one is set. */
bool reader_fail(json_reader *reader, const char *error);

static inline bool text_is(json_text text, const char *word)
{
    return strlen(word) == text.bytes && memcmp(text.data, word, text.bytes) == 0;
}
/* Converts the number to the integer type; false: out of range, or with a fraction or exponent. */
bool text_to_int64(json_text number, int64_t *out);
bool text_to_uint64(json_text number, uint64_t *out);
/* The nearest double. */
bool text_to_double(json_text number, double *out);
#endif
