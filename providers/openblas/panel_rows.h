/* panel_rows.h - rows of a matrix are copied into panels. */
#ifndef OPENBLAS_PANEL_ROWS_H
#define OPENBLAS_PANEL_ROWS_H
#include "simd/instances.h"
#include <stdint.h>

enum { PANEL_BYTES = 256 }; /* of a row of a panel: 64 floats */

/* `rows` rows of `bytes`, `row` apart, into panels of PANEL_BYTES: the panels of a tile side by side, so that each row,
 * and its page, is visited once. panel: bytes from one to the next. */
typedef void panel_rows_fn(const char *from, int64_t row, int64_t rows, int64_t bytes, int64_t panel, char *to);
panel_rows_fn panel_rows_avx512, panel_rows_avx2, panel_rows_neon, panel_rows_c;
#endif
