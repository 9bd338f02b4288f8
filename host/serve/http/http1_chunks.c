/* The chunked transfer coding: RFC 9112, section 7.1. */
#include "serve/http/http1.h"
#include "inlay/check.h"
#include <string.h>
#include <strings.h>

enum { MAX_DIGITS = 16 }; /* of a chunk's size */

/* chunk = chunk-size [ chunk-ext ] CRLF chunk-data CRLF
 * chunk-ext = *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] ) */
typedef enum chunk_step {
    STEP_SIZE,
    STEP_BLANK, /* BWS: ";" has to follow */
    STEP_EXTENSION_BEGIN,
    STEP_EXTENSION_NAME,
    STEP_EXTENSION_BLANK, /* BWS after a name: ";" or "=" has to follow */
    STEP_VALUE_BEGIN,
    STEP_VALUE,
    STEP_QUOTED,
    STEP_QUOTED_PAIR,
    STEP_QUOTED_END,
    STEP_SIZE_LF,
    STEP_DATA,
    STEP_DATA_CR,
    STEP_DATA_LF,
    STEP_TRAILER_BEGIN, /* a trailer field, or the end */
    STEP_TRAILER_NAME,
    STEP_TRAILER_VALUE,
    STEP_TRAILER_LF,
    STEP_END_LF
} chunk_step;

/* Whether a field of this name must not be in a trailer section (RFC 9110, section 6.5.1). */
static bool http1_is_forbidden_trailer(const char *name, size_t bytes)
{
    /* Framing, routing, authentication, request modifiers, and how to process the content. */
    static const char *const names[] = { "transfer-encoding",
                                         "content-length",
                                         "host",
                                         "trailer",
                                         "te",
                                         "connection",
                                         "authorization",
                                         "expect",
                                         "content-encoding",
                                         "content-type",
                                         "content-range",
                                         "cache-control",
                                         "max-forwards",
                                         "range",
                                         "proxy-authorization",
                                         "cookie",
                                         "upgrade",
                                         "keep-alive" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == bytes && strncasecmp(names[i], name, bytes) == 0)
            return true;
    return false;
}

void http1_chunks_init(http1_chunks *chunks, uint64_t max_body, size_t max_trailer)
{
    *chunks = (http1_chunks){ .max_body = max_body, .max_trailer = max_trailer, .step = STEP_SIZE };
}

