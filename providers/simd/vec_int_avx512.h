/* vec_int_avx512.h - vectors of int32 and of bytes with AVX-512 VNNI, see vec_int.h. */
#ifndef SIMD_VEC_INT_AVX512_H
#define SIMD_VEC_INT_AVX512_H

#define INT_LINES 4
#define INT_QUADS 1
#define INT_HALVES 1

typedef __m512i ivec;

VEC_INLINE ivec int_set(int32_t x)
{
    return _mm512_set1_epi32(x);
}
VEC_INLINE ivec int_set_byte(uint8_t x)
{
    return _mm512_set1_epi8((char)x);
}
VEC_INLINE ivec int_set_short(int16_t x)
{
    return _mm512_set1_epi16(x);
}
VEC_INLINE ivec int_load(const void *p)
{
    return _mm512_loadu_si512(p);
}
VEC_INLINE void int_store(void *p, ivec v)
{
    _mm512_storeu_si512(p, v);
}
VEC_INLINE ivec int_xor(ivec x, ivec y)
{
    return _mm512_xor_si512(x, y);
}
VEC_INLINE ivec int_line(const int8_t *weights)
{
    return int_load(weights);
}
VEC_INLINE ivec int_dot(ivec sum, ivec x, ivec w)
{
    return _mm512_dpbusd_epi32(sum, x, w);
}
VEC_INLINE ivec int_round(vec x)
{
    return _mm512_cvtps_epi32(x);
}
VEC_INLINE vec int_float(ivec x)
{
    return _mm512_cvtepi32_ps(x);
}
VEC_INLINE ivec int_bytes(const ivec *q, ivec zero, ivec low, ivec high)
{
    const ivec a = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), zero);
    const ivec b = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), zero);

    return _mm512_min_epu8(high, _mm512_max_epu8(low, _mm512_packus_epi16(a, b)));
}
VEC_INLINE ivec int_in_order(ivec bytes)
{
    return _mm512_permutexvar_epi32(_mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0), bytes);
}
VEC_INLINE __mmask64 int_mask(int64_t count)
{
    return count >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << count) - 1;
}
/* Masked stores are slow, in particular those of bytes. */
VEC_INLINE void int_store_part(uint8_t *output, ivec v, int part, int parts, int64_t count)
{
    if (parts == 1) {
        if (count >= 64)
            _mm512_storeu_si512(output, v);
        else if (count % 4 == 0)
            _mm512_mask_storeu_epi32(output, (__mmask16)((1u << count / 4) - 1), v);
        else
            _mm512_mask_storeu_epi8(output, int_mask(count), v);
    } else if (parts == 2) {
        const __m256i half = part == 0 ? _mm512_castsi512_si256(v) : _mm512_extracti64x4_epi64(v, 1);

        if (count >= 32)
            _mm256_storeu_si256((void *)output, half);
        else if (count % 4 == 0)
            _mm256_mask_storeu_epi32(output, (__mmask8)((1u << count / 4) - 1), half);
        else
            _mm256_mask_storeu_epi8(output, (__mmask32)int_mask(count), half);
    } else {
        const __m128i quarter = part == 0   ? _mm512_castsi512_si128(v)
                                : part == 1 ? _mm512_extracti32x4_epi32(v, 1)
                                : part == 2 ? _mm512_extracti32x4_epi32(v, 2)
                                            : _mm512_extracti32x4_epi32(v, 3);

        if (count >= 16)
            _mm_storeu_si128((void *)output, quarter);
        else
            _mm_mask_storeu_epi8(output, (__mmask16)int_mask(count), quarter);
    }
}
VEC_INLINE vec int_from_bytes(const uint8_t *input, bool is_signed)
{
    const __m128i bytes = _mm_loadu_si128((const void *)input);

    return _mm512_cvtepi32_ps(is_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes));
}
VEC_INLINE bool int_any_above(vec x, vec y)
{
    return _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ) != 0;
}
#endif
