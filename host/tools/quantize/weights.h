/* quantize/weights.h - rounds float weights to integers of 8 and 4 bits. Plain arithmetic: no graph, no allocation. */
#ifndef QUANTIZE_WEIGHTS_H
#define QUANTIZE_WEIGHTS_H
#include <stdbool.h>
#include <stdint.h>

/* Symmetric int8 weights with one scale for each channel: weights and out are [outer, channels, inner], scales is
 * [channels]. A channel of zeros gets scale 1. limit is the largest code, at most 127. A channel whose weights are
 * already multiples of a step, none beyond limit steps, keeps that step and loses nothing. */
void weights_bytes(const float *weights, int64_t outer, int64_t channels, int64_t inner, int limit, int8_t *out,
                   float *scales);

/* A matrix seen as `rows` vectors that are cut into blocks: element k of row r is weights[r * row_step + k * step]. */
typedef struct weight_rows {
    const float *weights;
    int64_t rows, depth, row_step, step;
    int64_t block;
    bool halves; /* scales are rounded to float16, none below its smallest normal number */
} weight_rows;

static inline int64_t weight_blocks(const weight_rows *rows)
{
    return (rows->depth + rows->block - 1) / rows->block;
}

/* Codes from 0 to 15 with a scale and a zero point for each block, weight = (code - zero) * scale: codes is [rows,
 * depth], scales and zeros are [rows, blocks]. A search picks the scale and zero point with the least squared error;
 * importance, [depth] or NULL, weighs the errors. */
void weights_nibbles(const weight_rows *rows, const float *importance, uint8_t *codes, float *scales, uint8_t *zeros);

/* The scale as it will be stored: rounded to float16 if `halves` is set. */
float weights_storable(float scale, bool halves);

/* Statistics of the inputs of a matrix multiplication: mean squares, and the upper triangle of the Cholesky factor of
 * the inverse of their second moments, [depth, depth], after WEIGHTS_DAMP times the mean of the diagonal was added to
 * the diagonal. The moments themselves are stored below the diagonal; weights_nibbles_compensated() does not read them.
 * order: rows and columns of the factor, and the order in which weights are rounded; the elements of a block are
 * consecutive. NULL: natural order. */
typedef struct weight_inputs {
    const float *importance; /* [depth] mean squares, in natural order; NULL: unknown */
    const float *factor;     /* [depth, depth] in the order of rounding; NULL: unknown */
    const int32_t *order;
} weight_inputs;

/* weights_nibbles() for rows first .. first + count, at most WEIGHTS_TOGETHER, with compensation: the error of each
 * weight is compensated by the weights that follow it (Frantar and others, GPTQ). The factor must be known. scratch is
 * [WEIGHTS_TOGETHER, depth + WEIGHTS_MOST_BLOCK]. Returns the sum of the mean squared output errors of these rows. */
#define WEIGHTS_DAMP 0.01
enum {
    WEIGHTS_TOGETHER = 16,   /* rows that are rounded together */
    WEIGHTS_MOST_BLOCK = 256 /* largest number of weights in a block */
};
double weights_nibbles_compensated(const weight_rows *rows, const weight_inputs *in, int64_t first, int64_t count,
                                   uint8_t *codes, float *scales, uint8_t *zeros, float *scratch);
#endif
