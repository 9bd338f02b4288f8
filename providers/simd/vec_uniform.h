/* vec_uniform.h - the vectors of vec_avx2.h in C for any CPU, with the same results bit for bit, see vec.h.
 *
 * Kernels of the level `uniform` are those of AVX2, compiled without contraction. On a CPU without AVX2 they are
 * compiled over these vectors: eight lanes, sums of lanes in the order of vec_avx2.h, and multiply-adds with a single
 * rounding. NaN may have other bits. */
#ifndef SIMD_VEC_UNIFORM_H
#define SIMD_VEC_UNIFORM_H
#include "simd/convert.h"
#include "simd/fused.h"

enum { VEC_LANES = 8, VEC_REGISTERS = 16 };
#define VEC_HAS_MASKS 0
#define VEC_FUSES 1
#define VEC_NARROW 0
#define VEC_SCALES_ALL 0
#define VEC_LOOKUP 8

typedef float vec __attribute__((vector_size(32)));
typedef float vec_loose __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t vmask __attribute__((vector_size(32)));

VEC_INLINE vec vec_set(float x)
{
    return (vec){ x, x, x, x, x, x, x, x };
}
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
VEC_INLINE vmask vmask_set(int32_t x)
{
    return (vmask){ x, x, x, x, x, x, x, x };
}
VEC_INLINE vmask vec_first(int64_t n)
{
    const int32_t lanes = n >= VEC_LANES ? VEC_LANES : n <= 0 ? 0 : (int32_t)n;

    return (vmask){ 0, 1, 2, 3, 4, 5, 6, 7 } < vmask_set(lanes);
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
    vec v;

    fused_8((const float *)&x, (const float *)&y, (const float *)&z, (float *)&v);
    return v;
}
VEC_INLINE vec vec_fms(vec x, vec y, vec z)
{
    return vec_fma(x, y, -z);
}
VEC_INLINE vec vec_fnma(vec x, vec y, vec z)
{
    return vec_fma(-x, y, z);
}
/* The order of additions is that of vec_avx2.h: lanes 4 apart, then 2, then 1. */
#define VEC_JOIN_LANES(name, op)                                                                                       \
    VEC_INLINE float name(vec x)                                                                                       \
    {                                                                                                                  \
        float four[4];                                                                                                 \
                                                                                                                       \
        for (int i = 0; i < 4; i++)                                                                                    \
            four[i] = op(x[i], x[i + 4]);                                                                              \
        four[0] = op(four[0], four[2]);                                                                                \
        four[1] = op(four[1], four[3]);                                                                                \
        return op(four[0], four[1]);                                                                                   \
    }
#define VEC_PLUS(x, y) ((x) + (y))
#define VEC_MORE(x, y) ((x) > (y) ? (x) : (y))
VEC_JOIN_LANES(vec_sum, VEC_PLUS)
VEC_JOIN_LANES(vec_top, VEC_MORE)
#undef VEC_JOIN_LANES
#undef VEC_PLUS
#undef VEC_MORE
VEC_INLINE vec vec_load_half(const uint16_t *p)
{
    vec v;

    for (int i = 0; i < VEC_LANES; i++)
        v[i] = f16_to_f32(p[i]);
    return v;
}
VEC_INLINE void vec_store_half(uint16_t *p, vec v)
{
    for (int i = 0; i < VEC_LANES; i++)
        p[i] = f32_to_f16(v[i]);
}
/* Within each 128 bits, as the instructions of AVX2. */
#define VEC_ZIP(name, T, first)                                                                                        \
    VEC_INLINE vec name(vec x, vec y)                                                                                  \
    {                                                                                                                  \
        enum { PART = (int)(16 / sizeof(T)) };                                                                         \
        typedef T elements __attribute__((vector_size(sizeof(vec))));                                                  \
        const elements a = (elements)x, b = (elements)y;                                                               \
        elements z = a;                                                                                                \
                                                                                                                       \
        for (int i = 0; i < PART; i++) {                                                                               \
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
/* Integers of rounded floats; INT32_MIN beyond their range, as the instruction of AVX2. */
VEC_INLINE vmask vec_integers(vec n)
{
    vmask whole;

    n = vec_round(n);
    for (int i = 0; i < VEC_LANES; i++)
        whole[i] = n[i] >= -2147483648.0f && n[i] < 2147483648.0f ? (int32_t)n[i] : INT32_MIN;
    return whole;
}
/* Multiplies by two powers of two, each in the range of float. */
VEC_INLINE vec vec_scale(vec x, vec n)
{
    typedef uint32_t words __attribute__((vector_size(32)));
    const vmask whole = vec_integers(n), half = whole >> 1;
    const words first = ((words)half + 127) << 23, second = ((words)whole - (words)half + 127) << 23;

    return x * (vec)first * (vec)second;
}
VEC_INLINE vec vec_lookup(const float *table, vec i)
{
    const vmask at = (vmask)i & 31;
    vec v;

    for (int l = 0; l < VEC_LANES; l++)
        v[l] = table[at[l]];
    return v;
}
VEC_INLINE vec vec_lookup_some(const float *table, vec i)
{
    const vmask at = (vmask)i & 7;
    vec v;

    for (int l = 0; l < VEC_LANES; l++)
        v[l] = table[at[l]];
    return v;
}
VEC_INLINE void vec_transpose(vec *r)
{
    vec t[VEC_LANES];

    memcpy(t, r, sizeof t);
    for (int i = 0; i < VEC_LANES; i++)
        for (int l = 0; l < VEC_LANES; l++)
            r[i][l] = t[l][i];
}
/* The order of additions is that of vec_avx2.h: lanes 2 apart, then 1, then 4. */
VEC_INLINE vec vec_sums(const vec *x)
{
    vec t[VEC_LANES];

    memcpy(t, x, sizeof t);
    vec_transpose(t);
    return ((t[0] + t[2]) + (t[1] + t[3])) + ((t[4] + t[6]) + (t[5] + t[7]));
}
VEC_INLINE vec vec_tops(const vec *x)
{
    vec t[VEC_LANES];

    memcpy(t, x, sizeof t);
    vec_transpose(t);
    return vec_max(vec_max(vec_max(t[0], t[2]), vec_max(t[1], t[3])),
                   vec_max(vec_max(t[4], t[6]), vec_max(t[5], t[7])));
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
