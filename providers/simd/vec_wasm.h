/* vec_wasm.h - vectors of WebAssembly (SIMD128), see vec.h. Products and sums are rounded separately: the instruction
 * set has no multiply-add whose result is the same on every machine. Relaxed SIMD (-mrelaxed-simd) has one that rounds
 * once where the machine does, and otherwise twice. */
#ifndef SIMD_VEC_WASM_H
#define SIMD_VEC_WASM_H
#include "simd/convert.h"
#include <wasm_simd128.h>

enum { VEC_LANES = 4, VEC_REGISTERS = 16 }; /* an engine has those of the machine: 16 on x86-64 */
#define VEC_HAS_MASKS 0
#define VEC_FUSES 0
#define VEC_NARROW 0
#define VEC_SCALES_ALL 0
#define VEC_LOOKUP 0

typedef float vec __attribute__((vector_size(16)));
typedef float vec_loose __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t vmask __attribute__((vector_size(16)));

VEC_INLINE vec vec_set(float x)
{
    return (vec)wasm_f32x4_splat(x);
}
VEC_INLINE vec vec_zero(void)
{
    return vec_set(0);
}
VEC_INLINE vec vec_load(const float *p)
{
    return (vec)wasm_v128_load(p);
}
VEC_INLINE vec vec_hold(vec v)
{
    return v;
}
VEC_INLINE void vec_store(float *p, vec v)
{
    wasm_v128_store(p, (v128_t)v);
}
VEC_INLINE vmask vec_first(int64_t n)
{
    const int32_t lanes = n >= VEC_LANES ? VEC_LANES : n <= 0 ? 0 : (int32_t)n;

    return (vmask)wasm_i32x4_lt(wasm_i32x4_const(0, 1, 2, 3), wasm_i32x4_splat(lanes));
}
/* Lanes are loaded and stored one by one: there are no masked loads. */
VEC_INLINE vec vec_load_some(vmask m, const float *p)
{
    vec v = vec_zero();

    VEC_UNROLL
    for (int i = 0; i < VEC_LANES; i++)
        if (m[i] != 0)
            v[i] = p[i];
    return v;
}
VEC_INLINE void vec_store_some(float *p, vmask m, vec v)
{
    VEC_UNROLL
    for (int i = 0; i < VEC_LANES; i++)
        if (m[i] != 0)
            p[i] = v[i];
}

#define VEC_OF_2(name, expression)                                                                                     \
    VEC_INLINE vec name(vec x, vec y)                                                                                  \
    {                                                                                                                  \
        return (vec)(expression);                                                                                      \
    }
VEC_OF_2(vec_add, x + y)
VEC_OF_2(vec_sub, x - y)
VEC_OF_2(vec_mul, x *y)
VEC_OF_2(vec_div, x / y)
VEC_OF_2(vec_min, wasm_f32x4_pmin((v128_t)y, (v128_t)x)) /* x < y ? x : y */
VEC_OF_2(vec_max, wasm_f32x4_pmax((v128_t)y, (v128_t)x)) /* y < x ? x : y */
VEC_OF_2(vec_zip_bytes_low,
         wasm_i8x16_shuffle((v128_t)x, (v128_t)y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23))
VEC_OF_2(vec_zip_bytes_high,
         wasm_i8x16_shuffle((v128_t)x, (v128_t)y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31))
