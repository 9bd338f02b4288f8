/* Any bytes as a request over HTTP/1.1. The first byte is the number of bytes that arrive at once, 0 for all. However
 * the bytes are cut into pieces, the result is the same. */
#include "serve/http/http1.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MAX_HEADER = 4096, MAX_BODY = 8192 };

typedef struct parse_result {
    int status; /* of a refused request; 0 = accepted, -1 = incomplete */
    size_t used;
    uint64_t body_bytes, sum; /* of the body */
} parse_result;

/* A piece of exact size, so that a sanitizer detects reads past the end. */
static char *piece_of(const char *data, size_t bytes)
{
    char *piece = malloc(bytes > 0 ? bytes : 1);

    if (piece != NULL)
        memcpy(piece, data, bytes);
    return piece;
}

static void require(int condition)
{
    if (!condition)
        __builtin_trap();
}

static void check_head(const http1_head *head, const char *data, size_t bytes)
{
    char path[64];

    require(head->bytes <= bytes && head->field_count <= HTTP1_MAX_FIELDS);
    require(head->method.bytes > 0 && head->method.at + head->method.bytes <= head->bytes);
    require(head->path.at + head->path.bytes <= head->bytes);
    for (uint32_t i = 0; i < head->field_count; i++) {
        const http1_field *field = &head->fields[i];

        require(field->name.bytes > 0 && field->value.at + field->value.bytes <= head->bytes);
        for (uint32_t k = 0; k < field->name.bytes; k++)
            require(http1_is_token(data[field->name.at + k]));
        for (uint32_t k = 0; k < field->value.bytes; k++)
            require(memchr("\r\n", data[field->value.at + k], 3) == NULL); /* nor NUL */
    }
    if (http1_decode_path(data + head->path.at, head->path.bytes, path, sizeof path))
        require(strlen(path) <= head->path.bytes);
}

static void read_body(const char *data, size_t bytes, size_t step, parse_result *out)
{
    http1_state state = HTTP1_MORE;
    http1_chunks chunks;

    http1_chunks_init(&chunks, MAX_BODY, MAX_HEADER);
    while (out->used < bytes && state == HTTP1_MORE) {
        size_t n = bytes - out->used < step ? bytes - out->used : step, used = 0;
        char *piece = piece_of(data + out->used, n);
        http1_slice part;

        if (piece == NULL)
            return;
        state = http1_chunks_read(&chunks, piece, n, &used, &part);
        require(used > 0 && used <= n && (size_t)part.at + part.bytes <= used);
        for (uint32_t i = 0; i < part.bytes; i++)
            out->sum = out->sum * 31 + (unsigned char)piece[part.at + i];
        out->body_bytes += part.bytes;
        out->used += used;
        free(piece);
    }
    require(out->body_bytes <= MAX_BODY && (state != HTTP1_BAD || (chunks.status >= 400 && chunks.error != NULL)));
    out->status = state == HTTP1_BAD ? chunks.status : state == HTTP1_DONE ? 0 : -1;
}

static parse_result parse(const char *data, size_t bytes, size_t step)
{
    static http1_head head;
    parse_result out = { .status = -1 };
    http1_state state = HTTP1_MORE;

    http1_head_init(&head, MAX_HEADER);
    for (size_t have = 0; have < bytes && state == HTTP1_MORE;) {
        char *piece;

        have = bytes - have < step ? bytes : have + step;
        piece = piece_of(data, have);
        if (piece == NULL)
            return out;
        state = http1_head_read(&head, piece, have);
        if (state == HTTP1_DONE)
            check_head(&head, piece, have);
        free(piece);
    }
    if (state == HTTP1_BAD) {
        require(head.status >= 400 && head.error != NULL);
        out.status = head.status;
    }
    if (state != HTTP1_DONE)
        return out;
    out.used = head.bytes;
    out.status = 0;
    if (head.body == HTTP1_CHUNKED)
        read_body(data, bytes, step, &out);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    parse_result whole, pieces;
    size_t step;

    if (bytes < 2)
        return 0;
    step = data[0] != 0 ? data[0] : bytes;
    whole = parse((const char *)data + 1, bytes - 1, bytes);
    pieces = parse((const char *)data + 1, bytes - 1, step);
    require(whole.status == pieces.status && whole.used == pieces.used && whole.body_bytes == pieces.body_bytes &&
            whole.sum == pieces.sum);
    return 0;
}
