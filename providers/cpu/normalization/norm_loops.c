/* Rows that are normalised, see norm_loops.h. */
#include "normalization/norm_loops.h"
#include "normalization/rows.h"
#include "simd/vec.h"
#include <math.h>
#include <stddef.h>

static void layer_rows(const float *x, const float *scale, const float *bias, float *y, int64_t count, int64_t n,
                       float epsilon)
{
    float means[NORM_ROWS], deviations[NORM_ROWS];

    for (int64_t r = 0; r < count; r++)
        means[r] = row_sum(x + r * n, n) / (float)n;
    for (int64_t r = 0; r < count; r++)
        deviations[r] = row_squares(x + r * n, n, means[r]);
    for (int64_t r = 0; r < count; r++)
        deviations[r] = sqrtf(deviations[r] / (float)n + epsilon);
    for (int64_t r = 0; r < count; r++, x += n, y += n) {
        const float mean = means[r], deviation = deviations[r];

        if (bias != NULL) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                y[i] = (x[i] - mean) / deviation * scale[i] + bias[i];
        } else {
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                y[i] = (x[i] - mean) / deviation * scale[i];
        }
    }
}

static void rms_row(const float *x, const float *scale, float *y, int64_t n, float epsilon)
{
    const float factor = 1 / sqrtf(row_squares(x, n, 0) / (float)n + epsilon);

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * factor * scale[i];
}

const norm_loops KERNEL(norm_loops) = { .layer_rows = layer_rows, .rms_row = rms_row };
