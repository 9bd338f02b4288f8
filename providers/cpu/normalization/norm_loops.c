/* Normalisation of rows, see norm_loops.h. */
#include "cpu/normalization/norm_loops.h"
#include "inlay/check.h"
#include "cpu/normalization/rows.h"
#include "simd/vec.h"
#include <math.h>
#include <stddef.h>

static void layer_rows(const float *input, const float *scale, const float *bias, float *output, int64_t count,
                       int64_t n, float epsilon)
{
    float means[NORM_ROWS], deviations[NORM_ROWS];

    INLAY_CHECK(count >= 0 && count <= NORM_ROWS);
    for (int64_t r = 0; r < count; r++)
        means[r] = row_sum(input + r * n, n) / (float)n;
    for (int64_t r = 0; r < count; r++)
        deviations[r] = row_squares(input + r * n, n, means[r]);
    for (int64_t r = 0; r < count; r++)
        deviations[r] = sqrtf(deviations[r] / (float)n + epsilon);
    for (int64_t r = 0; r < count; r++, input += n, output += n) {
        const float mean = means[r], deviation = deviations[r];

        if (bias != NULL) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                output[i] = (input[i] - mean) / deviation * scale[i] + bias[i];
        } else {
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                output[i] = (input[i] - mean) / deviation * scale[i];
        }
    }
}

static void rms_row(const float *input, const float *scale, float *output, int64_t n, float epsilon)
{
    const float factor = 1 / sqrtf(row_squares(input, n, 0) / (float)n + epsilon);

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        output[i] = input[i] * factor * scale[i];
}

const norm_loops KERNEL(norm_loops) = { .layer_rows = layer_rows, .rms_row = rms_row };
