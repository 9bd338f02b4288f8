/* row_set.h - functions over rows of floats: of each element, and of all of a row. */
#ifndef SIMD_ROW_SET_H
#define SIMD_ROW_SET_H
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

/* output[i] = f(input[i]); output may be input. */
typedef void (*row_fn)(const float *input, float *output, int64_t n);

typedef struct row_set {
    /* Within 1.1, 2.7 and 2.3 units in the last place; NaN stays NaN, infinities become limits, 0 keeps its sign where
     * f is odd. */
    row_fn exp, tanh, erf;
    /* 1 / (1 + e^-x), 2.3 units. */
    row_fn sigmoid;
    /* Of each of `count` rows of n: e^(input - top) divided by the sum of those, or its logarithm. output may be input.
     */
    void (*softmax)(const float *input, float *output, int64_t count, int64_t n);
    void (*log_softmax)(const float *input, float *output, int64_t count, int64_t n);
    /* output[r] = the largest, or the least, of the n elements of row r; NaN where one is. 0 < n. */
    void (*tops)(const float *input, float *output, int64_t count, int64_t n);
    void (*lows)(const float *input, float *output, int64_t count, int64_t n);
    /* The sum of n elements, some hundred in float and those in double. */
    double (*sum)(const float *input, int64_t n);
    /* output[r] = the mean of the n elements of row r, summed so. 0 < n. */
    void (*means)(const float *input, float *output, int64_t count, int64_t n);
    /* output[i] = the largest of input[i], input[i + step] ... input[i + (taps - 1) step], none of which is NaN. 0 <
     * taps. */
    void (*windows)(const float *input, float *output, int64_t n, int64_t taps, int64_t step);
    /* y[i] = how many of the n elements are greater than x[i]. n < 2^24. */
    row_fn greater;
    /* Is none of n numbers NaN or infinite? */
    bool (*finite)(const float *input, int64_t n);
    /* float16 to float, and back, rounded to nearest, halves to even. */
    void (*from_half)(const uint16_t *input, float *output, int64_t n);
    void (*to_half)(const float *input, uint16_t *output, int64_t n);
} row_set;

KERNEL_INSTANCES(row_set, rows)
#endif
