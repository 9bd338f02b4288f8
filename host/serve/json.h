/* serve/json.h - reading JSON (RFC 8259) where it lies, without building a tree: a body of a million numbers goes
 * straight into its tensor. Bodies of requests are read so and not by jansson, which reads all other JSON, because a
 * body of 1 MB takes jansson 20 times as long where its numbers are floats, and 4 times where they are integers.
 *
 *     json_reader r = reader_begin(text, bytes);
 *     json_text key;
 *     if (reader_open(&r, '{'))
 *         while (reader_member(&r, &key))       // reads the key and the colon
 *             reader_skip(&r, &span);           // or reader_string(), reader_number(), reader_open(): one value
 *     if (!reader_end(&r)) ... r.error, r.at
 *
 * Every call does nothing once there is an error. Strings are decoded in place, so the text must be writable, and each
 * value is to be read once; what reader_skip() passed over is as it was. */
#ifndef SERVE_JSON_H
#define SERVE_JSON_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { JSON_MAX_DEPTH = 32 };

typedef struct json_text {
    char *data; /* not terminated */
    size_t bytes;
} json_text;

typedef struct json_reader {
    char *start, *at, *end;
    const char *error; /* NULL: none so far */
    uint32_t depth;
    uint64_t begun; /* bit n: the container at depth n has had a member */
} json_reader;

json_reader reader_begin(char *text, size_t bytes);
/* The first character of the next value ('{', '[', '"', 't', 'f', 'n', '-' or a digit); 0 at the end or an error. */
char reader_peek(json_reader *reader);
/* Enters an object ('{') or array ('['). */
bool reader_open(json_reader *reader, char kind);
/* The next member's key, decoded; false at the end of the object, which is then left, or at an error. */
bool reader_member(json_reader *reader, json_text *key);
/* Whether another element follows; false at the end of the array, which is then left, or at an error. */
bool reader_element(json_reader *reader);
bool reader_string(json_reader *reader, json_text *out);
/* The same, ended with NUL in place of its closing quote; one with a NUL in it is an error. */
bool reader_c_string(json_reader *reader, char **out);
/* A number's text, checked. */
bool reader_number(json_reader *reader, json_text *out);
bool reader_bool(json_reader *reader, bool *out);
/* Passes over one value of any kind and checks it. */
bool reader_skip(json_reader *reader, json_text *out);
/* True if there was no error and nothing follows but space. */
bool reader_end(json_reader *reader);
/* Sets the error, unless there is one. */
bool reader_fail(json_reader *reader, const char *error);

static inline bool text_is(json_text text, const char *word)
{
    return strlen(word) == text.bytes && memcmp(text.data, word, text.bytes) == 0;
}
/* The number as an integer within the type; a fraction or exponent is no integer. */
bool text_to_int64(json_text number, int64_t *out);
bool text_to_uint64(json_text number, uint64_t *out);
/* The nearest double. */
bool text_to_double(json_text number, double *out);
#endif
