/* fused.h - x y + z with a single rounding, on CPUs with and without an instruction for it. */
#ifndef SIMD_FUSED_H
#define SIMD_FUSED_H
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__SSE2__) && !defined(__FMA__)
#include <emmintrin.h>
#endif

#if defined(__SSE2__) && !defined(__FMA__)
/* The product of two floats is exact in double. The sum is rounded to double, then to float, which differs from a
 * single rounding only if the rounded double is halfway between two floats. Therefore the sum is rounded to odd: of the
 * two doubles next to the sum, the result is the double whose last bit is 1. */
static inline float fused(float x, float y, float z)
{
    const double product = (double)x * (double)y, sum = product + (double)z;
    const double z_part = sum - product, lost = (product - (sum - z_part)) + ((double)z - z_part);
    uint64_t bits;
    double odd;

    memcpy(&bits, &sum, sizeof bits);
    if (lost > 0 || lost < 0) /* false for NaN, which infinite terms give */
        bits += (bits & 1) != 0 ? 0 : (lost > 0) == (sum > 0) ? 1 : UINT64_MAX;
    memcpy(&odd, &bits, sizeof odd);
    return (float)odd;
}

/* Doubles that are not halfway between two floats, which nearly all are, need no correction: the bits below a float's
 * are not 100...0, and the float is not subnormal. */
static inline __m128d fused_2(__m128d x, __m128d y, __m128d z, __m128i *doubtful)
{
    const __m128d sum = _mm_add_pd(_mm_mul_pd(x, y), z), least = _mm_set1_pd(0x1p-126);
    const __m128d size = _mm_andnot_pd(_mm_set1_pd(-0.0), sum);
    const __m128i low = _mm_and_si128(_mm_castpd_si128(sum), _mm_set1_epi64x(0x1fffffff));
    const __m128i half =
        _mm_cmpeq_epi32(low, _mm_set1_epi64x(0x10000000)); /* all ones in both halves, or in the upper */
    const __m128d small = _mm_and_pd(_mm_cmplt_pd(size, least), _mm_cmpneq_pd(sum, _mm_setzero_pd()));

    *doubtful = _mm_or_si128(*doubtful, _mm_or_si128(_mm_slli_epi64(half, 32), _mm_castpd_si128(small)));
    return sum;
}

/* out[i] = x[i] y[i] + z[i] for 8 elements. */
static __attribute__((noinline, unused)) void fused_8(const float *x, const float *y, const float *z, float *out)
{
    __m128i doubtful = _mm_setzero_si128();
    float result[8];

    for (int i = 0; i < 8; i += 4) {
        const __m128 a = _mm_loadu_ps(x + i), b = _mm_loadu_ps(y + i), c = _mm_loadu_ps(z + i);
        const __m128d low = fused_2(_mm_cvtps_pd(a), _mm_cvtps_pd(b), _mm_cvtps_pd(c), &doubtful);
        const __m128d high = fused_2(_mm_cvtps_pd(_mm_movehl_ps(a, a)), _mm_cvtps_pd(_mm_movehl_ps(b, b)),
                                     _mm_cvtps_pd(_mm_movehl_ps(c, c)), &doubtful);

        _mm_storeu_ps(result + i, _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high)));
    }
    if (_mm_movemask_epi8(doubtful) != 0)
        for (int i = 0; i < 8; i++)
            result[i] = fused(x[i], y[i], z[i]);
    memcpy(out, result, sizeof result);
}
#else
static inline float fused(float x, float y, float z)
{
    return __builtin_fmaf(x, y, z);
}
static inline void fused_8(const float *x, const float *y, const float *z, float *out)
{
#if defined(__aarch64__)
    for (int i = 0; i < 8; i += 4)
        vst1q_f32(out + i, vfmaq_f32(vld1q_f32(z + i), vld1q_f32(x + i), vld1q_f32(y + i)));
#else
    for (int i = 0; i < 8; i++)
        out[i] = fused(x[i], y[i], z[i]);
#endif
}
#endif
#endif
