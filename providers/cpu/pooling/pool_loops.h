/* pool_loops.h - what pooling does along rows of an image. */
#ifndef CPU_POOL_LOOPS_H
#define CPU_POOL_LOOPS_H
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

enum {
    POOL_TAPS = 4,  /* that are joined by one loop */
    POOL_LANES = 64 /* sums in flight of a mean */
};

typedef struct pool_loops {
    /* y[p][..] takes x[p][..] in. A NaN in y stays there. */
    void (*take_one)(const float *input, float *output, int64_t pixels, int64_t lanes, int64_t x_step, int64_t y_step);
    /* Three at once, which are tap_step from each other. */
    void (*take_three)(const float *input, float *output, int64_t pixels, int64_t lanes, int64_t x_step, int64_t y_step,
                       int64_t tap_step);
    /* t[i] = the largest, or the sum, of input[i * stride], input[i * stride + step] ..., taps <= POOL_TAPS of them,
     * and of t[i] where it `goes_on`. */
    void (*join_tops)(float *t, const float *input, int64_t n, int taps, int64_t step, int64_t stride, bool goes_on);
    void (*join_sums)(float *t, const float *input, int64_t n, int taps, int64_t step, int64_t stride, bool goes_on);
    /* Sums become means. */
    void (*divide)(float *restrict output, const float *restrict columns, float rows, int64_t n);
    /* output[i] = input[i * stride] */
    void (*pick)(const float *restrict input, float *restrict output, int64_t n, int64_t stride);
    /* The mean of n pixels, `step` apart, for each of `width` lanes, at most POOL_LANES. */
    void (*mean_of_lanes)(const float *input, float *output, int64_t n, int64_t step, int64_t width);
    /* The same of a few lanes, of which a whole number are in POOL_LANES, and no gaps between pixels. */
    void (*mean_of_few)(const float *input, float *output, int64_t n, int64_t lanes);
    void (*mean_of_row)(const float *input, float *output, int64_t n);
} pool_loops;

KERNEL_INSTANCES(pool_loops, pool_loops)
#endif
