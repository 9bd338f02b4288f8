#include "serve/json.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

json_reader reader_begin(char *text, size_t bytes)
{
    return (json_reader){ .start = text, .at = text, .end = text + bytes };
}

bool reader_fail(json_reader *r, const char *error)
{
    if (r->error == NULL)
        r->error = error;
    return false;
}

static void skip_space(json_reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
}

char reader_peek(json_reader *r)
{
    if (r->error != NULL)
        return '\0';
    skip_space(r);
    return r->at < r->end ? *r->at : '\0';
}

bool reader_open(json_reader *r, char kind)
{
    if (reader_peek(r) != kind)
        return reader_fail(r, kind == '{' ? "expected an object" : "expected an array");
    if (r->depth == JSON_MAX_DEPTH)
        return reader_fail(r, "nested too deeply");
    r->at++;
    r->depth++;
    r->begun &= ~(UINT64_C(1) << r->depth);
    return true;
}

/* Between two members: takes the comma, or leaves the container. */
static bool next(json_reader *r, char close)
{
    uint64_t bit = UINT64_C(1) << r->depth;
    char c = reader_peek(r);

    if (r->error != NULL)
        return false;
    if (c == close) {
        r->at++;
        r->depth--;
        return false;
    }
    if ((r->begun & bit) == 0) {
        r->begun |= bit;
        return true;
    }
    if (c != ',')
        return reader_fail(r, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
    r->at++;
    return true;
}

bool reader_element(json_reader *r)
{
    return next(r, ']');
}

bool reader_member(json_reader *r, json_text *key)
{
    if (!next(r, '}'))
        return false;
    if (reader_peek(r) != '"')
        return reader_fail(r, "expected a key in quotes");
    if (!reader_string(r, key))
        return false;
    if (reader_peek(r) != ':')
        return reader_fail(r, "expected ':'");
    r->at++;
    return true;
}

/* ------------------------------------------------------------------ strings */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Four digits of hex at `at`, or -1. */
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

/* \uXXXX, behind the u, and its second half where it is one of a pair. */
static bool read_point(json_reader *r, uint32_t *out)
{
    int32_t first = hex_four(r->at, r->end), second;

    if (first < 0)
        return reader_fail(r, "\\u wants four digits of hex");
    r->at += 4;
    *out = (uint32_t)first;
    if (first < 0xd800 || first > 0xdfff)
        return true;
    if (first > 0xdbff || r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u')
        return reader_fail(r, "half of a surrogate pair");
    second = hex_four(r->at + 2, r->end);
    if (second < 0xdc00 || second > 0xdfff)
        return reader_fail(r, "half of a surrogate pair");
    r->at += 6;
    *out = 0x10000 + ((uint32_t)(first - 0xd800) << 10) + (uint32_t)(second - 0xdc00);
    return true;
}

/* The escape behind a backslash. to NULL: only checked. */
static bool read_escape(json_reader *r, char **to)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *found;
    uint32_t point;
    char c;

    if (r->at == r->end)
        return reader_fail(r, "a string without its end");
    c = *r->at++;
    if (c == 'u') {
        if (!read_point(r, &point))
            return false;
    } else {
        found = c != '\0' ? strchr(names, c) : NULL;
        if (found == NULL)
            return reader_fail(r, "an unknown escape");
        point = (uint32_t)(unsigned char)values[found - names];
    }
    if (*to != NULL)
        *to += utf8_put(*to, point); /* never longer than the escape */
    return true;
}

/* decode: in place. Otherwise the text stays, and *out is what is between the quotes. */
static bool read_string(json_reader *r, json_text *out, bool decode)
{
    char *begin, *to = NULL;

    if (reader_peek(r) != '"')
        return reader_fail(r, "expected a string");
    begin = ++r->at;
    while (r->at < r->end && *r->at != '"') {
        unsigned char c = (unsigned char)*r->at;

        if (c == '\\') {
            if (decode && to == NULL)
                to = r->at;
            r->at++;
            if (!read_escape(r, &to))
                return false;
            continue;
        }
        if (c < ' ')
            return reader_fail(r, "a control character in a string");
        if (to != NULL)
            *to++ = (char)c;
        r->at++;
    }
    if (r->at == r->end)
        return reader_fail(r, "a string without its end");
    *out = (json_text){ begin, (size_t)((to != NULL ? to : r->at) - begin) };
    r->at++;
    if (!utf8_is_valid(out->data, out->bytes))
        return reader_fail(r, "a string that is not UTF-8");
    return true;
}

bool reader_string(json_reader *r, json_text *out)
{
    return read_string(r, out, true);
}

/* ------------------------------------------------------------------ numbers and words */

static bool digits(json_reader *r)
{
    char *begin = r->at;

    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return r->at > begin;
}

bool reader_c_string(json_reader *r, char **out)
{
    json_text text;

    if (!reader_string(r, &text))
        return false;
    if (memchr(text.data, '\0', text.bytes) != NULL)
        return reader_fail(r, "a text with NUL in it");
    text.data[text.bytes] = '\0';
    *out = text.data;
    return true;
}

bool reader_number(json_reader *r, json_text *out)
{
    char c = reader_peek(r), *begin = r->at;

    if (c != '-' && (c < '0' || c > '9'))
        return reader_fail(r, "expected a number");
    if (c == '-')
        r->at++;
    if (r->at < r->end && *r->at == '0')
        r->at++; /* no digit may follow */
    else if (!digits(r))
        return reader_fail(r, "a number without digits");
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        if (!digits(r))
            return reader_fail(r, "a number without digits after '.'");
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-'))
            r->at++;
        if (!digits(r))
            return reader_fail(r, "a number without digits after 'e'");
    }
    *out = (json_text){ begin, (size_t)(r->at - begin) };
    return true;
}

