#include "codecs/json.h"
#include "inlay/check.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

void reader_begin(json_reader *reader, char *text, size_t bytes)
{
    INLAY_CHECK(text != NULL || bytes == 0);
    reader->start = reader->at = text;
    reader->end = text + bytes;
    reader->error = NULL;
    reader->depth = 0;
    reader->begun = 0;
    reader->key_count = reader->first_keys[0] = 0; /* the rest of the arrays is written before it is read */
}

bool reader_fail(json_reader *reader, const char *error)
{
    if (reader->error == NULL)
        reader->error = error;
    return false;
}

static void skip_space(json_reader *reader)
{
    while (reader->at < reader->end &&
           (*reader->at == ' ' || *reader->at == '\n' || *reader->at == '\r' || *reader->at == '\t'))
        reader->at++;
}

char reader_peek(json_reader *reader)
{
    if (reader->error != NULL)
        return '\0';
    skip_space(reader);
    return reader->at < reader->end ? *reader->at : '\0';
}

bool reader_open(json_reader *reader, char kind)
{
    if (reader_peek(reader) != kind)
        return reader_fail(reader, kind == '{' ? "expected an object" : "expected an array");
    if (reader->depth == JSON_MAX_DEPTH)
        return reader_fail(reader, "nested too deeply");
    reader->at++;
    reader->depth++;
    reader->first_keys[reader->depth] = reader->key_count;
    reader->begun &= ~(UINT64_C(1) << reader->depth);
    return true;
}

/* Before a member or an element: reads the comma, or closes the container. */
static bool next(json_reader *reader, char close)
{
    uint64_t bit = UINT64_C(1) << reader->depth;
    char c = reader_peek(reader);

    if (reader->error != NULL)
        return false;
    if (c == close) {
        INLAY_CHECK(reader->depth > 0);
        reader->at++;
        reader->key_count = reader->first_keys[reader->depth];
        reader->depth--;
        return false;
    }
    if ((reader->begun & bit) == 0) {
        reader->begun |= bit;
        return true;
    }
    if (c != ',')
        return reader_fail(reader, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
    reader->at++;
    return true;
}

bool reader_element(json_reader *reader)
{
    return next(reader, ']');
}

/* Remembers the key of the open object. false: it has it already. */
static bool add_key(json_reader *reader, json_text key)
{
    for (uint32_t i = reader->first_keys[reader->depth]; i < reader->key_count; i++)
        if (reader->keys[i].bytes == key.bytes && memcmp(reader->keys[i].data, key.data, key.bytes) == 0)
            return reader_fail(reader, "a key that the object has already");
    if (reader->key_count == JSON_MAX_KEYS)
        return reader_fail(reader, "objects with more than 64 members");
    reader->keys[reader->key_count++] = key;
    return true;
}

bool reader_member(json_reader *reader, json_text *key)
{
    if (!next(reader, '}'))
        return false;
    if (reader_peek(reader) != '"')
        return reader_fail(reader, "expected a key in quotes");
    if (!reader_string(reader, key) || !add_key(reader, *key))
        return false;
    if (reader_peek(reader) != ':')
        return reader_fail(reader, "expected ':'");
    reader->at++;
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads four hexadecimal digits at `at`; -1: they are not. */
static int32_t hex_four(const char *at, const char *end)
{
    int32_t point = 0;

    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        point = point * 16 + digit;
    }
    return point;
}

/* Reads XXXX of \uXXXX, and the second escape of a surrogate pair. */
static bool read_point(json_reader *reader, uint32_t *out)
{
    int32_t first = hex_four(reader->at, reader->end), second;

    if (first < 0)
        return reader_fail(reader, "\\u must be followed by four hexadecimal digits");
    reader->at += 4;
    *out = (uint32_t)first;
    if (first < 0xd800 || first > 0xdfff)
        return true;
    if (first > 0xdbff || reader->end - reader->at < 6 || reader->at[0] != '\\' || reader->at[1] != 'u')
        return reader_fail(reader, "half of a surrogate pair");
    second = hex_four(reader->at + 2, reader->end);
    if (second < 0xdc00 || second > 0xdfff)
        return reader_fail(reader, "half of a surrogate pair");
    reader->at += 6;
    *out = 0x10000 + ((uint32_t)(first - 0xd800) << 10) + (uint32_t)(second - 0xdc00);
    return true;
}

/* Reads the escape after a backslash and writes the character to *to, unless that is NULL. */
static bool read_escape(json_reader *reader, char **to)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *found;
    uint32_t point;
    char c;

    if (reader->at == reader->end)
        return reader_fail(reader, "a string that is not closed");
    c = *reader->at++;
    if (c == 'u') {
        if (!read_point(reader, &point))
            return false;
    } else {
        found = c != '\0' ? strchr(names, c) : NULL;
        if (found == NULL)
            return reader_fail(reader, "an escape other than \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u");
        point = (uint32_t)(unsigned char)values[found - names];
    }
    if (*to != NULL)
        *to += utf8_put(*to, point); /* never longer than the escape */
    return true;
}

