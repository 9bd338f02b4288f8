/* vec_permute.h - vec_permute(x, at): lane i of the result is lane at[i] of x; at: int32_t[VEC_LANES]. */
#ifndef SIMD_VEC_PERMUTE_H
#define SIMD_VEC_PERMUTE_H
#include "simd/vec.h"

#if defined(KERNEL_IS_avx512)
VEC_INLINE vec vec_permute(vec x, const int32_t *at)
{
    return _mm512_permutexvar_ps(_mm512_loadu_si512(at), x);
}
#elif defined(KERNEL_IS_avx2)
VEC_INLINE vec vec_permute(vec x, const int32_t *at)
{
    return _mm256_permutevar8x32_ps(x, _mm256_loadu_si256((const __m256i *)(const void *)at));
}
#else
VEC_INLINE vec vec_permute(vec x, const int32_t *at)
{
    return (vec){ x[at[0]], x[at[1]], x[at[2]], x[at[3]] };
}
#endif
#endif