static bool word(json_reader *r, const char *text)
{
    size_t n = strlen(text);

    if ((size_t)(r->end - r->at) < n || memcmp(r->at, text, n) != 0)
        return reader_fail(r, "expected a value");
    r->at += n;
    return true;
}

bool reader_bool(json_reader *r, bool *out)
{
    char c = reader_peek(r);

    if (c != 't' && c != 'f')
        return reader_fail(r, "expected true or false");
    *out = c == 't';
    return word(r, c == 't' ? "true" : "false");
}

/* A value that is no container. */
static bool skip_plain(json_reader *r, char c)
{
    json_text ignored;

    if (c == '"')
        return read_string(r, &ignored, false);
    if (c == '-' || (c >= '0' && c <= '9'))
        return reader_number(r, &ignored);
    return word(r, c == 't' ? "true" : c == 'f' ? "false" : "null");
}

bool reader_skip(json_reader *r, json_text *out)
{
    uint32_t outside = r->depth;
    uint64_t objects = 0; /* bit n: the container at depth n is an object */
    char c = reader_peek(r), *begin = r->at;
    json_text ignored;

    for (;;) {
        c = reader_peek(r);
        if (c == '{' || c == '[') {
            if (!reader_open(r, c))
                return false;
            objects = (objects & ~(UINT64_C(1) << r->depth)) | (uint64_t)(c == '{') << r->depth;
        } else if (!skip_plain(r, c)) {
            return false;
        }
        /* On to the next value: out of every container that ends here. */
        while (r->depth > outside) {
            bool object = (objects >> r->depth & 1) != 0;

            if (!next(r, object ? '}' : ']')) {
                if (r->error != NULL)
                    return false;
                continue;
            }
            if (object) {
                if (reader_peek(r) != '"')
                    return reader_fail(r, "expected a key in quotes");
                if (!read_string(r, &ignored, false))
                    return false;
                if (reader_peek(r) != ':')
                    return reader_fail(r, "expected ':'");
                r->at++;
            }
            break;
        }
        if (r->depth == outside)
            break;
    }
    *out = (json_text){ begin, (size_t)(r->at - begin) };
    return true;
}

bool reader_end(json_reader *r)
{
    if (r->error == NULL) {
        skip_space(r);
        if (r->at != r->end)
            (void)reader_fail(r, "more text behind the value");
    }
    return r->error == NULL;
}

/* ------------------------------------------------------------------ values of numbers */

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
    json_text size = { number.data + negative, number.bytes - negative };
    uint64_t value;

    if (!text_to_uint64(size, &value) || value > (uint64_t)INT64_MAX + negative)
        return false;
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

/* Mantissa and power of ten that both are exact as doubles: one multiplication or division rounds once. */
static bool exact_double(json_text number, double *out)
{
    static const double powers[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                     1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    bool negative = number.data[0] == '-', behind = false;
    uint64_t mantissa = 0;
    int scale = 0;
    double value;

    for (size_t i = negative; i < number.bytes; i++) {
        char c = number.data[i];

        if (c == '.') {
            behind = true;
            continue;
        }
        if (c < '0' || c > '9' || mantissa >= (UINT64_C(1) << 53) / 10 - 1 || scale == 22)
            return false;
        mantissa = mantissa * 10 + (uint64_t)(c - '0');
        scale += behind;
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
        return false; /* nobody writes a number in so many digits */
    memcpy(copy, number.data, number.bytes);
    copy[number.bytes] = '\0';
    *out = strtod(copy, NULL);
    return true;
}
