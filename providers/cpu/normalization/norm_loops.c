/* Normalisation of rows, see norm_loops.h. */
#include "cpu/normalization/norm_loops.h"
#include "inlay/check.h"
#include "cpu/normalization/rows.h"
#include "simd/vec.h"
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

_Static_assert((int)NORM_ROWS == (int)ROWS_TOGETHER, "the sums of the rows are computed together");

/* How a row is normalised: (a - mean) / by, or a * by for RMSNormalization; then the scale and the bias. */
struct norm {
    const float *scale, *bias; /* [n]; bias may be NULL */
    float mean, by;
};

/* One vector, or a part of it. */
VEC_INLINE void norm_some(const struct norm *row, const float *input, float *output, int64_t i, int64_t n,
                          const bool divides, const bool whole)
{
    const vmask m = vec_first(n - i);
    const vec a = whole ? vec_load(input + i) : vec_load_some(m, input + i);
    const vec scale = whole ? vec_load(row->scale + i) : vec_load_some(m, row->scale + i);
    vec v = divides ? vec_div(vec_sub(a, vec_set(row->mean)), vec_set(row->by)) : vec_mul(a, vec_set(row->by));

    v = vec_mul(v, scale);
    if (row->bias != NULL)
        v = vec_add(v, whole ? vec_load(row->bias + i) : vec_load_some(m, row->bias + i));
    if (whole)
        vec_store(output + i, v);
    else
        vec_store_some(output + i, m, v);
}

VEC_INLINE void norm_row(const struct norm *row, const float *input, float *output, int64_t n, const bool divides)
{
    int64_t i = 0;

    for (; i + VEC_LANES <= n; i += VEC_LANES)
        norm_some(row, input, output, i, n, divides, true);
    if (i < n)
        norm_some(row, input, output, i, n, divides, false);
}

static void layer_rows(const float *input, const float *scale, const float *bias, float *output, int64_t count,
                       int64_t n, float epsilon)
{
    float means[NORM_ROWS], deviations[NORM_ROWS];

    INLAY_CHECK(count >= 0 && count <= NORM_ROWS);
    row_sums(input, means, count, n, NULL, row_element);
    for (int64_t r = 0; r < count; r++)
        means[r] = means[r] / (float)n;
    row_sums(input, deviations, count, n, means, row_squared);
    for (int64_t r = 0; r < count; r++)
        deviations[r] = sqrtf(deviations[r] / (float)n + epsilon);
    for (int64_t r = 0; r < count; r++)
        norm_row(&(struct norm){ scale, bias, means[r], deviations[r] }, input + r * n, output + r * n, n, true);
}

static void rms_rows(const float *input, const float *scale, float *output, int64_t count, int64_t n, float epsilon)
{
    float factors[NORM_ROWS];

    INLAY_CHECK(count >= 0 && count <= NORM_ROWS);
    row_sums(input, factors, count, n, NULL, row_squared);
    for (int64_t r = 0; r < count; r++)
        factors[r] = 1 / sqrtf(factors[r] / (float)n + epsilon);
    for (int64_t r = 0; r < count; r++)
        norm_row(&(struct norm){ scale, NULL, 0, factors[r] }, input + r * n, output + r * n, n, false);
}

const norm_loops KERNEL(norm_loops) = { .layer_rows = layer_rows, .rms_rows = rms_rows };
