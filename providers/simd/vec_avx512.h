/* vec_avx512.h - vectors of x86-64-v4 (AVX-512 F, BW, DQ, VL), see vec.h. */
#ifndef SIMD_VEC_AVX512_H
#define SIMD_VEC_AVX512_H
#include <immintrin.h>

enum { VEC_LANES = 16, VEC_REGISTERS = 32 };
#define VEC_HAS_MASKS 1 /* masked loads are as fast as others */
#define VEC_FUSES 1
#define VEC_NARROW 1
#define VEC_SCALES_ALL 1
#define VEC_LOOKUP 32

typedef __m512 vec;
typedef __m512 vec_loose __attribute__((aligned(4)));
typedef __mmask16 vmask;

VEC_INLINE vec vec_zero(void)
{
    return _mm512_setzero_ps();
}
VEC_INLINE vec vec_set(float x)
{
    return _mm512_set1_ps(x);
}
VEC_INLINE vec vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
VEC_INLINE vec vec_hold(vec v)
{
    __asm__("" : "+v"(v));
    return v;
}
VEC_INLINE void vec_store(float *p, vec v)
{
    _mm512_storeu_ps(p, v);
}
VEC_INLINE vmask vec_first(int64_t n)
{
    return n >= VEC_LANES ? (vmask)0xffff : n <= 0 ? 0 : (vmask)((1u << n) - 1);
}
VEC_INLINE vec vec_load_some(vmask m, const float *p)
{
    return _mm512_maskz_loadu_ps(m, p);
}
VEC_INLINE void vec_store_some(float *p, vmask m, vec v)
{
    _mm512_mask_storeu_ps(p, m, v);
}

#define VEC_OF_2(name, op)                                                                                             \
    VEC_INLINE vec name(vec x, vec y)                                                                                  \
    {                                                                                                                  \
        return op(x, y);                                                                                               \
    }
VEC_OF_2(vec_add, _mm512_add_ps)
VEC_OF_2(vec_sub, _mm512_sub_ps)
VEC_OF_2(vec_mul, _mm512_mul_ps)
VEC_OF_2(vec_div, _mm512_div_ps)
VEC_OF_2(vec_min, _mm512_min_ps)
VEC_OF_2(vec_max, _mm512_max_ps)
#undef VEC_OF_2
#define VEC_OF_3(name, op)                                                                                             \
    VEC_INLINE vec name(vec x, vec y, vec z)                                                                           \
    {                                                                                                                  \
        return op(x, y, z);                                                                                            \
    }
VEC_OF_3(vec_fma, _mm512_fmadd_ps)
VEC_OF_3(vec_fms, _mm512_fmsub_ps)
VEC_OF_3(vec_fnma, _mm512_fnmadd_ps)
#undef VEC_OF_3

