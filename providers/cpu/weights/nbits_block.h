/* nbits_block.h - kernels over weight blocks (nbits.h): nbits_block.c for CPUs with dot products of bytes and of 16-bit
 * words, nbits_panels.c for AVX2. nbits.c puts them into the kernel table. */
#ifndef CPU_NBITS_BLOCK_H
#define CPU_NBITS_BLOCK_H
#include "cpu/weights/nbits_scales.h"

void KERNEL(nbits_spread)(const nbits_tile *tile, nbits_mode mode, int64_t first, int64_t parts, int at,
                          const nbits_spread *out);
void KERNEL(nbits_block)(const nbits_weight_block *block, nbits_mode mode);

VEC_INLINE vint vint_store(void *p, vint v)
{
    memcpy(p, &v, sizeof v);
    return v;
}

/* Distance in parts from the parts that are being expanded, which begin with `first`, to the parts to prefetch: the
 * next ones of this weight block, or those of the next block. */
static inline int64_t parts_ahead(const nbits_shape *shape, int64_t first, int64_t parts)
{
    const int64_t all = nbits_parts(shape);

    return parts + (first + parts < all ? 0 : NBITS_BESIDE - 1) * all;
}

/* The scales and zero points of each part. */
VEC_INLINE void spread_scales(const nbits_tile *tile, int64_t first, int64_t parts, int at, const nbits_spread *out)
{
    const nbits_shape *shape = tile->shape;
    const int64_t of_block = shape->padded / shape->part;
    const bool joint = shape->joint != 0;
    const float *ahead = tile->scales + parts_ahead(shape, first, parts) / of_block * NBITS_COLUMNS;
    int64_t block = first / of_block, left = of_block - first % of_block;

    for (int64_t to = at * NBITS_COLUMNS; parts > 0; parts--, to += NBITS_BESIDE * NBITS_COLUMNS) {
        const block_scales scales = scales_at(tile->scales, joint, shape->joint, block),
                           minima =
                               scales_at(tile->zeros != NULL ? tile->zeros : tile->scales, joint, shape->joint, block);

        VEC_UNROLL
        for (int column = 0; column < NBITS_COLUMNS; column += VEC_LANES) {
            vec_store(out->scales + to + column, scale_of(scales, joint, column));
            if (tile->zeros != NULL)
                vec_store(out->zeros + to + column, scale_of(minima, joint, column));
        }
        if (!joint)
            vec_fetch_far(ahead + block * NBITS_COLUMNS);
        if (--left == 0) {
            left = of_block;
            block++;
        }
    }
}
#endif
