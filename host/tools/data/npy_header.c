/* The header of a .npy file, read. */
#include "data/npy_format.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_HEADER_BYTES = 1 << 20 };

/* The header is a Python dict of three known keys, in any order. This reads that much of Python. */
struct scanner {
    const char *at;
    const char *path;
    inlay_diag *diag;
};

static void skip_space(struct scanner *s)
{
    while (*s->at == ' ' || *s->at == '\t' || *s->at == '\n')
        s->at++;
}

static bool accept(struct scanner *s, const char *token)
{
    size_t n = strlen(token);

    skip_space(s);
    if (strncmp(s->at, token, n) != 0)
        return false;
    s->at += n;
    return true;
}

static inlay_status malformed(const struct scanner *s, const char *expected)
{
    return inlay_fail(s->diag, INLAY_IO_ERROR, "%s: the .npy header is malformed: expected %s", s->path, expected);
}

/* A quoted string without escapes, at most bytes - 1 characters. */
static inlay_status scan_text(struct scanner *s, char *text, size_t bytes)
{
    size_t n = 0;
    char mark;

    skip_space(s);
    mark = *s->at;
    if (mark != '\'' && mark != '"')
        return malformed(s, "a quoted string");
    for (s->at++; *s->at != '\0' && *s->at != mark && n + 1 < bytes; s->at++)
        text[n++] = *s->at;
    text[n] = '\0';
    if (*s->at != mark)
        return malformed(s, "a short quoted string");
    s->at++;
    return INLAY_OK;
}

static inlay_status scan_shape(struct scanner *s, npy_header *h)
{
    if (!accept(s, "("))
        return malformed(s, "a tuple as 'shape'");
    for (h->rank = 0; !accept(s, ")");) {
        char *end = NULL;
        long long value;

        skip_space(s);
        errno = 0;
        value = *s->at >= '0' && *s->at <= '9' ? strtoll(s->at, &end, 10) : -1;
        if (value < 0 || errno != 0)
            return malformed(s, "sizes of at least 0 in 'shape'");
        if (h->rank == INLAY_MAX_RANK)
            return inlay_fail(s->diag, INLAY_LIMIT_EXCEEDED, "%s: more than %d dimensions", s->path, INLAY_MAX_RANK);
        h->dims[h->rank++] = value;
        s->at = end;
        (void)accept(s, "L"); /* Python 2 wrote longs so */
        skip_space(s);
        if (!accept(s, ",") && *s->at != ')')
            return malformed(s, "',' or ')' in 'shape'");
    }
    return INLAY_OK;
}

/* "<f4", "|b1", ">U12". */
static inlay_status scan_descr(struct scanner *s, npy_header *h)
{
    char text[32] = "";
    char *end = NULL;
    inlay_status status;

    skip_space(s);
    if (*s->at == '[' || *s->at == '(')
        return inlay_fail(s->diag, INLAY_IO_ERROR, "%s: a structured array; save each field as an array of its own",
                          s->path);
    INLAY_TRY(scan_text(s, text, sizeof text));
    h->swap = text[0] == '>';
    h->kind = strchr("<>|=", text[0]) != NULL && text[0] != '\0' ? text[1] : '\0';
    if (h->kind == '\0' || strchr("fiubcUSV", h->kind) == NULL) {
        return inlay_fail(s->diag, INLAY_IO_ERROR, "%s: arrays of type '%s'%s cannot be read", s->path, text,
                          h->kind == 'O' ? " (Python objects)" : "");
    }
    errno = 0;
    h->item_bytes = text[2] >= '0' && text[2] <= '9' ? strtoull(text + 2, &end, 10) : 0;
    if (end == NULL || *end != '\0' || errno != 0 || h->item_bytes > INT32_MAX)
        return inlay_fail(s->diag, INLAY_IO_ERROR, "%s: unknown array type '%s'", s->path, text);
    if (h->kind == 'U')
        h->item_bytes *= 4; /* counted in code points */
done:
    return status;
}

static inlay_status scan_header(const char *path, const char *text, npy_header *h, inlay_diag *diag)
{
    struct scanner s = { text, path, diag };
    unsigned seen = 0;
    char key[32];
    inlay_status status = INLAY_OK;

    *h = (npy_header){ 0 };
    if (!accept(&s, "{"))
        return malformed(&s, "'{'");
    while (!accept(&s, "}")) {
        INLAY_TRY(scan_text(&s, key, sizeof key));
        if (!accept(&s, ":"))
            return malformed(&s, "':'");
        if (strcmp(key, "descr") == 0) {
            INLAY_TRY(scan_descr(&s, h));
            seen |= 1;
        } else if (strcmp(key, "fortran_order") == 0) {
            h->fortran = accept(&s, "True");
            if (!h->fortran && !accept(&s, "False"))
                return malformed(&s, "True or False as 'fortran_order'");
            seen |= 2;
        } else if (strcmp(key, "shape") == 0) {
            INLAY_TRY(scan_shape(&s, h));
            seen |= 4;
        } else {
            return malformed(&s, "the keys descr, fortran_order and shape only");
        }
        skip_space(&s);
        if (!accept(&s, ",") && *s.at != '}')
            return malformed(&s, "',' or '}'");
    }
    if (seen != 7)
        return malformed(&s, "the keys descr, fortran_order and shape");
done:
    return status;
}

inlay_status npy_read_exactly(FILE *f, const char *path, void *data, size_t bytes, inlay_diag *diag)
{
    if (fread(data, 1, bytes, f) == bytes)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, ferror(f) ? strerror(errno) : "the file is cut short");
}

inlay_status npy_read_header(FILE *f, const char *path, struct arena *a, npy_header *h, uint64_t *out_left,
                             inlay_diag *diag)
{
    unsigned char start[12];
    size_t header_bytes, start_bytes = 10;
    struct stat info;
    char *text;
    inlay_status status;

    if (fstat(fileno(f), &info) != 0 || !S_ISREG(info.st_mode))
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: not a regular file", path);
    INLAY_TRY(npy_read_exactly(f, path, start, start_bytes, diag));
    if (memcmp(start, npy_magic, sizeof npy_magic) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: not a .npy file (it does not start with \\x93NUMPY)", path);
    if (start[6] < 1 || start[6] > 3) {
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: .npy version %u.%u; versions 1 to 3 can be read", path, start[6],
                          start[7]);
    }
    header_bytes = start[8] | (size_t)start[9] << 8;
    if (start[6] > 1) {
        INLAY_TRY(npy_read_exactly(f, path, start + 10, 2, diag));
        start_bytes = 12;
        header_bytes |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    }
    if (header_bytes > MAX_HEADER_BYTES)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: a .npy header of %zu bytes; at most %d can be read", path,
                          header_bytes, MAX_HEADER_BYTES);
    if (start_bytes + header_bytes > (uint64_t)info.st_size)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: the file is cut short", path);
    text = arena_alloc(a, header_bytes + 1);
    if (text == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: no memory for the header", path);
    INLAY_TRY(npy_read_exactly(f, path, text, header_bytes, diag));
    INLAY_TRY(scan_header(path, text, h, diag));
    *out_left = (uint64_t)info.st_size - start_bytes - header_bytes;
done:
    return status;
}
