/* nbits_scales.h - what the kernels of nbits.h do with scales, with zero points or minima, and with factors of
 * activations: the same operations in all of them, so that their results have the same bits; and with planes of
 * weights. */
#ifndef CPU_NBITS_SCALES_H
#define CPU_NBITS_SCALES_H
#include "cpu/weights/nbits.h"
#include "simd/vec_words.h"

/* The scales (or zero points, or minima) of a block of k for the columns of a panel: floats, or with joint factors
 * bytes. */
typedef struct block_scales {
    const float *floats;
    const char *codes;
} block_scales;

/* joint: shape->joint != 0; shift: shape->joint, unused if that is 0. */
VEC_INLINE block_scales scales_at(const float *panel, bool joint, int shift, int64_t block)
{
    const int64_t whole = block >> shift; /* those before that have other factors */

    if (!joint)
        return (block_scales){ .floats = panel + block * NBITS_COLUMNS };
    return (block_scales){ .floats = panel + whole * (NBITS_COLUMNS + (NBITS_COLUMNS / 4 << shift)),
                           .codes = (const char *)(panel + (whole + 1) * NBITS_COLUMNS) + block * NBITS_COLUMNS };
}

/* Those of VEC_LANES columns. */
VEC_INLINE vec scale_of(block_scales scales, bool joint, int column)
{
    const vec floats = vec_load(scales.floats + column);

    return joint ? vec_mul(vec_of(vint_of_bytes(scales.codes + column, true)), floats) : floats;
}

/* The bytes of group `group` of four k of a unit in two planes of weights of `bits` bits. */
VEC_INLINE vint join_planes(const uint8_t *unit, int bits, int group)
{
    const int high_bits = bits - 4, shift = high_bits * group - 4; /* to bit 4 and up of each byte */
    const unsigned_words low = (unsigned_words)vint_load(unit + group / 2 * NBITS_COLUMNS * 4),
                         high = (unsigned_words)vint_load(unit + nbits_unit(bits) / 8 * NBITS_COLUMNS * 4);
    const unsigned_words turned = shift < 0 ? high << (uint32_t)-shift : high >> (uint32_t)(shift < 0 ? 0 : shift);

    return (vint)((low >> (uint32_t)(group % 2 * 4) & 0x0f0f0f0fu) | (turned & ((1u << high_bits) - 1) * 0x10101010u));
}

/* Adds the product of a part to `sum`. dot: that of the integers. With zeros, dot is a product of unsigned weights,
 * `of` the sum of the activations, and zero is a zero point, or, if joint, a minimum. */
VEC_INLINE vec add_part(vec sum, vint dot, vec scale, vec zero, float of, float factor, bool zeros, bool joint)
{
    vec product = vec_of(dot);

    if (zeros && joint) {
        product = vec_fnma(zero, vec_set(of), vec_mul(product, scale));
        return vec_fma(product, vec_set(factor), sum);
    }
    if (zeros)
        product = vec_fnma(zero, vec_set(of), product);
    return vec_fma(vec_mul(product, vec_set(factor)), scale, sum);
}

#endif
