/* data/npy.h - numpy's .npy files (format versions 1.0 to 3.0) from and to tensors.
 *
 * What numpy can name is stored as numpy stores it. Types that numpy lacks keep their bits in an unsigned integer type:
 * bfloat16 as <u2, the 8-bit floats as |u1, and the sub-byte types unpacked to one |u1 (or |i1 where signed) an
 * element. Such a file is turned back when the reader says which type it wants. */
#ifndef DATA_NPY_H
#define DATA_NPY_H
#include "base/arena.h"
#include "inlay/plugin.h" /* inlay_tensor_view */
#include <stdio.h>

/* Reads a tensor; all memory is the arena's. Big-endian and Fortran-ordered files are converted; object arrays and
 * structured types are refused. want is the type that the tensor is needed in, INLAY_UNDEFINED for any: it only serves
 * to give bits kept in an integer type their meaning; the caller checks out->dtype.
 * INLAY_IO_ERROR: cannot be read, is cut short, is no .npy file, or one of a kind that is refused. */
INLAY_NODISCARD inlay_status npy_load(const char *path, inlay_dtype want, struct arena *arena, inlay_tensor_view *out,
                                      inlay_diag *diag);

/* The same of a file that is open and stands at its beginning; path is for messages. */
INLAY_NODISCARD inlay_status npy_load_file(FILE *file, const char *path, inlay_dtype want, struct arena *arena,
                                           inlay_tensor_view *out, inlay_diag *diag);
/* Rows first to first + count - 1 along the first axis, of a file that is open and may stand anywhere; the others are
 * not read. path is for messages. Arrays in Fortran order are refused. */
INLAY_NODISCARD inlay_status npy_load_rows(FILE *file, const char *path, inlay_dtype want, int64_t first, int64_t count,
                                           struct arena *arena, inlay_tensor_view *out, inlay_diag *diag);

/* Writes a tensor as version 1.0 (2.0 if the header is long). Strings become <U as long as the longest, or |S when one
 * is not UTF-8. A file that could not be written whole is removed. */
INLAY_NODISCARD inlay_status npy_save(const char *path, const inlay_tensor_view *tensor, inlay_diag *diag);

/* One sentence on how the type is stored when numpy has no name for it, NULL when it has. */
const char *npy_note(inlay_dtype dtype);
#endif
