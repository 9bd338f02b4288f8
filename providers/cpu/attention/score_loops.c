/* Loops of attention, see score_loops.h. */
#include "cpu/attention/score_loops.h"
#include "inlay/check.h"
#include "simd/vec.h"

static void hide(float *restrict input, const uint8_t *restrict hidden, int64_t step, int64_t n)
{
    INLAY_CHECK(n >= 0 && (step == 0 || step == 1));
    if (step == 0 && *hidden == 0)
        return;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        input[i] = step == 0 || hidden[i] != 0 ? 0 : input[i];
}

static void turn_halves(const float *restrict input, const float *restrict c, const float *restrict s,
                        float *restrict output, int64_t half)
{
    for (int64_t i = 0; i < half; i++) {
        const float real = input[i] * c[i] - input[half + i] * s[i];

        output[half + i] = input[half + i] * c[i] + input[i] * s[i];
        output[i] = real;
    }
}

const score_loops KERNEL(score_loops) = { .hide = hide, .turn_halves = turn_halves };
