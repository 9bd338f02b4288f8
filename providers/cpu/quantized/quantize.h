/* quantize.h - vectorised QuantizeLinear without division. */
#ifndef CPU_QUANTIZE_H
#define CPU_QUANTIZE_H
#include "simd/instances.h"
#include <stdint.h>

/* For scales in this range, quotients can be computed exactly rounded without a division. */
static inline bool quantize_divides(float scale)
{
    return scale > 1e-25f && scale < 1e25f;
}

/* output[i] = clip(round_half_even(input[i] / scale) + zero) as a byte, signed or not; NaN becomes the lower bound.
 * Requires quantize_divides(scale). */
typedef void quantize_fn(uint8_t *output, const float *input, bool is_signed, int64_t count, float scale, float zero);
quantize_fn quantize_avx512, quantize_avx2, quantize_neon, quantize_rvv, quantize_wasm, quantize_c;
__attribute__((weak)) quantize_fn quantize_uniform, quantize_uniform_c;
#endif
