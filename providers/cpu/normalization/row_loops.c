/* Loops over rows and columns, see row_loops.h. */
#include "cpu/normalization/row_loops.h"
#include "cpu/normalization/rows.h"
#include "simd/row_set.h"
#include "simd/vec.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdalign.h>
#include <string.h>

/* CACHED: elements that a core's second-level cache holds. AHEAD: rows between one that is read and one that is fetched
 * from memory. */
enum { CACHED = 1 << 16, AHEAD = 4 };

/* sum[j] += term(input[j]). ahead: distance of the elements that are fetched from memory. */
ROWS_INLINE void add_row(double *sum, const float *input, int64_t width, int64_t ahead, double (*term)(double a),
                         vec_wide (*wide_term)(vec_wide a))
{
    enum { LINE = 16 }; /* floats */
    int64_t j = 0;

    for (; VEC_WIDE > 1 && j + LINE <= width; j += LINE) {
        vec_fetch_far(input + j + ahead);
        VEC_UNROLL
        for (int k = 0; k < LINE; k += VEC_WIDE) {
            vec_wide *at = (vec_wide *)(void *)(sum + j + k);

            *at += wide_term(vec_widen(vec_part_load(input + j + k)));
        }
    }
#pragma omp simd
    for (int64_t i = j; i < width; i++)
        sum[i] += term((double)input[i]);
}

