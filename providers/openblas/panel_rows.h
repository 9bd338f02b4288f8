/* panel_rows.h - copies rows of a matrix into panels. */
#ifndef OPENBLAS_PANEL_ROWS_H
#define OPENBLAS_PANEL_ROWS_H
#include "simd/instances.h"
#include <stdint.h>

enum { PANEL_BYTES = 256 }; /* bytes of a row of a panel: 64 floats */

/* Copies `rows` rows of `bytes` bytes, which are `row` bytes apart, into panels with rows of PANEL_BYTES. Fills all
 * panels row by row, so that each row and its page are read once. panel: bytes from one panel to the next. */
typedef void panel_rows_fn(const char *from, int64_t row, int64_t rows, int64_t bytes, int64_t panel, char *to);
panel_rows_fn panel_rows_avx512, panel_rows_avx2, panel_rows_neon, panel_rows_c;
__attribute__((weak)) panel_rows_fn panel_rows_uniform, panel_rows_uniform_c; /* not in this plugin */
#endif
