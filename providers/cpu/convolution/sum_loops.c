/* Loops over pixels and weights, see sum_loops.h. */
#include "convolution/sum_loops.h"
#include "simd/vec.h"
#include <float.h>
#include <math.h>
#include <string.h>

static const uint32_t MOST_WHOLE = 0x4b800000u; /* 2^24: sums of integers beyond it are seldom exact */

static void weigh_column(const float *const *x, int64_t pixels, int64_t channels, const float *weight, sum_weighed *out)
{
    for (int64_t p = 0; p < pixels; p += 2) {
        const float *a = x[p], *b = x[p + 1];
        float first = 0, second = 0, first_square = 0, second_square = 0;

#pragma omp simd reduction(+ : first, second, first_square, second_square)
        for (int64_t c = 0; c < channels; c++) {
            const float at_a = weight[c] * fabsf(a[c]), at_b = weight[c] * fabsf(b[c]);

            first += at_a;
            second += at_b;
            first_square += at_a * at_a;
            second_square += at_b * at_b;
        }
        out[p] = (sum_weighed){ first, first_square };
        out[p + 1] = (sum_weighed){ second, second_square };
    }
}

static void add_dots(const float (*x)[SUM_TERMS], const float *weights, int64_t count, float *sums, int64_t step)
{
    float a = 0, b = 0, c = 0, d = 0;

#pragma omp simd reduction(+ : a, b, c, d)
    for (int64_t i = 0; i < count; i++) {
        a += x[0][i] * weights[i];
        b += x[1][i] * weights[i];
        c += x[2][i] * weights[i];
        d += x[3][i] * weights[i];
    }
    sums[0] += a;
    sums[step] += b;
    sums[2 * step] += c;
    sums[3 * step] += d;
}

static void add_rows(float *restrict output, const float *const *rows, const float *const *weights, uint32_t count,
                     const float *bias, int64_t n)
{
    if (weights != NULL) {
        for (int64_t i = 0; i < n; i++)
            output[i] = bias != NULL ? bias[i] : 0;
        for (uint32_t k = 0; k < count; k++) {
            const float *input = rows[k], *w = weights[k];

            for (int64_t i = 0; i < n; i++)
                output[i] += input[i] * w[i];
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
        for (uint32_t k = 1; k < count; k++) {
            const float *input = rows[k];

            for (int64_t i = 0; i < n; i++)
                output[i] += input[i];
        }
    }
}

static void relu(float *output, int64_t n, float slope)
{
    for (int64_t i = 0; i < n; i++)
        output[i] = output[i] < 0 ? (slope != 0 ? output[i] * slope : 0) : output[i]; /* 0 * -inf is no 0 */
}

static void look_at(const char *data, int64_t count, sum_channel *out)
{
    uint32_t largest = 0, fractions = 0;
    float sum = 0, top;

#pragma omp simd reduction(+ : sum, fractions) reduction(max : largest)
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        float w;

        memcpy(&bits, data + i * (int64_t)sizeof bits, sizeof bits);
        bits &= 0x7fffffffu;
        memcpy(&w, &bits, sizeof w);
        largest = bits > largest ? bits : largest;
        sum += w;
        fractions += bits < 0x4b000000u && (float)(int32_t)(bits < 0x4b000000u ? w : 0) != w;
    }
    memcpy(&top, &largest, sizeof top);
    *out = (sum_channel){ .largest = largest,
                          .spread = top > 0 ? sum / top : FLT_MAX,
                          .whole = fractions == 0 && largest < MOST_WHOLE };
}

static void take_larger(const char *data, int64_t count, float *largest)
{
    for (int64_t i = 0; i < count; i++) {
        float w;

        memcpy(&w, data + i * (int64_t)sizeof w, sizeof w);
        w = fabsf(w);
        largest[i] = w > largest[i] ? w : largest[i];
    }
}

static void make_noise(float *input, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t h = (uint32_t)i * 0x9e3779b1u;

        h = (h ^ h >> 15) * 0x85ebca77u;
        h = (h ^ h >> 13) * 0xc2b2ae3du;
        input[i] = (float)(int32_t)(h ^ h >> 16) * 0x1p-31f;
    }
}

static void add_terms(const float *input, const float *weights, int64_t count, sum_terms *out)
{
    for (int64_t first = 0; first < count; first += SGEMM_CHAIN) {
        const int64_t last = count - first < SGEMM_CHAIN ? count : first + SGEMM_CHAIN;
        float chain[TILE_LANES] = { 0 };

        for (int64_t i = first; i < last; i++) {
            for (int64_t o = 0; o < TILE_LANES; o++) {
                const double term = (double)input[i] * (double)weights[i * TILE_LANES + o];

                out->exact[o] += term;
                out->terms[o] += fabs(term);
                chain[o] += input[i] * weights[i * TILE_LANES + o];
            }
        }
        for (int64_t o = 0; o < TILE_LANES; o++)
            out->plain[o] += chain[o];
    }
}

const sum_loops KERNEL(sum_loops) = {
    .weigh_column = weigh_column,
    .add_dots = add_dots,
    .add_rows = add_rows,
    .relu = relu,
    .look_at = look_at,
    .take_larger = take_larger,
    .make_noise = make_noise,
    .add_terms = add_terms,
};