/* Sums of `map`, an expression of a, in double; wide_map: the same of vectors. */
#define SUMS(name, map, wide_map)                                                                                      \
    static inline double map_##name(double a)                                                                          \
    {                                                                                                                  \
        return map;                                                                                                    \
    }                                                                                                                  \
    static inline vec_wide wide_##name(vec_wide a)                                                                     \
    {                                                                                                                  \
        return wide_map;                                                                                               \
    }                                                                                                                  \
    static inline vec_wide part_##name(vec_part a, float shift)                                                        \
    {                                                                                                                  \
        (void)shift;                                                                                                   \
        return wide_##name(vec_widen(a));                                                                              \
    }                                                                                                                  \
    static void rows_##name(const float *input, float *output, int64_t count, int64_t n)                               \
    {                                                                                                                  \
        for (int64_t r = 0; r < count; r += ROWS_TOGETHER)                                                             \
            row_sums(input + r * n, output + r, count - r < ROWS_TOGETHER ? count - r : ROWS_TOGETHER, n, NULL,        \
                     part_##name);                                                                                     \
    }                                                                                                                  \
    static void columns_##name(const float *input, float *output, const axis_tile *tile)                               \
    {                                                                                                                  \
        alignas(64) double sum[FOLD_COLUMNS];                                                                          \
        const int64_t step = tile->stride, width = tile->columns, n = tile->rows - (tile->last < width);               \
        int64_t i = 0;                                                                                                 \
                                                                                                                       \
        memset(sum, 0, (size_t)width * sizeof *sum);                                                                   \
        for (; n * step <= CACHED && i + 4 <= n; i += 4) /* four rows for each access to the sums */                   \
            _Pragma("omp simd") for (int64_t j = 0; j < width; j++)                                                    \
            {                                                                                                          \
                const float *at = input + i * step + j;                                                                \
                double some = sum[j] + map_##name((double)at[0]);                                                      \
                                                                                                                       \
                some += map_##name((double)at[step]);                                                                  \
                some += map_##name((double)at[2 * step]);                                                              \
                sum[j] = some + map_##name((double)at[3 * step]);                                                      \
            }                                                                                                          \
        for (; i < tile->rows; i++) /* rows come from memory fastest one after the other */                            \
            add_row(sum, input + i * step, axis_width(tile, i), AHEAD * step, map_##name, wide_##name);                \
        AXIS_JOIN(double, tile, sum, a + b)                                                                            \
        for (int64_t j = 0; j < tile->period; j++)                                                                     \
            output[j] = (float)sum[j];                                                                                 \
    }
SUMS(sum, a, a)
SUMS(magnitudes, fabs(a), vec_wide_abs(a))
SUMS(squares, a *a, a *a)

/* Maximum or minimum; NaN if any element is NaN. */
#define ENDS(name, kernel, is_better)                                                                                  \
    static void rows_##name(const float *input, float *output, int64_t count, int64_t n)                               \
    {                                                                                                                  \
        KERNEL(rows).kernel(input, output, count, n);                                                                  \
    }                                                                                                                  \
    static void columns_##name(const float *input, float *output, const axis_tile *tile)                               \
    {                                                                                                                  \
        float best[FOLD_COLUMNS];                                                                                      \
        for (int64_t j = 0; j < tile->columns; j++)                                                                    \
            best[j] = input[j];                                                                                        \
        for (int64_t i = 1; i < tile->rows; i++) {                                                                     \
            const float *from = input + i * tile->stride;                                                              \
            const int64_t width = axis_width(tile, i);                                                                 \
            _Pragma("omp simd") for (int64_t j = 0; j < width; j++)                                                    \
            {                                                                                                          \
                const float a = from[j], b = best[j];                                                                  \
                best[j] = (is_better) || a != a ? a : b;                                                               \
            }                                                                                                          \
        }                                                                                                              \
        AXIS_JOIN(float, tile, best, (is_better) || a != a ? a : b)                                                    \
        for (int64_t j = 0; j < tile->period; j++)                                                                     \
            output[j] = best[j];                                                                                       \
    }
ENDS(max, tops, a > b)
ENDS(min, lows, a < b)

static void rows_product(const float *input, float *output, int64_t count, int64_t n)
{
    for (int64_t r = 0; r < count; r++, input += n) {
        double product;

        ROWS_JOIN(double, product, *, 1, n, (double)input[i]);
        output[r] = (float)product;
    }
}

static void columns_product(const float *input, float *output, const axis_tile *tile)
{
    double product[FOLD_COLUMNS];

    for (int64_t j = 0; j < tile->columns; j++)
        product[j] = 1;
    for (int64_t i = 0; i < tile->rows; i++) {
        const float *from = input + i * tile->stride;
        const int64_t width = axis_width(tile, i);

#pragma omp simd
        for (int64_t j = 0; j < width; j++)
            product[j] *= (double)from[j];
    }
    AXIS_JOIN(double, tile, product, a * b)
    for (int64_t j = 0; j < tile->period; j++)
        output[j] = (float)product[j];
}

/* ln of the sum of e^x, shifted by the maximum to avoid overflow. An infinite maximum is the result. */
static void rows_exponentials(const float *input, float *output, int64_t count, int64_t n)
{
    rows_max(input, output, count, n);
    for (int64_t r = 0; r < count; r++, input += n) {
        const float top = output[r];
        float sum;

        if (!isfinite(top))
            continue;
        ROWS_JOIN(float, sum, +, 0, n, vm_exp(input[i] - top));
        output[r] = top + vm_log(sum);
    }
}

static void columns_exponentials(const float *input, float *output, const axis_tile *tile)
{
    float top[FOLD_COLUMNS], sum[FOLD_COLUMNS];

    memset(sum, 0, (size_t)tile->columns * sizeof *sum);
    columns_max(input, top, tile);
    AXIS_SPREAD(tile, top);
    for (int64_t i = 0; i < tile->rows; i++) {
        const float *from = input + i * tile->stride;
        const int64_t width = axis_width(tile, i);

#pragma omp simd
        for (int64_t j = 0; j < width; j++)
            sum[j] += vm_exp(from[j] - top[j]);
    }
    AXIS_JOIN(float, tile, sum, a + b)
    for (int64_t j = 0; j < tile->period; j++)
        output[j] = isfinite(top[j]) ? top[j] + vm_log(sum[j]) : top[j];
}

/* Softmax of the columns of a tile. */
#define COLUMN_BLOCK(name, keep, finish, result)                                                                       \
    static void name(const float *input, float *output, const axis_tile *tile)                                         \
    {                                                                                                                  \
        float top[AXIS_COLUMNS], sum[AXIS_COLUMNS];                                                                    \
        for (int64_t j = 0; j < tile->columns; j++) {                                                                  \
            top[j] = input[j];                                                                                         \
            sum[j] = 0;                                                                                                \
        }                                                                                                              \
        for (int64_t i = 1; i < tile->rows; i++) {                                                                     \
            const float *from = input + i * tile->stride;                                                              \
            const int64_t width = axis_width(tile, i);                                                                 \
            _Pragma("omp simd") for (int64_t j = 0; j < width; j++) top[j] = from[j] > top[j] ? from[j] : top[j];      \
        }                                                                                                              \
        AXIS_JOIN(float, tile, top, b > a ? b : a)                                                                     \
        AXIS_SPREAD(tile, top);                                                                                        \
        for (int64_t i = 0; i < tile->rows; i++) {                                                                     \
            const float *from = input + i * tile->stride;                                                              \
            float *to = output + i * tile->stride;                                                                     \
            const int64_t width = axis_width(tile, i);                                                                 \
            _Pragma("omp simd") for (int64_t j = 0; j < width; j++)                                                    \
            {                                                                                                          \
                const float d = from[j] - top[j], e = vm_exp(d);                                                       \
                to[j] = (keep);                                                                                        \
                sum[j] += e;                                                                                           \
            }                                                                                                          \
        }                                                                                                              \
        AXIS_JOIN(float, tile, sum, a + b)                                                                             \
        _Pragma("omp simd") for (int64_t j = 0; j < tile->period; j++) sum[j] = (finish);                              \
        AXIS_SPREAD(tile, sum);                                                                                        \
        for (int64_t i = 0; i < tile->rows; i++) {                                                                     \
            float *to = output + i * tile->stride;                                                                     \
            const int64_t width = axis_width(tile, i);                                                                 \
            _Pragma("omp simd") for (int64_t j = 0; j < width; j++) to[j] = (result);                                  \
        }                                                                                                              \
    }
COLUMN_BLOCK(softmax_columns, e, 1 / sum[j], to[j] * sum[j])
COLUMN_BLOCK(log_columns, d, vm_log(sum[j]), to[j] - sum[j])
#undef COLUMN_BLOCK

static void channels_row(float *output, const float *input, const float *restrict mean, const float *restrict factor,
                         const float *restrict shift, int64_t count, bool relu)
{
    if (relu) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
            float v = (input[i] - mean[i]) * factor[i] + shift[i];
            output[i] = v < 0 ? 0 : v;
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            output[i] = (input[i] - mean[i]) * factor[i] + shift[i];
    }
}

static void pixels_row(float *output, const float *input, float mean, float factor, float shift, int64_t count,
                       bool relu)
{
    if (relu) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
            float v = (input[i] - mean) * factor + shift;
            output[i] = v < 0 ? 0 : v;
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            output[i] = (input[i] - mean) * factor + shift;
    }
}

const row_loops KERNEL(row_loops) = {
    .folds = {
    [FOLD_SUM] = { rows_sum, columns_sum },
    [FOLD_MAGNITUDES] = { rows_magnitudes, columns_magnitudes },
    [FOLD_SQUARES] = { rows_squares, columns_squares },
    [FOLD_PRODUCT] = { rows_product, columns_product },
    [FOLD_MAX] = { rows_max, columns_max },
    [FOLD_MIN] = { rows_min, columns_min },
    [FOLD_EXPONENTIALS] = { rows_exponentials, columns_exponentials },
    },
    .softmax = softmax_columns,
    .log_softmax = log_columns,
    .channels_row = channels_row,
    .pixels_row = pixels_row,
};
