#include "quantize/weights.h"
#include "inlay/check.h"
#include "quantize/loops.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

void weights_bytes(const float *weights, int64_t outer, int64_t channels, int64_t inner, int limit, int8_t *out,
                   float *scales)
{
    KERNEL_BEST(quantize_loops)->round_bytes(weights, outer, channels, inner, limit, out, scales);
}

float weights_storable(float scale, bool halves)
{
    uint32_t bits;

    if (!halves)
        return scale;
    scale = scale < 0x1p-14F ? 0x1p-14F : scale > 65504.0F ? 65504.0F : scale;
    memcpy(&bits, &scale, sizeof bits);
    bits += 0xfff + (bits >> 13 & 1); /* keep ten bits of the mantissa, ties to even */
    bits &= ~UINT32_C(0x1fff);
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

static inline int code_of(float weight, weight_grid grid)
{
    const float code = nearbyintf(weight / grid.scale) + (float)grid.zero;

    return code < 0 ? 0 : code > WEIGHTS_MOST_CODE ? WEIGHTS_MOST_CODE : (int)code;
}

/* Copies one block of a row, from element `from`. order maps positions to indices of importance; NULL: natural
 * order. */
static void load_block(const weight_rows *rows, const float *row, int64_t step, const float *importance,
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
        for (int64_t b = 0; b < blocks; b++) {
            weight_grid grid;

            load_block(rows, rows->weights + r * rows->row_step, rows->step, importance, NULL, b * rows->block, &block);
            KERNEL_BEST(quantize_loops)->find_grid(&block, &grid);
            scales[r * blocks + b] = grid.scale;
            zeros[r * blocks + b] = (uint8_t)grid.zero;
            for (int64_t i = 0; i < block.n; i++)
                codes[r * rows->depth + b * rows->block + i] = (uint8_t)code_of(block.w[i], grid);
        }
}

/* Rounds a block of one row in the order of rounding. left holds the weights minus the compensation so far; errors are
 * in units of the factor's pivots. Returns the squared error. */
static double round_block(const weight_rows *rows, const weight_inputs *in, float *left, int64_t row, int64_t from,
                          float *errors, uint8_t *codes, float *scales, uint8_t *zeros)
{
    const int64_t index = row * weight_blocks(rows) + (in->order != NULL ? in->order[from] : from) / rows->block;
    double loss = 0;
    weight_block block;
    weight_grid grid;

    load_block(rows, left, 1, in->importance, in->order, from, &block);
    KERNEL_BEST(quantize_loops)->find_grid(&block, &grid);
    scales[index] = grid.scale;
    zeros[index] = (uint8_t)grid.zero;
    for (int64_t at = from; at < from + block.n; at++) {
        const float *factor_row = in->factor + at * rows->depth;
        const int code = code_of(left[at], grid);
        const float error = (left[at] - (float)(code - grid.zero) * grid.scale) / factor_row[at];

        codes[row * rows->depth + (in->order != NULL ? in->order[at] : at)] = (uint8_t)code;
        errors[at - from] = error;
        loss += (double)error * error;
        for (int64_t j = at + 1; j < from + block.n; j++)
            left[j] -= error * factor_row[j];
    }
    return loss;
}

/* Works on a few rows at a time, because the factor is larger than the caches. The errors of a block are applied to all
 * following blocks at once. */
double weights_nibbles_compensated(const weight_rows *rows, const weight_inputs *in, int64_t first, int64_t count,
                                   uint8_t *codes, float *scales, uint8_t *zeros, float *scratch)
{
    const int64_t depth = rows->depth;
    float *errors = scratch + WEIGHTS_TOGETHER * depth;
    double loss = 0;

    INLAY_CHECK(in->factor != NULL && count <= WEIGHTS_TOGETHER && first + count <= rows->rows);
    INLAY_CHECK(rows->block > 0 && rows->block <= WEIGHTS_MOST_BLOCK);
    for (int64_t row = 0; row < count; row++)
        for (int64_t at = 0; at < depth; at++)
            scratch[row * depth + at] =
                rows->weights[(first + row) * rows->row_step + (in->order != NULL ? in->order[at] : at) * rows->step];
    for (int64_t from = 0; from < depth; from += rows->block) {
        const int64_t to = from + rows->block < depth ? from + rows->block : depth;

        for (int64_t row = 0; row < count; row++)
            loss += round_block(rows, in, scratch + row * depth, first + row, from, errors + row * rows->block, codes,
                                scales, zeros);
        if (to < depth)
            blockmul_add(&(struct blockmul){ .c = scratch + to,
                                             .a = errors,
                                             .b = in->factor + from * depth + to,
                                             .rows = count,
                                             .columns = depth - to,
                                             .depth = to - from,
                                             .c_row = depth,
                                             .a_row = rows->block,
                                             .a_step = 1,
                                             .b_row = depth,
                                             .factor = -1 });
    }
    return loss;
}
