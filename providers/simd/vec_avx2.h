/* vec_avx2.h - vectors of x86-64-v3 (AVX2 and FMA), see vec.h. Uniform kernels (vec_c.h) multiply, then add. */
#ifndef SIMD_VEC_AVX2_H
#define SIMD_VEC_AVX2_H
#include <immintrin.h>

enum { VEC_LANES = 8, VEC_REGISTERS = 16 };
#define VEC_HAS_MASKS 0
#if defined(KERNEL_IS_uniform)
#define VEC_FUSES 0
#else
#define VEC_FUSES 1
#endif
#define VEC_NARROW 0
#define VEC_SCALES_ALL 0
#define VEC_LOOKUP 8

typedef __m256 vec;
typedef __m256 vec_loose __attribute__((aligned(4)));
typedef __m256i vmask;

VEC_INLINE vec vec_zero(void)
{
    return _mm256_setzero_ps();
}
VEC_INLINE vec vec_set(float x)
{
    return _mm256_set1_ps(x);
}
VEC_INLINE vec vec_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
VEC_INLINE vec vec_hold(vec v)
{
    __asm__("" : "+x"(v));
    return v;
}
VEC_INLINE void vec_store(float *p, vec v)
{
    _mm256_storeu_ps(p, v);
}
VEC_INLINE vmask vec_first(int64_t n)
{
    const int lanes = n >= VEC_LANES ? VEC_LANES : n <= 0 ? 0 : (int)n;

    return _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
VEC_INLINE vec vec_load_some(vmask m, const float *p)
{
    return _mm256_maskload_ps(p, m);
}
VEC_INLINE void vec_store_some(float *p, vmask m, vec v)
{
    _mm256_maskstore_ps(p, m, v);
}

#define VEC_OF_2(name, op)                                                                                             \
    VEC_INLINE vec name(vec x, vec y)                                                                                  \
    {                                                                                                                  \
        return op(x, y);                                                                                               \
    }
VEC_OF_2(vec_add, _mm256_add_ps)
VEC_OF_2(vec_sub, _mm256_sub_ps)
VEC_OF_2(vec_mul, _mm256_mul_ps)
VEC_OF_2(vec_div, _mm256_div_ps)
VEC_OF_2(vec_min, _mm256_min_ps)
VEC_OF_2(vec_max, _mm256_max_ps)
#undef VEC_OF_2
#define VEC_OF_3(name, expression)                                                                                     \
    VEC_INLINE vec name(vec x, vec y, vec z)                                                                           \
    {                                                                                                                  \
        return expression;                                                                                             \
    }
#if VEC_FUSES
VEC_OF_3(vec_fma, _mm256_fmadd_ps(x, y, z))
VEC_OF_3(vec_fms, _mm256_fmsub_ps(x, y, z))
VEC_OF_3(vec_fnma, _mm256_fnmadd_ps(x, y, z))
#else
VEC_OF_3(vec_fma, _mm256_add_ps(_mm256_mul_ps(x, y), z))
VEC_OF_3(vec_fms, _mm256_sub_ps(_mm256_mul_ps(x, y), z))
VEC_OF_3(vec_fnma, _mm256_sub_ps(z, _mm256_mul_ps(x, y)))
#endif
#undef VEC_OF_3

#define VEC_JOIN_LANES(name, op, op_ss)                                                                                \
    VEC_INLINE float name(vec x)                                                                                       \
    {                                                                                                                  \
        const __m128 four = op(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));                                \
        const __m128 two = op(four, _mm_movehl_ps(four, four));                                                        \
                                                                                                                       \
        return _mm_cvtss_f32(op_ss(two, _mm_movehdup_ps(two)));                                                        \
    }
