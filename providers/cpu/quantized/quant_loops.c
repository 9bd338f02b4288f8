/* Loops over bytes and floats. */
#include "quantized/quantize.h"
#include "quantized/quant.h"
#include "simd/vecmath.h"

KIT_MULTIVERSION static void from_u8(float *restrict y, const uint8_t *restrict x, int64_t n, float scale, float zero)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = ((float)x[i] - zero) * scale;
}

KIT_MULTIVERSION static void from_s8(float *restrict y, const int8_t *restrict x, int64_t n, float scale, float zero)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = ((float)x[i] - zero) * scale;
}

void q_dequantize(float *y, const void *x, bool is_signed, int64_t n, float scale, float zero)
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

KIT_MULTIVERSION static void to_u8(uint8_t *restrict y, const float *restrict x, int64_t n, float scale, float zero)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (uint8_t)(int32_t)rounded(x[i] / scale, zero, 0, 255);
}

KIT_MULTIVERSION static void to_s8(int8_t *restrict y, const float *restrict x, int64_t n, float scale, float zero)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (int8_t)(int32_t)rounded(x[i] / scale, zero, -128, 127);
}

void q_quantize(void *y, const float *x, bool is_signed, int64_t n, float scale, float zero)
{
    quantize_fn *const quantize = KERNEL_BEST(quantize);

    if (quantize != NULL && quantize_divides(scale))
        quantize(y, x, is_signed, n, scale, zero);
    else if (is_signed)
        to_s8(y, x, n, scale, zero);
    else
        to_u8(y, x, n, scale, zero);
}

enum { LANES = 64 };

KIT_MULTIVERSION void q_range(const float *x, int64_t n, float *low, float *high)
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

KIT_MULTIVERSION static void clip_u8(uint8_t *y, const uint8_t *x, int64_t n, uint8_t low, uint8_t high)
{
    for (int64_t i = 0; i < n; i++) {
        uint8_t v = x[i] > low ? x[i] : low;
        y[i] = v < high ? v : high;
    }
}

KIT_MULTIVERSION static void clip_s8(int8_t *y, const int8_t *x, int64_t n, int8_t low, int8_t high)
{
    for (int64_t i = 0; i < n; i++) {
        int8_t v = x[i] > low ? x[i] : low;
        y[i] = v < high ? v : high;
    }
}

void q_clip(void *y, const void *x, bool is_signed, int64_t n, int32_t low, int32_t high)
{
    if (is_signed)
        clip_s8(y, x, n, (int8_t)low, (int8_t)high);
    else
        clip_u8(y, x, n, (uint8_t)low, (uint8_t)high);
}

KIT_MULTIVERSION static int32_t sum_u8(const uint8_t *x, int64_t n)
{
    uint32_t sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return (int32_t)sum;
}

KIT_MULTIVERSION static int32_t sum_s8(const int8_t *x, int64_t n)
{
    int32_t sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

int32_t q_sum(const void *x, bool is_signed, int64_t n)
{
    return is_signed ? sum_s8(x, n) : sum_u8(x, n);
}
