/* data/npy.h - numpy's .npy files (format versions 1.0 to 3.0) from and to tensors.
 *
 * Types that numpy has are stored as numpy stores them. Other types keep their bits in an unsigned integer type:
 * bfloat16 as <u2, the 8-bit floats as |u1, and types below 8 bits unpacked to one |u1 (or |i1 if signed) per element.
 * Such a file is converted back if the reader gives the wanted type. */
#ifndef DATA_NPY_H
#define DATA_NPY_H
#include "base/arena.h"
#include "inlay/types.h" /* inlay_tensor_view */
#include <stdio.h>

/* Reads a tensor into the arena. Big-endian and Fortran-ordered files are converted; object arrays and structured types
 * are refused. want is the required type, INLAY_UNDEFINED for any: it only determines the meaning of bits in an integer
 * type; the caller checks out->dtype. INLAY_IO_ERROR: the file is unreadable, truncated, not a .npy file, or not
 * supported. */
INLAY_NODISCARD inlay_status npy_load(const char *path, inlay_dtype want, struct arena *arena, inlay_tensor_view *out,
                                      inlay_diag *diag);

/* The same for an open file, positioned at its beginning; path is for messages. */
INLAY_NODISCARD inlay_status npy_load_file(FILE *file, const char *path, inlay_dtype want, struct arena *arena,
                                           inlay_tensor_view *out, inlay_diag *diag);
/* Reads rows first to first + count - 1 along the first axis of an open file, from any position; other rows are not
 * read. path is for messages. Arrays in Fortran order are refused. */
INLAY_NODISCARD inlay_status npy_load_rows(FILE *file, const char *path, inlay_dtype want, int64_t first, int64_t count,
                                           struct arena *arena, inlay_tensor_view *out, inlay_diag *diag);

/* Writes a tensor as version 1.0 (2.0 if the header is long). Strings become <U with the width of the longest, or |S if
 * one is not UTF-8. An incomplete file is removed. */
INLAY_NODISCARD inlay_status npy_save(const char *path, const inlay_tensor_view *tensor, inlay_diag *diag);
/* As npy_save(), but does not wait until the data is on the disk: for files whose readers verify their contents. */
INLAY_NODISCARD inlay_status npy_save_unsynced(const char *path, const inlay_tensor_view *tensor, inlay_diag *diag);

/* How a type that numpy does not have is stored; NULL if numpy has it. */
const char *npy_note(inlay_dtype dtype);
#endif
