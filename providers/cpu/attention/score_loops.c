/* Loops of attention, see score_loops.h. */
#include "attention/score_loops.h"
#include "simd/vec.h"
#include "simd/vecmath.h"
#include <math.h>
#include <string.h>

static void hide(float *restrict x, const uint8_t *restrict hidden, int64_t step, int64_t n)
{
    if (step == 0 && *hidden == 0)
        return;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] = step == 0 || hidden[i] != 0 ? 0 : x[i];
}

static void softmax_row(float *restrict x, const float *restrict mask, int64_t n, float scale, sg_blank blank)
{
    float top = -INFINITY, sum = 0;

    if (mask != NULL)
        for (int64_t i = 0; i < n; i++)
            x[i] = x[i] * scale + mask[i];
    else
        for (int64_t i = 0; i < n; i++)
            x[i] *= scale;
#pragma omp simd reduction(max : top)
    for (int64_t i = 0; i < n; i++)
        top = x[i] > top ? x[i] : top;
    if (top == -INFINITY) /* also NaN everywhere, which stays */
        top = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        x[i] = vm_exp(x[i] - top);
        sum += x[i];
    }
    if (!(sum > 0) && blank != SG_BLANK_NAN && (sum == 0 || blank == SG_BLANK_GUARDED)) {
        memset(x, 0, (size_t)n * sizeof *x);
        return;
    }
    sum = 1 / sum;
    for (int64_t i = 0; i < n; i++)
        x[i] *= sum;
}

static void turn_halves(const float *restrict x, const float *restrict c, const float *restrict s, float *restrict y,
                        int64_t half)
{
    for (int64_t i = 0; i < half; i++) {
        const float real = x[i] * c[i] - x[half + i] * s[i];

        y[half + i] = x[half + i] * c[i] + x[i] * s[i];
        y[i] = real;
    }
}

const score_loops KERNEL(score_loops) = { .hide = hide, .softmax_row = softmax_row, .turn_halves = turn_halves };
