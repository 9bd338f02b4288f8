/* vec_c.h - vectors in C for any CPU, see vec.h: of four floats, or of eight for the instance uniform_c.
 *
 * Uniform kernels are those of AVX2, compiled without contraction and with separate instructions to multiply and to
 * add, which every CPU and WebAssembly have. On a CPU without AVX2 they are compiled over vectors of eight floats here,
 * which have the same results as those of vec_avx2.h, bit for bit: sums of lanes are in the same order. NaN may have
 * other bits. */
#ifndef SIMD_VEC_C_H
#define SIMD_VEC_C_H
#include "simd/convert.h"

/* VEC_ALL(f): f(0), f(1) and so on for each lane. */
#if defined(KERNEL_IS_uniform_c)
enum { VEC_LANES = 8, VEC_REGISTERS = 16 };
#define VEC_ALL(f) f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)
#define VEC_LOOKUP 8
#else
enum { VEC_LANES = 4, VEC_REGISTERS = 16 };
#define VEC_ALL(f) f(0), f(1), f(2), f(3)
#define VEC_LOOKUP 0
#endif
#define VEC_HAS_MASKS 0
#define VEC_FUSES 0
#define VEC_NARROW 0
#define VEC_SCALES_ALL 0

typedef float vec __attribute__((vector_size(4 * VEC_LANES)));
typedef float vec_loose __attribute__((vector_size(4 * VEC_LANES), aligned(4), may_alias));
typedef int32_t vmask __attribute__((vector_size(4 * VEC_LANES)));
typedef uint32_t vec_bits __attribute__((vector_size(4 * VEC_LANES))); /* for sums that may wrap */

#define VEC_X(lane) x
VEC_INLINE vec vec_set(float x)
{
    return (vec){ VEC_ALL(VEC_X) };
}
VEC_INLINE vmask vmask_set(int32_t x)
{
    return (vmask){ VEC_ALL(VEC_X) };
}
#undef VEC_X
VEC_INLINE vec vec_zero(void)
{
    return vec_set(0);
}
VEC_INLINE vec vec_load(const float *p)
{
    vec v;

    memcpy(&v, p, sizeof v);
    return v;
}
VEC_INLINE vec vec_hold(vec v)
{
    return v;
}
VEC_INLINE void vec_store(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}
VEC_INLINE vmask vec_first(int64_t n)
{
    const int32_t lanes = n >= VEC_LANES ? VEC_LANES : n <= 0 ? 0 : (int32_t)n;

#define VEC_LANE(lane) lane
    return (vmask){ VEC_ALL(VEC_LANE) } < vmask_set(lanes);
#undef VEC_LANE
}
VEC_INLINE vec vec_load_some(vmask m, const float *p)
{
    vec v = vec_zero();

    for (int i = 0; i < VEC_LANES; i++)
        if (m[i] != 0)
            v[i] = p[i];
    return v;
}
VEC_INLINE void vec_store_some(float *p, vmask m, vec v)
{
    for (int i = 0; i < VEC_LANES; i++)
        if (m[i] != 0)
            p[i] = v[i];
}
VEC_INLINE vec vec_select(vmask m, vec x, vec y)
{
    return (vec)((m & (vmask)x) | (~m & (vmask)y));
}
VEC_INLINE vmask vec_greater(vec x, vec y)
{
    return x > y;
}
VEC_INLINE vec vec_add(vec x, vec y)
{
    return x + y;
}
VEC_INLINE vec vec_sub(vec x, vec y)
{
    return x - y;
}
VEC_INLINE vec vec_mul(vec x, vec y)
{
    return x * y;
}
VEC_INLINE vec vec_div(vec x, vec y)
{
    return x / y;
}
VEC_INLINE vec vec_min(vec x, vec y)
{
    return vec_select(x < y, x, y);
}
VEC_INLINE vec vec_max(vec x, vec y)
{
    return vec_select(x > y, x, y);
}
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
#if defined(KERNEL_IS_uniform_c)
/* The order of vec_avx2.h: lanes 4 apart, then 2, then 1. */
#define VEC_JOIN_LANES(op) op(op(op(x[0], x[4]), op(x[2], x[6])), op(op(x[1], x[5]), op(x[3], x[7])))
#else
#define VEC_JOIN_LANES(op) op(op(x[0], x[1]), op(x[2], x[3]))
#endif
VEC_INLINE float vec_plus(float x, float y)
{
    return x + y;
}
VEC_INLINE float vec_greatest(float x, float y)
{
    return x > y ? x : y;
}
VEC_INLINE float vec_sum(vec x)
{
    return VEC_JOIN_LANES(vec_plus);
}
VEC_INLINE float vec_top(vec x)
{
    return VEC_JOIN_LANES(vec_greatest);
}
#undef VEC_JOIN_LANES
VEC_INLINE vec vec_load_half(const uint16_t *p)
{
#define VEC_HALF(lane) f16_to_f32(p[lane])
    return (vec){ VEC_ALL(VEC_HALF) };
#undef VEC_HALF
}
VEC_INLINE void vec_store_half(uint16_t *p, vec v)
{
    for (int i = 0; i < VEC_LANES; i++)
        p[i] = f32_to_f16(v[i]);
}
/* Within each 128 bits, as the instructions of AVX2. GCC 14 takes z, all of whose elements are set, for
 * uninitialized. */
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define VEC_ZIP(name, T, first)                                                                                        \
    VEC_INLINE vec name(vec x, vec y)                                                                                  \
    {                                                                                                                  \
        enum { PART = (int)(16 / sizeof(T)), COUNT = (int)(sizeof(vec) / sizeof(T)) };                                 \
        typedef T elements __attribute__((vector_size(sizeof(vec))));                                                  \
        const elements a = (elements)x, b = (elements)y;                                                               \
        elements z = a;                                                                                                \
                                                                                                                       \
        for (int i = 0; i < COUNT / 2; i++) {                                                                          \
            const int from = i / (PART / 2) * PART + i % (PART / 2) + (first)*PART / 2;                                \
                                                                                                                       \
            z[2 * i] = a[from];                                                                                        \
            z[2 * i + 1] = b[from];                                                                                    \
        }                                                                                                              \
        return (vec)z;                                                                                                 \
    }
