#include "codecs/multipart.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The parameter of a header's value, such as boundary=x or name="x"; false: it has none, or it has too many bytes. */
static bool find_parameter(const char *value, size_t bytes, const char *name, char *out, size_t room)
{
    const size_t name_bytes = strlen(name);
    const char *at = memchr(value, ';', bytes), *const end = value + bytes;

    while (at != NULL) {
        const char *text;
        size_t used = 0;
        bool quoted;

        for (at++; at < end && (*at == ' ' || *at == '\t'); at++)
            ;
        text = at + name_bytes;
        if ((size_t)(end - at) <= name_bytes || strncasecmp(at, name, name_bytes) != 0 || *text != '=') {
            bool inside = false; /* a quoted text, which may have semicolons */

            for (; at < end && (inside || *at != ';'); at++) {
                at += inside && *at == '\\' && at + 1 < end;
                inside ^= *at == '"';
            }
            at = at < end ? at : NULL;
            continue;
        }
        quoted = ++text < end && *text == '"';
        for (text += quoted; text < end && (quoted ? *text != '"' : *text != ';' && *text != ' '); text++) {
            text += quoted && *text == '\\' && text + 1 < end;
            if (used + 1 >= room || *text == '\0')
                return false;
            out[used++] = *text;
        }
        out[used] = '\0';
        return !quoted || text < end;
    }
    return false;
}

bool multipart_boundary(const char *type, char out_boundary[MULTIPART_BOUNDARY + 1])
{
    static const char form[] = "multipart/form-data";
    const size_t bytes = strlen(form);

    return type != NULL && strncasecmp(type, form, bytes) == 0 && (type[bytes] == ';' || type[bytes] == ' ') &&
           find_parameter(type, strlen(type), "boundary", out_boundary, MULTIPART_BOUNDARY + 1) &&
           out_boundary[0] != '\0';
}

static inlay_status damaged(inlay_diag *diag, const char *why)
{
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the body is no multipart/form-data: %s", why);
}

/* Reads the header of a part, which ends before `end`. Returns what comes after it; NULL: it is damaged. */
static const char *read_header(const char *at, const char *end, multipart_part *part, inlay_diag *diag)
{
    static const char disposition[] = "content-disposition:";
    const size_t bytes = sizeof disposition - 1;
    char file[2];

    part->name[0] = '\0';
    for (;;) {
        const char *line_end = memmem(at, (size_t)(end - at), "\r\n", 2);
        const char *value = at + bytes;

        if (line_end == NULL) {
            (void)damaged(diag, "the header of a part is cut off");
            return NULL;
        }
        if (line_end == at)
            break;
        if ((size_t)(line_end - at) > bytes && strncasecmp(at, disposition, bytes) == 0) {
            const size_t left = (size_t)(line_end - value);

            if (!find_parameter(value, left, "name", part->name, sizeof part->name))
                part->name[0] = '\0';
            file[0] = '\0'; /* a name that is too long for it is one, too */
            part->is_file = find_parameter(value, left, "filename", file, sizeof file) || file[0] != '\0';
        }
        at = line_end + 2;
    }
    if (part->name[0] != '\0')
        return at + 2;
    (void)damaged(diag, "a part has no name, or a name of more than 63 bytes");
    return NULL;
}

inlay_status multipart_read(const char *body, size_t bytes, const char *boundary, struct multipart *out,
                            inlay_diag *diag)
{
    char mark[MULTIPART_BOUNDARY + 5];
    const size_t mark_bytes = (size_t)snprintf(mark, sizeof mark, "\r\n--%.*s", MULTIPART_BOUNDARY, boundary);
    const char *end = body + bytes, *at;

    out->count = 0;
    /* The first mark may begin the body, without the line end before it. */
    if (bytes >= mark_bytes - 2 && memcmp(body, mark + 2, mark_bytes - 2) == 0)
        at = body + mark_bytes - 2;
    else if ((at = bytes > 0 ? memmem(body, bytes, mark, mark_bytes) : NULL) != NULL)
        at += mark_bytes;
    else
        return damaged(diag, "it has not the boundary of its Content-Type");
    for (;;) {
        multipart_part *part = &out->parts[out->count];
        const char *next;

        if (end - at >= 2 && memcmp(at, "--", 2) == 0)
            return INLAY_OK;
        while (at < end && (*at == ' ' || *at == '\t'))
            at++;
        if (end - at < 2 || memcmp(at, "\r\n", 2) != 0)
            return damaged(diag, "its last boundary is missing, or bytes follow a boundary");
        if (out->count == MULTIPART_PARTS)
            return damaged(diag, "it has more than 64 parts");
        part->is_file = false;
        at = read_header(at + 2, end, part, diag);
        if (at == NULL)
            return diag != NULL ? diag->code : INLAY_INVALID_ARGUMENT;
        /* A part without bytes ends with the line end of its header. */
        next = memmem(at - 2, (size_t)(end - at) + 2, mark, mark_bytes);
        if (next == NULL)
            return damaged(diag, "its last boundary is missing");
        part->data = at;
        part->bytes = next >= at ? (size_t)(next - at) : 0;
        out->count++;
        at = next + mark_bytes;
    }
}
