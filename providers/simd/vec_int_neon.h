/* vec_int_neon.h - vectors of int32 and of bytes with ARMv8-A, and with the extensions DotProd and I8MM if enabled for
 * the compiler; see vec_int.h. */
#ifndef SIMD_VEC_INT_NEON_H
#define SIMD_VEC_INT_NEON_H

#define INT_LINES 4
#define INT_HALVES 0

typedef int32x4_t ivec;

VEC_INLINE ivec int_set(int32_t x)
{
    return vdupq_n_s32(x);
}
VEC_INLINE ivec int_set_byte(uint8_t x)
{
    return vreinterpretq_s32_u8(vdupq_n_u8(x));
}
VEC_INLINE ivec int_set_short(int16_t x)
{
    return vreinterpretq_s32_s16(vdupq_n_s16(x));
}
VEC_INLINE ivec int_load(const void *p)
{
    return vreinterpretq_s32_u8(vld1q_u8(p));
}
VEC_INLINE void int_store(void *p, ivec v)
{
    vst1q_u8(p, vreinterpretq_u8_s32(v));
}
VEC_INLINE ivec int_xor(ivec x, ivec y)
{
    return veorq_s32(x, y);
}
VEC_INLINE ivec int_or(ivec x, ivec y)
{
    return vorrq_s32(x, y);
}
VEC_INLINE ivec int_up_16(ivec x)
{
    return vshlq_n_s32(x, 16);
}
VEC_INLINE ivec int_widen(const uint8_t *x)
{
    return vreinterpretq_s32_u16(vmovl_u8(vld1_u8(x)));
}
VEC_INLINE ivec int_widen_half(const uint8_t *x)
{
    uint32_t four;

    memcpy(&four, x, sizeof four);
    return vreinterpretq_s32_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four))));
}
VEC_INLINE ivec int_zip_low(ivec x, ivec y)
{
    return vreinterpretq_s32_s16(vzip1q_s16(vreinterpretq_s16_s32(x), vreinterpretq_s16_s32(y)));
}
VEC_INLINE ivec int_zip_high(ivec x, ivec y)
{
    return vreinterpretq_s32_s16(vzip2q_s16(vreinterpretq_s16_s32(x), vreinterpretq_s16_s32(y)));
}
VEC_INLINE ivec int_dot_pairs(ivec sum, ivec x, ivec w)
{
    const int16x8_t a = vreinterpretq_s16_s32(x), b = vreinterpretq_s16_s32(w);

    return vaddq_s32(sum, vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b)));
}
#if defined(__ARM_FEATURE_DOTPROD)
#define INT_QUADS 1
#define INT_STEPS 4
VEC_INLINE ivec int_line(const int8_t *w)
{
    return int_load(w);
}
#if defined(__ARM_FEATURE_MATMUL_INT8)
#define INT_SQUARES 1
VEC_INLINE ivec int_dot(ivec sum, ivec x, ivec w)
{
    return vusdotq_s32(sum, vreinterpretq_u8_s32(x), vreinterpretq_s8_s32(w));
}
VEC_INLINE ivec int_dot_step(ivec sum, ivec x, ivec w, const int i)
{
    NEON_BY_LANE("sudot", sum, w, x, i);
    return sum;
}
VEC_INLINE ivec int_square(ivec sum, ivec x, ivec w)
{
    return vusmmlaq_s32(sum, vreinterpretq_u8_s32(x), vreinterpretq_s8_s32(w));
}
VEC_INLINE ivec int_columns_low(ivec even, ivec odd)
{
    return vzip1q_s32(even, odd);
}
VEC_INLINE ivec int_columns_high(ivec even, ivec odd)
{
    return vzip2q_s32(even, odd);
}
VEC_INLINE ivec int_rows(const uint8_t *x, const uint8_t *y)
{
    return vreinterpretq_s32_u8(vcombine_u8(vld1_u8(x), vld1_u8(y)));
}
VEC_INLINE ivec int_row_ends(const uint8_t *x, const uint8_t *y)
{
    uint32_t first, second;

    memcpy(&first, x, sizeof first);
    memcpy(&second, y, sizeof second);
    return vreinterpretq_s32_u8(vcombine_u8(vcreate_u8(first), vcreate_u8(second)));
}
VEC_INLINE ivec int_halves_low(ivec x, ivec y)
{
    return vcombine_s32(vget_low_s32(x), vget_low_s32(y));
}
VEC_INLINE ivec int_halves_high(ivec x, ivec y)
{
    return vcombine_s32(vget_high_s32(x), vget_high_s32(y));
}
#else
#define INT_SIGNED 1
VEC_INLINE ivec int_dot(ivec sum, ivec x, ivec w)
{
    return vdotq_s32(sum, vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(w));
}
VEC_INLINE ivec int_dot_step(ivec sum, ivec x, ivec w, const int i)
{
    NEON_BY_LANE("sdot", sum, w, x, i);
    return sum;
}
#endif
#else
#define INT_QUADS 0
/* The first weights of all pairs, then the second ones, as required by products with a lane. */
VEC_INLINE ivec int_line(const int8_t *w)
{
    const int8x16_t pairs = vcombine_s8(vld1_s8(w), vcreate_s8(0));

    return vreinterpretq_s32_s16(vmovl_s8(vqtbl1_s8(pairs, vcreate_u8(0x0705030106040200))));
}
VEC_INLINE ivec int_dot(ivec sum, ivec x, ivec w)
{
    const int16x4_t pair = vget_low_s16(vreinterpretq_s16_s32(x));
    const int16x8_t line = vreinterpretq_s16_s32(w);

    return vmlal_high_lane_s16(vmlal_lane_s16(sum, vget_low_s16(line), pair, 0), line, pair, 1);
}
#endif
VEC_INLINE ivec int_round(vec x)
{
    return vcvtnq_s32_f32(x);
}
VEC_INLINE vec int_float(ivec x)
{
    return vcvtq_f32_s32(x);
}
VEC_INLINE ivec int_bytes(const ivec *q, ivec zero, ivec low, ivec high)
{
    const int16x8_t zeros = vreinterpretq_s16_s32(zero);
    const int16x8_t a = vqaddq_s16(vcombine_s16(vqmovn_s32(q[0]), vqmovn_s32(q[1])), zeros);
    const int16x8_t b = vqaddq_s16(vcombine_s16(vqmovn_s32(q[2]), vqmovn_s32(q[3])), zeros);
    const uint8x16_t bytes = vcombine_u8(vqmovun_s16(a), vqmovun_s16(b));

    return vreinterpretq_s32_u8(vminq_u8(vreinterpretq_u8_s32(high), vmaxq_u8(vreinterpretq_u8_s32(low), bytes)));
}
VEC_INLINE ivec int_in_order(ivec bytes)
{
    return bytes;
}
VEC_INLINE ivec int_bits(vec x)
{
    return vreinterpretq_s32_f32(x);
}
VEC_INLINE ivec int_first(ivec x, ivec y)
{
    (void)y;
    return x;
}
VEC_INLINE ivec int_second(ivec x, ivec y)
{
    (void)x;
    return y;
}
VEC_INLINE ivec int_in_pairs(ivec bytes)
{
    return bytes;
}
VEC_INLINE void int_store_part(uint8_t *y, ivec v, int part, int parts, int64_t count)
{
    const int64_t size = 16 / parts;
    uint8_t bytes[16];

    vst1q_u8(bytes, vreinterpretq_u8_s32(v));
    if (count >= size)
        memcpy(y, bytes + part * size, (size_t)size); /* a constant size: parts is constant */
    else
        memcpy(y, bytes + part * size, (size_t)count);
}
VEC_INLINE vec int_from_bytes(const uint8_t *x, bool is_signed)
{
    uint32_t four;
    uint8x8_t bytes;

    memcpy(&four, x, sizeof four);
    bytes = vreinterpret_u8_u32(vdup_n_u32(four));
    return is_signed ? vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(bytes)))))
                     : vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))));
}
VEC_INLINE void int_interleave_4(uint8_t *y, const uint8_t *a, const uint8_t *b, const uint8_t *c, const uint8_t *d)
{
    const uint8x16x4_t four = { { vld1q_u8(a), vld1q_u8(b), vld1q_u8(c), vld1q_u8(d) } };

    vst4q_u8(y, four);
}
VEC_INLINE bool int_any_above(vec x, vec y)
{
    return vmaxvq_u32(vcgtq_f32(x, y)) != 0;
}
#endif