VEC_JOIN_LANES(vec_sum, _mm_add_ps, _mm_add_ss)
VEC_JOIN_LANES(vec_top, _mm_max_ps, _mm_max_ss)
#undef VEC_JOIN_LANES
VEC_INLINE vec vec_load_half(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}
VEC_INLINE void vec_store_half(uint16_t *p, vec v)
{
    _mm_storeu_si128((void *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#define VEC_ZIP(name, op)                                                                                              \
    VEC_INLINE vec name(vec x, vec y)                                                                                  \
    {                                                                                                                  \
        return _mm256_castsi256_ps(op(_mm256_castps_si256(x), _mm256_castps_si256(y)));                                \
    }
VEC_ZIP(vec_zip_bytes_low, _mm256_unpacklo_epi8)
VEC_ZIP(vec_zip_bytes_high, _mm256_unpackhi_epi8)
VEC_ZIP(vec_zip_halves_low, _mm256_unpacklo_epi16)
VEC_ZIP(vec_zip_halves_high, _mm256_unpackhi_epi16)
#undef VEC_ZIP
VEC_INLINE vec vec_abs(vec x)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}
VEC_INLINE vec vec_round(vec x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
VEC_INLINE vmask vec_greater(vec x, vec y)
{
    return _mm256_castps_si256(_mm256_cmp_ps(x, y, _CMP_GT_OQ));
}
VEC_INLINE vec vec_select(vmask m, vec x, vec y)
{
    return _mm256_blendv_ps(y, x, _mm256_castsi256_ps(m));
}
/* Multiplies by two powers of two, each in the range of float. */
VEC_INLINE vec vec_scale(vec x, vec n)
{
    const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), bias = _mm256_set1_epi32(127);
    const __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23);

    return _mm256_mul_ps(_mm256_mul_ps(x, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}
/* One permutation for each quarter of the table; bits 3 and 4 select the quarter. */
VEC_INLINE vec vec_lookup(const float *table, vec i)
{
    const __m256i at = _mm256_castps_si256(i);
    const vec bit_3 = _mm256_castsi256_ps(_mm256_slli_epi32(at, 28)),
              bit_4 = _mm256_castsi256_ps(_mm256_slli_epi32(at, 27));
    const vec low = _mm256_blendv_ps(_mm256_permutevar8x32_ps(vec_load(table), at),
                                     _mm256_permutevar8x32_ps(vec_load(table + 8), at), bit_3);
    const vec high = _mm256_blendv_ps(_mm256_permutevar8x32_ps(vec_load(table + 16), at),
                                      _mm256_permutevar8x32_ps(vec_load(table + 24), at), bit_3);

    return _mm256_blendv_ps(low, high, bit_4);
}
VEC_INLINE vec vec_lookup_some(const float *table, vec i)
{
    return _mm256_permutevar8x32_ps(vec_load(table), _mm256_castps_si256(i));
}

#define VEC_WIDE 4
typedef __m256d vec_wide;
typedef __m128 vec_part;

VEC_INLINE vec_part vec_part_load(const float *p)
{
    return _mm_loadu_ps(p);
}
VEC_INLINE vec_part vec_part_some(int64_t n, const float *p, float rest)
{
    const __m128i m = _mm_cmpgt_epi32(_mm_set1_epi32(n < 0          ? 0
                                                     : n < VEC_WIDE ? (int)n
                                                                    : VEC_WIDE),
                                      _mm_setr_epi32(0, 1, 2, 3));

    return _mm_blendv_ps(_mm_set1_ps(rest), _mm_maskload_ps(p, m), _mm_castsi128_ps(m));
}
VEC_INLINE vec_wide vec_widen(vec_part x)
{
    return _mm256_cvtps_pd(x);
}
VEC_INLINE vec_part vec_narrow(vec_wide x)
{
    return _mm256_cvtpd_ps(x);
}
VEC_INLINE vec_wide vec_wide_abs(vec_wide x)
{
    return _mm256_andnot_pd(_mm256_set1_pd(-0.0), x);
}
/* Lanes 2 apart are added, then those 1 apart. */
VEC_INLINE double vec_wide_sum(vec_wide x)
{
    return (x[0] + x[2]) + (x[1] + x[3]);
}
VEC_INLINE vec_wide vec_wide_sums(const vec_wide *x)
{
    const vec_wide first = _mm256_permute2f128_pd(x[0], x[1], 0x20) + _mm256_permute2f128_pd(x[0], x[1], 0x31);
    const vec_wide second = _mm256_permute2f128_pd(x[2], x[3], 0x20) + _mm256_permute2f128_pd(x[2], x[3], 0x31);

    return _mm256_permute4x64_pd(_mm256_hadd_pd(first, second), 0xd8);
}

/* Three steps exchange blocks of 1, 2 and 4 elements. */
VEC_INLINE void vec_transpose(vec *r)
{
    vec t[8];

    VEC_UNROLL
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    VEC_UNROLL
    for (int i = 0; i < 2; i++) {
        const __m256d a = _mm256_castps_pd(t[4 * i]), b = _mm256_castps_pd(t[4 * i + 1]),
                      c = _mm256_castps_pd(t[4 * i + 2]), d = _mm256_castps_pd(t[4 * i + 3]);

        r[4 * i] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c));
        r[4 * i + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c));
        r[4 * i + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d));
        r[4 * i + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
    }
    VEC_UNROLL
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    VEC_UNROLL
    for (int i = 0; i < 8; i++)
        r[i] = t[i];
}

