/* norm_loops.h - rows that are normalised, rounded where single operators round (norm_loops.c is compiled so). */
#ifndef CPU_NORM_LOOPS_H
#define CPU_NORM_LOOPS_H
#include "simd/instances.h"
#include <stdint.h>

enum { NORM_ROWS = 8 }; /* whose chains of sums, divisions and roots run side by side */

typedef struct norm_loops {
    /* LayerNormalization of count <= NORM_ROWS rows of n elements; bias may be NULL. output may be input. */
    void (*layer_rows)(const float *input, const float *scale, const float *bias, float *output, int64_t count,
                       int64_t n, float epsilon);
    /* RMSNormalization of one. */
    void (*rms_row)(const float *input, const float *scale, float *output, int64_t n, float epsilon);
} norm_loops;

KERNEL_INSTANCES(norm_loops, norm_loops)
#endif