/* decode: replaces escapes in place. Otherwise the text is unchanged, and *out is the text between the quotes. */
static bool read_string(json_reader *reader, json_text *out, bool decode)
{
    char *begin, *to = NULL;

    if (reader_peek(reader) != '"')
        return reader_fail(reader, "expected a string");
    begin = ++reader->at;
    while (reader->at < reader->end && *reader->at != '"') {
        unsigned char c = (unsigned char)*reader->at;

        if (c == '\\') {
            if (decode && to == NULL)
                to = reader->at;
            reader->at++;
            if (!read_escape(reader, &to))
                return false;
            continue;
        }
        if (c < ' ')
            return reader_fail(reader, "a control character in a string");
        if (to != NULL)
            *to++ = (char)c;
        reader->at++;
    }
    if (reader->at == reader->end)
        return reader_fail(reader, "a string that is not closed");
    *out = (json_text){ begin, (size_t)((to != NULL ? to : reader->at) - begin) };
    reader->at++;
    if (!utf8_is_valid(out->data, out->bytes))
        return reader_fail(reader, "a string that is not UTF-8");
    return true;
}

bool reader_string(json_reader *reader, json_text *out)
{
    return read_string(reader, out, true);
}

static bool digits(json_reader *reader)
{
    char *begin = reader->at;

    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9')
        reader->at++;
    return reader->at > begin;
}

bool reader_c_string(json_reader *reader, char **out)
{
    json_text text;

    if (!reader_string(reader, &text))
        return false;
    if (memchr(text.data, '\0', text.bytes) != NULL)
        return reader_fail(reader, "a text with a NUL character");
    text.data[text.bytes] = '\0';
    *out = text.data;
    return true;
}

bool reader_number(json_reader *reader, json_text *out)
{
    char c = reader_peek(reader), *begin = reader->at;

    if (c != '-' && (c < '0' || c > '9'))
        return reader_fail(reader, "expected a number");
    if (c == '-')
        reader->at++;
    if (reader->at < reader->end && *reader->at == '0')
        reader->at++; /* after a leading zero, no digit may follow */
    else if (!digits(reader))
        return reader_fail(reader, "a number without digits");
    if (reader->at < reader->end && *reader->at == '.') {
        reader->at++;
        if (!digits(reader))
            return reader_fail(reader, "a number without digits after '.'");
    }
    if (reader->at < reader->end && (*reader->at == 'e' || *reader->at == 'E')) {
        reader->at++;
        if (reader->at < reader->end && (*reader->at == '+' || *reader->at == '-'))
            reader->at++;
        if (!digits(reader))
            return reader_fail(reader, "a number without digits after 'e'");
    }
    *out = (json_text){ begin, (size_t)(reader->at - begin) };
    return true;
}

static bool word(json_reader *reader, const char *text)
{
    size_t bytes = strlen(text);

    if ((size_t)(reader->end - reader->at) < bytes || memcmp(reader->at, text, bytes) != 0)
        return reader_fail(reader, "expected a value");
    reader->at += bytes;
    return true;
}