VEC_INLINE float vec_sum(vec x)
{
    return _mm512_reduce_add_ps(x);
}
VEC_INLINE float vec_top(vec x)
{
    return _mm512_reduce_max_ps(x);
}
VEC_INLINE vec vec_load_half(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}
VEC_INLINE void vec_store_half(uint16_t *p, vec v)
{
    _mm256_storeu_si256((void *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#define VEC_ZIP(name, op)                                                                                              \
    VEC_INLINE vec name(vec x, vec y)                                                                                  \
    {                                                                                                                  \
        return _mm512_castsi512_ps(op(_mm512_castps_si512(x), _mm512_castps_si512(y)));                                \
    }
VEC_ZIP(vec_zip_bytes_low, _mm512_unpacklo_epi8)
VEC_ZIP(vec_zip_bytes_high, _mm512_unpackhi_epi8)
VEC_ZIP(vec_zip_halves_low, _mm512_unpacklo_epi16)
VEC_ZIP(vec_zip_halves_high, _mm512_unpackhi_epi16)
#undef VEC_ZIP
VEC_INLINE vec vec_abs(vec x)
{
    return _mm512_abs_ps(x);
}
VEC_INLINE vec vec_round(vec x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
VEC_INLINE vmask vec_greater(vec x, vec y)
{
    return _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ);
}
VEC_INLINE vec vec_select(vmask m, vec x, vec y)
{
    return _mm512_mask_blend_ps(m, y, x);
}
VEC_INLINE vec vec_scale(vec x, vec n)
{
    return _mm512_scalef_ps(x, n);
}
VEC_INLINE vec vec_lookup(const float *table, vec i)
{
    return _mm512_permutex2var_ps(_mm512_loadu_ps(table), _mm512_castps_si512(i), _mm512_loadu_ps(table + 16));
}
VEC_INLINE vec vec_lookup_some(const float *table, vec i)
{
    return vec_lookup(table, i);
}

#define VEC_WIDE 8
typedef __m512d vec_wide;
typedef __m256 vec_part;

VEC_INLINE vec_part vec_part_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
VEC_INLINE vec_part vec_part_some(int64_t n, const float *p, float rest)
{
    return _mm256_mask_loadu_ps(_mm256_set1_ps(rest), (__mmask8)vec_first(n), p);
}
VEC_INLINE vec_wide vec_widen(vec_part x)
{
    return _mm512_cvtps_pd(x);
}
VEC_INLINE vec_part vec_narrow(vec_wide x)
{
    return _mm512_cvtpd_ps(x);
}
VEC_INLINE vec_wide vec_wide_abs(vec_wide x)
{
    return _mm512_abs_pd(x);
}
/* Lanes 4 apart are added, then those 2 and 1 apart. */
VEC_INLINE double vec_wide_sum(vec_wide x)
{
    const __m256d sum = _mm512_castpd512_pd256(x) + _mm512_extractf64x4_pd(x, 1);
    const __m128d half = _mm256_castpd256_pd128(sum) + _mm256_extractf128_pd(sum, 1);

    return half[0] + half[1];
}
VEC_INLINE vec_wide vec_wide_sums(const vec_wide *x)
{
    const __m512i low = _mm512_setr_epi64(0, 1, 4, 5, 8, 9, 12, 13),
                  high = _mm512_setr_epi64(2, 3, 6, 7, 10, 11, 14, 15);
    const __m512i even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14),
                  odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    vec_wide t[4], u[2];

    VEC_UNROLL
    for (int i = 0; i < 4; i++)
        t[i] = _mm512_shuffle_f64x2(x[2 * i], x[2 * i + 1], 0x44) + _mm512_shuffle_f64x2(x[2 * i], x[2 * i + 1], 0xee);
    VEC_UNROLL
    for (int i = 0; i < 2; i++)
        u[i] =
            _mm512_permutex2var_pd(t[2 * i], low, t[2 * i + 1]) + _mm512_permutex2var_pd(t[2 * i], high, t[2 * i + 1]);
    return _mm512_permutex2var_pd(u[0], even, u[1]) + _mm512_permutex2var_pd(u[0], odd, u[1]);
}

/* Four steps exchange blocks of 1, 2, 4 and 8 elements. */
VEC_INLINE void vec_transpose(vec *r)
{
    vec t[16];

    VEC_UNROLL
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    VEC_UNROLL
    for (int i = 0; i < 4; i++) {
        const __m512d a = _mm512_castps_pd(t[4 * i]), b = _mm512_castps_pd(t[4 * i + 1]),
                      c = _mm512_castps_pd(t[4 * i + 2]), d = _mm512_castps_pd(t[4 * i + 3]);

        r[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        r[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        r[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        r[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    VEC_UNROLL
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    VEC_UNROLL
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

#define VEC_JOIN(name, op)                                                                                             \
    VEC_INLINE vec name(const vec *x)                                                                                  \
    {                                                                                                                  \
        vec t[8], u[4];                                                                                                \
                                                                                                                       \
        VEC_UNROLL                                                                                                     \
        for (int i = 0; i < 8; i++)                                                                                    \
            t[i] = op(_mm512_unpacklo_ps(x[2 * i], x[2 * i + 1]), _mm512_unpackhi_ps(x[2 * i], x[2 * i + 1]));         \
        VEC_UNROLL                                                                                                     \
        for (int i = 0; i < 4; i++) {                                                                                  \
            const __m512d low = _mm512_castps_pd(t[2 * i]), high = _mm512_castps_pd(t[2 * i + 1]);                     \
                                                                                                                       \
            u[i] =                                                                                                     \
                op(_mm512_castpd_ps(_mm512_unpacklo_pd(low, high)), _mm512_castpd_ps(_mm512_unpackhi_pd(low, high)));  \
        }                                                                                                              \
        VEC_UNROLL                                                                                                     \
        for (int i = 0; i < 2; i++)                                                                                    \
            t[i] = op(_mm512_shuffle_f32x4(u[2 * i], u[2 * i + 1], 0x88),                                              \
                      _mm512_shuffle_f32x4(u[2 * i], u[2 * i + 1], 0xdd));                                             \
        return op(_mm512_shuffle_f32x4(t[0], t[1], 0x88), _mm512_shuffle_f32x4(t[0], t[1], 0xdd));                     \
    }
VEC_JOIN(vec_sums, _mm512_add_ps)
VEC_JOIN(vec_tops, _mm512_max_ps)
#undef VEC_JOIN

VEC_INLINE void vec_store_bytes(uint8_t *p, const vec *v, int16_t zero, uint8_t flip)
{
    /* packing leaves four bytes of each vector in each quarter */
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i zeros = _mm512_set1_epi16(zero);
    const __m512i low = _mm512_packs_epi32(_mm512_cvtps_epi32(v[0]), _mm512_cvtps_epi32(v[1]));
    const __m512i high = _mm512_packs_epi32(_mm512_cvtps_epi32(v[2]), _mm512_cvtps_epi32(v[3]));
    const __m512i bytes = _mm512_packus_epi16(_mm512_adds_epi16(low, zeros), _mm512_adds_epi16(high, zeros));

    _mm512_storeu_si512(p, _mm512_permutexvar_epi32(order, _mm512_xor_si512(bytes, _mm512_set1_epi8((char)flip))));
}

/* Two permutations for each stored vector: the first selects from x and y, the second inserts z. */
VEC_INLINE void vec_interleave_3(float *p, vec x, vec y, vec z)
{
    int32_t pick[3][VEC_LANES], place[3][VEC_LANES];

    VEC_UNROLL
    for (int n = 0; n < 3; n++) {
        for (int l = 0; l < VEC_LANES; l++) {
            const int at = n * VEC_LANES + l, channel = at % 3, pixel = at / 3;

            pick[n][l] = channel < 2 ? channel * VEC_LANES + pixel : 0;
            place[n][l] = channel < 2 ? l : VEC_LANES + pixel;
        }
    }
    VEC_UNROLL
    for (int n = 0; n < 3; n++) {
        const vec two = _mm512_permutex2var_ps(x, _mm512_loadu_si512(pick[n]), y);

        vec_store(p + n * VEC_LANES, _mm512_permutex2var_ps(two, _mm512_loadu_si512(place[n]), z));
    }
}
VEC_INLINE void vec_part_3(const float *p, vec *x, vec *y, vec *z)
{
    const vec a = vec_load(p), b = vec_load(p + 16), c = vec_load(p + 32);
    vec *const to[3] = { x, y, z };

    VEC_UNROLL
    for (int n = 0; n < 3; n++) {
        int32_t pick[VEC_LANES], place[VEC_LANES];

        VEC_UNROLL
        for (int l = 0; l < VEC_LANES; l++) {
            const int at = 3 * l + n;

            pick[l] = at & 31;
            place[l] = at < 32 ? l : 16 + at - 32;
        }
        *to[n] = _mm512_permutex2var_ps(_mm512_permutex2var_ps(a, _mm512_loadu_si512(pick), b),
                                        _mm512_loadu_si512(place), c);
    }
}
#endif
