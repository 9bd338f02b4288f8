/* Reads the header of a .npy file. */
#include "data/npy_format.h"
#include "base/output.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_HEADER_BYTES = 1 << 20 };

/* The header is a Python dict with three known keys, in any order. This scans only that part of Python's syntax. */
struct scanner {
    const char *at;
    const char *path;
    inlay_diag *diag;
};

static void skip_space(struct scanner *scanner)
{
    while (*scanner->at == ' ' || *scanner->at == '\t' || *scanner->at == '\n')
        scanner->at++;
}

static bool accept(struct scanner *scanner, const char *token)
{
    size_t bytes = strlen(token);

    skip_space(scanner);
    if (strncmp(scanner->at, token, bytes) != 0)
        return false;
    scanner->at += bytes;
    return true;
}

static inlay_status malformed(const struct scanner *scanner, const char *expected)
{
    return inlay_fail(scanner->diag, INLAY_IO_ERROR, "%s: the .npy header is malformed: expected %s", scanner->path,
                      expected);
}

/* Reads a quoted string without escapes, of at most bytes - 1 characters. */
static inlay_status scan_text(struct scanner *scanner, char *text, size_t bytes)
{
    size_t used = 0;
    char quote;

    skip_space(scanner);
    quote = *scanner->at;
    if (quote != '\'' && quote != '"')
        return malformed(scanner, "a quoted string");
    for (scanner->at++; *scanner->at != '\0' && *scanner->at != quote && used + 1 < bytes; scanner->at++)
        text[used++] = *scanner->at;
    text[used] = '\0';
    if (*scanner->at != quote)
        return malformed(scanner, "a short quoted string");
    scanner->at++;
    return INLAY_OK;
}

static inlay_status scan_shape(struct scanner *scanner, npy_header *header)
{
    if (!accept(scanner, "("))
        return malformed(scanner, "a tuple as 'shape'");
    for (header->rank = 0; !accept(scanner, ")");) {
        char *end = NULL;
        long long value;

        skip_space(scanner);
        errno = 0;
        value = *scanner->at >= '0' && *scanner->at <= '9' ? strtoll(scanner->at, &end, 10) : -1;
        if (value < 0 || errno != 0)
            return malformed(scanner, "sizes of at least 0 in 'shape'");
        if (header->rank == INLAY_MAX_RANK)
            return inlay_fail(scanner->diag, INLAY_LIMIT_EXCEEDED, "%s: more than %d dimensions", scanner->path,
                              INLAY_MAX_RANK);
        header->dims[header->rank++] = value;
        scanner->at = end;
        (void)accept(scanner, "L"); /* suffix of Python 2 */
        skip_space(scanner);
        if (!accept(scanner, ",") && *scanner->at != ')')
            return malformed(scanner, "',' or ')' in 'shape'");
    }
    return INLAY_OK;
}

/* "<f4", "|b1", ">U12". */
static inlay_status scan_descr(struct scanner *scanner, npy_header *header)
{
    char text[32] = "";
    char *end = NULL;
    inlay_status status;

    skip_space(scanner);
    if (*scanner->at == '[' || *scanner->at == '(')
        return inlay_fail(scanner->diag, INLAY_IO_ERROR,
                          "%s has a structured array; save each field as a separate array", scanner->path);
    INLAY_TRY(scan_text(scanner, text, sizeof text));
    header->swap = text[0] == '>';
    header->kind = strchr("<>|=", text[0]) != NULL && text[0] != '\0' ? text[1] : '\0';
    if (header->kind == '\0' || strchr("fiubcUSV", header->kind) == NULL) {
        return inlay_fail(scanner->diag, INLAY_IO_ERROR, "%s: arrays of type '%s'%s cannot be read", scanner->path,
                          text, header->kind == 'O' ? " (Python objects)" : "");
    }
    errno = 0;
    header->item_bytes = text[2] >= '0' && text[2] <= '9' ? strtoull(text + 2, &end, 10) : 0;
    if (end == NULL || *end != '\0' || errno != 0 || header->item_bytes > INT32_MAX)
        return inlay_fail(scanner->diag, INLAY_IO_ERROR, "%s: unknown array type '%s'", scanner->path, text);
    if (header->kind == 'U')
        header->item_bytes *= 4; /* the width is in code points */
done:
    return status;
}

static inlay_status scan_header(const char *path, const char *text, npy_header *header, inlay_diag *diag)
{
    struct scanner scanner = { text, path, diag };
    unsigned seen = 0;
    char key[32];
    inlay_status status = INLAY_OK;

    *header = (npy_header){ 0 };
    if (!accept(&scanner, "{"))
        return malformed(&scanner, "'{'");
    while (!accept(&scanner, "}")) {
        INLAY_TRY(scan_text(&scanner, key, sizeof key));
        if (!accept(&scanner, ":"))
            return malformed(&scanner, "':'");
        if (strcmp(key, "descr") == 0) {
            INLAY_TRY(scan_descr(&scanner, header));
            seen |= 1;
        } else if (strcmp(key, "fortran_order") == 0) {
            header->fortran = accept(&scanner, "True");
            if (!header->fortran && !accept(&scanner, "False"))
                return malformed(&scanner, "True or False as 'fortran_order'");
            seen |= 2;
        } else if (strcmp(key, "shape") == 0) {
            INLAY_TRY(scan_shape(&scanner, header));
            seen |= 4;
        } else {
            return malformed(&scanner, "the keys descr, fortran_order and shape only");
        }
        skip_space(&scanner);
        if (!accept(&scanner, ",") && *scanner.at != '}')
            return malformed(&scanner, "',' or '}'");
    }
    if (seen != 7)
        return malformed(&scanner, "the keys descr, fortran_order and shape");
done:
    return status;
}

inlay_status npy_read_exactly(FILE *file, const char *path, void *data, size_t bytes, inlay_diag *diag)
{
    if (fread(data, 1, bytes, file) == bytes)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, ferror(file) ? strerror(errno) : "the file is truncated");
}

inlay_status npy_read_header(FILE *file, const char *path, struct arena *arena, npy_header *header, uint64_t *out_left,
                             inlay_diag *diag)
{
    unsigned char start[12];
    size_t header_bytes, start_bytes = 10;
    struct stat info;
    char *text;
    inlay_status status;

    if (fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode))
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: not a regular file", path);
    output_note_read(fileno(file));
    INLAY_TRY(npy_read_exactly(file, path, start, start_bytes, diag));
    if (memcmp(start, npy_magic, sizeof npy_magic) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s is not a .npy file (it does not start with \\x93NUMPY)", path);
    if (start[6] < 1 || start[6] > 3) {
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: .npy version %u.%u is not supported; use version 1 to 3", path,
                          start[6], start[7]);
    }
    header_bytes = start[8] | (size_t)start[9] << 8;
    if (start[6] > 1) {
        INLAY_TRY(npy_read_exactly(file, path, start + 10, 2, diag));
        start_bytes = 12;
        header_bytes |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    }
    if (header_bytes > MAX_HEADER_BYTES)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: the .npy header has %zu bytes, more than %d", path, header_bytes,
                          MAX_HEADER_BYTES);
    if (start_bytes + header_bytes > (uint64_t)info.st_size)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: the file is truncated", path);
    text = arena_alloc(arena, header_bytes + 1);
    if (text == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: out of memory for the header", path);
    INLAY_TRY(npy_read_exactly(file, path, text, header_bytes, diag));
    INLAY_TRY(scan_header(path, text, header, diag));
    *out_left = (uint64_t)info.st_size - start_bytes - header_bytes;
done:
    return status;
}
