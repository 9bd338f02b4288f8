/* score_loops.h - loops over rows of scores, and over what attention reads. */
#ifndef CPU_SCORE_LOOPS_H
#define CPU_SCORE_LOOPS_H
#include "matrix/sgemm.h"
#include "simd/instances.h"
#include <stdint.h>

typedef struct score_loops {
    /* Puts 0 in the place of n scores that are hidden; step: 0 where one element hides all, else 1. */
    void (*hide)(float *restrict input, const uint8_t *restrict hidden, int64_t step, int64_t n);
    /* The softmax of a row times scale, plus mask, which may be NULL. */
    void (*softmax_row)(float *restrict input, const float *restrict mask, int64_t n, float scale, sgemm_blank blank);
    /* RotaryEmbedding of a head whose halves are the parts of complex numbers: by cosines c and sines s. */
    void (*turn_halves)(const float *restrict input, const float *restrict c, const float *restrict s,
                        float *restrict output, int64_t half);
} score_loops;

KERNEL_INSTANCES(score_loops, score_loops)
#endif
