/* The kernel of quantize.h for one instruction set. */
#include "cpu/quantized/quantize.h"
#include "simd/vec.h"

VEC_INLINE void quantize_four(uint8_t *output, const float *input, vec scale, vec inverse, vec low, vec high,
                              int16_t zero, uint8_t flip)
{
    vec q[4];

    VEC_UNROLL
    for (int v = 0; v < 4; v++)
        q[v] = vec_quotient(vec_min(vec_max(vec_load(input + v * VEC_LANES), low), high), scale, inverse);
    vec_store_bytes(output, q, zero, flip);
}

void KERNEL(quantize)(uint8_t *output, const float *input, bool is_signed, int64_t count, float scale, float zero)
{
    /* Larger quotients saturate with any zero point. */
    const vec low = vec_set(-8192 * scale), high = vec_set(8192 * scale), by = vec_set(scale),
              inverse = vec_set(1 / scale);
    const int16_t added = (int16_t)(zero + (is_signed ? 128 : 0));
    const uint8_t flip = is_signed ? 0x80 : 0;
    int64_t i = 0;

    for (; i + 4 * VEC_LANES <= count; i += 4 * VEC_LANES)
        quantize_four(output + i, input + i, by, inverse, low, high, added, flip);
    if (i < count) {
        float rest[4 * VEC_LANES] = { 0 };
        uint8_t bytes[4 * VEC_LANES];

        memcpy(rest, input + i, (size_t)(count - i) * sizeof *input);
        quantize_four(bytes, rest, by, inverse, low, high, added, flip);
        memcpy(output + i, bytes, (size_t)(count - i));
    }
}
