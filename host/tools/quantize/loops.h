/* quantize/loops.h - the hot loops of quantization, compiled for each instruction set level. */
#ifndef QUANTIZE_LOOPS_H
#define QUANTIZE_LOOPS_H
#include "quantize/weights.h"
#include "simd/instances.h"

enum { WEIGHTS_MOST_CODE = 15, WEIGHTS_LANES = 16 }; /* largest 4-bit code; floats of a vector */

/* c[i][j] += factor * sum over k of a[i * a_row + k * a_step] * b[k * b_row + j], for i < rows, j < columns and k <
 * depth. c, [rows] rows of c_row floats, overlaps neither. */
struct blockmul {
    float *c;
    const float *a, *b;
    int64_t rows, columns, depth;
    int64_t c_row, a_row, a_step, b_row;
    float factor;
};

/* One block, contiguous: n weights and the importance of each error; padded with zeros to whole vectors. */
typedef struct weight_block {
    float w[WEIGHTS_MOST_BLOCK + WEIGHTS_LANES]; /* weights */
    float h[WEIGHTS_MOST_BLOCK + WEIGHTS_LANES]; /* importance */
    int64_t n;
    bool halves; /* see weight_rows */
} weight_block;

typedef struct weight_grid {
    float scale;
    int zero;
} weight_grid;

/* One block of one row: codes and scale, and the gradient of half the squared output error at each weight. change
 * receives the changes of the weights. */
struct refinement {
    int n;
    const float *moments; /* element of the block's first weight on the diagonal; rows of `row` floats */
    int64_t row;
    float codes[WEIGHTS_MOST_BLOCK], gradient[WEIGHTS_MOST_BLOCK]; /* codes minus the zero point */
    float low, high, step;
    float *change; /* [n] */
    bool halves;   /* see weight_rows */
};

typedef struct quantize_loops {
    /* blockmul_add() */
    void (*add_product)(const struct blockmul *blockmul);
    /* weights_bytes() */
    void (*round_bytes)(const float *weights, int64_t outer, int64_t channels, int64_t inner, int limit, int8_t *out,
                        float *scales);
    /* Searches for the scale and zero point of a block with the smallest squared error. */
    void (*find_grid)(const weight_block *block, weight_grid *out);
    /* Refines codes and scale of a block to reduce the output error. */
    void (*refine)(struct refinement *refinement);
} quantize_loops;

KERNEL_INSTANCES(quantize_loops, quantize_loops)

/* Adds the product of two small float blocks to a third one, for moment matrices and their factors. */
static inline void blockmul_add(const struct blockmul *blockmul)
{
    KERNEL_BEST(quantize_loops)->add_product(blockmul);
}
#endif
