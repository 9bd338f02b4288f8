/* conv_loops.h - loops over the staged input of a convolution: copying panels, and sliding windows. */
#ifndef CONV_LOOPS_H
#define CONV_LOOPS_H
#include "simd/instances.h"
#include <stdint.h>

/* Consecutive output positions of a row; at one tap, they read adjacent elements of the staged input. */
typedef struct position_run {
    int64_t from;  /* staged element at tap 0, channel 0 */
    int32_t to;    /* column of the panel */
    int32_t count; /* positions */
} position_run;

typedef struct conv_loops {
    /* Copies lines [depth][width] of a panel: line k contains the elements of the runs at base + offset[k]. Copies
     * whole vectors. */
    void (*copy_32)(const uint32_t *base, const int64_t *offset, int64_t depth, const position_run *runs,
                    uint32_t run_count, uint32_t width, uint32_t *to);
    void (*copy_64)(const uint64_t *base, const int64_t *offset, int64_t depth, const position_run *runs,
                    uint32_t run_count, uint32_t width, uint64_t *to);
    /* The same with pairs of k interleaved, as GEMM_S16 requires. */
    void (*copy_pairs)(const int16_t *base, const int64_t *offset, int64_t depth, const position_run *runs,
                       uint32_t run_count, uint32_t width, int16_t *to);
    /* output[i] = bias + sum of weights[k] * input[offset[k] + i]; may read past the last element of input. */
    void (*f32_row)(const float *input, const int64_t *offset, const float *weights, int64_t taps, float bias,
                    int64_t count, float *output);
    void (*f64_row)(const double *input, const int64_t *offset, const double *weights, int64_t taps, double bias,
                    int64_t count, double *output);
} conv_loops;

KERNEL_INSTANCES(conv_loops, conv_loops)
#endif
