#include "modelkit/sized_file.h"
#include "base/output.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

inlay_status sized_file_open(const char *path, size_t most, FILE **out_file, size_t *out_bytes, inlay_diag *diag)
{
    FILE *file = fopen(path, "rb");
    struct stat st;
    long bytes = -1;
    inlay_status status = INLAY_OK;

    *out_file = NULL;
    if (file != NULL && fstat(fileno(file), &st) == 0 && S_ISDIR(st.st_mode)) /* whose size may be any number */
        status = inlay_fail(diag, INLAY_IO_ERROR, "%s is a folder: name a file", path);
    else if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (bytes = ftell(file)) < 0 ||
             fseek(file, 0, SEEK_SET) != 0)
        status = inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    else if ((size_t)bytes > most)
        status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%s is larger than %zu MiB", path, most >> 20);
    if (status == INLAY_OK) {
        output_note_read(fileno(file));
        *out_file = file;
        *out_bytes = (size_t)bytes;
    } else if (file != NULL) {
        (void)fclose(file);
    }
    return status;
}

inlay_status sized_file_read(FILE *file, const char *path, char *text, size_t bytes, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    if (text == NULL)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: out of memory for %zu bytes", path, bytes);
    else if (fread(text, 1, bytes, file) != bytes)
        status = inlay_fail(diag, INLAY_IO_ERROR, "cannot read %s", path);
    else
        text[bytes] = '\0';
    (void)fclose(file);
    return status;
}
