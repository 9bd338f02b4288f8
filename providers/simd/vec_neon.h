/* vec_neon.h - vectors of ARMv8-A (Advanced SIMD, 64 bits), see vec.h. */
#ifndef SIMD_VEC_NEON_H
#define SIMD_VEC_NEON_H
#include <arm_neon.h>

enum { VEC_LANES = 4, VEC_REGISTERS = 32 };
#define VEC_HAS_MASKS 0
#define VEC_FUSES 1
#define VEC_NARROW 0
#define VEC_SCALES_ALL 0
#define VEC_LOOKUP 0

typedef float32x4_t vec;
typedef float32x4_t vec_loose __attribute__((aligned(4)));
typedef uint32x4_t vmask;

VEC_INLINE vec vec_set(float x)
{
    return vdupq_n_f32(x);
}
VEC_INLINE vec vec_zero(void)
{
    return vdupq_n_f32(0);
}
VEC_INLINE vec vec_load(const float *p)
{
    return vld1q_f32(p);
}
VEC_INLINE vec vec_hold(vec v)
{
    __asm__("" : "+w"(v));
    return v;
}
VEC_INLINE void vec_store(float *p, vec v)
{
    vst1q_f32(p, v);
}
VEC_INLINE vmask vec_first(int64_t n)
{
    static const uint32_t lanes[] = { 0, 1, 2, 3 };

    return vcltq_u32(vld1q_u32(lanes), vdupq_n_u32(n <= 0 ? 0 : n >= VEC_LANES ? VEC_LANES : (uint32_t)n));
}
/* Loads lanes one by one, because NEON has no masked loads. */
VEC_INLINE vec vec_load_some(vmask m, const float *p)
{
    vec v = vec_zero();

    v = vgetq_lane_u32(m, 0) != 0 ? vld1q_lane_f32(p, v, 0) : v;
    v = vgetq_lane_u32(m, 1) != 0 ? vld1q_lane_f32(p + 1, v, 1) : v;
    v = vgetq_lane_u32(m, 2) != 0 ? vld1q_lane_f32(p + 2, v, 2) : v;
    return vgetq_lane_u32(m, 3) != 0 ? vld1q_lane_f32(p + 3, v, 3) : v;
}
VEC_INLINE void vec_store_some(float *p, vmask m, vec v)
{
    if (vgetq_lane_u32(m, 0) != 0)
        vst1q_lane_f32(p, v, 0);
    if (vgetq_lane_u32(m, 1) != 0)
        vst1q_lane_f32(p + 1, v, 1);
    if (vgetq_lane_u32(m, 2) != 0)
        vst1q_lane_f32(p + 2, v, 2);
    if (vgetq_lane_u32(m, 3) != 0)
        vst1q_lane_f32(p + 3, v, 3);
}

/* sum += the dot products of the quads of x by quad i of y; i is a constant. In assembly: GCC 12 stores sums on the
 * stack although registers are free if intrinsics compute them. */
#define NEON_BY_LANE_AT(name, sum, x, y, i)                                                                            \
    case i:                                                                                                            \
        __asm__(name " %0.4s, %1.16b, %2.4b[" #i "]" : "+w"(sum) : "w"(x), "w"(y));                                    \
        break
#define NEON_BY_LANE(name, sum, x, y, i)                                                                               \
    switch (i) {                                                                                                       \
        NEON_BY_LANE_AT(name, sum, x, y, 0);                                                                           \
        NEON_BY_LANE_AT(name, sum, x, y, 1);                                                                           \
        NEON_BY_LANE_AT(name, sum, x, y, 2);                                                                           \
        NEON_BY_LANE_AT(name, sum, x, y, 3);                                                                           \
    }

#define VEC_OF_2(name, expression)                                                                                     \
    VEC_INLINE vec name(vec x, vec y)                                                                                  \
    {                                                                                                                  \
        return expression;                                                                                             \
    }
VEC_OF_2(vec_add, vaddq_f32(x, y))
VEC_OF_2(vec_sub, vsubq_f32(x, y))
VEC_OF_2(vec_mul, vmulq_f32(x, y))
VEC_OF_2(vec_div, vdivq_f32(x, y))
VEC_OF_2(vec_min, vbslq_f32(vcltq_f32(x, y), x, y)) /* vminq is NaN if either is */
VEC_OF_2(vec_max, vbslq_f32(vcgtq_f32(x, y), x, y))
#undef VEC_OF_2
VEC_INLINE vec vec_fma(vec x, vec y, vec z)
{
    return vfmaq_f32(z, x, y);
}
VEC_INLINE vec vec_fms(vec x, vec y, vec z)
{
    return vfmaq_f32(vnegq_f32(z), x, y);
}
VEC_INLINE vec vec_fnma(vec x, vec y, vec z)
{
    return vfmsq_f32(z, x, y);
}
VEC_INLINE float vec_sum(vec x)
{
    return vaddvq_f32(x);
}
VEC_INLINE float vec_top(vec x)
{
    return vmaxvq_f32(x);
}
VEC_INLINE vec vec_load_half(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
VEC_INLINE void vec_store_half(uint16_t *p, vec v)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v)));
}
#define VEC_ZIP(name, op, type)                                                                                        \
    VEC_INLINE vec name(vec x, vec y)                                                                                  \
    {                                                                                                                  \
        return vreinterpretq_f32_##type(op(vreinterpretq_##type##_f32(x), vreinterpretq_##type##_f32(y)));             \
    }