VEC_OF_2(vec_zip_halves_low, wasm_i16x8_shuffle((v128_t)x, (v128_t)y, 0, 8, 1, 9, 2, 10, 3, 11))
VEC_OF_2(vec_zip_halves_high, wasm_i16x8_shuffle((v128_t)x, (v128_t)y, 4, 12, 5, 13, 6, 14, 7, 15))
#undef VEC_OF_2
#ifdef __wasm_relaxed_simd__
VEC_INLINE vec vec_fma(vec x, vec y, vec z)
{
    return __builtin_wasm_relaxed_madd_f32x4(x, y, z);
}
VEC_INLINE vec vec_fms(vec x, vec y, vec z)
{
    return __builtin_wasm_relaxed_madd_f32x4(x, y, -z);
}
VEC_INLINE vec vec_fnma(vec x, vec y, vec z)
{
    return __builtin_wasm_relaxed_nmadd_f32x4(x, y, z);
}
#else
VEC_INLINE vec vec_fma(vec x, vec y, vec z)
{
    return x * y + z;
}
VEC_INLINE vec vec_fms(vec x, vec y, vec z)
{
    return x * y - z;
}
VEC_INLINE vec vec_fnma(vec x, vec y, vec z)
{
    return z - x * y;
}
#endif
VEC_INLINE float vec_sum(vec x)
{
    return (x[0] + x[1]) + (x[2] + x[3]);
}
VEC_INLINE float vec_top(vec x)
{
    const float low = x[0] > x[1] ? x[0] : x[1], high = x[2] > x[3] ? x[2] : x[3];

    return low > high ? low : high;
}
VEC_INLINE vec vec_load_half(const uint16_t *p)
{
    return (vec){ f16_to_f32(p[0]), f16_to_f32(p[1]), f16_to_f32(p[2]), f16_to_f32(p[3]) };
}
VEC_INLINE void vec_store_half(uint16_t *p, vec v)
{
    for (int i = 0; i < VEC_LANES; i++)
        p[i] = f32_to_f16(v[i]);
}
VEC_INLINE vec vec_abs(vec x)
{
    return (vec)wasm_f32x4_abs((v128_t)x);
}
VEC_INLINE vec vec_round(vec x)
{
    return (vec)wasm_f32x4_nearest((v128_t)x);
}
VEC_INLINE vmask vec_greater(vec x, vec y)
{
    return (vmask)wasm_f32x4_gt((v128_t)x, (v128_t)y);
}
VEC_INLINE vec vec_select(vmask m, vec x, vec y)
{
    return (vec)wasm_v128_bitselect((v128_t)x, (v128_t)y, (v128_t)m);
}
/* Multiplies by two powers of two, each in the range of float. */
VEC_INLINE vec vec_scale(vec x, vec n)
{
    const vmask whole = (vmask)wasm_i32x4_trunc_sat_f32x4((v128_t)n), half = whole >> 1;

    return x * (vec)((half + 127) << 23) * (vec)((whole - half + 127) << 23);
}
VEC_INLINE vec vec_lookup(const float *table, vec i)
{
    const vmask at = (vmask)i & 31;

    return (vec){ table[at[0]], table[at[1]], table[at[2]], table[at[3]] };
}
VEC_INLINE void vec_transpose(vec *r)
{
    const v128_t low[2] = { wasm_i32x4_shuffle((v128_t)r[0], (v128_t)r[1], 0, 4, 1, 5),
                            wasm_i32x4_shuffle((v128_t)r[2], (v128_t)r[3], 0, 4, 1, 5) };
    const v128_t high[2] = { wasm_i32x4_shuffle((v128_t)r[0], (v128_t)r[1], 2, 6, 3, 7),
                             wasm_i32x4_shuffle((v128_t)r[2], (v128_t)r[3], 2, 6, 3, 7) };

    r[0] = (vec)wasm_i64x2_shuffle(low[0], low[1], 0, 2);
    r[1] = (vec)wasm_i64x2_shuffle(low[0], low[1], 1, 3);
    r[2] = (vec)wasm_i64x2_shuffle(high[0], high[1], 0, 2);
    r[3] = (vec)wasm_i64x2_shuffle(high[0], high[1], 1, 3);
}
VEC_INLINE vec vec_sums(const vec *x)
{
    vec t[4] = { x[0], x[1], x[2], x[3] };

    vec_transpose(t);
    return (t[0] + t[2]) + (t[1] + t[3]);
}
VEC_INLINE vec vec_tops(const vec *x)
{
    vec t[4] = { x[0], x[1], x[2], x[3] };

    vec_transpose(t);
    return vec_max(vec_max(t[0], t[2]), vec_max(t[1], t[3]));
}
VEC_INLINE v128_t vec_as_integers(vec x)
{
    return wasm_i32x4_trunc_sat_f32x4((v128_t)vec_round(x));
}
VEC_INLINE void vec_store_bytes(uint8_t *p, const vec *v, int16_t zero, uint8_t flip)
{
    const v128_t zeros = wasm_i16x8_splat(zero);
    const v128_t low = wasm_i16x8_add_sat(wasm_i16x8_narrow_i32x4(vec_as_integers(v[0]), vec_as_integers(v[1])), zeros);
    const v128_t high =
        wasm_i16x8_add_sat(wasm_i16x8_narrow_i32x4(vec_as_integers(v[2]), vec_as_integers(v[3])), zeros);

    wasm_v128_store(p, wasm_v128_xor(wasm_u8x16_narrow_i16x8(low, high), wasm_i8x16_splat((int8_t)flip)));
}
VEC_INLINE void vec_interleave_3(float *p, vec x, vec y, vec z)
{
    const v128_t xy = wasm_i32x4_shuffle((v128_t)x, (v128_t)y, 0, 4, 1, 5); /* x0 y0 x1 y1 */
    const v128_t yz = wasm_i32x4_shuffle((v128_t)y, (v128_t)z, 1, 5, 2, 6); /* y1 z1 y2 z2 */
    const v128_t zx = wasm_i32x4_shuffle((v128_t)z, (v128_t)x, 2, 6, 3, 7); /* z2 x2 z3 x3 */

    wasm_v128_store(p, wasm_i32x4_shuffle(xy, wasm_i32x4_shuffle((v128_t)z, xy, 0, 6, 0, 6), 0, 1, 4, 5));
    wasm_v128_store(p + 4, wasm_i32x4_shuffle(yz, wasm_i32x4_shuffle((v128_t)x, yz, 2, 6, 2, 6), 0, 1, 4, 5));
    wasm_v128_store(p + 8, wasm_i32x4_shuffle(wasm_i32x4_shuffle(zx, zx, 0, 3, 2, 2),
                                              wasm_i32x4_shuffle((v128_t)y, zx, 3, 6, 3, 6), 0, 1, 4, 5));
}
VEC_INLINE void vec_part_3(const float *p, vec *x, vec *y, vec *z)
{
    const v128_t a = wasm_v128_load(p), b = wasm_v128_load(p + 4), c = wasm_v128_load(p + 8);

    *x = (vec)wasm_i32x4_shuffle(wasm_i32x4_shuffle(a, b, 0, 3, 6, 6), c, 0, 1, 2, 5);
    *y = (vec)wasm_i32x4_shuffle(wasm_i32x4_shuffle(a, b, 1, 4, 7, 7), c, 0, 1, 2, 6);
    *z = (vec)wasm_i32x4_shuffle(wasm_i32x4_shuffle(a, b, 2, 5, 5, 5), c, 0, 1, 4, 7);
}
#endif
