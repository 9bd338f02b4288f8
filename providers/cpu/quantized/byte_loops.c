/* Loops over bytes and what they stand for, see byte_loops.h. */
#include "quantized/byte_loops.h"
#include "simd/vec.h"
#include "simd/vecmath.h"

static void from_u8(float *restrict y, const uint8_t *restrict x, int64_t n, float scale, float zero)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = ((float)x[i] - zero) * scale;
}

static void from_s8(float *restrict y, const int8_t *restrict x, int64_t n, float scale, float zero)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = ((float)x[i] - zero) * scale;
}

static void dequantize(float *y, const void *x, bool is_signed, int64_t n, float scale, float zero)
{
    if (is_signed)
        from_s8(y, x, n, scale, zero);
    else
        from_u8(y, x, n, scale, zero);
}

/* Quotients beyond 2^18 end at the bounds of a byte whatever is added. */
static inline float rounded(float quotient, float zero, float low, float high)
{
    float q = quotient > -262144.0f ? quotient : -262144.0f;

    q = vm_round(q < 262144.0f ? q : 262144.0f) + zero;
    q = q > low ? q : low;
    return q < high ? q : high;
}

static void to_u8(uint8_t *restrict y, const float *restrict x, int64_t n, float scale, float zero)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (uint8_t)(int32_t)rounded(x[i] / scale, zero, 0, 255);
}

static void to_s8(int8_t *restrict y, const float *restrict x, int64_t n, float scale, float zero)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (int8_t)(int32_t)rounded(x[i] / scale, zero, -128, 127);
}

static void quantize(void *y, const float *x, bool is_signed, int64_t n, float scale, float zero)
{
    if (is_signed)
        to_s8(y, x, n, scale, zero);
    else
        to_u8(y, x, n, scale, zero);
}

enum { LANES = 64 };

static void range(const float *x, int64_t n, float *low, float *high)
{
    float lows[LANES], highs[LANES];
    int64_t i = 0;

    for (int k = 0; k < LANES; k++) {
        lows[k] = *low;
        highs[k] = *high;
    }
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            lows[k] = x[i + k] < lows[k] ? x[i + k] : lows[k];
            highs[k] = x[i + k] > highs[k] ? x[i + k] : highs[k];
        }
    for (; i < n; i++) {
        lows[0] = x[i] < lows[0] ? x[i] : lows[0];
        highs[0] = x[i] > highs[0] ? x[i] : highs[0];
    }
    for (int k = 0; k < LANES; k++) {
        *low = lows[k] < *low ? lows[k] : *low;
        *high = highs[k] > *high ? highs[k] : *high;
    }
}

static void clip_u8(uint8_t *y, const uint8_t *x, int64_t n, uint8_t low, uint8_t high)
{
    for (int64_t i = 0; i < n; i++) {
        uint8_t v = x[i] > low ? x[i] : low;
        y[i] = v < high ? v : high;
    }
}

static void clip_s8(int8_t *y, const int8_t *x, int64_t n, int8_t low, int8_t high)
{
    for (int64_t i = 0; i < n; i++) {
        int8_t v = x[i] > low ? x[i] : low;
        y[i] = v < high ? v : high;
    }
}

static void clip(void *y, const void *x, bool is_signed, int64_t n, int32_t low, int32_t high)
{
    if (is_signed)
        clip_s8(y, x, n, (int8_t)low, (int8_t)high);
    else
        clip_u8(y, x, n, (uint8_t)low, (uint8_t)high);
}

static int32_t sum_u8(const uint8_t *x, int64_t n)
{
    uint32_t sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return (int32_t)sum;
}

