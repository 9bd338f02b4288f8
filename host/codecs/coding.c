#include "codecs/coding.h"
#include "inlay/check.h"
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

enum { LEVEL = 1 /* the fastest */, MEMORY_LEVEL = 8, GZIP_BITS = 16 };

static const char *const names[] = { "identity", "gzip", "deflate" };

coding coding_find(const char *name, size_t bytes)
{
    for (int i = CODING_IDENTITY; i < CODING_UNKNOWN; i++)
        if (strlen(names[i]) == bytes && strncasecmp(names[i], name, bytes) == 0)
            return (coding)i;
    return bytes == 6 && strncasecmp(name, "x-gzip", bytes) == 0 ? CODING_GZIP : CODING_UNKNOWN;
}

const char *coding_name(coding which)
{
    INLAY_CHECK(which < CODING_UNKNOWN);
    return names[which];
}

/* The weight of an element of the list after its name, in thousandths: ";q=0.5" (RFC 9110, section 12.4.2). */
static int weight_of(const char *text, const char *end)
{
    int weight = 0, digit = 1000;

    while (text < end && (*text == ' ' || *text == '\t' || *text == ';'))
        text++;
    if (text == end)
        return 1000;
    if (end - text < 3 || (text[0] | 32) != 'q' || text[1] != '=')
        return 0;
    for (text += 2; text < end && digit > 0 && ((*text >= '0' && *text <= '9') || *text == '.'); text++)
        if (*text != '.') {
            weight += (*text - '0') * digit;
            digit /= 10;
        }
    return weight;
}

static int weight_in(const char *list, coding wanted)
{
    while (list != NULL && *list != '\0') {
        const char *end = list + strcspn(list, ","), *name_end;

        list += strspn(list, " \t");
        name_end = list + strcspn(list, " \t;,");
        if (coding_find(list, (size_t)(name_end - list)) == wanted)
            return weight_of(name_end, end);
        list = *end == ',' ? end + 1 : end;
    }
    return 0;
}

bool coding_is_accepted(const char *list, coding which)
{
    return weight_in(list, which) > 0;
}

coding coding_accepted(const char *list)
{
    int gzip = weight_in(list, CODING_GZIP), zlib = weight_in(list, CODING_DEFLATE);

    return zlib > gzip ? CODING_DEFLATE : gzip > 0 ? CODING_GZIP : CODING_IDENTITY;
}

static int window_bits(coding which)
{
    INLAY_CHECK(which == CODING_GZIP || which == CODING_DEFLATE);
    return which == CODING_GZIP ? MAX_WBITS + GZIP_BITS : MAX_WBITS;
}

/* zlib counts in unsigned int. */
static uInt next_part(size_t left)
{
    return left < UINT_MAX ? (uInt)left : UINT_MAX;
}

bool coding_compress(coding which, const void *data, size_t bytes, struct strbuf *to)
{
    z_stream stream = { .next_in = (Bytef *)(uintptr_t)data };
    size_t left = bytes;
    int status;

    if (deflateInit2(&stream, LEVEL, Z_DEFLATED, window_bits(which), MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    do {
        char *room = strbuf_reserve(to, CODING_PART_BYTES);

        if (room == NULL)
            break;
        if (stream.avail_in == 0) {
            stream.avail_in = next_part(left);
            left -= stream.avail_in;
        }
        stream.next_out = (Bytef *)room;
        stream.avail_out = CODING_PART_BYTES;
        status = deflate(&stream, left == 0 ? Z_FINISH : Z_NO_FLUSH);
        to->size += CODING_PART_BYTES - stream.avail_out;
    } while (status == Z_OK || status == Z_BUF_ERROR);
    (void)deflateEnd(&stream);
    return !to->failed;
}

/* Begins the next member of gzip, if more data follows (RFC 1952, section 2.2). Returns inflate()'s status. */
static int next_member(z_stream *stream, coding which, size_t left)
{
    if (which != CODING_GZIP || left + stream->avail_in == 0)
        return Z_STREAM_END;
    return inflateReset(stream);
}

inlay_status coding_expand(coding which, const void *data, size_t bytes,
                           bool (*take)(void *user, const void *part, size_t part_bytes), void *user, inlay_diag *diag)
{
    static _Thread_local Bytef part[CODING_PART_BYTES];
    const size_t most = bytes > CODING_FREE_BYTES / CODING_MOST_RATIO ? bytes * CODING_MOST_RATIO : CODING_FREE_BYTES;
    z_stream stream = { .next_in = (Bytef *)(uintptr_t)data };
    size_t left = bytes, total = 0;
    int status;
    bool good = true;

    if (inflateInit2(&stream, window_bits(which)) != Z_OK)
        return no_memory(diag, "to decode the body");
    do {
        if (stream.avail_in == 0) {
            stream.avail_in = next_part(left);
            left -= stream.avail_in;
        }
        stream.next_out = part;
        stream.avail_out = sizeof part;
        status = inflate(&stream, Z_NO_FLUSH);
        total += sizeof part - stream.avail_out;
        if (stream.avail_out < sizeof part && total <= most)
            good = take(user, part, sizeof part - stream.avail_out);
        if (status == Z_STREAM_END)
            status = next_member(&stream, which, left);
    } while (good && total <= most && status == Z_OK);
    left += stream.avail_in;
    (void)inflateEnd(&stream);
    if (total > most)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                          "the decoded body is larger than 8 MiB and more than %d times as large as the coded one",
                          CODING_MOST_RATIO);
    if (!good || (status == Z_STREAM_END && left == 0))
        return INLAY_OK;
    return status == Z_MEM_ERROR
               ? no_memory(diag, "to decode the body")
               : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the body is not valid %s", coding_name(which));
}
