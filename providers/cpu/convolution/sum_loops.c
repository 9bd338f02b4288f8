/* Auxiliary loops over pixels and weights, see sum_loops.h. */
#include "cpu/convolution/sum_loops.h"
#include "inlay/check.h"
#include "simd/vec.h"
#include <float.h>
#include <math.h>
#include <string.h>

static const uint32_t MAX_EXACT_INTEGER = 0x4b800000u; /* 2^24: sums of larger integers are seldom exact */

static void weigh_pixels(const float *const *x, int64_t pixels, int64_t channels, const float *weight,
                         weighted_sums *out)
{
    INLAY_CHECK(pixels >= 0 && pixels % 2 == 0);
    for (int64_t pixel = 0; pixel < pixels; pixel += 2) {
        const float *first_pixel = x[pixel], *second_pixel = x[pixel + 1];
        float first = 0, second = 0, first_square = 0, second_square = 0;

#pragma omp simd reduction(+ : first, second, first_square, second_square)
        for (int64_t channel = 0; channel < channels; channel++) {
            const float at_a = weight[channel] * fabsf(first_pixel[channel]),
                        at_b = weight[channel] * fabsf(second_pixel[channel]);

            first += at_a;
            second += at_b;
            first_square += at_a * at_a;
            second_square += at_b * at_b;
        }
        out[pixel] = (weighted_sums){ first, first_square };
        out[pixel + 1] = (weighted_sums){ second, second_square };
    }
}

static void add_dots(const float (*x)[SUM_TERMS], const float *weights, int64_t count, float *sums, int64_t step)
{
    float sum_0 = 0, sum_1 = 0, sum_2 = 0, sum_3 = 0;

#pragma omp simd reduction(+ : sum_0, sum_1, sum_2, sum_3)
    for (int64_t i = 0; i < count; i++) {
        sum_0 += x[0][i] * weights[i];
        sum_1 += x[1][i] * weights[i];
        sum_2 += x[2][i] * weights[i];
        sum_3 += x[3][i] * weights[i];
    }
    sums[0] += sum_0;
    sums[step] += sum_1;
    sums[2 * step] += sum_2;
    sums[3 * step] += sum_3;
}

static void add_rows(float *restrict output, const float *const *rows, const float *const *weights, uint32_t count,
                     const float *bias, int64_t n)
{
    if (weights != NULL) {
        for (int64_t i = 0; i < n; i++)
            output[i] = bias != NULL ? bias[i] : 0;
        for (uint32_t row = 0; row < count; row++) {
            const float *input = rows[row], *row_weights = weights[row];

            for (int64_t i = 0; i < n; i++)
                output[i] += input[i] * row_weights[i];
        }
    } else if (count == 1 && bias != NULL) {
        const float *input = rows[0];

        for (int64_t i = 0; i < n; i++)
            output[i] = input[i] + bias[i];
    } else if (count == 4 && bias != NULL) {
        const float *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];

        for (int64_t i = 0; i < n; i++)
            output[i] = (a[i] + b[i]) + (c[i] + d[i]) + bias[i];
    } else {
        for (int64_t i = 0; i < n; i++)
            output[i] = (count > 0 ? rows[0][i] : 0) + (bias != NULL ? bias[i] : 0);
        for (uint32_t row = 1; row < count; row++) {
            const float *input = rows[row];

            for (int64_t i = 0; i < n; i++)
                output[i] += input[i];
        }
    }
}

static void relu(float *output, int64_t n, float slope)
{
    for (int64_t i = 0; i < n; i++)
        output[i] = output[i] < 0 ? (slope != 0 ? output[i] * slope : 0) : output[i]; /* 0 * -infinity would be NaN */
}

static void measure_channel(const char *data, int64_t count, sum_channel *out)
{
    uint32_t largest = 0, fractions = 0;
    float sum = 0, top;

#pragma omp simd reduction(+ : sum, fractions) reduction(max : largest)
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        float magnitude;

        memcpy(&bits, data + i * (int64_t)sizeof bits, sizeof bits);
        bits &= 0x7fffffffu;
        memcpy(&magnitude, &bits, sizeof magnitude);
        largest = bits > largest ? bits : largest;
        sum += magnitude;
        fractions += bits < 0x4b000000u && (float)(int32_t)(bits < 0x4b000000u ? magnitude : 0) != magnitude;
    }
    memcpy(&top, &largest, sizeof top);
    *out = (sum_channel){ .largest = largest,
                          .spread = top > 0 ? sum / top : FLT_MAX,
                          .whole = fractions == 0 && largest < MAX_EXACT_INTEGER };
}

static void max_magnitudes(const char *data, int64_t count, float *largest)
{
    for (int64_t i = 0; i < count; i++) {
        float magnitude;

        memcpy(&magnitude, data + i * (int64_t)sizeof magnitude, sizeof magnitude);
        magnitude = fabsf(magnitude);
        largest[i] = magnitude > largest[i] ? magnitude : largest[i];
    }
}

static void make_noise(float *input, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t hash = (uint32_t)i * 0x9e3779b1u;

        hash = (hash ^ hash >> 15) * 0x85ebca77u;
        hash = (hash ^ hash >> 13) * 0xc2b2ae3du;
        input[i] = (float)(int32_t)(hash ^ hash >> 16) * 0x1p-31f;
    }
}

static void add_terms(const float *input, const float *weights, int64_t count, sum_terms *out)
{
    for (int64_t first = 0; first < count; first += SGEMM_CHAIN) {
        const int64_t last = count - first < SGEMM_CHAIN ? count : first + SGEMM_CHAIN;
        float chain[TILE_LANES] = { 0 };

        for (int64_t i = first; i < last; i++) {
            for (int64_t lane = 0; lane < TILE_LANES; lane++) {
                const double term = (double)input[i] * (double)weights[i * TILE_LANES + lane];

                out->exact[lane] += term;
                out->magnitudes[lane] += fabs(term);
                chain[lane] += input[i] * weights[i * TILE_LANES + lane];
            }
        }
        for (int64_t lane = 0; lane < TILE_LANES; lane++)
            out->plain[lane] += chain[lane];
    }
}

const sum_loops KERNEL(sum_loops) = {
    .weigh_pixels = weigh_pixels,
    .add_dots = add_dots,
    .add_rows = add_rows,
    .relu = relu,
    .measure_channel = measure_channel,
    .max_magnitudes = max_magnitudes,
    .make_noise = make_noise,
    .add_terms = add_terms,
};
