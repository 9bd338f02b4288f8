/* serve/http/http1.h - a strict parser of HTTP/1.1 requests (RFC 9112), without sockets; it allocates no memory.
 *
 * The parser accepts what the grammar allows and nothing that two implementations could read in two ways: what RFC 9112
 * lets a server either repair or refuse is refused. It works incrementally and looks at each byte once. After
 * HTTP1_BAD the connection has to be closed, because the end of the message is not known. */
#ifndef SERVE_HTTP1_H
#define SERVE_HTTP1_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP1_MAX_FIELDS = 100, HTTP1_MAX_EXTENSIONS = 4096 };

typedef enum http1_state {
    HTTP1_MORE, /* all bytes are valid so far, but more are needed */
    HTTP1_DONE,
    HTTP1_BAD /* status and error say why */
} http1_state;

/* A part of the parsed bytes. */
typedef struct http1_slice {
    uint32_t at, bytes;
} http1_slice;

typedef struct http1_field {
    http1_slice name, value; /* the value without blanks at its ends */
} http1_field;

typedef enum http1_body { HTTP1_NO_BODY, HTTP1_LENGTH, HTTP1_CHUNKED } http1_body;

/* A request line with its header fields. */
typedef struct http1_head {
    size_t max_bytes; /* of the head */
    size_t line;      /* where the current line begins */
    size_t seen;      /* bytes that were examined */
    size_t bytes;     /* HTTP1_DONE: of the whole head, with the empty line */
    bool has_request_line, has_host, has_length, has_coding, has_unknown_coding, ends_chunked, closes, keeps;

    http1_slice method;
    http1_slice path;      /* percent-encoded, see http1_decode_path(); no bytes: "/", or "*" of asterisk-form */
    http1_slice authority; /* of absolute-form and authority-form; otherwise no bytes */
    bool is_asterisk;
    uint32_t minor; /* HTTP/1.minor */
    http1_field fields[HTTP1_MAX_FIELDS];
    uint32_t field_count;
    http1_body body;
    uint64_t length; /* HTTP1_LENGTH: bytes; UINT64_MAX = 2^64 or more */
    bool expects_continue;
    bool keep_alive;

    int status; /* HTTP1_BAD: the status code to answer */
    const char *error;
} http1_head;

void http1_head_init(http1_head *head, size_t max_bytes);
/* Reads a head. data: all bytes received since its beginning, at most UINT32_MAX; a later call passes the same bytes
 * and more. The slices index data. */
http1_state http1_head_read(http1_head *head, const char *data, size_t bytes);

/* Whether the text is an origin-form; *out_path_bytes: of its path, without the query. */
bool http1_is_origin_form(const char *text, size_t bytes, size_t *out_path_bytes);
/* Decodes a path of a valid target to a C string in `to`. "%2F" remains as it is, because it is not a separator of
 * segments (RFC 3986, section 2.2). Returns false if `to` is too small. */
bool http1_decode_path(const char *path, size_t bytes, char *to, size_t room);

/* A body in the chunked transfer coding with its trailer section (RFC 9112, section 7.1). */
typedef struct http1_chunks {
    uint64_t max_body;         /* larger bodies are refused with 413 */
    size_t max_trailer;        /* bytes of the trailer section; larger ones are refused with 431 */
    uint64_t total;            /* bytes of chunk data announced so far */
    uint64_t left;             /* of the current chunk */
    size_t extension, trailer; /* bytes of extensions and of the trailer section so far */
    uint32_t digits, step;     /* step: an enum of http1_chunks.c */
    char name[32];             /* of the current trailer field */
    uint32_t name_bytes;

    int status;
    const char *error;
} http1_chunks;

void http1_chunks_init(http1_chunks *chunks, uint64_t max_body, size_t max_trailer);
/* Reads a part of a body. *out_used: bytes that were read; *out_data: body data among them, maybe none. HTTP1_MORE with
 * *out_used < bytes: call it again with the remaining bytes. */
http1_state http1_chunks_read(http1_chunks *chunks, const char *data, size_t bytes, size_t *out_used,
                              http1_slice *out_data);

/* Whether the character may be part of a token (RFC 9110, section 5.6.2). */
bool http1_is_token(char character);
#endif
