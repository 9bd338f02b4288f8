/* requantize.h - conversion of int32 sums to 8-bit results, as defined by QLinearMatMul-10 and QLinearConv-10:
 * saturate(round_to_even(sum * scale) + zero). */
#ifndef REQUANTIZE_H
#define REQUANTIZE_H
#include "inlay/types.h"
#include <math.h>
#include <stdbool.h>

/* Converts one row of `count` sums; the scale of element j is row_scale * column_scale[j * column_stride]. out: int8 or
 * uint8. */
static inline void requantize_row(const int32_t *sums, int64_t count, float row_scale, const float *column_scale,
                                  int64_t column_stride, int32_t zero, bool is_signed, void *out)
{
    const float low = is_signed ? -128.0f : 0.0f, high = is_signed ? 127.0f : 255.0f;

    for (int64_t j = 0; j < count; j++) {
        float value = nearbyintf((float)sums[j] * (row_scale * column_scale[j * column_stride])) + (float)zero;
        value = value > low ? value : low; /* NaN becomes `low` */
        value = value < high ? value : high;
        ((uint8_t *)out)[j] = (uint8_t)(int32_t)value;
    }
}
#endif
