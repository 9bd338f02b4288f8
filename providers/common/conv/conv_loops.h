/* conv_loops.h - what a convolution does with its staged input: panels are copied from it, windows slide over it. */
#ifndef CONV_LOOPS_H
#define CONV_LOOPS_H
#include "simd/instances.h"
#include <stdint.h>

/* Positions of the output that follow each other in a row; at one tap, neighbours in the staged input. */
typedef struct run_of_positions {
    int64_t from;  /* staged element at tap 0, channel 0 */
    int32_t to;    /* column of the panel */
    int32_t count; /* positions */
} run_of_positions;

typedef struct conv_loops {
    /* Lines [depth][width] of a panel: line k is what the runs have at base + offset[k]. Whole vectors are copied. */
    void (*copy_32)(const uint32_t *base, const int64_t *offset, int64_t depth, const run_of_positions *runs,
                    uint32_t run_count, uint32_t width, uint32_t *to);
    void (*copy_64)(const uint64_t *base, const int64_t *offset, int64_t depth, const run_of_positions *runs,
                    uint32_t run_count, uint32_t width, uint64_t *to);
    /* Pairs of k side by side, as GEMM_S16 wants them. */
    void (*copy_pairs)(const int16_t *base, const int64_t *offset, int64_t depth, const run_of_positions *runs,
                       uint32_t run_count, uint32_t width, int16_t *to);
    /* output[i] = bias + the sum of weights[k] * input[offset[k] + i]; input is read past the last of them. */
    void (*f32_row)(const float *input, const int64_t *offset, const float *weights, int64_t taps, float bias,
                    int64_t count, float *output);
    void (*f64_row)(const double *input, const int64_t *offset, const double *weights, int64_t taps, double bias,
                    int64_t count, double *output);
} conv_loops;

KERNEL_INSTANCES(conv_loops, conv_loops)
#endif
