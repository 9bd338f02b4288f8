/* Loops of pooling, see pool_loops.h. */
#include "pooling/pool_loops.h"
#include "normalization/rows.h"
#include "simd/vec.h"
#include <math.h>

static void take_one(const float *input, float *output, int64_t pixels, int64_t lanes, int64_t x_step, int64_t y_step)
{
    for (int64_t p = 0; p < pixels; p++, input += x_step, output += y_step) {
#pragma omp simd
        for (int64_t i = 0; i < lanes; i++) {
            const float a = input[i], m = output[i], larger = m > a ? m : a; /* a where either is NaN */

            output[i] = m != m ? m : larger;
        }
    }
}

static void take_three(const float *input, float *output, int64_t pixels, int64_t lanes, int64_t x_step, int64_t y_step,
                       int64_t tap_step)
{
    for (int64_t p = 0; p < pixels; p++, input += x_step, output += y_step) {
#pragma omp simd
        for (int64_t i = 0; i < lanes; i++) {
            const float a = input[i], b = input[i + tap_step], c = input[i + 2 * tap_step], m = output[i];
            const float ab = a > b ? a : b, cm = c > m ? c : m, larger = ab > cm ? ab : cm;

            output[i] = __builtin_isunordered(a, b) | __builtin_isunordered(c, m) ? NAN : larger;
        }
    }
}

static inline float larger_of(float a, float b)
{
    const float larger = a > b ? a : b; /* b where either is NaN */

    return a != a ? a : larger;
}
static inline float joined(float a, float b, bool adds)
{
    return adds ? a + b : larger_of(a, b);
}

/* t[i] = all of input[i], input[i + step] ... joined, `taps` of them, and with t[i] where it `goes_on`. stride: from
 * one i to the next in input. Numbers of taps and strides that are usual are constants where this is inlined. */
static inline __attribute__((always_inline)) void join_some(float *restrict t, const float *restrict input, int64_t n,
                                                            const int taps, int64_t step, const int64_t stride,
                                                            bool adds, bool goes_on)
{
    for (int64_t i = 0; i < n; i++) {
        float v = input[i * stride];

        for (int k = 1; k < taps; k++)
            v = joined(v, input[i * stride + k * step], adds);
        t[i] = goes_on ? joined(t[i], v, adds) : v;
    }
}
static inline __attribute__((always_inline)) void join_stride(float *restrict t, const float *restrict input, int64_t n,
                                                              int taps, int64_t step, const int64_t stride, bool adds,
                                                              bool goes_on)
{
    if (taps == 1)
        join_some(t, input, n, 1, step, stride, adds, goes_on);
    else if (taps == 2)
        join_some(t, input, n, 2, step, stride, adds, goes_on);
    else if (taps == 3)
        join_some(t, input, n, 3, step, stride, adds, goes_on);
    else
        join_some(t, input, n, POOL_TAPS, step, stride, adds, goes_on);
}
static inline __attribute__((always_inline)) void join_any(float *t, const float *input, int64_t n, int taps,
                                                           int64_t step, int64_t stride, const bool adds, bool goes_on)
{
    if (stride == 1)
        join_stride(t, input, n, taps, step, 1, adds, goes_on);
    else if (stride == 2)
        join_stride(t, input, n, taps, step, 2, adds, goes_on);
    else
        join_stride(t, input, n, taps, step, stride, adds, goes_on);
}
static void join_tops(float *t, const float *input, int64_t n, int taps, int64_t step, int64_t stride, bool goes_on)
{
    join_any(t, input, n, taps, step, stride, false, goes_on);
}
static void join_sums(float *t, const float *input, int64_t n, int taps, int64_t step, int64_t stride, bool goes_on)
{
    join_any(t, input, n, taps, step, stride, true, goes_on);
}

static void divide(float *restrict output, const float *restrict columns, float rows, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        output[i] /= columns[i] * rows;
}

static void pick(const float *restrict input, float *restrict output, int64_t n, int64_t stride)
{
    if (stride == 2)
        for (int64_t i = 0; i < n; i++)
            output[i] = input[2 * i];
    else
        for (int64_t i = 0; i < n; i++)
            output[i] = input[i * stride];
}

enum { STRETCH = 128 }; /* pixels that are added in float */

/* Sums of `width` lanes of n pixels, `step` apart: `side` pixels at once, with width * side = POOL_LANES sums in
 * flight. Both are constants where this is inlined. */
ROWS_INLINE void sum_lanes(const float *input, double *total, int64_t n, int64_t step, const int64_t width,
                           const int64_t side)
{
    for (int64_t p = 0; p < n; p += STRETCH) {
        const int64_t last = p + STRETCH < n ? p + STRETCH : n;
        float sum[POOL_LANES] = { 0 };
        int64_t k = p;

        for (; k + side <= last; k += side)
            for (int64_t j = 0; j < side; j++)
                for (int64_t i = 0; i < width; i++)
                    sum[j * width + i] += input[(k + j) * step + i];
        for (; k < last; k++)
            for (int64_t i = 0; i < width; i++)
                sum[i] += input[k * step + i];
        for (int64_t j = 0; j < side; j++)
            for (int64_t i = 0; i < width; i++)
                total[i] += (double)sum[j * width + i];
    }
}

static void mean_of_lanes(const float *input, float *output, int64_t n, int64_t step, int64_t width)
{
    double total[POOL_LANES] = { 0 };

    if (width == POOL_LANES)
        sum_lanes(input, total, n, step, POOL_LANES, 1);
    else if (width == POOL_LANES / 4)
        sum_lanes(input, total, n, step, POOL_LANES / 4, 4);
    else
        for (int64_t k = 0; k < n; k++)
            for (int64_t i = 0; i < width; i++)
                total[i] += (double)input[k * step + i];
    for (int64_t i = 0; i < width; i++)
        output[i] = (float)(total[i] / (double)n);
}

static void mean_of_few(const float *input, float *output, int64_t n, int64_t lanes)
{
    double total[POOL_LANES] = { 0 }, one[POOL_LANES] = { 0 };
    const int64_t whole = n * lanes / POOL_LANES;

    sum_lanes(input, total, whole, POOL_LANES, POOL_LANES, 1);
    for (int64_t i = 0; i < POOL_LANES; i++)
        one[i % lanes] += total[i];
    for (int64_t i = whole * POOL_LANES; i < n * lanes; i++)
        one[i % lanes] += (double)input[i];
    for (int64_t i = 0; i < lanes; i++)
        output[i] = (float)(one[i] / (double)n);
}

static void mean_of_row(const float *input, float *output, int64_t n)
{
    *output = row_sum(input, n) / (float)n;
}

const pool_loops KERNEL(pool_loops) = {
    .take_one = take_one,
    .take_three = take_three,
    .join_tops = join_tops,
    .join_sums = join_sums,
    .divide = divide,
    .pick = pick,
    .mean_of_lanes = mean_of_lanes,
    .mean_of_few = mean_of_few,
    .mean_of_row = mean_of_row,
};
