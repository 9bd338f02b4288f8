#include "quantize/weights.h"
#include "quantize/loops.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

void weights_bytes(const float *weights, int64_t outer, int64_t channels, int64_t inner, int limit, int8_t *out,
                   float *scales)
{
    KERNEL_BEST(quantize_loops)->bytes(weights, outer, channels, inner, limit, out, scales);
}

/* ------------------------------------------------------------------ four bits */

float weights_storable(float scale, bool halves)
{
    uint32_t bits;

    if (!halves)
        return scale;
    scale = scale < 0x1p-14F ? 0x1p-14F : scale > 65504.0F ? 65504.0F : scale;
    memcpy(&bits, &scale, sizeof bits);
    bits += 0xfff + (bits >> 13 & 1); /* ten bits of the mantissa stay, ties to even */
    bits &= ~UINT32_C(0x1fff);
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

static inline int code_of(float w, weight_grid grid)
{
    const float q = nearbyintf(w / grid.scale) + (float)grid.zero;

    return q < 0 ? 0 : q > WEIGHTS_MOST_CODE ? WEIGHTS_MOST_CODE : (int)q;
}

/* Weights from .. of a row. order: where the importance of each stands; NULL: as the weights do. */
static void gather(const weight_rows *rows, const float *row, int64_t step, const float *importance,
                   const int32_t *order, int64_t from, weight_block *block)
{
    block->halves = rows->halves;
    block->n = rows->depth - from < rows->block ? rows->depth - from : rows->block;
    for (int64_t i = 0; i < block->n; i++) {
        block->w[i] = row[(from + i) * step];
        block->h[i] = importance == NULL ? 1 : importance[order != NULL ? order[from + i] : from + i];
    }
    for (int64_t i = block->n; i < block->n + WEIGHTS_LANES; i++)
        block->w[i] = block->h[i] = 0;
}

void weights_nibbles(const weight_rows *rows, const float *importance, uint8_t *codes, float *scales, uint8_t *zeros)
{
    const int64_t blocks = weight_blocks(rows);
    weight_block block;

    for (int64_t r = 0; r < rows->rows; r++)
        for (int64_t k = 0; k < blocks; k++) {
            weight_grid grid;

            gather(rows, rows->weights + r * rows->row_step, rows->step, importance, NULL, k * rows->block, &block);
            KERNEL_BEST(quantize_loops)->find_grid(&block, &grid);
            scales[r * blocks + k] = grid.scale;
            zeros[r * blocks + k] = (uint8_t)grid.zero;
            for (int64_t i = 0; i < block.n; i++)
                codes[r * rows->depth + k * rows->block + i] = (uint8_t)code_of(block.w[i], grid);
        }
}

/* Codes of a block of one row, in the order of rounding, whose weights are left[from ..], for what is left of them by
 * then; errors are in units of the factor's pivots. */
static double settle_block(const weight_rows *rows, const weight_inputs *in, float *left, int64_t r, int64_t from,
                           float *errors, uint8_t *codes, float *scales, uint8_t *zeros)
{
    const int64_t at = r * weight_blocks(rows) + (in->order != NULL ? in->order[from] : from) / rows->block;
    double loss = 0;
    weight_block block;
    weight_grid grid;

    gather(rows, left, 1, in->importance, in->order, from, &block);
    KERNEL_BEST(quantize_loops)->find_grid(&block, &grid);
    scales[at] = grid.scale;
    zeros[at] = (uint8_t)grid.zero;
    for (int64_t p = from; p < from + block.n; p++) {
        const float *row = in->factor + p * rows->depth;
        const int code = code_of(left[p], grid);
        const float error = (left[p] - (float)(code - grid.zero) * grid.scale) / row[p];

        codes[r * rows->depth + (in->order != NULL ? in->order[p] : p)] = (uint8_t)code;
        errors[p - from] = error;
        loss += (double)error * error;
        for (int64_t j = p + 1; j < from + block.n; j++)
            left[j] -= error * row[j];
    }
    return loss;
}

/* A few rows at a time, for the factor is larger than the caches; what follows a block hears of its errors at once. */
double weights_nibbles_compensated(const weight_rows *rows, const weight_inputs *in, int64_t first, int64_t count,
                                   uint8_t *codes, float *scales, uint8_t *zeros, float *scratch)
{
    const int64_t n = rows->depth;
    float *errors = scratch + WEIGHTS_TOGETHER * n;
    double loss = 0;

    for (int64_t i = 0; i < count; i++)
        for (int64_t p = 0; p < n; p++)
            scratch[i * n + p] =
                rows->weights[(first + i) * rows->row_step + (in->order != NULL ? in->order[p] : p) * rows->step];
    for (int64_t from = 0; from < n; from += rows->block) {
        const int64_t to = from + rows->block < n ? from + rows->block : n;

        for (int64_t i = 0; i < count; i++)
            loss += settle_block(rows, in, scratch + i * n, first + i, from, errors + i * rows->block, codes, scales,
                                 zeros);
        if (to < n)
            blockmul_add(&(struct blockmul){ .c = scratch + to,
                                             .a = errors,
                                             .b = in->factor + from * n + to,
                                             .rows = count,
                                             .columns = n - to,
                                             .depth = to - from,
                                             .c_row = n,
                                             .a_row = rows->block,
                                             .a_step = 1,
                                             .b_row = n,
                                             .factor = -1 });
    }
    return loss;
}
