/* data/npz.h - values that numpy's archives hold in several arrays.
 *
 *     data, indices, indptr, shape     a matrix as SciPy's save_npz() has it: format csr or csc
 *     data, row, col, shape            the same, format coo
 *     values, indices, shape           a sparse tensor of any rank: indices [n] or [n, rank]
 *     keys, values                     a map
 *     <name>, or one array alone       a tensor */
#ifndef DATA_NPZ_H
#define DATA_NPZ_H
#include "base/arena.h"
#include "inlay/inlay.h"

/* Reads what the archive holds for an input. INLAY_IO_ERROR, INLAY_INVALID_ARGUMENT: it is none of these. */
INLAY_NODISCARD inlay_status npz_value(const char *path, const inlay_io_info *info, struct arena *arena,
                                       inlay_value **out_value, inlay_diag *diag);
/* The array of the declared name, among others; *out_value is NULL where there is none. */
INLAY_NODISCARD inlay_status npz_named(const char *path, const inlay_io_info *info, struct arena *arena,
                                       inlay_value **out_value, inlay_diag *diag);
#endif
