/* Compares the products of one level of arm64 with those of plain C, see cpu_arm64.h. */
#include "simd/cpu_arm64.h"
#include "simd/vec.h"

enum { BYTES = 16, SUMS = 4, ROUNDS = 8 };

typedef union operand {
    uint8x16_t vector;
    uint8_t bytes[BYTES];
} operand;

#if defined(KERNEL_IS_neon_dot)
static int32_t quad_product(const operand *x, const operand *w, int quad_of_x, int quad_of_w)
{
    int32_t sum = 0;

    for (int i = 0; i < 4; i++)
        sum += (int8_t)x->bytes[4 * quad_of_x + i] * (int8_t)w->bytes[4 * quad_of_w + i];
    return sum;
}

static bool are_right(const operand *x, const operand *w)
{
    const int8x16_t a = vreinterpretq_s8_u8(x->vector), b = vreinterpretq_s8_u8(w->vector);
    const int32x4_t whole = vdotq_s32(vdupq_n_s32(7), b, a), by_quad = vdotq_laneq_s32(vdupq_n_s32(7), b, a, 2);
    bool right = true;

    for (int i = 0; i < SUMS; i++)
        right = right && whole[i] == 7 + quad_product(x, w, i, i) && by_quad[i] == 7 + quad_product(x, w, 2, i);
    return right;
}
#else
static int32_t half_product(const operand *x, const operand *w, int half_of_x, int half_of_w)
{
    int32_t sum = 0;

    for (int i = 0; i < 8; i++)
        sum += x->bytes[8 * half_of_x + i] * (int8_t)w->bytes[8 * half_of_w + i];
    return sum;
}

/* A bfloat16 of four bits, so that sums of products are exact: +-1 to 1.875. */
static uint16_t short_of(uint8_t byte)
{
    return (uint16_t)(0x3f80 | (byte & 0x70) | (byte & 0x80) << 8);
}

static float float_of(uint8_t byte)
{
    const uint32_t bits = (uint32_t)short_of(byte) << 16;
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static bool are_right(const operand *x, const operand *w)
{
    const int32x4_t sum = vusmmlaq_s32(vdupq_n_s32(7), x->vector, vreinterpretq_s8_u8(w->vector));
    uint16_t a[8], b[8];
    float32x4_t floats;
    bool right = true;

    for (int i = 0; i < 8; i++) {
        a[i] = short_of(x->bytes[i]);
        b[i] = short_of(w->bytes[i]);
    }
    floats = vbfmmlaq_f32(vdupq_n_f32(7), vreinterpretq_bf16_u16(vld1q_u16(a)), vreinterpretq_bf16_u16(vld1q_u16(b)));
    for (int i = 0; i < SUMS; i++) {
        float expected = 7;

        for (int k = 0; k < 4; k++)
            expected += float_of(x->bytes[i / 2 * 4 + k]) * float_of(w->bytes[i % 2 * 4 + k]);
        right = right && sum[i] == 7 + half_product(x, w, i / 2, i % 2) && floats[i] == expected;
    }
    return right;
}
#endif

bool KERNEL(arm64_products)(void)
{
    uint32_t noise = 1;

    for (int round = 0; round < ROUNDS; round++) {
        operand x, w;

        for (int i = 0; i < BYTES; i++) {
            noise = noise * 1664525 + 1013904223;
            x.bytes[i] = (uint8_t)(noise >> 24);
            w.bytes[i] = (uint8_t)(noise >> 16);
        }
        if (!are_right(&x, &w))
            return false;
    }
    return true;
}