bool reader_bool(json_reader *reader, bool *out)
{
    char c = reader_peek(reader);

    if (c != 't' && c != 'f')
        return reader_fail(reader, "expected true or false");
    *out = c == 't';
    return word(reader, c == 't' ? "true" : "false");
}

/* Skips a value that is not a container. */
static bool skip_plain(json_reader *reader, char c)
{
    json_text ignored;

    if (c == '"')
        return read_string(reader, &ignored, false);
    if (c == '-' || (c >= '0' && c <= '9'))
        return reader_number(reader, &ignored);
    return word(reader, c == 't' ? "true" : c == 'f' ? "false" : "null");
}

bool reader_skip(json_reader *reader, json_text *out)
{
    uint32_t outside = reader->depth;
    uint64_t objects = 0; /* bit n: the container at depth n is an object */
    char c = reader_peek(reader), *begin = reader->at;
    json_text ignored;

    for (;;) {
        c = reader_peek(reader);
        if (c == '{' || c == '[') {
            if (!reader_open(reader, c))
                return false;
            objects = (objects & ~(UINT64_C(1) << reader->depth)) | (uint64_t)(c == '{') << reader->depth;
        } else if (!skip_plain(reader, c)) {
            return false;
        }
        /* To the next value: closes all containers that end here. */
        while (reader->depth > outside) {
            bool object = (objects >> reader->depth & 1) != 0;

            if (!next(reader, object ? '}' : ']')) {
                if (reader->error != NULL)
                    return false;
                continue;
            }
            if (object) {
                if (reader_peek(reader) != '"')
                    return reader_fail(reader, "expected a key in quotes");
                if (!read_string(reader, &ignored, false))
                    return false;
                if (reader_peek(reader) != ':')
                    return reader_fail(reader, "expected ':'");
                reader->at++;
            }
            break;
        }
        if (reader->depth == outside)
            break;
    }
    *out = (json_text){ begin, (size_t)(reader->at - begin) };
    return true;
}

bool reader_end(json_reader *reader)
{
    if (reader->error == NULL) {
        skip_space(reader);
        if (reader->at != reader->end)
            (void)reader_fail(reader, "more text after the value");
    }
    return reader->error == NULL;
}

bool text_to_uint64(json_text number, uint64_t *out)
{
    uint64_t value = 0;

    if (number.bytes == 0)
        return false;
    for (size_t i = 0; i < number.bytes; i++) {
        char c = number.data[i];

        if (c < '0' || c > '9' || value > UINT64_MAX / 10 || value * 10 > UINT64_MAX - (uint64_t)(c - '0'))
            return false;
        value = value * 10 + (uint64_t)(c - '0');
    }
    *out = value;
    return true;
}

bool text_to_int64(json_text number, int64_t *out)
{
    bool negative = number.bytes > 0 && number.data[0] == '-';
    json_text magnitude = { number.data + negative, number.bytes - negative };
    uint64_t value;

    if (!text_to_uint64(magnitude, &value) || value > (uint64_t)INT64_MAX + negative)
        return false;
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

/* If mantissa and power of ten are exact as doubles, one division gives the correctly rounded value. */
static bool exact_double(json_text number, double *out)
{
    static const double powers[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                     1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    bool negative = number.data[0] == '-', fraction = false;
    uint64_t mantissa = 0;
    int scale = 0;
    double value;

    for (size_t i = negative; i < number.bytes; i++) {
        char c = number.data[i];

        if (c == '.') {
            fraction = true;
            continue;
        }
        if (c < '0' || c > '9' || mantissa >= (UINT64_C(1) << 53) / 10 - 1 || scale == 22)
            return false;
        mantissa = mantissa * 10 + (uint64_t)(c - '0');
        scale += fraction;
    }
    value = (double)mantissa / powers[scale];
    *out = negative ? -value : value;
    return true;
}

bool text_to_double(json_text number, double *out)
{
    char copy[400];

    if (number.bytes == 0)
        return false;
    if (exact_double(number, out))
        return true;
    if (number.bytes >= sizeof copy)
        return false; /* no sensible number has that many digits */
    memcpy(copy, number.data, number.bytes);
    copy[number.bytes] = '\0';
    *out = strtod(copy, NULL);
    return true;
}
