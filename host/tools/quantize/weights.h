/* quantize/weights.h - floats to integers of 8 and 4 bits. Plain arithmetic: no graph, no memory of its own. */
#ifndef QUANTIZE_WEIGHTS_H
#define QUANTIZE_WEIGHTS_H
#include <stdbool.h>
#include <stdint.h>

/* Signed bytes around 0, one scale for each channel: weights is [outer, channels, inner], as is out; scales is
 * [channels]. A channel of zeros gets scale 1. limit: the largest code, 127 or less. Weights that are multiples of a
 * step already, none beyond limit of them, keep that step and lose nothing. */
void weights_bytes(const float *weights, int64_t outer, int64_t channels, int64_t inner, int limit, int8_t *out,
                   float *scales);

/* A matrix seen as `rows` vectors along which blocks lie: element k of row r is w[r * row_step + k * step]. */
typedef struct weight_rows {
    const float *weights;
    int64_t rows, depth, row_step, step;
    int64_t block;
    bool halves; /* scales are numbers of float16, none below its smallest normal one */
} weight_rows;

static inline int64_t weight_blocks(const weight_rows *rows)
{
    return (rows->depth + rows->block - 1) / rows->block;
}

/* Codes from 0 to 15 with a scale and a zero point for each block, w = (code - zero) * scale: codes is [rows, depth],
 * scales and zeros are [rows, blocks]. Scale and zero point are those with the least squares of errors that a search
 * finds; importance, [depth] or NULL, weighs the errors. */
void weights_nibbles(const weight_rows *rows, const float *importance, uint8_t *codes, float *scales, uint8_t *zeros);

/* The scale as it will be stored: of float16 with halves. */
float weights_storable(float scale, bool halves);

/* What is known of the inputs of a product: mean squares, and the upper triangle of Cholesky's factor of the inverse of
 * their second moments, [depth, depth], to whose diagonal WEIGHTS_DAMP of its mean was added; below the diagonal stand
 * the moments themselves, which weights_nibbles_compensated() does not read. order: the rows and columns of the factor
 * are those inputs, and weights are rounded in this order; the elements of a block stand together. NULL: as they are.
 */
typedef struct weight_inputs {
    const float *importance, *factor; /* [depth], natural order; NULL: not known */
    const int32_t *order;
} weight_inputs;

/* The same for rows first .. first + count, at most WEIGHTS_TOGETHER, with the error of each weight made good by those
 * that follow it (Frantar and others, GPTQ). The factor must be known. scratch is [WEIGHTS_TOGETHER, depth +
 * WEIGHTS_MOST_BLOCK]. Returns the mean square that the outputs of these rows together are off. */
#define WEIGHTS_DAMP 0.01
enum { WEIGHTS_TOGETHER = 16, WEIGHTS_MOST_BLOCK = 256 };
double weights_nibbles_compensated(const weight_rows *rows, const weight_inputs *in, int64_t first, int64_t count,
                                   uint8_t *codes, float *scales, uint8_t *zeros, float *scratch);
#endif
