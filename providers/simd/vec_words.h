/* vec_words.h - vectors of 32-bit words, in addition to the floats of vec.h. Each word holds several packed weights of
 * one of VEC_LANES columns. For bytes as activations see vec_int.h.
 *
 *   vint_load(p)                  loads from any address
 *   vint_of_bytes(p, is_signed)   VEC_LANES bytes as words
 *   vint_pick(w, shift, n)        (w >> shift) & (2^n - 1) of each word
 *   vec_of(i)                     integers as floats
 *   vec_pick(w, shift, n, table)  table[(w >> shift) & (2^n - 1)] of 16 floats, for n = 2 and 4; a table for n = 2
 *                                 repeats its four floats four times
 *
 * Where INTS_CODES is defined, also look-ups of bytes:
 *   vint_table(table)             a table of 16 bytes
 *   vint_code(w, shift, table)    table[(b >> shift) & 15] of each byte b of the words; shift: 0 or 4
 *
 * Integer dot products are available where one of these macros is defined:
 *   INTS_BYTES                    products of bytes by bytes in one instruction
 *   INTS_WORDS                    products of pairs of 16-bit words
 * With INTS_WORDS this may be defined, too:
 *   INTS_NIBBLES                  products of weights of at most 4 bits by bytes
 *   INTS_PANELS                   weight blocks of single panels (nbits_panels.c)
 * With INTS_BYTES these may be defined, too:
 *   INTS_BLOCKS                   products of two vectors, of bytes and of pairs of 16-bit words, for weight blocks
 *                                 (nbits_block.c) and tiles of words; there are 32 registers
 *   INTS_STEPS                    products by a lane of a vector of activations
 *   INTS_SIGNED                   u is signed: weights of 8 bits are multiplied minus 128 */
#ifndef SIMD_VEC_WORDS_H
#define SIMD_VEC_WORDS_H
#include "simd/vec.h"
#include <stdbool.h>

typedef int32_t vint __attribute__((vector_size(VEC_LANES * 4)));
typedef uint32_t unsigned_words __attribute__((vector_size(VEC_LANES * 4))); /* for sums that may wrap */

VEC_INLINE vint vint_load(const void *p)
{
    vint v;

    memcpy(&v, p, sizeof v);
    return v;
}
VEC_INLINE vint vint_of_bytes(const void *p, bool is_signed)
{
#if defined(KERNEL_IS_avx512)
    const __m128i bytes = _mm_loadu_si128(p);

    return (vint)(is_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes));
#elif defined(KERNEL_IS_avx2)
    const __m128i bytes = _mm_loadl_epi64(p);

    return (vint)(is_signed ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes));
#else
    uint8_t bytes[VEC_LANES];
    vint v = { 0 };

    memcpy(bytes, p, sizeof bytes);
    for (int i = 0; i < VEC_LANES; i++)
        v[i] = is_signed ? (int8_t)bytes[i] : bytes[i];
    return v;
#endif
}
VEC_INLINE vint vint_pick(vint w, int shift, int bits)
{
    return (vint)((unsigned_words)w >> (uint32_t)shift & (uint32_t)((1u << bits) - 1));
}
VEC_INLINE vec vec_of(vint i)
{
    return (vec) __builtin_convertvector(i, vec);
}
VEC_INLINE vint vint_set(int32_t x)
{
    return x - (vint){ 0 };
}

#if defined(KERNEL_IS_avx512)
VEC_INLINE vec vec_pick(vint w, int shift, int bits, const float *table)
{
    (void)bits; /* the permutation reads the lowest four */
    return _mm512_permutexvar_ps((__m512i)((vint)w >> shift), _mm512_loadu_ps(table));
}
#else
VEC_INLINE vec vec_pick(vint w, int shift, int bits, const float *table)
{
    return vec_sub(vec_of(vint_pick(w, shift, bits)), vec_set(-table[0]));
}
#endif

