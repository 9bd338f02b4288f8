/* norm_loops.h - normalisation of rows, rounded like a sequence of single operators: norm_loops.c is compiled without
 * contraction of multiplications and additions. */
#ifndef CPU_NORM_LOOPS_H
#define CPU_NORM_LOOPS_H
#include "simd/instances.h"
#include <stdint.h>

enum { NORM_ROWS = 8 }; /* rows whose sums, divisions and roots are interleaved to hide latency */

typedef struct norm_loops {
    /* LayerNormalization of count <= NORM_ROWS rows of n elements; bias may be NULL. output may be input. */
    void (*layer_rows)(const float *input, const float *scale, const float *bias, float *output, int64_t count,
                       int64_t n, float epsilon);
    /* RMSNormalization of such rows. */
    void (*rms_rows)(const float *input, const float *scale, float *output, int64_t count, int64_t n, float epsilon);
} norm_loops;

KERNEL_INSTANCES(norm_loops, norm_loops)
#endif
