#include "data/raw.h"
#include "base/memory.h"
#include "data/value.h"
#include "modelkit/sized_file.h"
#include <stdlib.h>
#include <string.h>

static const char text_mark[] = "text:";

bool raw_is(const char *source, const inlay_io_info *info)
{
    if (info->kind != INLAY_KIND_TENSOR || value_has_suffix(source, ".npy") || value_has_suffix(source, ".npz") ||
        value_has_suffix(source, ".pb"))
        return false;
    return info->dtype == INLAY_STRING ||
           (info->dtype == INLAY_UINT8 && (info->rank == 1 || info->rank == INLAY_RANK_UNKNOWN));
}

bool raw_is_file(const char *path, const inlay_io_info *info)
{
    static const char *const suffixes[] = { ".wav", ".flac", ".ogg", ".mp3", ".aiff" };

    if (info->dtype == INLAY_STRING)
        return value_has_suffix(path, ".txt");

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (value_has_suffix(path, suffixes[i]))
            return true;
    return false;
}

/* The caller frees *out. */
static inlay_status read_file(const char *path, char **out, size_t *out_bytes, inlay_diag *diag)
{
    FILE *file;
    inlay_status status = sized_file_open(path, SIZE_MAX, &file, out_bytes, diag);

    *out = NULL;
    if (status != INLAY_OK)
        return status;
    *out = malloc(*out_bytes + 1);
    status = sized_file_read(file, path, *out, *out_bytes, diag);
    if (status == INLAY_OK)
        return status;
    free(*out);
    *out = NULL;
    return status;
}

/* Makes a tensor of the lines of a text; a last line without an end of line counts. */
static inlay_status make_lines(const char *text, size_t bytes, const inlay_io_info *info, inlay_value **out,
                               inlay_diag *diag)
{
    size_t count = bytes > 0 && text[bytes - 1] != '\n' ? 1 : 0, at = 0;
    inlay_str *lines;
    int64_t dims[INLAY_MAX_RANK];
    const uint32_t rank = info->rank == INLAY_RANK_UNKNOWN || info->rank > INLAY_MAX_RANK ? 1 : info->rank;
    inlay_status status;

    for (size_t i = 0; i < bytes; i++)
        count += text[i] == '\n';
    lines = calloc(count + 1, sizeof *lines);
    if (lines == NULL)
        return no_memory(diag, "for %zu lines", count);
    for (size_t i = 0; i < count; i++) {
        const char *end = memchr(text + at, '\n', bytes - at);
        const size_t line_bytes = (end != NULL ? (size_t)(end - text) : bytes) - at;

        lines[i] =
            (inlay_str){ text + at, line_bytes > 0 && text[at + line_bytes - 1] == '\r' ? line_bytes - 1 : line_bytes };
        at += line_bytes + 1;
    }
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = 1;
    if (rank > 0)
        dims[rank - 1] = (int64_t)count;
    status = rank == 0 && count != 1
                 ? inlay_fail(diag, INLAY_SHAPE_MISMATCH, "input '%s' is one string, but the text has %zu lines",
                              info->name, count)
                 : inlay_value_create_strings(rank, dims, lines, out, diag);
    free(lines);
    return status;
}

inlay_status raw_load(const char *source, const inlay_io_info *info, inlay_value **out_value, inlay_diag *diag)
{
    char *bytes = NULL;
    size_t count = 0;
    int64_t dims[1];
    inlay_status status;

    if (info->dtype == INLAY_STRING && strncmp(source, text_mark, sizeof text_mark - 1) == 0) {
        source += sizeof text_mark - 1;
        return make_lines(source, strlen(source), info, out_value, diag);
    }
    status = read_file(source, &bytes, &count, diag);
    if (status != INLAY_OK)
        return status;
    dims[0] = (int64_t)count;
    if (info->dtype == INLAY_STRING)
        status = make_lines(bytes, count, info, out_value, diag);
    else if ((status = inlay_value_create(INLAY_UINT8, 1, dims, out_value, diag)) == INLAY_OK && count > 0)
        memcpy(inlay_value_data(*out_value), bytes, count);
    free(bytes);
    return status;
}
