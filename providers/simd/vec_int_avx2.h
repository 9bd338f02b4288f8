/* vec_int_avx2.h - vectors of int32 and of bytes with AVX2, and AVX-VNNI if enabled for the compiler; see vec_int.h. */
#ifndef SIMD_VEC_INT_AVX2_H
#define SIMD_VEC_INT_AVX2_H

#define INT_LINES 2
#define INT_HALVES 0

typedef __m256i ivec;

VEC_INLINE ivec int_set(int32_t x)
{
    return _mm256_set1_epi32(x);
}
VEC_INLINE ivec int_set_byte(uint8_t x)
{
    return _mm256_set1_epi8((char)x);
}
VEC_INLINE ivec int_set_short(int16_t x)
{
    return _mm256_set1_epi16(x);
}
VEC_INLINE ivec int_load(const void *p)
{
    return _mm256_loadu_si256(p);
}
VEC_INLINE void int_store(void *p, ivec v)
{
    _mm256_storeu_si256(p, v);
}
VEC_INLINE ivec int_xor(ivec x, ivec y)
{
    return _mm256_xor_si256(x, y);
}
VEC_INLINE ivec int_or(ivec x, ivec y)
{
    return _mm256_or_si256(x, y);
}
VEC_INLINE ivec int_up_16(ivec x)
{
    return _mm256_slli_epi32(x, 16);
}
VEC_INLINE ivec int_widen(const uint8_t *input)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)input));
}
VEC_INLINE ivec int_widen_half(const uint8_t *input)
{
    return _mm256_cvtepu8_epi16(_mm_loadl_epi64((const void *)input));
}
VEC_INLINE ivec int_zip_low(ivec x, ivec y)
{
    return _mm256_unpacklo_epi16(x, y);
}
VEC_INLINE ivec int_zip_high(ivec x, ivec y)
{
    return _mm256_unpackhi_epi16(x, y);
}
VEC_INLINE ivec int_dot_pairs(ivec sum, ivec x, ivec w)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(x, w));
}
#if defined(__AVXVNNI__)
#define INT_QUADS 1
VEC_INLINE ivec int_line(const int8_t *weights)
{
    return int_load(weights);
}
VEC_INLINE ivec int_dot(ivec sum, ivec x, ivec w)
{
    return _mm256_dpbusd_avx_epi32(sum, x, w);
}
#elif defined(KERNEL_IS_avx2_pairs)
#define INT_QUADS 1
VEC_INLINE ivec int_line(const int8_t *weights)
{
    return int_load(weights);
}
/* Exact if neighbours in w, those of an even and the next byte, add up to -128 to 128. */
VEC_INLINE ivec int_dot(ivec sum, ivec x, ivec w)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(x, w), _mm256_set1_epi16(1)));
}
#else
#define INT_QUADS 0
VEC_INLINE ivec int_line(const int8_t *weights)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)weights));
}
VEC_INLINE ivec int_dot(ivec sum, ivec x, ivec w)
{
    return int_dot_pairs(sum, x, w);
}
#endif
VEC_INLINE ivec int_round(vec x)
{
    return _mm256_cvtps_epi32(x);
}
VEC_INLINE vec int_float(ivec x)
{
    return _mm256_cvtepi32_ps(x);
}
VEC_INLINE ivec int_bytes(const ivec *q, ivec zero, ivec low, ivec high)
{
    const ivec a = _mm256_adds_epi16(_mm256_packs_epi32(q[0], q[1]), zero);
    const ivec b = _mm256_adds_epi16(_mm256_packs_epi32(q[2], q[3]), zero);

    return _mm256_min_epu8(high, _mm256_max_epu8(low, _mm256_packus_epi16(a, b)));
}
VEC_INLINE ivec int_in_order(ivec bytes)
{
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
VEC_INLINE ivec int_bits(vec x)
{
    return _mm256_castps_si256(x);
}
VEC_INLINE ivec int_first(ivec x, ivec y)
{
    return _mm256_permute2x128_si256(x, y, 0x20);
}
VEC_INLINE ivec int_second(ivec x, ivec y)
{
    return _mm256_permute2x128_si256(x, y, 0x31);
}
VEC_INLINE ivec int_in_pairs(ivec bytes)
{
    return _mm256_permute4x64_epi64(bytes, 0xd8);
}
VEC_INLINE void int_store_part(uint8_t *output, ivec v, int part, int parts, int64_t count)
{
    const int64_t size = 32 / parts;
    uint8_t bytes[32];

    if (parts == 2 && count >= 16) {
        _mm_storeu_si128((void *)output, part == 0 ? _mm256_castsi256_si128(v) : _mm256_extracti128_si256(v, 1));
    } else if (parts == 4 && count >= 8) {
        const __m128i half = part < 2 ? _mm256_castsi256_si128(v) : _mm256_extracti128_si256(v, 1);

        _mm_storel_epi64((void *)output, part % 2 == 0 ? half : _mm_unpackhi_epi64(half, half));
    } else {
        _mm256_storeu_si256((void *)bytes, v);
        memcpy(output, bytes + part * size, (size_t)(count < size ? count : size));
    }
}
VEC_INLINE vec int_from_bytes(const uint8_t *input, bool is_signed)
{
    const __m128i bytes = _mm_loadl_epi64((const void *)input);

    return _mm256_cvtepi32_ps(is_signed ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes));
}
VEC_INLINE bool int_any_above(vec x, vec y)
{
    return _mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_GT_OQ)) != 0;
}
#endif