#if defined(KERNEL_IS_avx512)
#define INTS_CODES 1
VEC_INLINE vint vint_table(const uint8_t *table)
{
    return (vint)_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)table));
}
VEC_INLINE vint vint_code(vint w, int shift, vint table)
{
    return (vint)_mm512_shuffle_epi8((__m512i)table, (__m512i)((unsigned_words)w >> (uint32_t)shift & 0x0f0f0f0fu));
}
#elif defined(KERNEL_IS_avx2)
#define INTS_CODES 1
VEC_INLINE vint vint_table(const uint8_t *table)
{
    return (vint)_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table));
}
VEC_INLINE vint vint_code(vint w, int shift, vint table)
{
    return (vint)_mm256_shuffle_epi8((__m256i)table, (__m256i)((unsigned_words)w >> (uint32_t)shift & 0x0f0f0f0fu));
}
#elif defined(__ARM_NEON) && VEC_LANES == 4
#define INTS_CODES 1
VEC_INLINE vint vint_table(const uint8_t *table)
{
    return (vint)vld1q_u8(table);
}
VEC_INLINE vint vint_code(vint w, int shift, vint table)
{
    return (vint)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)((unsigned_words)w >> (uint32_t)shift & 0x0f0f0f0fu));
}
#endif

#if defined(KERNEL_IS_avx512) || defined(KERNEL_IS_avx2)
/* Keeps the compiler from other orders of sums, for which it would store terms for lack of registers. */
VEC_INLINE vint vint_hold(vint x)
{
    __asm__("" : "+v"(x));
    return x;
}
#endif

/* For each lane: acc plus the dot product of the two 16-bit words, or four bytes, of u and of a (activations). */
#if defined(KERNEL_IS_avx512_vnni)
#define INTS_BYTES 1
#define INTS_BLOCKS 1
VEC_INLINE vint ints_dot(vint acc, vint u, int32_t a)
{
    return (vint)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)u, _mm512_set1_epi32(a));
}
/* Four products of unsigned by signed bytes in a lane, or two of 16-bit words; sums wrap around. */
VEC_INLINE vint ints_dot_bytes(vint acc, vint a, vint w)
{
    return (vint)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)a, (__m512i)w);
}
VEC_INLINE vint ints_dot_words(vint acc, vint x, vint y)
{
    return (vint)_mm512_dpwssd_epi32((__m512i)acc, (__m512i)x, (__m512i)y);
}
#elif defined(KERNEL_IS_avx512)
#define INTS_WORDS 1
VEC_INLINE vint ints_dot(vint acc, vint u, int32_t a)
{
    return acc + (vint)_mm512_madd_epi16((__m512i)u, _mm512_set1_epi32(a));
}
#elif defined(KERNEL_IS_avx2)
#define INTS_WORDS 1
#define INTS_NIBBLES 1
#ifndef KERNEL_IS_uniform /* its choices are those of uniform_c, which has none */
#define INTS_PANELS 1
#endif
VEC_INLINE vint ints_dot(vint acc, vint u, int32_t a)
{
    return vint_hold(acc + (vint)_mm256_madd_epi16((__m256i)u, _mm256_set1_epi32(a)));
}
/* Adds to both 16-bit words of each lane the products of two bytes of u, which are at most 15, by two of a. Eight steps
 * do not overflow: 8 * 2 * 15 * 128 < 2^15. */
VEC_INLINE vint ints_dot_nibbles(vint acc, vint u, int32_t a)
{
    return vint_hold((vint)_mm256_add_epi16((__m256i)acc, _mm256_maddubs_epi16((__m256i)u, _mm256_set1_epi32(a))));
}
/* The sum of both 16-bit words of each lane. */
VEC_INLINE vint ints_of_words(vint words)
{
    return (vint)_mm256_madd_epi16((__m256i)words, _mm256_set1_epi16(1));
}
#elif defined(KERNEL_IS_neon_dot)
#define INTS_BYTES 1
#define INTS_STEPS 4
#define INTS_SIGNED 1
/* The activations are lane i of a; i is a constant. */
VEC_INLINE vint ints_dot_step(vint acc, vint u, vint a, const int i)
{
    NEON_BY_LANE("sdot", acc, u, a, i);
    return acc;
}
#elif defined(KERNEL_IS_uniform_c)
#define INTS_WORDS 1
VEC_INLINE vint ints_dot(vint acc, vint u, int32_t a)
{
    const unsigned_words low = (unsigned_words)((vint)((unsigned_words)u << 16) >> 16) * (uint32_t)(int16_t)a;
    const unsigned_words high = (unsigned_words)(u >> 16) * (uint32_t)(a >> 16);

    return (vint)((unsigned_words)acc + low + high);
}
#endif
#endif
