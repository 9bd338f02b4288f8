/* data/npz.h - values that are stored in several arrays of a numpy archive.
 *
 *     data, indices, indptr, shape     a matrix as SciPy's save_npz() writes it: format csr or csc
 *     data, row, col, shape            the same, format coo
 *     values, indices, shape           a sparse tensor of any rank: indices [n] or [n, rank]
 *     keys, values                     a map
 *     <name>, or a single array        a tensor */
#ifndef DATA_NPZ_H
#define DATA_NPZ_H
#include "base/arena.h"
#include "inlay/inlay.h"

/* Reads the archive's value for an input. INLAY_IO_ERROR, INLAY_INVALID_ARGUMENT: it has none of these forms. */
INLAY_NODISCARD inlay_status npz_value(const char *path, const inlay_io_info *info, struct arena *arena,
                                       inlay_value **out_value, inlay_diag *diag);
/* Reads the array with the input's name; *out_value is NULL if there is none. */
INLAY_NODISCARD inlay_status npz_named(const char *path, const inlay_io_info *info, struct arena *arena,
                                       inlay_value **out_value, inlay_diag *diag);
#endif