static int32_t sum_s8(const int8_t *x, int64_t n)
{
    int32_t sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

static int32_t sum(const void *x, bool is_signed, int64_t n)
{
    return is_signed ? sum_s8(x, n) : sum_u8(x, n);
}

static void one_function(float *restrict y, const float *restrict x, int64_t n, dn_alg alg, float alpha, float beta)
{
    switch ((int)alg) {
    case DN_ELTWISE_RELU:
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] < 0 ? (alpha != 0 ? alpha * x[i] : 0) : x[i]; /* 0 * -inf is no 0 */
        break;
    case DN_ELTWISE_CLIP_V2:
        for (int64_t i = 0; i < n; i++) {
            float v = x[i] < alpha ? alpha : x[i]; /* NaN stays */
            y[i] = v > beta ? beta : v;
        }
        break;
    case DN_ELTWISE_LINEAR:
        for (int64_t i = 0; i < n; i++)
            y[i] = alpha * x[i] + beta;
        break;
    case DN_ELTWISE_HARDSWISH:
        for (int64_t i = 0; i < n; i++) {
            float v = x[i] * (1.0f / 6) + 0.5f;
            v = v > 0 ? v : 0;
            y[i] = x[i] * (v < 1 ? v : 1);
        }
        break;
    case DN_ELTWISE_LOGISTIC:
        for (int64_t i = 0; i < n; i++)
            y[i] = vm_sigmoid(x[i]);
        break;
    case DN_ELTWISE_SWISH:
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] * vm_sigmoid(alpha * x[i]);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            y[i] = vm_tanh(x[i]);
        break;
    }
}

static void two_function(float *restrict y, const float *p, const float *q, int64_t n, dn_alg alg)
{
    switch (alg) {
    case DN_BINARY_ADD:
        for (int64_t i = 0; i < n; i++)
            y[i] = p[i] + q[i];
        break;
    case DN_BINARY_SUB:
        for (int64_t i = 0; i < n; i++)
            y[i] = p[i] - q[i];
        break;
    case DN_BINARY_MUL:
        for (int64_t i = 0; i < n; i++)
            y[i] = p[i] * q[i];
        break;
    case DN_BINARY_DIV:
        for (int64_t i = 0; i < n; i++)
            y[i] = p[i] / q[i];
        break;
    case DN_BINARY_MAX:
        for (int64_t i = 0; i < n; i++)
            y[i] = p[i] > q[i] || p[i] != p[i] ? p[i] : q[i];
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            y[i] = p[i] < q[i] || p[i] != p[i] ? p[i] : q[i];
        break;
    }
}

static void without_zeros(int32_t *restrict y, const int32_t *restrict acc, const int32_t *restrict sums, int64_t n,
                          int32_t zero)
{
    const uint32_t z = (uint32_t)zero;

    for (int64_t i = 0; i < n; i++)
        y[i] = (int32_t)((uint32_t)acc[i] - z * (uint32_t)sums[i]);
}

static void without_weight_zeros(int32_t *restrict y, const int32_t *restrict w_zeros, int64_t n, int32_t rest)
{
    const uint32_t r = (uint32_t)rest;

    for (int64_t i = 0; i < n; i++)
        y[i] = (int32_t)((uint32_t)y[i] - r * (uint32_t)w_zeros[i]);
}

static void scaled(float *restrict y, const int32_t *restrict x, int64_t n, const float *scale, int64_t step)
{
    if (step != 0) {
        for (int64_t i = 0; i < n; i++)
            y[i] = (float)x[i] * scale[i];
    } else {
        const float s = scale[0];

        for (int64_t i = 0; i < n; i++)
            y[i] = (float)x[i] * s;
    }
}

static void as_floats(float *restrict y, const int32_t *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)x[i];
}

static void add(float *restrict y, const float *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void relu(float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = y[i] < 0 ? 0 : y[i];
}

static void gelu(float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = vm_gelu(y[i]);
}

static void add_bytes(int32_t *restrict sums, const uint8_t *restrict w, int64_t n, uint8_t flip)
{
    for (int64_t i = 0; i < n; i++)
        sums[i] += (int8_t)(w[i] ^ flip);
}

const byte_loops KERNEL(byte_loops) = {
    .dequantize = dequantize,
    .quantize = quantize,
    .range = range,
    .clip = clip,
    .sum = sum,
    .one_function = one_function,
    .two_function = two_function,
    .without_zeros = without_zeros,
    .without_weight_zeros = without_weight_zeros,
    .scaled = scaled,
    .as_floats = as_floats,
    .add = add,
    .relu = relu,
    .gelu = gelu,
    .add_bytes = add_bytes,
};
