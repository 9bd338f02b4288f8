/* clamp_row.h - elements below 0 become 0, fast from AVX2 on. */
#ifndef SIMD_CLAMP_ROW_H
#define SIMD_CLAMP_ROW_H
#include "simd/cpu.h"
#include <stdint.h>

void clamp_row_avx2(const float *x, float *y, int64_t n);

/* false: this CPU has no kernel for it, and nothing was done. */
static inline bool clamp_row(const float *x, float *y, int64_t n)
{
#if defined(__x86_64__)
    if (cpu_has(CPU_AVX2)) {
        clamp_row_avx2(x, y, n);
        return true;
    }
#endif
    (void)x, (void)y, (void)n;
    return false;
}
#endif
