/* sum_loops.h - loops over pixels and weights beside the tiles of convolutions: what guards Winograd's algorithm, what
 * measures its error, and sums of a transposed convolution. */
#ifndef CPU_SUM_LOOPS_H
#define CPU_SUM_LOOPS_H
#include "convolution/tile_set.h"
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

enum { SUM_TERMS = 64 * 9 }; /* of a plain sum at a time: channels by taps */

/* Of a pixel's channels, weighed: the sums of their magnitudes and of their squares. */
typedef struct sum_weighed {
    float sum, square;
} sum_weighed;

/* Of an output channel's weights. */
typedef struct sum_channel {
    uint32_t largest; /* bits of the largest magnitude: NaN and infinity are larger than any number */
    float spread;     /* sum of magnitudes by the largest: how many weights count */
    bool whole;       /* integers */
} sum_channel;

/* Of one pixel's results: in double, of their terms' magnitudes, and as a plain sum in float. */
typedef struct sum_terms {
    double exact[TILE_LANES], terms[TILE_LANES];
    float plain[TILE_LANES];
} sum_terms;

typedef struct sum_loops {
    /* out[p] of the channels of pixel x[p]; pixels: even. */
    void (*weigh_column)(const float *const *x, int64_t pixels, int64_t channels, const float *weight,
                         sum_weighed *out);
    /* sums[g * step] += x[g] . weights over count floats, g = 0 ... 3. */
    void (*add_dots)(const float (*x)[SUM_TERMS], const float *weights, int64_t count, float *sums, int64_t step);
    /* output = bias + the sum of `count` rows, each times its weights if there are any. */
    void (*add_rows)(float *restrict output, const float *const *rows, const float *const *weights, uint32_t count,
                     const float *bias, int64_t n);
    void (*relu)(float *output, int64_t n, float slope);
    /* data: floats at any address. */
    void (*look_at)(const char *data, int64_t count, sum_channel *out);
    void (*take_larger)(const char *data, int64_t count, float *largest);
    /* The same numbers each time, in [-1, 1). */
    void (*make_noise)(float *input, int64_t count);
    /* One row of a window: input[0 ... count) by weights [count][TILE_LANES]; the float sum is a chain for each
     * SGEMM_CHAIN.
     */
    void (*add_terms)(const float *input, const float *weights, int64_t count, sum_terms *out);
} sum_loops;

KERNEL_INSTANCES(sum_loops, sum_loops)
#endif
