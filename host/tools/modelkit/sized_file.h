/* modelkit/sized_file.h - files that are read whole, into memory of the caller. */
#ifndef MODELKIT_SIZED_FILE_H
#define MODELKIT_SIZED_FILE_H
#include "inlay/inlay.h"
#include <stdio.h>

/* Opens the file and gets its size, at most `most` bytes. A folder and a file without a size, such as a pipe, are
 * refused. INLAY_OK: sized_file_read() closes *out_file. */
INLAY_NODISCARD inlay_status sized_file_open(const char *path, size_t most, FILE **out_file, size_t *out_bytes,
                                             inlay_diag *diag);
/* Reads the file into text, [bytes + 1], which ends in NUL; text NULL: out of memory. Closes the file in any case. */
INLAY_NODISCARD inlay_status sized_file_read(FILE *file, const char *path, char *text, size_t bytes, inlay_diag *diag);
#endif
