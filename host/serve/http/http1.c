/* The head of a request: RFC 9112, sections 2, 3, 5 and 6. */
#include "serve/http/http1.h"
#include "inlay/check.h"
#include <string.h>
#include <strings.h>

/* Sets of characters, one bit each. */
typedef struct character_set {
    uint32_t bits[8];
} character_set;

static const character_set token_set = { { 0, 0x03ff6cfa, 0xc7fffffe, 0x57ffffff } };    /* RFC 9110, section 5.6.2 */
static const character_set reg_name_set = { { 0, 0x2bff7ff2, 0x87fffffe, 0x47fffffe } }; /* RFC 3986, section 3.2.2 */
static const character_set path_set = { { 0, 0x2ffffff2, 0x87ffffff, 0x47fffffe } };     /* pchar and "/" */
static const character_set query_set = { { 0, 0xaffffff2, 0x87ffffff, 0x47fffffe } };    /* pchar, "/" and "?" */
static const character_set literal_set = { { 0, 0x07ff4000, 0x0000007e, 0x0000007e } };  /* of an IPv6 address */

static bool is_in(const character_set *set, char character)
{
    unsigned char c = (unsigned char)character;

    return (set->bits[c >> 5] >> (c & 31) & 1) != 0;
}

bool http1_is_token(char character)
{
    return is_in(&token_set, character);
}

static bool are_in(const character_set *set, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (!is_in(set, text[i]))
            return false;
    return true;
}

static bool is_blank(char character)
{
    return character == ' ' || character == '\t';
}

/* The value of a hexadecimal digit, or -1. */
static int hex_value(char character)
{
    if (character >= '0' && character <= '9')
        return character - '0';
    character = (char)(character | 32);
    return character >= 'a' && character <= 'f' ? character - 'a' + 10 : -1;
}

/* Whether each "%" begins an encoded byte other than NUL, which would end a C string. */
static bool is_encoded(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] != '%')
            continue;
        if (bytes - i < 3 || hex_value(text[i + 1]) < 0 || hex_value(text[i + 2]) < 0 ||
            (text[i + 1] == '0' && text[i + 2] == '0'))
            return false;
        i += 2;
    }
    return true;
}

static bool is_word(const char *text, size_t bytes, const char *word)
{
    return bytes == strlen(word) && strncasecmp(text, word, bytes) == 0;
}

/* Methods are case-sensitive (RFC 9110, section 9.1). */
static bool is_method(const http1_head *head, const char *data, const char *method)
{
    return head->method.bytes == strlen(method) && memcmp(data + head->method.at, method, head->method.bytes) == 0;
}

static bool fail(http1_head *head, int status, const char *error)
{
    head->status = status;
    head->error = error;
    return false;
}

