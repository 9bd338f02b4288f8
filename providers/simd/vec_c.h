/* vec_c.h - vectors of four floats in plain C, for any CPU, see vec.h. */
#ifndef SIMD_VEC_C_H
#define SIMD_VEC_C_H
#include "simd/convert.h"

enum { VEC_LANES = 4, VEC_REGISTERS = 16 };
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
    return (vec){ x, x, x, x };
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
VEC_INLINE vmask vec_first(int64_t n)
{
    const int32_t lanes = n >= VEC_LANES ? VEC_LANES : n <= 0 ? 0 : (int32_t)n;

    return (vmask){ 0, 1, 2, 3 } < (vmask){ lanes, lanes, lanes, lanes };
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
#define VEC_ZIP(name, T, first)                                                                                        \
    VEC_INLINE vec name(vec x, vec y)                                                                                  \
    {                                                                                                                  \
        enum { HALF = (int)(sizeof(vec) / sizeof(T) / 2) };                                                            \
        typedef T elements __attribute__((vector_size(sizeof(vec))));                                                  \
        const elements a = (elements)x, b = (elements)y;                                                               \
        elements z = a;                                                                                                \
                                                                                                                       \
        for (int i = 0; i < HALF; i++) {                                                                               \
            z[2 * i] = a[i + (first)*HALF];                                                                            \
            z[2 * i + 1] = b[i + (first)*HALF];                                                                        \
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
    return (vec)((vmask)x & (vmask){ INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX });
}
/* Rounds by adding 2^23, which leaves no bits for a fraction. Larger numbers have no fraction. */
VEC_INLINE vec vec_round(vec x)
{
    const vec integer = vec_set(8388608),
              sign = (vec)((vmask)x & (vmask){ INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN });
    const vec size = vec_abs(x), whole = (size + integer) - integer;

    return vec_select(size < integer, (vec)((vmask)whole | (vmask)sign), x);
}
VEC_INLINE vmask vec_integers(vec n)
{
    return (vmask){ (int32_t)n[0], (int32_t)n[1], (int32_t)n[2], (int32_t)n[3] };
}
/* Multiplies by two powers of two, each in the range of float. */
VEC_INLINE vec vec_scale(vec x, vec n)
{
    /* NOLINTNEXTLINE(misc-redundant-expression): false where n is NaN */
    const vmask whole = vec_integers(vec_select(n == n, n, vec_zero())), half = whole >> 1;

    return x * (vec)((half + 127) << 23) * (vec)((whole - half + 127) << 23);
}
VEC_INLINE vec vec_lookup(const float *table, vec i)
{
    const vmask at = (vmask)i & 31;

    return (vec){ table[at[0]], table[at[1]], table[at[2]], table[at[3]] };
}
VEC_INLINE void vec_transpose(vec *r)
{
    const vec a = r[0], b = r[1], c = r[2], d = r[3];

    VEC_UNROLL
    for (int i = 0; i < VEC_LANES; i++)
        r[i] = (vec){ a[i], b[i], c[i], d[i] };
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
