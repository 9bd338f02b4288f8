/* vec_permute.h - vectors in another order:
 *   vec_permute(x, at)           lane i is lane at[i] of x; at: int32_t[VEC_LANES]
 *   vec_even(x, y)  vec_odd(x, y)  lanes 0, 2, 4 ... or 1, 3, 5 ... of x, then of y
 *   vec_zip(group, upper, x, y)  interleaves the lower or upper halves of x and y by groups of 1, 2 or 4 lanes
 *                                (constants) */
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
#elif defined(KERNEL_IS_rvv)
VEC_INLINE vec vec_permute(vec x, const int32_t *at)
{
    vmask lanes;

    memcpy(&lanes, at, sizeof lanes);
    return vec_gather(x, lanes);
}
#elif defined(KERNEL_IS_uniform_c)
VEC_INLINE vec vec_permute(vec x, const int32_t *at)
{
    return (vec){ x[at[0]], x[at[1]], x[at[2]], x[at[3]], x[at[4]], x[at[5]], x[at[6]], x[at[7]] };
}
#else
VEC_INLINE vec vec_permute(vec x, const int32_t *at)
{
    return (vec){ x[at[0]], x[at[1]], x[at[2]], x[at[3]] };
}
#endif

#if defined(KERNEL_IS_avx512)
#define VEC_EACH_SECOND(x, y, f)                                                                                       \
    __builtin_shufflevector(x, y, f, f + 2, f + 4, f + 6, f + 8, f + 10, f + 12, f + 14, f + 16, f + 18, f + 20,       \
                            f + 22, f + 24, f + 26, f + 28, f + 30)
#elif defined(KERNEL_IS_avx2) || defined(KERNEL_IS_rvv) || defined(KERNEL_IS_uniform_c)
#define VEC_EACH_SECOND(x, y, f) __builtin_shufflevector(x, y, f, f + 2, f + 4, f + 6, f + 8, f + 10, f + 12, f + 14)
#else
#define VEC_EACH_SECOND(x, y, f) __builtin_shufflevector(x, y, f, f + 2, f + 4, f + 6)
#endif
VEC_INLINE vec vec_even(vec x, vec y)
{
    return VEC_EACH_SECOND(x, y, 0);
}
VEC_INLINE vec vec_odd(vec x, vec y)
{
    return VEC_EACH_SECOND(x, y, 1);
}

/* The lane of x, then y, that becomes lane i of an interleave by groups of g lanes, of the lanes from `from` on. */
#define VEC_ZIPPED(i, g, from) ((i) / (g) / 2 * (g) + (i) % (g) + (from) + (i) / (g) % 2 * VEC_LANES)
#define VEC_ZIPPED_4(i, g, from)                                                                                       \
    VEC_ZIPPED(i, g, from), VEC_ZIPPED((i) + 1, g, from), VEC_ZIPPED((i) + 2, g, from), VEC_ZIPPED((i) + 3, g, from)
#if defined(KERNEL_IS_avx512)
#define VEC_ZIP_GROUPS(x, y, g, from)                                                                                  \
    __builtin_shufflevector(x, y, VEC_ZIPPED_4(0, g, from), VEC_ZIPPED_4(4, g, from), VEC_ZIPPED_4(8, g, from),        \
                            VEC_ZIPPED_4(12, g, from))
#elif defined(KERNEL_IS_avx2) || defined(KERNEL_IS_rvv) || defined(KERNEL_IS_uniform_c)
#define VEC_ZIP_GROUPS(x, y, g, from) __builtin_shufflevector(x, y, VEC_ZIPPED_4(0, g, from), VEC_ZIPPED_4(4, g, from))
#else
#define VEC_ZIP_GROUPS(x, y, g, from) __builtin_shufflevector(x, y, VEC_ZIPPED_4(0, g, from))
#endif
VEC_INLINE vec vec_zip(const int group, const bool upper, vec x, vec y)
{
    if (group == VEC_LANES)
        return upper ? y : x;
    if (group == 1)
        return upper ? VEC_ZIP_GROUPS(x, y, 1, VEC_LANES / 2) : VEC_ZIP_GROUPS(x, y, 1, 0);
    if (group == 2)
        return upper ? VEC_ZIP_GROUPS(x, y, 2, VEC_LANES / 2) : VEC_ZIP_GROUPS(x, y, 2, 0);
    return upper ? VEC_ZIP_GROUPS(x, y, 4, VEC_LANES / 2) : VEC_ZIP_GROUPS(x, y, 4, 0);
}
#endif
