/* The kernels of byte_loops.h for one instruction set. */
#include "cpu/quantized/byte_loops.h"
#include "inlay/check.h"
#include "simd/vec.h"
#include "simd/dynamic_range.h"
#include "simd/vecmath.h"

static void from_u8(float *restrict output, const uint8_t *restrict input, int64_t count, float scale, float zero)
{
    for (int64_t i = 0; i < count; i++)
        output[i] = ((float)input[i] - zero) * scale;
}

static void from_s8(float *restrict output, const int8_t *restrict input, int64_t count, float scale, float zero)
{
    for (int64_t i = 0; i < count; i++)
        output[i] = ((float)input[i] - zero) * scale;
}

static void dequantize(float *output, const void *input, bool is_signed, int64_t count, float scale, float zero)
{
    if (is_signed)
        from_s8(output, input, count, scale, zero);
    else
        from_u8(output, input, count, scale, zero);
}

/* Quotients beyond 2^18 saturate with any zero point. */
static inline float rounded(float quotient, float zero, float low, float high)
{
    float q = quotient > -262144.0f ? quotient : -262144.0f;

    q = vm_round(q < 262144.0f ? q : 262144.0f) + zero;
    q = q > low ? q : low;
    return q < high ? q : high;
}

static void to_u8(uint8_t *restrict output, const float *restrict input, int64_t count, float scale, float zero)
{
    for (int64_t i = 0; i < count; i++)
        output[i] = (uint8_t)(int32_t)rounded(input[i] / scale, zero, 0, 255);
}

static void to_s8(int8_t *restrict output, const float *restrict input, int64_t count, float scale, float zero)
{
    for (int64_t i = 0; i < count; i++)
        output[i] = (int8_t)(int32_t)rounded(input[i] / scale, zero, -128, 127);
}

static void quantize(void *output, const float *input, bool is_signed, int64_t count, float scale, float zero)
{
    if (is_signed)
        to_s8(output, input, count, scale, zero);
    else
        to_u8(output, input, count, scale, zero);
}

enum { LANES = 64 };

static void range(const float *input, int64_t count, float *low, float *high)
{
    float lows[LANES], highs[LANES];
    int64_t i = 0;

    for (int k = 0; k < LANES; k++) {
        lows[k] = *low;
        highs[k] = *high;
    }
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) {
            lows[k] = dynamic_low(lows[k], input[i + k]);
            highs[k] = input[i + k] > highs[k] ? input[i + k] : highs[k];
        }
    for (; i < count; i++) {
        lows[0] = dynamic_low(lows[0], input[i]);
        highs[0] = input[i] > highs[0] ? input[i] : highs[0];
    }
    for (int k = 0; k < LANES; k++) {
        *low = dynamic_low(*low, lows[k]);
        *high = highs[k] > *high ? highs[k] : *high;
    }
}

static void clip_u8(uint8_t *output, const uint8_t *input, int64_t count, uint8_t low, uint8_t high)
{
    for (int64_t i = 0; i < count; i++) {
        uint8_t v = input[i] > low ? input[i] : low;
        output[i] = v < high ? v : high;
    }
}

static void clip_s8(int8_t *output, const int8_t *input, int64_t count, int8_t low, int8_t high)
{
    for (int64_t i = 0; i < count; i++) {
        int8_t v = input[i] > low ? input[i] : low;
        output[i] = v < high ? v : high;
    }
}

static void clip(void *output, const void *input, bool is_signed, int64_t count, int32_t low, int32_t high)
{
    if (is_signed)
        clip_s8(output, input, count, (int8_t)low, (int8_t)high);
    else
        clip_u8(output, input, count, (uint8_t)low, (uint8_t)high);
}

static int32_t sum_u8(const uint8_t *input, int64_t count)
{
    uint32_t sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += input[i];
    return (int32_t)sum;
}

static int32_t sum_s8(const int8_t *input, int64_t count)
{
    int32_t sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += input[i];
    return sum;
}

static int32_t sum(const void *input, bool is_signed, int64_t count)
{
    return is_signed ? sum_s8(input, count) : sum_u8(input, count);
}