/* uri-host [ ":" port ] (RFC 9110, section 7.2; RFC 3986, section 3.2). */
static bool is_authority(const char *text, size_t bytes)
{
    size_t host = 0;

    if (bytes > 0 && text[0] == '[') {
        const char *end = memchr(text, ']', bytes);

        if (end == NULL || end == text + 1 || !are_in(&literal_set, text + 1, (size_t)(end - text) - 1))
            return false;
        host = (size_t)(end - text) + 1;
    } else {
        while (host < bytes && text[host] != ':')
            host++;
        if (!are_in(&reg_name_set, text, host) || !is_encoded(text, host))
            return false;
    }
    if (host < bytes && text[host] != ':')
        return false;
    for (size_t i = host + 1; i < bytes; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return true;
}

/* "HTTP/" DIGIT "." DIGIT, case-sensitive (section 2.3). */
static bool read_version(http1_head *head, const char *text, size_t bytes)
{
    if (bytes != 8 || memcmp(text, "HTTP/", 5) != 0 || text[5] < '0' || text[5] > '9' || text[6] != '.' ||
        text[7] < '0' || text[7] > '9')
        return fail(head, 400, "the request line does not end in a version such as HTTP/1.1");
    if (text[5] != '1')
        return fail(head, 505, "this version of HTTP is not supported here");
    head->minor = (uint32_t)(text[7] - '0');
    return true;
}

/* A path of any form, maybe empty, and [ "?" query ]. A fragment ("#") is not part of a request-target. */
static bool read_path(const char *text, size_t bytes, size_t *out_path_bytes)
{
    size_t query = 0;

    while (query < bytes && text[query] != '?')
        query++;
    *out_path_bytes = query;
    return are_in(&path_set, text, query) && is_encoded(text, query) &&
           (query == bytes ||
            (are_in(&query_set, text + query, bytes - query) && is_encoded(text + query, bytes - query)));
}

bool http1_is_origin_form(const char *text, size_t bytes, size_t *out_path_bytes)
{
    *out_path_bytes = 0;
    return bytes > 0 && text[0] == '/' && read_path(text, bytes, out_path_bytes);
}

static bool read_origin_form(http1_head *head, const char *data, size_t at, size_t end)
{
    size_t bytes;

    if (!read_path(data + at, end - at, &bytes))
        return fail(head, 400, "the request target has a character that must be percent-encoded");
    head->path = (http1_slice){ (uint32_t)at, (uint32_t)bytes };
    return true;
}

/* "http" "://" authority path [ "?" query ] (section 3.2.2; RFC 9110, section 4.2). User information is refused. */
static bool read_absolute_form(http1_head *head, const char *data, size_t at, size_t end)
{
    size_t scheme = end - at >= 8 && strncasecmp(data + at, "https://", 8) == 0  ? 8
                    : end - at >= 7 && strncasecmp(data + at, "http://", 7) == 0 ? 7
                                                                                 : 0;
    size_t host = at + scheme, path = host;

    while (path < end && data[path] != '/' && data[path] != '?')
        path++;
    if (scheme == 0 || path == host || data[host] == ':' || !is_authority(data + host, path - host))
        return fail(head, 400, "the request target is neither a path nor a URL of this server");
    head->authority = (http1_slice){ (uint32_t)host, (uint32_t)(path - host) };
    return read_origin_form(head, data, path, end);
}

static bool read_target(http1_head *head, const char *data, size_t at, size_t end)
{
    const char *colon = memchr(data + at, ':', end - at);

    if (is_method(head, data, "CONNECT")) { /* authority-form, with a port (section 3.2.3) */
        if (colon == NULL || colon == data + at || data[end - 1] == ':' || !is_authority(data + at, end - at))
            return fail(head, 400, "the target of CONNECT is not HOST:PORT");
        head->authority = (http1_slice){ (uint32_t)at, (uint32_t)(end - at) };
        return true;
    }
    if (end - at == 1 && data[at] == '*') { /* asterisk-form (section 3.2.4) */
        head->is_asterisk = true;
        return is_method(head, data, "OPTIONS") || fail(head, 400, "'*' is a target of OPTIONS only");
    }
    return data[at] == '/' ? read_origin_form(head, data, at, end) : read_absolute_form(head, data, at, end);
}

/* method SP request-target SP HTTP-version (section 3). Exactly one SP each: implementations differ in how they read
 * other blanks. */
static bool read_request_line(http1_head *head, const char *data, size_t at, size_t end)
{
    const char *first = memchr(data + at, ' ', end - at), *second;
    size_t target;

    if (first == NULL || first == data + at || !are_in(&token_set, data + at, (size_t)(first - (data + at))))
        return fail(head, 400, "the request line does not begin with a method and a blank");
    head->method = (http1_slice){ (uint32_t)at, (uint32_t)(first - (data + at)) };
    target = (size_t)(first - data) + 1;
    second = memchr(data + target, ' ', end - target);
    if (second == NULL || second == data + target)
        return fail(head, 400, "the request line is not METHOD TARGET VERSION");
    head->has_request_line = true;
    return read_version(head, second + 1, end - (size_t)(second - data) - 1) &&
           read_target(head, data, target, (size_t)(second - data));
}

/* A list of codings would have to be decoded; only "chunked", once and last, is supported (sections 6.1, 7). */
static bool read_transfer_encoding(http1_head *head, const char *value, size_t bytes)
{
    head->has_coding = true;
    for (size_t at = 0;;) {
        size_t end, name;

        while (at < bytes && is_blank(value[at]))
            at++;
        for (end = at; end < bytes && value[end] != ',';)
            end++;
        for (name = at; name < end && is_in(&token_set, value[name]);)
            name++;
        if (name == at || head->ends_chunked)
            return fail(head, 400,
                        head->ends_chunked ? "chunked is not the last transfer coding, or is given twice"
                                           : "Transfer-Encoding is not a list of codings");
        head->ends_chunked = is_word(value + at, name - at, "chunked");
        head->has_unknown_coding |= !head->ends_chunked;
        while (name < end && is_blank(value[name]))
            name++;
        if (name < end && (head->ends_chunked || value[name] != ';'))
            return fail(head, 400, "Transfer-Encoding is not a list of codings");
        if (end == bytes)
            return true;
        at = end + 1;
    }
}

/* 1*DIGIT, once. Section 6.3 permits a list of equal numbers; a server that does not accept it must refuse it. */
static bool read_content_length(http1_head *head, const char *value, size_t bytes)
{
    uint64_t number = 0;

    if (head->has_length)
        return fail(head, 400, "Content-Length is given twice");
    head->has_length = true;
    for (size_t i = 0; i < bytes; i++) {
        unsigned digit = (unsigned)(value[i] - '0');

        if (digit > 9)
            return fail(head, 400, "Content-Length is not a number");
        number = number > (UINT64_MAX - digit) / 10 ? UINT64_MAX : number * 10 + digit;
    }
    head->length = number;
    return bytes > 0 || fail(head, 400, "Content-Length is not a number");
}

static void read_connection(http1_head *head, const char *value, size_t bytes)
{
    for (size_t at = 0, end; at < bytes; at = end + 1) {
        size_t last;

        while (at < bytes && is_blank(value[at]))
            at++;
        for (end = at; end < bytes && value[end] != ',';)
            end++;
        for (last = end; last > at && is_blank(value[last - 1]);)
            last--;
        head->closes |= is_word(value + at, last - at, "close");
        head->keeps |= is_word(value + at, last - at, "keep-alive");
    }
}

/* The fields that decide about the message's framing, its connection and its target. */
static bool apply_field(http1_head *head, const char *data, const http1_field *field)
{
    const char *name = data + field->name.at, *value = data + field->value.at;
    size_t name_bytes = field->name.bytes, bytes = field->value.bytes;

    switch (name_bytes) {
    case 4:
        if (!is_word(name, 4, "host"))
            break;
        if (head->has_host || !is_authority(value, bytes))
            return fail(head, 400, head->has_host ? "Host is given twice" : "Host is not a host with an optional port");
        head->has_host = true;
        break;
    case 6:
        if (!is_word(name, 6, "expect") || head->minor == 0) /* RFC 9110, section 10.1.1: not in HTTP/1.0 */
            break;
        if (!is_word(value, bytes, "100-continue"))
            return fail(head, 417, "the only expectation that is supported is 100-continue");
        head->expects_continue = true;
        break;
    case 10:
        if (is_word(name, 10, "connection"))
            read_connection(head, value, bytes);
        break;
    case 14:
        if (is_word(name, 14, "content-length"))
            return read_content_length(head, value, bytes);
        break;
    case 17:
        if (is_word(name, 17, "transfer-encoding"))
            return read_transfer_encoding(head, value, bytes);
        break;
    default:
        break;
    }
    return true;
}

/* field-name ":" OWS field-value OWS (section 5). read_line() has refused control characters. */
static bool read_field(http1_head *head, const char *data, size_t at, size_t end)
{
    http1_field field;
    size_t name = at;

    if (is_blank(data[at])) /* obs-fold (section 5.2), or a blank before the first field (section 2.2) */
        return fail(head, 400, "a header line begins with a blank");
    while (name < end && is_in(&token_set, data[name]))
        name++;
    if (name == at || name == end || data[name] != ':') /* section 5.1: also for a blank before the colon */
        return fail(head, 400, "a header line is not NAME: VALUE");
    if (head->field_count == HTTP1_MAX_FIELDS)
        return fail(head, 431, "the header has more than 100 lines");
    field.name = (http1_slice){ (uint32_t)at, (uint32_t)(name - at) };
    for (at = name + 1; at < end && is_blank(data[at]);)
        at++;
    while (end > at && is_blank(data[end - 1]))
        end--;
    field.value = (http1_slice){ (uint32_t)at, (uint32_t)(end - at) };
    head->fields[head->field_count++] = field;
    return apply_field(head, data, &field);
}

/* The whole header has arrived: section 6.3 in its order, section 3.2 for Host, section 9.3 for the connection. */
static bool finish(http1_head *head)
{
    if (head->minor > 0 && !head->has_host)
        return fail(head, 400, "the request has no Host");
    if (head->has_coding && head->minor == 0)
        return fail(head, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (head->has_coding && head->has_length)
        return fail(head, 400, "the request has both Transfer-Encoding and Content-Length");
    if (head->has_coding && !head->ends_chunked)
        return fail(head, 400, "the last transfer coding is not chunked");
    if (head->has_coding && head->has_unknown_coding)
        return fail(head, 501, "the only transfer coding that is supported is chunked");
    head->body = head->has_coding ? HTTP1_CHUNKED : head->has_length && head->length > 0 ? HTTP1_LENGTH : HTTP1_NO_BODY;
    head->keep_alive = !head->closes && (head->minor > 0 || head->keeps);
    return true;
}

typedef enum line_end { LINE_MORE, LINE_COMPLETE, LINE_BAD } line_end;

/* Examines new bytes up to the CRLF of the current line. A bare CR, a bare LF and other control characters, which
 * section 5.5 of RFC 9110 calls dangerous, are refused as soon as they arrive. */
static line_end read_line(http1_head *head, const char *data, size_t bytes)
{
    size_t at = head->seen;

    for (; at < bytes && at < head->max_bytes; at++) {
        unsigned char c = (unsigned char)data[at];

        if ((c >= ' ' && c != 127) || c == '\t')
            continue;
        if (c == '\r' && at + 1 == bytes)
            break;
        if (c == '\r' && data[at + 1] == '\n') {
            head->seen = at;
            return LINE_COMPLETE;
        }
        (void)fail(head, 400,
                   c == '\n' || c == '\r' ? "a line does not end in CRLF" : "the header has a control character");
        return LINE_BAD;
    }
    head->seen = at;
    if (at < head->max_bytes)
        return LINE_MORE;
    /* Section 3: 414 for a long target; RFC 6585, section 5: 431 for a large header. */
    (void)fail(head, head->has_request_line ? 431 : 414,
               head->has_request_line ? "the header is larger than max_header_bytes"
                                      : "the request line is larger than max_header_bytes");
    return LINE_BAD;
}

void http1_head_init(http1_head *head, size_t max_bytes)
{
    memset(head, 0, offsetof(http1_head, fields));
    memset(&head->field_count, 0, sizeof *head - offsetof(http1_head, field_count));
    head->max_bytes = max_bytes;
}

http1_state http1_head_read(http1_head *head, const char *data, size_t bytes)
{
    INLAY_CHECK(head->status == 0 && head->bytes == 0 && head->seen <= bytes && bytes <= UINT32_MAX);
    for (;;) {
        line_end found = read_line(head, data, bytes);
        size_t at = head->line, end = head->seen;

        if (found != LINE_COMPLETE)
            return found == LINE_BAD ? HTTP1_BAD : HTTP1_MORE;
        head->line = head->seen = end + 2;
        if (!head->has_request_line) {
            /* Section 2.2: empty lines before the request line are ignored; max_bytes limits their number. */
            if (end > at && !read_request_line(head, data, at, end))
                return HTTP1_BAD;
        } else if (end > at) {
            if (!read_field(head, data, at, end))
                return HTTP1_BAD;
        } else {
            head->bytes = end + 2;
            return finish(head) ? HTTP1_DONE : HTTP1_BAD;
        }
    }
}

bool http1_decode_path(const char *path, size_t bytes, char *to, size_t room)
{
    size_t used = 0;

    for (size_t i = 0; i < bytes; i++) {
        char character = path[i];

        if (character == '%') {
            INLAY_CHECK(i + 2 < bytes);
            character = (char)(hex_value(path[i + 1]) << 4 | hex_value(path[i + 2]));
            if (character == '/')
                character = '%'; /* "2F" follows as text */
            else
                i += 2;
        }
        if (used + 1 >= room)
            return false;
        to[used++] = character;
    }
    if (room == 0)
        return false;
    to[used] = '\0';
    return true;
}
