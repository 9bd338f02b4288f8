/* clamp_row.h - sets elements below 0 to 0, with AVX2. */
#ifndef SIMD_CLAMP_ROW_H
#define SIMD_CLAMP_ROW_H
#include "simd/cpu.h"
#include <stdint.h>

void clamp_row_avx2(const float *x, float *y, int64_t n);

/* Returns false, and does nothing, if this CPU has no kernel. */
static inline bool clamp_row(const float *x, float *y, int64_t n)
{
#if defined(__x86_64__) && !defined(SIMD_ONLY)
    if (cpu_has(CPU_AVX2)) {
        clamp_row_avx2(x, y, n);
        return true;
    }
#endif
    (void)x, (void)y, (void)n;
    return false;
}
#endif