static void one_function(float *restrict output, const float *restrict input, int64_t count, element_function function,
                         float alpha, float beta)
{
    switch ((int)function) {
    case FUNCTION_RELU:
        for (int64_t i = 0; i < count; i++)
            output[i] = input[i] < 0 ? (alpha != 0 ? alpha * input[i] : 0) : input[i]; /* 0 * -inf would be NaN */
        break;
    case FUNCTION_CLIP:
        for (int64_t i = 0; i < count; i++) {
            float v = input[i] < alpha ? alpha : input[i]; /* NaN stays */
            output[i] = v > beta ? beta : v;
        }
        break;
    case FUNCTION_LINEAR:
        for (int64_t i = 0; i < count; i++)
            output[i] = alpha * input[i] + beta;
        break;
    case FUNCTION_HARDSWISH:
        for (int64_t i = 0; i < count; i++) {
            float v = input[i] * (1.0f / 6) + 0.5f;
            v = v > 0 ? v : 0;
            output[i] = input[i] * (v < 1 ? v : 1);
        }
        break;
    case FUNCTION_SIGMOID:
        for (int64_t i = 0; i < count; i++)
            output[i] = vm_sigmoid(input[i]);
        break;
    case FUNCTION_SWISH:
        for (int64_t i = 0; i < count; i++)
            output[i] = input[i] * vm_sigmoid(alpha * input[i]);
        break;
    default:
        INLAY_CHECK(function == FUNCTION_TANH);
        for (int64_t i = 0; i < count; i++)
            output[i] = vm_tanh(input[i]);
        break;
    }
}

static void two_function(float *restrict output, const float *p, const float *q, int64_t count,
                         element_function function)
{
    switch (function) {
    case FUNCTION_ADD:
        for (int64_t i = 0; i < count; i++)
            output[i] = p[i] + q[i];
        break;
    case FUNCTION_SUB:
        for (int64_t i = 0; i < count; i++)
            output[i] = p[i] - q[i];
        break;
    case FUNCTION_MUL:
        for (int64_t i = 0; i < count; i++)
            output[i] = p[i] * q[i];
        break;
    case FUNCTION_DIV:
        for (int64_t i = 0; i < count; i++)
            output[i] = p[i] / q[i];
        break;
    case FUNCTION_MAX:
        for (int64_t i = 0; i < count; i++)
            output[i] = p[i] > q[i] || p[i] != p[i] ? p[i] : q[i];
        break;
    default:
        INLAY_CHECK(function == FUNCTION_MIN);
        for (int64_t i = 0; i < count; i++)
            output[i] = p[i] < q[i] || p[i] != p[i] ? p[i] : q[i];
        break;
    }
}

static void without_weight_zeros(int32_t *restrict output, const int32_t *restrict w_zeros, int64_t count, int32_t rest)
{
    const uint32_t r = (uint32_t)rest;

    for (int64_t i = 0; i < count; i++)
        output[i] = (int32_t)((uint32_t)output[i] - r * (uint32_t)w_zeros[i]);
}

static void scaled(float *restrict output, const int32_t *restrict input, int64_t count, const float *scale,
                   int64_t step)
{
    if (step != 0) {
        for (int64_t i = 0; i < count; i++)
            output[i] = (float)input[i] * scale[i];
    } else {
        const float s = scale[0];

        for (int64_t i = 0; i < count; i++)
            output[i] = (float)input[i] * s;
    }
}

static void add(float *restrict output, const float *restrict input, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        output[i] += input[i];
}

static void relu(float *output, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        output[i] = output[i] < 0 ? 0 : output[i];
}

static void gelu(float *output, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        output[i] = vm_gelu(output[i]);
}

const byte_loops KERNEL(byte_loops) = {
    .dequantize = dequantize,
    .quantize = quantize,
    .range = range,
    .clip = clip,
    .sum = sum,
    .one_function = one_function,
    .two_function = two_function,
    .without_weight_zeros = without_weight_zeros,
    .scaled = scaled,
    .add = add,
    .relu = relu,
    .gelu = gelu,
};
