/* vec.h - vectors of floats, as kernels are written over: VEC_LANES of them in a register, VEC_REGISTERS registers.
 *
 * A kernel is one source. CMake compiles it once for each level of instructions (kernel_instances), and says by
 * KERNEL_LEVEL which that is; names that the linker sees are made by KERNEL(name). Another instruction set is another
 * header of this kind, a line below, and a line in CMakeLists.txt.
 *
 * What each header defines; m is a vmask, which selects lanes, p points to floats at any address:
 *   vec_zero()  vec_set(x)  vec_load(p)  vec_store(p, v)
 *   vec_hold(v)                  v, in a register: GCC may read memory again for each use of a vector
 *   vec_first(n)                 the mask of the first n lanes: none for n <= 0, all for n >= VEC_LANES
 *   vec_load_some(m, p)          lanes that are not selected are not read, and 0
 *   vec_store_some(p, m, v)      lanes that are not selected are not written
 *   vec_load_half(p) vec_store_half(p, v)  of float16, rounded to nearest, halves to even; NaN stays one
 *   vec_add sub mul div (x, y)   vec_fma(x, y, z) = x y + z, vec_fms = x y - z, vec_fnma = z - x y; rounded once but in
 *                                plain C
 *   vec_min max (x, y)           x < y ? x : y and x > y ? x : y, so y where one is NaN
 *   vec_abs(x)  vec_round(x)     to the nearest integer, halves to even
 *   vec_greater(x, y)            a mask; vec_select(m, x, y) = m ? x : y
 *   vec_scale(x, n)              x 2^n for integers n from -252 to 252; with VEC_SCALES_ALL any n, and 0 for -infinity
 *   vec_transpose(v)             of VEC_LANES vectors
 *   vec_sums(v) vec_tops(v)      of VEC_LANES vectors: one lane each, their elements joined by vec_add, vec_max
 *   vec_sum(x) vec_top(x)        all lanes added; the largest, any where one is NaN
 *   vec_lookup(table, i)         of 32 floats: the one whose number is in the lowest bits of i's integers
 *   VEC_LOOKUP                   of how many floats one instruction looks one up: 32, 8 or 0, which is none
 *   vec_lookup_some(table, i)    of VEC_LOOKUP floats, where that is not 0
 *   vec_store_bytes(p, v, zero, flip)  of four vectors, each rounded to an integer within 2^15: as unsigned bytes, zero
 *                                added, beyond 0 and 255 those, with the bits of flip turned
 *   vec_interleave_3(p, x, y, z) stores x0 y0 z0 x1 y1 z1 ...
 *   vec_part_3(p, x, y, z)      the other way: three vectors are loaded, of every third float each
 *   vec_zip_bytes_low high (x, y), vec_zip_halves_low high (x, y)  x0 y0 x1 y1 ... of the bytes, or words of 16 bits,
 * in the lower or the upper half of each 128 bits and VEC_FUSES: vec_fma rounds once; VEC_HAS_MASKS: loads of some
 * lanes are as fast as those of all; VEC_NARROW: vectors are so long that few channels leave them half empty
 * (tiles_narrow.c). Vectors also are what GCC and Clang call vector types: + - * between them and with numbers are
 * theirs. */
#ifndef SIMD_VEC_H
#define SIMD_VEC_H
#include <stdint.h>
#include <string.h>

#define VEC_INLINE static inline __attribute__((always_inline))
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* GCC takes ten times as long for what is unrolled and checked. */
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

/* A function that is called through a table alone, by an index that depends on the model and never on data: a program
 * of `inlay bundle` leaves out those that its model does not call. KERNEL_PART(void, name, const x *p) { ... } defines
 * it, KERNEL_PART_OF(name) is what stands in the table. */
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
#else
#include "simd/vec_c.h"
#endif

/* Lines of the cache are asked for before they are needed: near the core, or in the second-level cache. Any address. */
VEC_INLINE void vec_fetch_near(const void *p)
{
    __builtin_prefetch(p, 0, 3);
}
VEC_INLINE void vec_fetch_far(const void *p)
{
    __builtin_prefetch(p, 0, 2);
}
#endif