#define VEC_JOIN(name, op)                                                                                             \
    VEC_INLINE vec name(const vec *x)                                                                                  \
    {                                                                                                                  \
        vec t[4], u[2];                                                                                                \
                                                                                                                       \
        VEC_UNROLL                                                                                                     \
        for (int i = 0; i < 4; i++)                                                                                    \
            t[i] = op(_mm256_unpacklo_ps(x[2 * i], x[2 * i + 1]), _mm256_unpackhi_ps(x[2 * i], x[2 * i + 1]));         \
        VEC_UNROLL                                                                                                     \
        for (int i = 0; i < 2; i++) {                                                                                  \
            const __m256d low = _mm256_castps_pd(t[2 * i]), high = _mm256_castps_pd(t[2 * i + 1]);                     \
                                                                                                                       \
            u[i] =                                                                                                     \
                op(_mm256_castpd_ps(_mm256_unpacklo_pd(low, high)), _mm256_castpd_ps(_mm256_unpackhi_pd(low, high)));  \
        }                                                                                                              \
        return op(_mm256_permute2f128_ps(u[0], u[1], 0x20), _mm256_permute2f128_ps(u[0], u[1], 0x31));                 \
    }
VEC_JOIN(vec_sums, _mm256_add_ps)
VEC_JOIN(vec_tops, _mm256_max_ps)
#undef VEC_JOIN

VEC_INLINE void vec_store_bytes(uint8_t *p, const vec *v, int16_t zero, uint8_t flip)
{
    /* packing leaves four bytes of each vector in each half */
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i zeros = _mm256_set1_epi16(zero);
    const __m256i low = _mm256_packs_epi32(_mm256_cvtps_epi32(v[0]), _mm256_cvtps_epi32(v[1]));
    const __m256i high = _mm256_packs_epi32(_mm256_cvtps_epi32(v[2]), _mm256_cvtps_epi32(v[3]));
    const __m256i bytes = _mm256_packus_epi16(_mm256_adds_epi16(low, zeros), _mm256_adds_epi16(high, zeros));

    _mm256_storeu_si256((void *)p,
                        _mm256_permutevar8x32_epi32(_mm256_xor_si256(bytes, _mm256_set1_epi8((char)flip)), order));
}

/* Each stored vector has lanes of all three inputs: they are permuted to their positions, then blended. */
VEC_INLINE void vec_interleave_3(float *p, vec x, vec y, vec z)
{
    const vec xs = _mm256_permutevar8x32_ps(x, _mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5));
    const vec ys = _mm256_permutevar8x32_ps(y, _mm256_setr_epi32(5, 0, 3, 6, 1, 4, 7, 2));
    const vec zs = _mm256_permutevar8x32_ps(z, _mm256_setr_epi32(2, 5, 0, 3, 6, 1, 4, 7));

    vec_store(p, _mm256_blend_ps(_mm256_blend_ps(xs, ys, 0x92), zs, 0x24));
    vec_store(p + 8, _mm256_blend_ps(_mm256_blend_ps(xs, ys, 0x24), zs, 0x49));
    vec_store(p + 16, _mm256_blend_ps(_mm256_blend_ps(xs, ys, 0x49), zs, 0x92));
}
VEC_INLINE void vec_part_3(const float *p, vec *x, vec *y, vec *z)
{
    const vec a = vec_load(p), b = vec_load(p + 8), c = vec_load(p + 16);

    *x = _mm256_permutevar8x32_ps(_mm256_blend_ps(_mm256_blend_ps(a, b, 0x92), c, 0x24),
                                  _mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5));
    *y = _mm256_permutevar8x32_ps(_mm256_blend_ps(_mm256_blend_ps(a, b, 0x24), c, 0x49),
                                  _mm256_setr_epi32(1, 4, 7, 2, 5, 0, 3, 6));
    *z = _mm256_permutevar8x32_ps(_mm256_blend_ps(_mm256_blend_ps(a, b, 0x49), c, 0x92),
                                  _mm256_setr_epi32(2, 5, 0, 3, 6, 1, 4, 7));
}
#endif
