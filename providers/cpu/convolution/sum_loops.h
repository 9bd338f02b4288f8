/* sum_loops.h - auxiliary loops over pixels and weights of convolutions: for the guard of Winograd's algorithm, for
 * the measurement of its error, and for the sums of a transposed convolution. */
#ifndef CPU_SUM_LOOPS_H
#define CPU_SUM_LOOPS_H
#include "cpu/convolution/tile_set.h"
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

enum { SUM_TERMS = 64 * 9 }; /* floats of a direct sum that are processed at once: channels by taps */

/* Weighted sums over the channels of a pixel: of magnitudes and of their squares. */
typedef struct weighted_sums {
    float sum, square;
} weighted_sums;

/* Properties of an output channel's weights. */
typedef struct sum_channel {
    uint32_t largest; /* bits of the largest magnitude: NaN and infinity compare larger than any number */
    float spread;     /* sum of magnitudes divided by the largest: how many weights contribute */
    bool whole;       /* all are integers below 2^24 */
} sum_channel;

/* The results of one pixel: the sums in double, the sums of the terms' magnitudes, and the direct sums in float. */
typedef struct sum_terms {
    double exact[TILE_LANES], magnitudes[TILE_LANES];
    float plain[TILE_LANES];
} sum_terms;

typedef struct sum_loops {
    /* out[p] = weighted sums over the channels of pixel x[p]. pixels: even. */
    void (*weigh_pixels)(const float *const *x, int64_t pixels, int64_t channels, const float *weight,
                         weighted_sums *out);
    /* sums[g * step] += x[g] . weights over count floats, g = 0 ... 3. */
    void (*add_dots)(const float (*x)[SUM_TERMS], const float *weights, int64_t count, float *sums, int64_t step);
    /* output = bias + the sum of `count` rows, each multiplied by its weights if there are any. */
    void (*add_rows)(float *restrict output, const float *const *rows, const float *const *weights, uint32_t count,
                     const float *bias, int64_t n);
    void (*relu)(float *output, int64_t n, float slope);
    /* data: floats at any address. */
    void (*measure_channel)(const char *data, int64_t count, sum_channel *out);
    /* largest[i] = max(largest[i], |data[i]|). */
    void (*max_magnitudes)(const char *data, int64_t count, float *largest);
    /* Deterministic noise in [-1, 1). */
    void (*make_noise)(float *input, int64_t count);
    /* One row of a kernel window: input[0 ... count) by weights [count][TILE_LANES]. The float sum has one chain for
     * each SGEMM_CHAIN terms. */
    void (*add_terms)(const float *input, const float *weights, int64_t count, sum_terms *out);
} sum_loops;

KERNEL_INSTANCES(sum_loops, sum_loops)
#endif
