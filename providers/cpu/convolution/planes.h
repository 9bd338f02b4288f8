/* planes.h - the loop of convolutions whose groups have one channel, over planes: images that lie row by row. */
#ifndef CPU_PLANES_H
#define CPU_PLANES_H
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

enum {
    PLANES_ROWS = 4,
    PLANES_LANES = 16,
    PLANES_PANEL = 64
}; /* of the output at once, at most; vectors are no longer at any level */

/* Rows of the output of one channel:
 *     y[p][i] = bias + sum over r, k of x[(p * stride + r * dilation) * x_row + at[k] + i] * w[r * width + k]
 * x is a copy with its border, from which whole vectors are read: PLANES_LANES - 1 elements behind the last that counts
 * are there. Steps count floats. */
typedef struct planes_rows {
    const float *input;
    int64_t x_row;
    const int64_t *at; /* [width] */
    const float *weights;
    int64_t height, width, stride, dilation;
    float bias;
    float *output;
    int64_t y_row, n;
    int32_t rows; /* 1 ... PLANES_ROWS */
    bool clamp;   /* then into [low, high] */
    float low, high;
} planes_rows;

typedef struct plane_set {
    void (*rows)(const planes_rows *r);
    /* output[i] = input[i * step], i < n. */
    void (*every)(const float *input, int64_t step, float *output, int64_t n);
    /* The other way: output[i] = input[i % step * part + i / step]. 1 < step. */
    void (*join)(const float *input, int64_t part, int64_t step, float *output, int64_t n);
    /* n floats into panels of PLANES_PANEL columns, each `step` floats long, from column `at` on. */
    void (*put)(const float *input, int64_t n, float *panels, int64_t step, int64_t at);
    /* output[i] = v. */
    void (*fill)(float *output, float v, int64_t n);
    /* output[i] += input[i]. */
    void (*add)(const float *input, float *output, int64_t n);
} plane_set;

KERNEL_INSTANCES(plane_set, planes)
#endif
