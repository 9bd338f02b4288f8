/* The rounding error of convolutions by FFT, for the weights of a layer.
 *
 * The transforms round all pixels of a block, and all weights of a filter, relative to their root mean square (RMS):
 * independent of the weights, the error of a result is ROUNDING times the RMS of the block's pixels times the norm of
 * the filter. tests/cpu/test_fft.c measures this. So only the weights' statistics are needed: how many weights of a
 * filter are significant, and how large the RMS of a block may be, relative to the sum of the pixels around a result,
 * before this error exceeds what the terms of the result justify. */
#include "cpu/convolution/sum_loops.h"
#include "cpu/convolution/tiles.h"
#include "simd/optional.h"
#include <float.h>
#include <math.h>

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(fft_measure_accuracy, "cpu_conv");

/* The largest error of a block's results: rounding of three transforms of up to 2^14 points. */
static const double ROUNDING = 24 * (FLT_EPSILON / 2.0);
/* Rounding error that the terms of a result justify, in units of sqrt(terms), as for Winograd's algorithm. */
static const double OWN_ROUNDING = 8 * (FLT_EPSILON / 2.0);
/* The effective number of weights of a filter must be at least LEAST_WEIGHTS: fewer may meet small pixels only. */
static const double LEAST_WEIGHTS = 16;
/* Bounds of the largest weight: beyond these, transforms might overflow, or lose small terms. */
static const float MIN_WEIGHT = 1e-18F, MAX_WEIGHT = 1e18F;

/* Adds one filter of a layer: sets *flatness to the square root of the share of significant weights. */
static void measure_filter(const char *filter, int64_t in, int64_t taps, winograd_accuracy *out, double *flatness)
{
    double sum = 0, square = 0;

    for (int64_t channel = 0; channel < in; channel++) {
        double of_channel = 0;

        for (int64_t tap = 0; tap < taps; tap++) {
            float weight;

            memcpy(&weight, filter + (channel * taps + tap) * (int64_t)sizeof weight, sizeof weight);
            sum += fabs((double)weight);
            of_channel += (double)weight * (double)weight;
        }
        square += of_channel;
        out->weight[channel] = fmaxf(out->weight[channel], (float)sqrt(of_channel));
    }
    *flatness = square > 0 ? sum / sqrt(square * (double)(in * taps)) : 1; /* a filter of zeros is exact */
}

bool fft_measure_accuracy(const cpu_state *state, const tensor_layout *plain, const void *source, int64_t points,
                          winograd_accuracy *out)
{
    const int64_t in = plain->dims[1], taps = plain->dims[2]; /* kernel_filters() */
    float largest = 0;
    double least = 1;
    bool whole = true;

    (void)state, (void)points;
    memset(out, 0, winograd_accuracy_bytes(in));
    out->verdict = TILE_EXTREME;
    for (int64_t output = 0; output < plain->dims[0]; output++) {
        const char *filter = (const char *)source + output * in * taps * (int64_t)sizeof(float);
        sum_channel channel;
        double flatness;

        KERNEL_BEST(sum_loops)->measure_channel(filter, in * taps, &channel);
        if (channel.largest >= 0x7f800000u) { /* infinity */
            out->verdict = TILE_NO_NUMBERS;
            return true;
        }
        whole = whole && channel.whole;
        measure_filter(filter, in, taps, out, &flatness);
        least = fmin(flatness, least);
    }
    for (int64_t channel = 0; channel < in; channel++)
        largest = fmaxf(largest, out->weight[channel]);
    if (whole || !(largest >= MIN_WEIGHT && largest <= MAX_WEIGHT)) {
        out->verdict = whole ? TILE_INTEGERS : TILE_EXTREME;
        return true;
    }
    for (int64_t channel = 0; channel < in; channel++)
        out->weight[channel] = fmaxf(out->weight[channel] / largest, 1e-6F);
    out->verdict = TILE_MEASURED;
    out->top = largest;
    out->error = ROUNDING;
    if (least * least * (double)(in * taps) >= LEAST_WEIGHTS)
        out->uneven = OWN_ROUNDING / ROUNDING * least * sqrt((double)in);
    return true;
}
