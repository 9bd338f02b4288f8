/* vec_int.h - vectors of int32 and of bytes for kernels of 8-bit integers, in addition to the floats of vec.h.
 *
 * Each header defines the following. ivec is a vector of VEC_LANES int32.
 *   int_set(x)  int_set_byte(x)  int_set_short(x)  all lanes, bytes, 16-bit words
 *   int_load(p)  int_store(p, v)  int_xor(x, y)
 *   INT_QUADS                    1: int_dot multiplies four bytes in a lane; 0: two 16-bit words
 *   int_dot(sum, x, w)           adds to each lane four products of unsigned bytes of x by signed bytes of w, or two
 *                                products of 16-bit words, exactly; all lanes of x are equal
 *   int_line(w)                  a vector of weights for int_dot, stored as bytes
 *   int_interleave_4(y, a, b, c, d)  16 bytes of each: a0 b0 c0 d0 a1 ...
 *   int_round(x)  int_float(x)   float to the nearest integer, ties to even; and back
 *   int_bytes(q, zero, low, high)  four vectors with saturation: to 16-bit words, plus zero, to unsigned bytes within
 *                                bounds; each 128 bits hold four bytes of each vector
 *   int_in_order(bytes)          the result of int_bytes reordered: all bytes of the first vector, of the second, ...
 *   int_store_part(y, v, part, parts, count)  part `part` of v divided in 1, 2 or 4 parts: its first `count` bytes, all
 *                                if count is larger
 *   int_from_bytes(x, is_signed) VEC_LANES bytes as floats
 *   INT_LINES                    vectors of sums in a panel of weights
 *   INT_HALVES                   blocks of depthwise convolutions: 1: 64 channels in quads and halves; 0: 16 in pairs
 *   int_any_above(x, y)          true if any float of x is greater than that of y
 * Where these macros are defined, quads have the following, too:
 *   INT_SIGNED                   int_dot reads the bytes of x as signed
 *   INT_STEPS                    int_dot_step(sum, x, w, i): int_dot with lane i of x, a constant, instead of equal
 *                                lanes; x has INT_STEPS lanes
 *   INT_SQUARES                  products of two rows by two columns, each of eight bytes, in four lanes:
 *     int_square(sum, x, w)      adds row i of x, unsigned, by column j of w, signed, to lane 2 i + j
 *     int_rows(x, y)             x of int_square, from the addresses of eight bytes of each row;
 *     int_row_ends(x, y)         the same of four bytes, followed by zeros
 *     int_columns_low(v, w)  int_columns_high(v, w)  w of int_square, from int_line of two steps: the first two columns
 *                                and the others
 *     int_halves_low(x, y)  int_halves_high(x, y)  the first lanes, or the last ones, of both
 * If INT_QUADS may be 0, also for 16-bit words:
 *   int_dot_pairs(sum, x, w)     adds to each lane two products of 16-bit words, exactly
 *   int_widen(p)                 2 VEC_LANES unsigned bytes as 16-bit words
 *   int_widen_half(p)            VEC_LANES of them; the remaining words are undefined
 *   int_zip_low(x, y)  int_zip_high(x, y)  interleaves 16-bit words of the lower or upper half of each 128 bits
 *   int_or(x, y)  int_up_16(x)   int_up_16: lanes times 2^16
 *   int_bits(x)                  the bits of floats
 *   int_first(x, y)  int_second(x, y)  from two vectors of sums of zipped words: the sums of the first VEC_LANES
 *                                channels, and of the others
 *   int_in_pairs(bytes)          the result of int_bytes reordered for 2 parts: the bytes of the first two vectors in
 *                                the order of zipped words, then of the other two */
#ifndef SIMD_VEC_INT_H
#define SIMD_VEC_INT_H
#include "simd/vec.h"
#include <stdbool.h>
#include <string.h>
#if defined(KERNEL_IS_avx512)
#include "simd/vec_int_avx512.h"
#elif defined(KERNEL_IS_neon)
#include "simd/vec_int_neon.h"
#elif defined(KERNEL_IS_wasm)
#include "simd/vec_int_wasm.h"
#elif defined(KERNEL_IS_uniform_c)
#include <emmintrin.h>
#include "simd/vec_int_uniform.h"
#else
#include "simd/vec_int_avx2.h"
#endif
#if defined(__x86_64__)
VEC_INLINE void int_interleave_4(uint8_t *output, const uint8_t *a, const uint8_t *b, const uint8_t *c,
                                 const uint8_t *d)
{
    const __m128i first = _mm_loadu_si128((const void *)a), second = _mm_loadu_si128((const void *)b);
    const __m128i third = _mm_loadu_si128((const void *)c), fourth = _mm_loadu_si128((const void *)d);
    const __m128i low[2] = { _mm_unpacklo_epi8(first, second), _mm_unpacklo_epi8(third, fourth) };
    const __m128i high[2] = { _mm_unpackhi_epi8(first, second), _mm_unpackhi_epi8(third, fourth) };

    _mm_storeu_si128((void *)output, _mm_unpacklo_epi16(low[0], low[1]));
    _mm_storeu_si128((void *)(output + 16), _mm_unpackhi_epi16(low[0], low[1]));
    _mm_storeu_si128((void *)(output + 32), _mm_unpacklo_epi16(high[0], high[1]));
    _mm_storeu_si128((void *)(output + 48), _mm_unpackhi_epi16(high[0], high[1]));
}
#endif
#endif
