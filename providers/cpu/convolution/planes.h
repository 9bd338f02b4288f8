/* planes.h - inner loops of depthwise and other convolutions over row-major images (planes). */
#ifndef CPU_PLANES_H
#define CPU_PLANES_H
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

enum {
    PLANES_ROWS = 4,   /* maximum output rows at once */
    PLANES_LANES = 16, /* the widest vector of any instruction set */
    PLANES_PANEL = 64  /* columns of a panel */
};

/* Output rows of one channel. long_rows() has input[.. + k * x_step + i] instead of at[k]:
 *
 *     output[p][i] = bias + sum over r, k of
 *                    input[(p * stride + r * dilation) * x_row + at[k] + i] * weights[r * width + k]
 *
 * The input is a copy with its border. Full vectors are read from it: PLANES_LANES - 1 elements after the last used
 * one must be readable. Steps count floats. */
typedef struct planes_rows {
    const float *input;
    int64_t x_row;
    const int64_t *at;     /* [width] */
    int64_t x_step, chain; /* long_rows(): distance of taps; largest number of products that are added in a row */
    const float *weights;
    int64_t height, width, stride, dilation;
    float bias;
    float *output;
    int64_t y_row, n;
    int32_t rows; /* long_rows(): 1 ... PLANES_ROWS */
    bool clamp;   /* then clamps the results to [low, high] */
    float low, high;
} planes_rows;

/* One tap of a transposed convolution along a row: products of input columns from `from` on are added to the sums from
 * `to` on. */
typedef struct plane_tap {
    int64_t from, to, n;
} plane_tap;

typedef struct plane_set {
    void (*rows)(const planes_rows *r);
    /* The same for kernels of many taps. Each row of a kernel is summed for itself, in chains; the sums do not depend
     * on the number of output rows at once. */
    void (*long_rows)(const planes_rows *r);
    /* output[i] = bias + sum over k < width of input[k * x_step + i] * weights[k], clamped, i < n. Reads no other
     * elements; the output may be the only input. */
    void (*mix)(const planes_rows *r);
    /* even[i] = input[2 i], odd[i] = input[2 i + 1], i < n. */
    void (*part)(const float *input, float *even, float *odd, int64_t n);
    /* The inverse: output[i] = input[i % step * part + i / step]. 1 < step. */
    void (*join)(const float *input, int64_t part, int64_t step, float *output, int64_t n);
    /* Packs n floats into panels of PLANES_PANEL columns, each `step` floats long, from column `at` on. */
    void (*put)(const float *input, int64_t n, float *panels, int64_t step, int64_t at);
    /* output[i] = v. */
    void (*fill)(float *output, float v, int64_t n);
    /* For each tap k: output[to + i] += input[k * step + from + i], i < n. */
    void (*add)(const float *input, int64_t step, const plane_tap *taps, int64_t count, float *output);
} plane_set;

KERNEL_INSTANCES(plane_set, planes)
#endif
