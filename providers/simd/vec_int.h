/* vec_int.h - vectors of int32 and of bytes, beside those of floats (vec.h): what kernels of 8-bit integers are written
 * over.
 *
 * What each header defines, ivec being a vector of VEC_LANES int32:
 *   int_set(x) int_set_byte(x) int_set_short(x)  all lanes, bytes, shorts
 *   int_load(p) int_store(p, v) int_xor(x, y)
 *   INT_QUADS, int_dot(sum, x, w)   of each lane four products of unsigned bytes of x by signed ones of w are added,
 * or, where INT_QUADS is 0, two of shorts: exactly; all lanes of x are the same int_line(w)                     a
 * vector of weights for it, which lie as bytes int_interleave_4(y, a, b, c, d) 16 bytes of each become a, b, c, d, a,
 * b, ... int_round(x) int_float(x)       to the nearest integer, halves to even; and back int_bytes(q, zero, low, high)
 * of four vectors, with saturation: shorts, zero added, unsigned bytes within bounds; each 128 bits hold four of each
 * vector int_in_order(bytes)             those bytes: of the first vector, the second, ... int_store_part(y, v, part,
 * parts, count)  of v in 1, 2 or 4 parts, that one: its first `count` bytes, all beyond int_from_bytes(x, is_signed)
 * VEC_LANES of them as floats INT_LINES                       vectors of sums in a panel of weights and where INT_QUADS
 * may be 0, for shorts: int_dot_pairs(sum, x, w)        of each lane two products of shorts are added, exactly
 *   int_widen(p) int_widen_half(p)  2 VEC_LANES unsigned bytes as shorts; VEC_LANES of them, the rest anything
 *   int_zip_low(x, y) int_zip_high(x, y)  shorts of x and y in turn, of the first and second half of each 128 bits
 *   int_or(x, y) int_up_16(x)       lanes times 2^16
 *   int_bits(x)                     the bits of floats
 *   int_first(x, y) int_second(x, y)  of two vectors of sums of zipped shorts, those of the first VEC_LANES channels,
 * and of the others int_in_pairs(bytes)             what int_bytes made, in 2 parts: of the first two vectors as those
 * of zipped shorts lie, and of the others INT_HALVES                      blocks of single channels: 64 by quads and
 * halves of those; else 16, by pairs
 *   int_any_above(x, y)             is a float of x greater than that of y? */
#ifndef SIMD_VEC_INT_H
#define SIMD_VEC_INT_H
#include "simd/vec.h"
#include <stdbool.h>
#include <string.h>
#if defined(KERNEL_IS_avx512)
#include "simd/vec_int_avx512.h"
#elif defined(KERNEL_IS_neon)
#include "simd/vec_int_neon.h"
#else
#include "simd/vec_int_avx2.h"
#endif
#if defined(__x86_64__)
VEC_INLINE void int_interleave_4(uint8_t *output, const uint8_t *a, const uint8_t *b, const uint8_t *c,
                                 const uint8_t *d)
{
    const __m128i m128i = _mm_loadu_si128((const void *)a), x = _mm_loadu_si128((const void *)b);
    const __m128i z = _mm_loadu_si128((const void *)c), v = _mm_loadu_si128((const void *)d);
    const __m128i low[2] = { _mm_unpacklo_epi8(m128i, x), _mm_unpacklo_epi8(z, v) };
    const __m128i high[2] = { _mm_unpackhi_epi8(m128i, x), _mm_unpackhi_epi8(z, v) };

    _mm_storeu_si128((void *)output, _mm_unpacklo_epi16(low[0], low[1]));
    _mm_storeu_si128((void *)(output + 16), _mm_unpackhi_epi16(low[0], low[1]));
    _mm_storeu_si128((void *)(output + 32), _mm_unpacklo_epi16(high[0], high[1]));
    _mm_storeu_si128((void *)(output + 48), _mm_unpackhi_epi16(high[0], high[1]));
}
#endif
#endif
