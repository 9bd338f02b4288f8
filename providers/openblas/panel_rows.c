/* Copies rows into panels, see panel_rows.h. */
#include "openblas/panel_rows.h"
#include "inlay/check.h"
#include "simd/vec.h"

void KERNEL(panel_rows)(const char *from, int64_t row, int64_t rows, int64_t bytes, int64_t panel, char *to)
{
    INLAY_CHECK(rows >= 0 && panel >= rows * PANEL_BYTES);
    for (int64_t k = 0; k < rows; k++, from += row, to += PANEL_BYTES) {
        int64_t at = 0;

        __builtin_prefetch(from + 8 * row);
        for (; at + PANEL_BYTES <= bytes; at += PANEL_BYTES)
            memcpy(to + at / PANEL_BYTES * panel, from + at, PANEL_BYTES);
        if (at < bytes)
            memcpy(to + at / PANEL_BYTES * panel, from + at, (size_t)(bytes - at));
    }
}