VEC_ZIP(vec_zip_bytes_low, uint8_t, 0)
VEC_ZIP(vec_zip_bytes_high, uint8_t, 1)
VEC_ZIP(vec_zip_halves_low, uint16_t, 0)
VEC_ZIP(vec_zip_halves_high, uint16_t, 1)
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#undef VEC_ZIP
VEC_INLINE vec vec_abs(vec x)
{
    return (vec)((vmask)x & vmask_set(INT32_MAX));
}
/* Rounds by adding 2^23, which leaves no bits for a fraction. Larger numbers have no fraction. */
VEC_INLINE vec vec_round(vec x)
{
    const vec integer = vec_set(8388608), sign = (vec)((vmask)x & vmask_set(INT32_MIN));
    const vec size = vec_abs(x), whole = (size + integer) - integer;

    return vec_select(size < integer, (vec)((vmask)whole | (vmask)sign), x);
}
#if defined(KERNEL_IS_uniform_c)
/* Integers of rounded floats; INT32_MIN beyond their range, as the instruction of AVX2. */
VEC_INLINE vmask vec_integers(vec n)
{
    vmask whole;

    n = vec_round(n);
    for (int i = 0; i < VEC_LANES; i++)
        whole[i] = n[i] >= -2147483648.0f && n[i] < 2147483648.0f ? (int32_t)n[i] : INT32_MIN;
    return whole;
}
#else
/* Of integers; 0 for NaN. */
VEC_INLINE vmask vec_integers(vec n)
{
#define VEC_INTEGER(lane) (int32_t) n[lane]
    n = vec_select(n == n, n, vec_zero()); /* NOLINT(misc-redundant-expression): false where n is NaN */
    return (vmask){ VEC_ALL(VEC_INTEGER) };
#undef VEC_INTEGER
}
#endif
/* Multiplies by two powers of two, each in the range of float. */
VEC_INLINE vec vec_scale(vec x, vec n)
{
    const vmask whole = vec_integers(n), half = whole >> 1;
    const vec_bits first = ((vec_bits)half + 127) << 23, second = ((vec_bits)whole - (vec_bits)half + 127) << 23;

    return x * (vec)first * (vec)second;
}
#define VEC_FOUND(lane) table[at[lane]]
VEC_INLINE vec vec_lookup(const float *table, vec i)
{
    const vmask at = (vmask)i & 31;

    return (vec){ VEC_ALL(VEC_FOUND) };
}
#if VEC_LOOKUP > 0
VEC_INLINE vec vec_lookup_some(const float *table, vec i)
{
    const vmask at = (vmask)i & (VEC_LOOKUP - 1);

    return (vec){ VEC_ALL(VEC_FOUND) };
}
#endif
#undef VEC_FOUND
VEC_INLINE void vec_transpose(vec *r)
{
    vec t[VEC_LANES];

    memcpy(t, r, sizeof t);
#define VEC_OF(lane) t[lane][i]
    VEC_UNROLL
    for (int i = 0; i < VEC_LANES; i++)
        r[i] = (vec){ VEC_ALL(VEC_OF) };
#undef VEC_OF
}
/* The order of additions is that of vec_avx2.h: lanes 2 apart, then 1, then 4. */
VEC_INLINE vec vec_sums(const vec *x)
{
    vec t[VEC_LANES], sums;

    memcpy(t, x, sizeof t);
    vec_transpose(t);
    sums = (t[0] + t[2]) + (t[1] + t[3]);
    for (int i = 4; i < VEC_LANES; i += 4)
        sums = sums + ((t[i] + t[i + 2]) + (t[i + 1] + t[i + 3]));
    return sums;
}
VEC_INLINE vec vec_tops(const vec *x)
{
    vec t[VEC_LANES], tops;

    memcpy(t, x, sizeof t);
    vec_transpose(t);
    tops = vec_max(vec_max(t[0], t[2]), vec_max(t[1], t[3]));
    for (int i = 4; i < VEC_LANES; i += 4)
        tops = vec_max(tops, vec_max(vec_max(t[i], t[i + 2]), vec_max(t[i + 1], t[i + 3])));
    return tops;
}
VEC_INLINE void vec_store_bytes(uint8_t *p, const vec *v, int16_t zero, uint8_t flip)
{
    for (int i = 0; i < 4 * VEC_LANES; i++) {
        const float x = vec_round(v[i / VEC_LANES])[i % VEC_LANES] + (float)zero;

        p[i] = (uint8_t)((uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x) ^ flip);
    }
}

VEC_INLINE void vec_interleave_3(float *p, vec x, vec y, vec z)
{
    for (int i = 0; i < VEC_LANES; i++) {
        p[3 * i] = x[i];
        p[3 * i + 1] = y[i];
        p[3 * i + 2] = z[i];
    }
}
VEC_INLINE void vec_part_3(const float *p, vec *x, vec *y, vec *z)
{
    for (int i = 0; i < VEC_LANES; i++) {
        (*x)[i] = p[3 * i];
        (*y)[i] = p[3 * i + 1];
        (*z)[i] = p[3 * i + 2];
    }
}
#endif
