/* quantize.h - floats become bytes. */
#ifndef CPU_QUANTIZE_H
#define CPU_QUANTIZE_H
#include "simd/instances.h"
#include <stdint.h>

/* By scales of these sizes, quotients can be had without a division, exactly rounded all the same. */
static inline bool quantize_divides(float scale)
{
    return scale > 1e-25f && scale < 1e25f;
}

/* output[i] = clip(round_half_even(input[i] / scale) + zero) as a byte, signed or not; NaN gives the lower bound. For
 * scales that quantize_divides(). */
typedef void quantize_fn(uint8_t *output, const float *input, bool is_signed, int64_t n, float scale, float zero);
quantize_fn quantize_avx512, quantize_avx2, quantize_neon, quantize_c;
#endif
