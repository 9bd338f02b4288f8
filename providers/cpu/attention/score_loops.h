/* score_loops.h - loops of attention over rows of scores, and of RotaryEmbedding. */
#ifndef CPU_SCORE_LOOPS_H
#define CPU_SCORE_LOOPS_H
#include "simd/instances.h"
#include <stdint.h>

typedef struct score_loops {
    /* Sets to 0 those of n scores whose element of `hidden` is true. step: 1; 0: one element hides all scores. */
    void (*hide)(float *restrict input, const uint8_t *restrict hidden, int64_t step, int64_t n);
    /* RotaryEmbedding of one head whose halves are the real and imaginary parts, by cosines c and sines s. */
    void (*turn_halves)(const float *restrict input, const float *restrict c, const float *restrict s,
                        float *restrict output, int64_t half);
} score_loops;

KERNEL_INSTANCES(score_loops, score_loops)
#endif
