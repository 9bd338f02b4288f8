/* vec_int.h - vectors of int32 and of bytes, beside those of floats (vec.h): what kernels of 8-bit integers are written
 * over.
 *
 * What each header defines, ivec being a vector of VEC_LANES int32:
 *   int_set(x) int_set_byte(x) int_set_short(x)  all lanes, bytes, shorts
 *   int_load(p) int_store(p, v) int_xor(x, y)
 *   INT_QUADS, int_dot(sum, x, w)   of each lane four products of unsigned bytes of x by signed ones of w are added, or,
 *                                   where INT_QUADS is 0, two of shorts: exactly
 *   int_line(w)                     a vector of weights for it, which lie as bytes
 *   int_round(x) int_float(x)       to the nearest integer, halves to even; and back
 *   int_bytes(q, zero, low, high)   of four vectors, with saturation: shorts, zero added, unsigned bytes within bounds;
 *                                   each 128 bits hold four of each vector
 *   int_in_order(bytes)             those bytes: of the first vector, the second, ...
 *   int_store_part(y, v, part, parts, count)  of v in 1, 2 or 4 parts, that one: its first `count` bytes, all beyond
 *   int_from_bytes(x, is_signed)    VEC_LANES of them as floats
 *   INT_LINES                       vectors of sums in a panel of weights
 *   INT_HALVES                      blocks of single channels: 64 by quads and halves of those; else 16, by pairs */
#ifndef KERNELS_VEC_INT_H
#define KERNELS_VEC_INT_H
#include "vec.h"
#include <stdbool.h>
#if defined(KERNEL_IS_avx512)
#include "vec_int_avx512.h"
#else
#include "vec_int_avx2.h"
#endif
#endif
