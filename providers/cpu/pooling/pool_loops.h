/* pool_loops.h - loops of pooling over rows of an image. */
#ifndef CPU_POOL_LOOPS_H
#define CPU_POOL_LOOPS_H
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

enum {
    POOL_TAPS = 4,  /* maximum number of taps of one loop */
    POOL_LANES = 64 /* independent sums of a mean */
};

/* Windows of rows: window i of row r has the elements input[r * in_pitch + i * stride + k * step] for k < taps, and its
 * result is output[r * out_pitch + i] for i < n. */
typedef struct pool_rows {
    const float *input;
    float *output;
    int64_t rows, in_pitch, out_pitch, n, taps, step, stride;
    const float *divisors; /* [n], of means */
} pool_rows;

typedef struct pool_loops {
    /* output[p][..] = max(output[p][..], input[p][..]) for each pixel p; NaN if either is NaN. */
    void (*max_into)(const float *input, float *output, int64_t pixels, int64_t lanes, int64_t x_step, int64_t y_step);
    /* The same with three inputs, tap_step elements apart. */
    void (*max3_into)(const float *input, float *output, int64_t pixels, int64_t lanes, int64_t x_step, int64_t y_step,
                      int64_t tap_step);
    /* t[i] = the maximum, or the sum, of input[i * stride + k * step] for k < taps <= POOL_TAPS, and of t[i] if
     * `accumulate`. */
    void (*window_max)(float *t, const float *input, int64_t n, int taps, int64_t step, int64_t stride,
                       bool accumulate);
    void (*window_sum)(float *t, const float *input, int64_t n, int taps, int64_t step, int64_t stride,
                       bool accumulate);
    /* The sums, or the means, of windows; sums at a stride of 1. POOL_TAPS taps are added together, then the next. */
    void (*sums_of_rows)(const pool_rows *rows);
    void (*means_of_rows)(const pool_rows *rows);
    /* output[i] /= columns[i] * rows: sums become means. */
    void (*divide)(float *restrict output, const float *restrict columns, float rows, int64_t n);
    /* output[i] = the mean, or the maximum, of input[2 i], input[2 i + 1] and the two elements row_step after them. */
    void (*mean_of_squares)(const float *restrict input, float *restrict output, int64_t n, int64_t row_step);
    void (*max_of_squares)(const float *restrict input, float *restrict output, int64_t n, int64_t row_step);
    /* output[i] = the maximum of input[2 i + k * step] for k < taps, 2 or 3; no input is NaN. */
    void (*window_max_two)(const float *restrict input, float *restrict output, int64_t n, int64_t taps, int64_t step);
    /* The mean of n > 0 pixels with stride `step`, for each of `width` <= POOL_LANES lanes. */
    void (*mean_of_lanes)(const float *input, float *output, int64_t n, int64_t step, int64_t width);
    /* The same for few lanes, which divide POOL_LANES, and contiguous pixels. */
    void (*mean_of_few_lanes)(const float *input, float *output, int64_t n, int64_t lanes);
    void (*mean_of_row)(const float *input, float *output, int64_t n);
} pool_loops;

KERNEL_INSTANCES(pool_loops, pool_loops)
#endif
