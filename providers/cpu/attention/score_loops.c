/* Loops of attention, see score_loops.h. */
#include "cpu/attention/score_loops.h"
#include "inlay/check.h"
#include "simd/vec.h"
#include "simd/vecmath.h"
#include <math.h>
#include <string.h>

static void hide(float *restrict input, const uint8_t *restrict hidden, int64_t step, int64_t n)
{
    INLAY_CHECK(n >= 0 && (step == 0 || step == 1));
    if (step == 0 && *hidden == 0)
        return;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        input[i] = step == 0 || hidden[i] != 0 ? 0 : input[i];
}

static void softmax_row(float *restrict input, const float *restrict mask, int64_t n, float scale, sgemm_blank blank)
{
    float top = -INFINITY, sum = 0;

    if (mask != NULL)
        for (int64_t i = 0; i < n; i++)
            input[i] = input[i] * scale + mask[i];
    else
        for (int64_t i = 0; i < n; i++)
            input[i] *= scale;
#pragma omp simd reduction(max : top)
    for (int64_t i = 0; i < n; i++)
        top = input[i] > top ? input[i] : top;
    if (top == -INFINITY) /* all scores are -infinity or NaN; NaN stays */
        top = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        input[i] = vm_exp(input[i] - top);
        sum += input[i];
    }
    if (!(sum > 0) && blank != SGEMM_BLANK_NAN && (sum == 0 || blank == SGEMM_BLANK_GUARDED)) {
        memset(input, 0, (size_t)n * sizeof *input);
        return;
    }
    sum = 1 / sum;
    for (int64_t i = 0; i < n; i++)
        input[i] *= sum;
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

const score_loops KERNEL(score_loops) = { .hide = hide, .softmax_row = softmax_row, .turn_halves = turn_halves };