VEC_ZIP(vec_zip_bytes_low, vzip1q_u8, u8)
VEC_ZIP(vec_zip_bytes_high, vzip2q_u8, u8)
VEC_ZIP(vec_zip_halves_low, vzip1q_u16, u16)
VEC_ZIP(vec_zip_halves_high, vzip2q_u16, u16)
#undef VEC_ZIP
VEC_INLINE vec vec_abs(vec x)
{
    return vabsq_f32(x);
}
VEC_INLINE vec vec_round(vec x)
{
    return vrndnq_f32(x);
}
VEC_INLINE vmask vec_greater(vec x, vec y)
{
    return vcgtq_f32(x, y);
}
VEC_INLINE vec vec_select(vmask m, vec x, vec y)
{
    return vbslq_f32(m, x, y);
}
/* Multiplies by two powers of two, each in the range of float. */
VEC_INLINE vec vec_scale(vec x, vec n)
{
    const int32x4_t whole = vcvtnq_s32_f32(n), half = vshrq_n_s32(whole, 1), bias = vdupq_n_s32(127);
    const int32x4_t first = vshlq_n_s32(vaddq_s32(half, bias), 23);
    const int32x4_t second = vshlq_n_s32(vaddq_s32(vsubq_s32(whole, half), bias), 23);

    return vmulq_f32(vmulq_f32(x, vreinterpretq_f32_s32(first)), vreinterpretq_f32_s32(second));
}
VEC_INLINE vec vec_lookup(const float *table, vec i)
{
    const uint32x4_t at = vandq_u32(vreinterpretq_u32_f32(i), vdupq_n_u32(31));
    vec v = vld1q_dup_f32(table + vgetq_lane_u32(at, 0));

    v = vld1q_lane_f32(table + vgetq_lane_u32(at, 1), v, 1);
    v = vld1q_lane_f32(table + vgetq_lane_u32(at, 2), v, 2);
    return vld1q_lane_f32(table + vgetq_lane_u32(at, 3), v, 3);
}
VEC_INLINE void vec_transpose(vec *r)
{
    const float32x4x2_t low = vtrnq_f32(r[0], r[1]), high = vtrnq_f32(r[2], r[3]);

    r[0] = vcombine_f32(vget_low_f32(low.val[0]), vget_low_f32(high.val[0]));
    r[1] = vcombine_f32(vget_low_f32(low.val[1]), vget_low_f32(high.val[1]));
    r[2] = vcombine_f32(vget_high_f32(low.val[0]), vget_high_f32(high.val[0]));
    r[3] = vcombine_f32(vget_high_f32(low.val[1]), vget_high_f32(high.val[1]));
}
VEC_INLINE vec vec_sums(const vec *x)
{
    return vpaddq_f32(vpaddq_f32(x[0], x[1]), vpaddq_f32(x[2], x[3]));
}
VEC_INLINE vec vec_tops(const vec *x)
{
    vec t[4] = { x[0], x[1], x[2], x[3] };

    vec_transpose(t);
    return vec_max(vec_max(t[0], t[2]), vec_max(t[1], t[3]));
}
VEC_INLINE void vec_store_bytes(uint8_t *p, const vec *v, int16_t zero, uint8_t flip)
{
    const int16x8_t zeros = vdupq_n_s16(zero);
    const int16x8_t low = vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(v[0])), vqmovn_s32(vcvtnq_s32_f32(v[1])));
    const int16x8_t high = vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(v[2])), vqmovn_s32(vcvtnq_s32_f32(v[3])));
    const uint8x16_t bytes = vcombine_u8(vqmovun_s16(vqaddq_s16(low, zeros)), vqmovun_s16(vqaddq_s16(high, zeros)));

    vst1q_u8(p, veorq_u8(bytes, vdupq_n_u8(flip)));
}

VEC_INLINE void vec_interleave_3(float *p, vec x, vec y, vec z)
{
    const float32x4x3_t three = { { x, y, z } };

    vst3q_f32(p, three);
}
VEC_INLINE void vec_part_3(const float *p, vec *x, vec *y, vec *z)
{
    const float32x4x3_t three = vld3q_f32(p);

    *x = three.val[0];
    *y = three.val[1];
    *z = three.val[2];
}
#endif
