/* fft_blocks.h - inner loops of convolutions by the fast Fourier transform.
 *
 * A block is a matrix [rows][columns] of complex numbers. All instruction sets use the same layout: a row consists of
 * records of the real parts, then the imaginary parts, of FFT_LANES columns. A row has an odd number of records, so
 * that the rows do not share a few sets of the cache.
 *
 * The transform of a block is in [columns][rows]: both axes are transformed down the columns, with a transposition
 * between. The elements of an axis stay in the order in which decimation in frequency leaves them, since products do
 * not depend on it, and the inverse (decimation in time) begins with that order.
 *
 * The block of a signal of one dimension holds rows * columns consecutive samples. Its transform needs one more
 * multiplication, by `twist`, between the axes. */
#ifndef CPU_FFT_BLOCKS_H
#define CPU_FFT_BLOCKS_H
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

enum {
    FFT_LANES = 16,
    FFT_LEAST = 16, /* points along an axis, a power of two */
    FFT_MOST = 256,
    FFT_FILTERS = 2, /* multiply(): results and inputs at once */
    FFT_INPUTS = 4
};

typedef struct fft_block {
    int64_t rows, columns;
    float factors[2 * FFT_MOST]; /* cos and sin of -2 pi i / FFT_MOST */
    const float *twist;          /* [rows][columns / FFT_LANES] records; NULL: a block of two dimensions */
} fft_block;

/* The records of a row of `columns` columns, in floats. */
static inline int64_t fft_row_floats(int64_t columns)
{
    return (columns / FFT_LANES | 1) * 2 * FFT_LANES;
}

/* The largest of a block's and its transform's floats. */
static inline int64_t fft_block_floats(const fft_block *block)
{
    const int64_t natural = block->rows * fft_row_floats(block->columns),
                  turned = block->columns * fft_row_floats(block->rows);

    return natural > turned ? natural : turned;
}

/* results[k] += the sum over c of inputs[c] times the conjugates of filters[k * input_count + c]. */
typedef struct fft_product {
    const float *inputs, *filters;
    float *results;
    int64_t input_step, filter_step, result_step; /* floats between blocks */
    int32_t input_count, filter_count;            /* 1 ... FFT_INPUTS, 1 ... FFT_FILTERS */
    bool first;                                   /* results = ... */
} fft_product;

typedef struct fft_set {
    /* Transforms x to y; x is overwritten. Columns from `used` on are zero. */
    void (*forward)(const fft_block *block, float *x, int64_t used, float *y);
    /* The inverse, times rows * columns: y to x; y is overwritten. */
    void (*inverse)(const fft_block *block, float *y, float *x);
    void (*multiply)(const fft_block *block, const fft_product *product);
    /* sums[i] += weight |x[i]|, squares[i] += the square of that. */
    void (*weigh)(const float *x, int64_t n, float weight, float *sums, float *squares);
    float (*sum)(const float *x, int64_t n);
    /* output[i] = scale * part[i] + bias, in [low, high] if clamp, where part is the real or imaginary parts. */
    void (*put)(const float *part, int64_t n, float scale, float bias, bool clamp, float low, float high,
                float *output);
} fft_set;

KERNEL_INSTANCES(fft_set, fft_blocks)
#endif
