/* row_set.h - functions over rows of floats: elementwise functions and reductions. */
#ifndef SIMD_ROW_SET_H
#define SIMD_ROW_SET_H
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

/* output[i] = f(input[i]); output may be input. */
typedef void (*row_fn)(const float *input, float *output, int64_t n);

typedef struct row_set {
    /* Errors: 1.1, 2.7 and 2.3 units in the last place. NaN stays NaN, infinities give the limit, and the odd functions
     * keep the sign of 0. */
    row_fn exp, tanh, erf;
    /* 1 / (1 + e^-x); error 2.3 units in the last place. */
    row_fn sigmoid;
    /* For each of `count` rows of n elements: e^(input - maximum) divided by the sum of these, or the logarithm of
     * that. output may be input. */
    void (*softmax)(const float *input, float *output, int64_t count, int64_t n);
    void (*log_softmax)(const float *input, float *output, int64_t count, int64_t n);
    /* output[r] = the maximum, or the minimum, of the n > 0 elements of row r; NaN if an element is NaN. */
    void (*tops)(const float *input, float *output, int64_t count, int64_t n);
    void (*lows)(const float *input, float *output, int64_t count, int64_t n);
    /* The sum of n elements. Chains of 32 vectors are added in float, and their sums in double. */
    double (*sum)(const float *input, int64_t n);
    /* output[r] = the mean of the n > 0 elements of row r, by `sum`. */
    void (*means)(const float *input, float *output, int64_t count, int64_t n);
    /* output[i] = the maximum of input[i + t * step] for t < taps; taps > 0. No element may be NaN. */
    void (*windows)(const float *input, float *output, int64_t n, int64_t taps, int64_t step);
    /* output[i] = the number of elements that are greater than input[i]. n < 2^24. */
    row_fn greater;
    /* True if all n numbers are finite. */
    bool (*finite)(const float *input, int64_t n);
    /* float16 to float, and back, rounded to nearest, ties to even. */
    void (*from_half)(const uint16_t *input, float *output, int64_t n);
    void (*to_half)(const float *input, uint16_t *output, int64_t n);
    /* Divides each of `count` rows of n elements by its norm: the root of the sum of squares if `euclidean`, otherwise
     * the sum of magnitudes. Rows whose norm is 0 stay 0. output may be input. */
    void (*units)(const float *input, float *output, int64_t count, int64_t n, bool euclidean);
    /* The mean and the population variance of the n > 0 elements of each of `count` rows, in two passes. */
    void (*moments)(const float *input, float *means, float *variances, int64_t count, int64_t n);
    /* output = (input - mean) * factor + shift; output may be input. */
    void (*affine)(const float *input, float *output, int64_t n, float mean, float factor, float shift);
} row_set;

KERNEL_INSTANCES(row_set, rows)
#endif
