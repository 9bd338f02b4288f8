/* vec.h - vectors of floats: VEC_LANES elements in a register, VEC_REGISTERS registers.
 *
 * A kernel is one source file. CMake compiles it once for each instruction set (kernel_instances) and passes the name
 * of the instruction set as KERNEL_LEVEL; KERNEL(name) makes the names with external linkage. A new instruction set
 * needs a header of this kind, a line below, and a line in CMakeLists.txt.
 *
 * Each header defines the following. m is a vmask, which selects lanes; p points to floats at any address.
 *   vec_zero()  vec_set(x)  vec_load(p)  vec_store(p, v)
 *   vec_hold(v)                  v in a register: otherwise GCC may load it from memory for each use
 *   vec_first(n)                 mask of the first n lanes: none for n <= 0, all for n >= VEC_LANES
 *   vec_load_some(m, p)          masked load: other lanes are not read, and are 0
 *   vec_store_some(p, m, v)      masked store: other lanes are not written
 *   vec_load_half(p)  vec_store_half(p, v)  float16, rounded to nearest, ties to even; NaN stays NaN
 *   vec_add sub mul div (x, y)
 *   vec_fma(x, y, z)             x y + z;  vec_fms: x y - z;  vec_fnma: z - x y; one rounding if VEC_FUSES
 *   vec_min max (x, y)           x < y ? x : y and x > y ? x : y, so y if one is NaN
 *   vec_abs(x)  vec_round(x)     vec_round: to the nearest integer, ties to even
 *   vec_greater(x, y)            a mask;  vec_select(m, x, y) = m ? x : y
 *   vec_scale(x, n)              x 2^n for integers n from -252 to 252; with VEC_SCALES_ALL any n, and 0 for -infinity
 *   vec_transpose(v)             transposes VEC_LANES vectors
 *   vec_sums(v)  vec_tops(v)     of VEC_LANES vectors: the sum, or the maximum, of each in one lane
 *   vec_sum(x)  vec_top(x)       sum and maximum of all lanes; the maximum is undefined if a lane is NaN
 *   vec_lookup(table, i)         table of 32 floats, indexed by the lowest bits of the integers in i
 *   vec_lookup_some(table, i)    the same for a table of VEC_LOOKUP floats, if that is not 0
 *   vec_store_bytes(p, v, zero, flip)  four vectors, each rounded to an integer within 2^15: zero is added, the sum
 *                                saturated to an unsigned byte, and the bits of flip inverted
 *   vec_interleave_3(p, x, y, z) stores x0 y0 z0 x1 y1 z1 ...
 *   vec_part_3(p, x, y, z)       the inverse: loads three vectors, each of every third float
 *   vec_zip_bytes_low high (x, y), vec_zip_halves_low high (x, y)  x0 y0 x1 y1 ... of the bytes, or the 16-bit words,
 *                                in the lower or upper half of each 128 bits
 * Doubles, for sums of floats that are rounded once; a header without them leaves VEC_WIDE undefined, and it is 1:
 *   vec_wide, vec_part           VEC_WIDE doubles, and as many floats; double and float if VEC_WIDE is 1
 *   vec_part_load(p)             VEC_WIDE floats
 *   vec_widen(x)                 a vec_part as doubles
 *   vec_wide_abs(x)
 * These are not defined if VEC_WIDE is 1:
 *   vec_part_some(n, p, rest)    the first n of them: others are not read, and are `rest`
 *   vec_narrow(x)                a vec_wide, rounded to floats
 *   vec_wide_sum(x)              of all lanes: those VEC_WIDE / 2 apart are added, then those VEC_WIDE / 4 apart ...
 *   vec_wide_sums(x)             of VEC_WIDE vectors: the sum of each, in this order, in one lane
 * and these constants:
 *   VEC_LOOKUP                   size of a table that one instruction can index: 32, 8 or 0
 *   VEC_FUSES                    vec_fma rounds once
 *   VEC_HAS_MASKS                masked loads are as fast as others
 *   VEC_NARROW                   vectors are so long that few channels leave them half empty (tiles_narrow.c)
 * Vectors are vector types of GCC and Clang, so + - * between them and with numbers are available. */
