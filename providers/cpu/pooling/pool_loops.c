/* Loops of pooling, see pool_loops.h. */
#include "cpu/pooling/pool_loops.h"
#include "inlay/check.h"
#include "cpu/normalization/rows.h"
#include "simd/vec_permute.h"
#include <math.h>

static void max_into(const float *input, float *output, int64_t pixels, int64_t lanes, int64_t x_step, int64_t y_step)
{
    for (int64_t p = 0; p < pixels; p++, input += x_step, output += y_step) {
#pragma omp simd
        for (int64_t i = 0; i < lanes; i++) {
            const float a = input[i], m = output[i], larger = m > a ? m : a; /* a where either is NaN */

            output[i] = m != m ? m : larger;
        }
    }
}

static void max3_into(const float *input, float *output, int64_t pixels, int64_t lanes, int64_t x_step, int64_t y_step,
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
static inline float combine(float a, float b, bool adds)
{
    return adds ? a + b : larger_of(a, b);
}

/* t[i] = the maximum or sum of input[i * stride + k * step] for k < taps, and of t[i] if `accumulate`. Inlined with
 * constants for common numbers of taps and strides. */
static inline __attribute__((always_inline)) void combine_constant_taps(float *restrict t, const float *restrict input,
                                                                        int64_t n, const int taps, int64_t step,
                                                                        const int64_t stride, bool adds,
                                                                        bool accumulate)
{
    for (int64_t i = 0; i < n; i++) {
        float v = input[i * stride];

        for (int k = 1; k < taps; k++)
            v = combine(v, input[i * stride + k * step], adds);
        t[i] = accumulate ? combine(t[i], v, adds) : v;
    }
}
static inline __attribute__((always_inline)) void combine_taps(float *restrict t, const float *restrict input,
                                                               int64_t n, int taps, int64_t step, const int64_t stride,
                                                               bool adds, bool accumulate)
{
    if (taps == 1)
        combine_constant_taps(t, input, n, 1, step, stride, adds, accumulate);
    else if (taps == 2)
        combine_constant_taps(t, input, n, 2, step, stride, adds, accumulate);
    else if (taps == 3)
        combine_constant_taps(t, input, n, 3, step, stride, adds, accumulate);
    else
        combine_constant_taps(t, input, n, POOL_TAPS, step, stride, adds, accumulate);
}
static inline __attribute__((always_inline)) void combine_strided(float *t, const float *input, int64_t n, int taps,
                                                                  int64_t step, int64_t stride, const bool adds,
                                                                  bool accumulate)
{
    if (stride == 1)
        combine_taps(t, input, n, taps, step, 1, adds, accumulate);
    else if (stride == 2)
        combine_taps(t, input, n, taps, step, 2, adds, accumulate);
    else
        combine_taps(t, input, n, taps, step, stride, adds, accumulate);
}
/* The first element of a vector of n >= VEC_LANES results that covers result i: the last vector overlaps the one before
 * it, and both compute the same results. */
VEC_INLINE int64_t vector_at(int64_t i, int64_t n)
{
    return i + VEC_LANES <= n ? i : n - VEC_LANES;
}

/* output[i] = the maximum or sum of input[2 i], input[2 i + 1] and input[2 i + 2], for n >= VEC_LANES. Returns the
 * number of elements done: n, or 0. */
VEC_INLINE int64_t three_at_two(const float *input, float *output, int64_t n, const bool adds)
{
    for (int64_t from = 0; from < n && n >= VEC_LANES; from += VEC_LANES) {
        const int64_t i = vector_at(from, n);
        const float *at = input + 2 * i;
        const vec a = vec_load(at), b = vec_load(at + 1), c = vec_load(at + VEC_LANES),
                  d = vec_load(at + VEC_LANES + 1);
        const vec two = adds ? vec_even(vec_add(a, b), vec_add(c, d)) : vec_even(vec_max(a, b), vec_max(c, d));
        const vec third = vec_odd(b, d);

        vec_store(output + i, adds ? vec_add(two, third) : vec_max(two, third));
    }
    return n >= VEC_LANES ? n : 0;
}

static void window_max(float *t, const float *input, int64_t n, int taps, int64_t step, int64_t stride, bool accumulate)
{
    combine_strided(t, input, n, taps, step, stride, false, accumulate);
}
/* The elements of VEC_LANES windows at a stride of 1 or 2 from at[0] on, which are not the first ones of the windows:
 * also at[-1] is read, but nothing behind the last element. */
VEC_INLINE vec strided(const float *at, const int64_t stride)
{
    return stride == 1 ? vec_load(at) : vec_odd(vec_load(at - 1), vec_load(at - 1 + VEC_LANES));
}

/* The sums of VEC_LANES windows, whose taps are added as by window_sum(): any number of them, at a stride of 2 at least
 * two. */
VEC_INLINE vec window_sums(const float *at, const int64_t taps, int64_t step, const int64_t stride)
{
    vec sum;

    if (stride == 2 && step == 1 && taps <= 3) {
        const vec a = vec_load(at), c = vec_load(at + VEC_LANES);

        if (taps == 3) {
            const vec b = vec_load(at + 1), d = vec_load(at + VEC_LANES + 1);

            return vec_add(vec_even(vec_add(a, b), vec_add(c, d)), vec_odd(b, d));
        }
        return vec_add(vec_even(a, c), vec_odd(a, c));
    }
    sum = stride == 1 ? vec_load(at) : vec_even(vec_load(at), vec_load(at + VEC_LANES));
    for (int64_t k = 1; k < taps && k < POOL_TAPS; k++)
        sum = vec_add(sum, strided(at + k * step, stride));
    for (int64_t first = POOL_TAPS; first < taps; first += POOL_TAPS) {
        vec more = strided(at + first * step, stride);

        for (int64_t k = first + 1; k < taps && k < first + POOL_TAPS; k++)
            more = vec_add(more, strided(at + k * step, stride));
        sum = vec_add(sum, more);
    }
    return sum;
}

static void window_sum(float *t, const float *input, int64_t n, int taps, int64_t step, int64_t stride, bool accumulate)
{
    const int64_t done = taps == 3 && step == 1 && stride == 2 && !accumulate ? three_at_two(input, t, n, true) : 0;

    combine_strided(t + done, input + done * stride, n - done, taps, step, stride, true, accumulate);
}

static void divide(float *restrict output, const float *restrict columns, float rows, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        output[i] /= columns[i] * rows;
}

/* The sums of windows, of any number of taps. */
static void sum_windows(const pool_rows *rows, int64_t row)
{
    const float *input = rows->input + row * rows->in_pitch;
    float *output = rows->output + row * rows->out_pitch;

    for (int64_t k = 0; k < rows->taps; k += POOL_TAPS)
        window_sum(output, input + k * rows->step, rows->n,
                   (int)(rows->taps - k < POOL_TAPS ? rows->taps - k : POOL_TAPS), rows->step, rows->stride, k > 0);
}

/* sums_of_rows() of n >= VEC_LANES windows. Inlined with a constant number of taps where it is usual. */
VEC_INLINE void sum_vectors(const pool_rows *rows, const int64_t taps)
{
    const int64_t n = rows->n, step = rows->step;

    for (int64_t row = 0; row < rows->rows; row++)
        for (int64_t from = 0; from < n; from += VEC_LANES) {
            const int64_t i = vector_at(from, n);

            vec_store(rows->output + row * rows->out_pitch + i,
                      window_sums(rows->input + row * rows->in_pitch + i, taps, step, 1));
        }
}

static void sums_of_rows(const pool_rows *rows)
{
    INLAY_CHECK(rows->stride == 1 && rows->taps > 0);
    if (rows->n < VEC_LANES)
        for (int64_t row = 0; row < rows->rows; row++)
            sum_windows(rows, row);
    else if (rows->taps == 2)
        sum_vectors(rows, 2);
    else if (rows->taps == 3)
        sum_vectors(rows, 3);
    else
        sum_vectors(rows, rows->taps);
}

/* means_of_rows() of n >= VEC_LANES windows; the last three arguments are constants where they are usual. */
VEC_INLINE void mean_vectors(const pool_rows *rows, const int64_t taps, const int64_t step, const int64_t stride)
{
    const int64_t n = rows->n;

    for (int64_t row = 0; row < rows->rows; row++)
        for (int64_t from = 0; from < n; from += VEC_LANES) {
            const int64_t i = vector_at(from, n);

            vec_store(rows->output + row * rows->out_pitch + i,
                      vec_div(window_sums(rows->input + row * rows->in_pitch + i * stride, taps, step, stride),
                              vec_load(rows->divisors + i)));
        }
}

static void means_of_rows(const pool_rows *rows)
{
    const bool long_rows = rows->n >= VEC_LANES;

    if (long_rows && rows->step == 1 && rows->stride == 2 && rows->taps == 2) {
        mean_vectors(rows, 2, 1, 2);
    } else if (long_rows && rows->step == 1 && rows->stride == 2 && rows->taps == 3) {
        mean_vectors(rows, 3, 1, 2);
    } else if (long_rows && rows->step == 1 && rows->stride == 1 && rows->taps == 3) {
        mean_vectors(rows, 3, 1, 1);
    } else if (long_rows && rows->stride == 1) {
        mean_vectors(rows, rows->taps, rows->step, 1);
    } else if (long_rows && rows->stride == 2 && rows->taps > 1) {
        mean_vectors(rows, rows->taps, rows->step, 2);
    } else {
        for (int64_t row = 0; row < rows->rows; row++) {
            sum_windows(rows, row);
            divide(rows->output + row * rows->out_pitch, rows->divisors, 1, rows->n);
        }
    }
}

/* Rows are combined before columns, as window_sum and window_max do, so that the results are the same. */
static void mean_of_squares(const float *restrict input, float *restrict output, int64_t n, int64_t row_step)
{
    for (int64_t from = 0; from < n && n >= VEC_LANES; from += VEC_LANES) {
        const int64_t i = vector_at(from, n);
        const float *upper = input + 2 * i, *lower = upper + row_step;
        const vec left = vec_add(vec_load(upper), vec_load(lower)),
                  right = vec_add(vec_load(upper + VEC_LANES), vec_load(lower + VEC_LANES));

        vec_store(output + i, vec_mul(vec_add(vec_even(left, right), vec_odd(left, right)), vec_set(0.25F)));
    }
    for (int64_t i = 0; i < n && n < VEC_LANES; i++) {
        const float *upper = input + 2 * i, *lower = upper + row_step;

        output[i] = (upper[0] + lower[0] + (upper[1] + lower[1])) * 0.25F;
    }
}

static void max_of_squares(const float *restrict input, float *restrict output, int64_t n, int64_t row_step)
{
    vec special = vec_zero(); /* NaN if an element is NaN or infinite: these rows are computed again */

    for (int64_t from = 0; from < n && n >= VEC_LANES; from += VEC_LANES) {
        const int64_t i = vector_at(from, n);
        const float *upper = input + 2 * i, *lower = upper + row_step;
        const vec a = vec_load(upper), b = vec_load(upper + VEC_LANES), c = vec_load(lower),
                  d = vec_load(lower + VEC_LANES);
        const vec left = vec_max(a, c), right = vec_max(b, d);

        special = vec_fma(a, vec_zero(), vec_fma(b, vec_zero(), special));
        special = vec_fma(c, vec_zero(), vec_fma(d, vec_zero(), special));
        vec_store(output + i, vec_max(vec_even(left, right), vec_odd(left, right)));
    }
    if (n >= VEC_LANES && vec_sum(special) == 0)
        return;
    for (int64_t i = 0; i < n; i++) {
        const float *upper = input + 2 * i, *lower = upper + row_step;

        output[i] = larger_of(larger_of(upper[0], lower[0]), larger_of(upper[1], lower[1]));
    }
}

/* The order of the operands is that of row_set.windows, so that zeros have the same sign. */
static void window_max_two(const float *restrict input, float *restrict output, int64_t n, int64_t taps, int64_t step)
{
    if (taps == 3)
        for (int64_t i = step == 1 ? three_at_two(input, output, n, false) : 0; i < n; i++) {
            const float a = input[2 * i], b = input[2 * i + step], c = input[2 * i + 2 * step], ab = a > b ? a : b;

            output[i] = ab > c ? ab : c;
        }
    else
        for (int64_t i = 0; i < n; i++) {
            const float a = input[2 * i], b = input[2 * i + step];

            output[i] = a > b ? a : b;
        }
}

enum { CHAIN = 128 }; /* pixels that are added in float before the sum is added to a double */

/* Sums of n pixels with stride `step`, for each of `width` lanes. `side` pixels are added at once, so that width * side
 * = POOL_LANES sums are independent. Inlined with constant width and side. */
ROWS_INLINE void sum_lanes(const float *input, double *total, int64_t n, int64_t step, const int64_t width,
                           const int64_t side)
{
    for (int64_t p = 0; p < n; p += CHAIN) {
        const int64_t last = p + CHAIN < n ? p + CHAIN : n;
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

    INLAY_CHECK(n > 0 && width > 0 && width <= POOL_LANES);
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

static void mean_of_few_lanes(const float *input, float *output, int64_t n, int64_t lanes)
{
    double total[POOL_LANES] = { 0 }, one[POOL_LANES] = { 0 };
    const int64_t whole = n * lanes / POOL_LANES;

    INLAY_CHECK(n > 0 && lanes > 0 && POOL_LANES % lanes == 0);
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
    .max_into = max_into,
    .max3_into = max3_into,
    .window_max = window_max,
    .window_sum = window_sum,
    .sums_of_rows = sums_of_rows,
    .means_of_rows = means_of_rows,
    .divide = divide,
    .mean_of_squares = mean_of_squares,
    .max_of_squares = max_of_squares,
    .window_max_two = window_max_two,
    .mean_of_lanes = mean_of_lanes,
    .mean_of_few_lanes = mean_of_few_lanes,
    .mean_of_row = mean_of_row,
};