static bool fail(http1_chunks *chunks, int status, const char *error)
{
    chunks->status = status;
    chunks->error = error;
    return false;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* HTAB, SP, VCHAR and obs-text. */
static bool is_text(char c)
{
    return ((unsigned char)c >= ' ' && c != 127) || c == '\t';
}

static bool take_digit(http1_chunks *chunks, char c)
{
    uint64_t digit = c >= '0' && c <= '9' ? (uint64_t)(c - '0') : (uint64_t)((c | 32) - 'a' + 10);

    if (++chunks->digits > MAX_DIGITS)
        return fail(chunks, 400, "the size of a chunk has more than 16 digits");
    chunks->left = chunks->left << 4 | digit;
    return true;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

/* The steps after the digits that end an extension, or the line. */
static bool after_item(http1_chunks *chunks, char c, chunk_step blank)
{
    if (c == ';')
        chunks->step = STEP_EXTENSION_BEGIN;
    else if (c == '\r')
        chunks->step = STEP_SIZE_LF;
    else if (is_blank(c))
        chunks->step = blank;
    else
        return fail(chunks, 400, "a chunk does not begin with its size in hexadecimal digits and CRLF");
    return true;
}

/* A character of the line before a chunk. */
static bool size_line(http1_chunks *chunks, char c)
{
    static const char bad[] = "a chunk extension is not NAME or NAME=VALUE";

    if (chunks->step != STEP_SIZE && chunks->step != STEP_SIZE_LF && ++chunks->extension > HTTP1_MAX_EXTENSIONS)
        return fail(chunks, 400, "the chunk extensions have more than 4096 bytes"); /* section 7.1.1 */
    switch ((chunk_step)chunks->step) {
    case STEP_SIZE:
        if (is_hex(c))
            return take_digit(chunks, c);
        return chunks->digits > 0 ? after_item(chunks, c, STEP_BLANK) : fail(chunks, 400, "a chunk has no size");
    case STEP_BLANK:
        return is_blank(c) || (c == ';' && after_item(chunks, c, STEP_BLANK)) || fail(chunks, 400, bad);
    case STEP_EXTENSION_BEGIN:
        if (http1_is_token(c))
            chunks->step = STEP_EXTENSION_NAME;
        return is_blank(c) || http1_is_token(c) || fail(chunks, 400, bad);
    case STEP_EXTENSION_NAME:
        if (c == '=')
            chunks->step = STEP_VALUE_BEGIN;
        return http1_is_token(c) || c == '=' || after_item(chunks, c, STEP_EXTENSION_BLANK);
    case STEP_EXTENSION_BLANK:
        if (c == '=')
            chunks->step = STEP_VALUE_BEGIN;
        return is_blank(c) || c == '=' || (c == ';' && after_item(chunks, c, STEP_BLANK)) || fail(chunks, 400, bad);
    case STEP_VALUE_BEGIN:
        if (c == '"' || http1_is_token(c))
            chunks->step = c == '"' ? STEP_QUOTED : STEP_VALUE;
        return is_blank(c) || c == '"' || http1_is_token(c) || fail(chunks, 400, bad);
    case STEP_VALUE:
        return http1_is_token(c) || after_item(chunks, c, STEP_BLANK);
    case STEP_QUOTED:
        if (c == '"' || c == '\\')
            chunks->step = c == '"' ? STEP_QUOTED_END : STEP_QUOTED_PAIR;
        return is_text(c) || fail(chunks, 400, bad);
    case STEP_QUOTED_PAIR:
        chunks->step = STEP_QUOTED;
        return is_text(c) || fail(chunks, 400, bad);
    case STEP_QUOTED_END:
        return after_item(chunks, c, STEP_BLANK);
    default:
        if (c != '\n')
            return fail(chunks, 400, "a line does not end in CRLF");
        chunks->digits = 0;
        chunks->step = chunks->left > 0 ? STEP_DATA : STEP_TRAILER_BEGIN;
        if (chunks->left > chunks->max_body - chunks->total)
            return fail(chunks, 413, "the body is larger than max_body_bytes");
        chunks->total += chunks->left;
        return true;
    }
}

/* A character of the trailer section (section 7.1.2), whose fields are checked and dropped. */
static bool trailer(http1_chunks *chunks, char c)
{
    if (++chunks->trailer > chunks->max_trailer)
        return fail(chunks, 431, "the trailer section is larger than max_header_bytes");
    switch ((chunk_step)chunks->step) {
    case STEP_TRAILER_BEGIN:
        chunks->name_bytes = 0;
        chunks->step = c == '\r' ? STEP_END_LF : STEP_TRAILER_NAME;
        return c == '\r' || trailer(chunks, c);
    case STEP_TRAILER_NAME:
        if (c == ':' && chunks->name_bytes > 0) {
            chunks->step = STEP_TRAILER_VALUE;
            return (chunks->name_bytes <= sizeof chunks->name &&
                    http1_is_forbidden_trailer(chunks->name, chunks->name_bytes))
                       ? fail(chunks, 400, "the trailer section has a field that must be in the header")
                       : true;
        }
        if (!http1_is_token(c))
            return fail(chunks, 400, "a line of the trailer section is not NAME: VALUE");
        if (chunks->name_bytes < sizeof chunks->name)
            chunks->name[chunks->name_bytes] = c;
        chunks->name_bytes++;
        return true;
    case STEP_TRAILER_VALUE:
        if (c == '\r')
            chunks->step = STEP_TRAILER_LF;
        return c == '\r' || is_text(c) || fail(chunks, 400, "a line does not end in CRLF, or has control characters");
    default:
        chunks->step = STEP_TRAILER_BEGIN;
        return c == '\n' || fail(chunks, 400, "a line does not end in CRLF");
    }
}

http1_state http1_chunks_read(http1_chunks *chunks, const char *data, size_t bytes, size_t *out_used,
                              http1_slice *out_data)
{
    INLAY_CHECK(chunks->status == 0 && bytes <= UINT32_MAX);
    *out_data = (http1_slice){ 0, 0 };
    for (size_t at = 0; at < bytes; at++) {
        bool good = true;

        *out_used = at + 1;
        if (chunks->step == STEP_DATA) {
            size_t part = chunks->left < bytes - at ? (size_t)chunks->left : bytes - at;

            INLAY_CHECK(part > 0);
            *out_data = (http1_slice){ (uint32_t)at, (uint32_t)part };
            *out_used = at + part;
            chunks->left -= part;
            if (chunks->left == 0)
                chunks->step = STEP_DATA_CR;
            return HTTP1_MORE;
        }
        if (chunks->step == STEP_DATA_CR || chunks->step == STEP_DATA_LF) {
            good = data[at] == (chunks->step == STEP_DATA_CR ? '\r' : '\n') ||
                   fail(chunks, 400, "a chunk is longer than its size");
            chunks->step = chunks->step == STEP_DATA_CR ? STEP_DATA_LF : STEP_SIZE;
        } else if (chunks->step == STEP_END_LF) {
            return data[at] == '\n' || fail(chunks, 400, "a line does not end in CRLF") ? HTTP1_DONE : HTTP1_BAD;
        } else {
            good = chunks->step < STEP_DATA ? size_line(chunks, data[at]) : trailer(chunks, data[at]);
        }
        if (!good)
            return HTTP1_BAD;
    }
    *out_used = bytes;
    return HTTP1_MORE;
}
