/* simd/dynamic_range.h - the range, scale and zero point of DynamicQuantizeLinear-11. */
#ifndef SIMD_DYNAMIC_RANGE_H
#define SIMD_DYNAMIC_RANGE_H
#include "simd/vecmath.h"

/* The smaller of a and b; NaN if one of them is. The lower end of a range with NaN is NaN. */
static inline float dynamic_low(float a, float b)
{
    return ((b < a) | (b != b)) != 0 ? b : a;
}

/* Scale and zero point for elements from low <= 0 to high >= 0. As in ONNX's function body, the scale is NaN if low is,
 * and infinite if the range is; the zero point is then 0. Unlike there, the scale of zeros is 1. */
static inline void dynamic_parameters(float low, float high, float *out_scale, float *out_zero)
{
    const float scale = low == high ? 1.0f : (high - low) / 255.0f, zero = -low / scale;

    *out_scale = scale;
    *out_zero = zero > 255.0f ? 255.0f : zero == zero ? vm_round(zero) : 0.0f;
}
#endif