#ifndef SIMD_VEC_H
#define SIMD_VEC_H
#include <stdint.h>
#include <string.h>

#define VEC_INLINE static inline __attribute__((always_inline))
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                                                   \
    (defined(KERNEL_IS_uniform_c) && defined(__x86_64__))
/* GCC takes ten times as long to compile unrolled loops with checks, or with vectors longer than registers. */
#define VEC_UNROLL
#define VEC_UNROLL_SOME
#elif defined(__clang__)
#define VEC_UNROLL _Pragma("clang loop unroll(full)")
#define VEC_UNROLL_SOME _Pragma("clang loop unroll_count(4)")
#else
#define VEC_UNROLL _Pragma("GCC unroll 64")
#define VEC_UNROLL_SOME _Pragma("GCC unroll 4")
#endif

#define KERNEL_PASTE(name, level) name##_##level
#define KERNEL_NAME(name, level) KERNEL_PASTE(name, level)
#define KERNEL(name) KERNEL_NAME(name, KERNEL_LEVEL)
#define KERNEL_QUOTE(level) #level
#define KERNEL_QUOTED(level) KERNEL_QUOTE(level)
#define KERNEL_TEXT KERNEL_QUOTED(KERNEL_LEVEL)

/* A function that is called only through a table, by an index that depends on the model, and on data only as optional.h
 * states. `inlay bundle` omits those that its model does not call. KERNEL_PART(void, name, const x *p) { ... } defines
 * it; KERNEL_PART_OF(name) is its entry in the table. */
#define KERNEL_PART_OF(name) KERNEL(part_##name)
#define KERNEL_PART(type, name, ...)                                                                                   \
    __attribute__((visibility("hidden"))) type KERNEL_PART_OF(name)(__VA_ARGS__);                                      \
    type KERNEL_PART_OF(name)(__VA_ARGS__)

#if defined(KERNEL_IS_avx512)
#include "simd/vec_avx512.h"
#elif defined(KERNEL_IS_avx2)
#include "simd/vec_avx2.h"
#elif defined(KERNEL_IS_neon)
#include "simd/vec_neon.h"
#elif defined(KERNEL_IS_wasm)
#include "simd/vec_wasm.h"
#elif defined(KERNEL_IS_rvv)
#include "simd/vec_rvv.h"
#else
/* Plain C with four lanes, and the instance uniform_c with eight lanes, whose results are those of vec_avx2.h, bit for
 * bit, on a CPU without AVX2. */
#include "simd/vec_c.h"
#endif

#if !defined(VEC_WIDE)
#define VEC_WIDE 1
typedef double vec_wide;
typedef float vec_part;

VEC_INLINE vec_part vec_part_load(const float *p)
{
    return *p;
}
VEC_INLINE vec_wide vec_widen(vec_part x)
{
    return (double)x;
}
VEC_INLINE vec_wide vec_wide_abs(vec_wide x)
{
    return __builtin_fabs(x);
}
#endif

/* x / y, exactly rounded; inverse: 1 / y. Two Newton steps take less time than a division where multiply-adds fuse. */
VEC_INLINE vec vec_quotient(vec x, vec y, vec inverse)
{
#if VEC_FUSES
    vec q = vec_mul(x, inverse);

    q = vec_fma(vec_fnma(q, y, x), inverse, q);
    return vec_fma(vec_fnma(q, y, x), inverse, q);
#else
    (void)inverse;
    return vec_div(x, y);
#endif
}
/* Prefetch a cache line to the first-level cache (near) or to the second-level cache (far). Any address is valid. */
VEC_INLINE void vec_fetch_near(const void *p)
{
    __builtin_prefetch(p, 0, 3);
}
VEC_INLINE void vec_fetch_far(const void *p)
{
    __builtin_prefetch(p, 0, 2);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* Kernels are then built from functions that take what is a constant elsewhere as an argument: inlined, a kernel of
 * n-bit weights would take half a minute to compile. */
#undef VEC_INLINE
#define VEC_INLINE static inline
#endif
#endif
