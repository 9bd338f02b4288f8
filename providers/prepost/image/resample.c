/* resample.c - resizes images with Pillow's filters, see resample.h. */
#include "prepost/image/resample.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BITS = 22 }; /* 32 bits minus 8 of the sample and 2 of headroom for sums */

const char *const resample_filters[RESAMPLE_FILTERS] = {
    "nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"
};

static double sinc(double x)
{
    x *= acos(-1.0);
    return x == 0 ? 1 : sin(x) / x;
}

static double value_of(int filter, double position)
{
    const double a = -0.5;

    if (filter == RESAMPLE_BOX)
        return position > -0.5 && position <= 0.5 ? 1 : 0;
    if (filter == RESAMPLE_LANCZOS)
        return position >= -3 && position < 3 ? sinc(position) * sinc(position / 3) : 0;
    position = fabs(position);
    if (filter == RESAMPLE_BILINEAR)
        return position < 1 ? 1 - position : 0;
    if (filter == RESAMPLE_HAMMING)
        return position >= 1 ? 0 : position == 0 ? 1 : sinc(position) * (0.54 + 0.46 * cos(position * acos(-1.0)));
    if (position < 1)
        return ((a + 2) * position - (a + 3)) * position * position + 1;
    return position < 2 ? (((position - 5) * position + 8) * position - 4) * a : 0;
}

static double reach_of(int filter)
{
    static const double reach[RESAMPLE_FILTERS] = { 0.5, 0.5, 1, 1, 2, 3 };

    INLAY_CHECK(filter >= 0 && filter < RESAMPLE_FILTERS);
    return reach[filter];
}

static int64_t taps_of(int filter, int64_t in, int64_t out)
{
    const double scale = (double)in / (double)out;

    if (in == out)
        return 0;
    return filter == RESAMPLE_NEAREST ? 1 : (int64_t)ceil(reach_of(filter) * (scale > 1 ? scale : 1)) * 2 + 1;
}

/* Fills the axis for filter `nearest`. Positions are accumulated as in Pillow, not multiplied. */
static void fill_nearest(resample_axis *axis)
{
    const double scale = (double)axis->in / (double)axis->out;
    double at = scale * 0.5;

    for (int64_t i = 0; i < axis->out; i++, at += scale) {
        axis->first[i] = at < (double)axis->in ? (int32_t)at : (int32_t)axis->in - 1;
        axis->count[i] = 1;
        axis->weights[i] = 1;
        axis->fixed[i] = 1 << BITS;
    }
}

static void fill_axis(resample_axis *axis, int filter)
{
    const double scale = (double)axis->in / (double)axis->out, wide = scale > 1 ? scale : 1;
    const double reach = reach_of(filter) * wide, narrow = 1 / wide;

    for (int64_t i = 0; i < axis->out; i++) {
        const double centre = ((double)i + 0.5) * scale;
        int64_t first = (int64_t)(centre - reach + 0.5), end = (int64_t)(centre + reach + 0.5);
        double *weights = axis->weights + i * axis->taps, sum = 0;
        int32_t *fixed = axis->fixed + i * axis->taps;

        first = first < 0 ? 0 : first;
        end = end > axis->in ? axis->in : end;
        for (int64_t k = 0; k < end - first; k++) {
            weights[k] = value_of(filter, ((double)(k + first) - centre + 0.5) * narrow);
            sum += weights[k];
        }
        for (int64_t k = 0; k < end - first; k++) {
            if (sum != 0)
                weights[k] /= sum;
            fixed[k] = (int32_t)(weights[k] * (1 << BITS) + (weights[k] < 0 ? -0.5 : 0.5));
        }
        axis->first[i] = (int32_t)first;
        axis->count[i] = (int32_t)(end - first);
    }
}

static size_t axis_bytes(const resample_axis *axis)
{
    return axis->taps == 0 ? 0 : (size_t)axis->out * (8 + (size_t)axis->taps * 12);
}

static char *place_axis(resample_axis *axis, char *at)
{
    if (axis->taps == 0)
        return at;
    axis->weights = (double *)(void *)at;
    at += (size_t)(axis->out * axis->taps) * sizeof(double);
    axis->fixed = (int32_t *)(void *)at;
    axis->first = axis->fixed + axis->out * axis->taps;
    axis->count = axis->first + axis->out;
    at = (char *)(axis->count + axis->out);
    return at + (uintptr_t)at % 8;
}

struct resample *resample_create(int filter, int64_t in_height, int64_t in_width, int64_t out_height, int64_t out_width,
                                 int64_t channels)
{
    struct resample resample = {
        .vertical = { .in = in_height, .out = out_height, .taps = taps_of(filter, in_height, out_height) },
        .horizontal = { .in = in_width, .out = out_width, .taps = taps_of(filter, in_width, out_width) },
        .channels = channels,
        .filter = filter
    };
    struct resample *made =
        calloc(1, sizeof resample + axis_bytes(&resample.vertical) + axis_bytes(&resample.horizontal) + 32);
    char *at;

    if (made == NULL)
        return NULL;
    *made = resample;
    at = (char *)(made + 1);
    at = place_axis(&made->vertical, at);
    (void)place_axis(&made->horizontal, at);
    for (int i = 0; i < 2; i++) {
        resample_axis *axis = i == 0 ? &made->vertical : &made->horizontal;

        if (axis->taps == 0)
            continue;
        if (filter == RESAMPLE_NEAREST)
            fill_nearest(axis);
        else
            fill_axis(axis, filter);
    }
    return made;
}

uint64_t resample_scratch(const struct resample *resample, inlay_dtype dtype)
{
    const bool both = resample->horizontal.taps > 0 && resample->vertical.taps > 0;

    return both ? kit_bytes(dtype, resample->vertical.in * resample->horizontal.out * resample->channels) : 0;
}

struct job {
    const struct resample *resample;
    const void *from;
    void *to;
    int64_t stride;
    bool floats;
};

static uint8_t byte_of(int32_t sum)
{
    sum >>= BITS;
    return sum < 0 ? 0 : sum > 255 ? 255 : (uint8_t)sum;
}

static void horizontal_row_of_bytes(const struct resample *resample, const uint8_t *from, uint8_t *to)
{
    const resample_axis *axis = &resample->horizontal;
    const int64_t channels = resample->channels;

    for (int64_t i = 0; i < axis->out; i++) {
        const int32_t *weights = axis->fixed + i * axis->taps;
        const uint8_t *at = from + axis->first[i] * channels;

        for (int64_t channel = 0; channel < channels; channel++) {
            int32_t sum = 1 << (BITS - 1);

            for (int32_t k = 0; k < axis->count[i]; k++)
                sum += at[k * channels + channel] * weights[k];
            *to++ = byte_of(sum);
        }
    }
}

static void horizontal_row_of_floats(const struct resample *resample, const float *from, float *to)
{
    const resample_axis *axis = &resample->horizontal;
    const int64_t channels = resample->channels;

    for (int64_t i = 0; i < axis->out; i++) {
        const double *weights = axis->weights + i * axis->taps;
        const float *at = from + axis->first[i] * channels;

        for (int64_t channel = 0; channel < channels; channel++) {
            double sum = 0;

            for (int32_t k = 0; k < axis->count[i]; k++)
                sum += (double)at[k * channels + channel] * weights[k];
            *to++ = (float)sum;
        }
    }
}

static inlay_status resample_horizontally(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct job *job = user;
    const int64_t in = job->resample->horizontal.in * job->resample->channels, out = job->stride;

    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        if (job->floats)
            horizontal_row_of_floats(job->resample, (const float *)job->from + row * in, (float *)job->to + row * out);
        else
            horizontal_row_of_bytes(job->resample, (const uint8_t *)job->from + row * in,
                                    (uint8_t *)job->to + row * out);
    }
    return INLAY_OK;
}

/* Computes one output row as weighted sums of input rows, element by element. */
static void vertical_row_of_bytes(const resample_axis *axis, int64_t i, const uint8_t *from, int64_t width, uint8_t *to)
{
    enum { TILE = 256 };
    const int32_t *weights = axis->fixed + i * axis->taps;
    int32_t sums[TILE];

    for (int64_t x = 0; x < width; x += TILE) {
        const int64_t count = width - x < TILE ? width - x : TILE;

        for (int64_t k = 0; k < count; k++)
            sums[k] = 1 << (BITS - 1);
        for (int32_t tap = 0; tap < axis->count[i]; tap++) {
            const uint8_t *row = from + (axis->first[i] + tap) * width + x;

            for (int64_t k = 0; k < count; k++)
                sums[k] += row[k] * weights[tap];
        }
        for (int64_t k = 0; k < count; k++)
            to[x + k] = byte_of(sums[k]);
    }
}

static void vertical_row_of_floats(const resample_axis *axis, int64_t i, const float *from, int64_t width, float *to)
{
    const double *weights = axis->weights + i * axis->taps;

    for (int64_t x = 0; x < width; x++) {
        double sum = 0;

        for (int32_t tap = 0; tap < axis->count[i]; tap++)
            sum += (double)from[(axis->first[i] + tap) * width + x] * weights[tap];
        to[x] = (float)sum;
    }
}

static inlay_status resample_vertically(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct job *job = user;
    const int64_t width = job->resample->horizontal.out * job->resample->channels;

    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        if (job->floats)
            vertical_row_of_floats(&job->resample->vertical, row, job->from, width,
                                   (float *)job->to + row * job->stride);
        else
            vertical_row_of_bytes(&job->resample->vertical, row, job->from, width,
                                  (uint8_t *)job->to + row * job->stride);
    }
    return INLAY_OK;
}

inlay_status resample_run(const struct resample *resample, const kit_call *call, inlay_dtype dtype, const void *from,
                          void *to, int64_t stride, void *scratch)
{
    const size_t size = dtype == INLAY_FLOAT ? sizeof(float) : 1;
    const int64_t width = resample->horizontal.out * resample->channels;
    struct job job = { .resample = resample,
                       .from = from,
                       .to = to,
                       .stride = stride * resample->channels,
                       .floats = dtype == INLAY_FLOAT };
    inlay_status status = INLAY_OK;

    if (resample->horizontal.taps > 0) {
        if (resample->vertical.taps > 0) {
            job.to = scratch;
            job.stride = width;
        }
        status = kit_parallel(call, resample->vertical.in, 8, resample_horizontally, &job);
        job.from = scratch;
        job.to = to;
        job.stride = stride * resample->channels;
    }
    if (status != INLAY_OK)
        return status;
    if (resample->vertical.taps > 0)
        return kit_parallel(call, resample->vertical.out, 8, resample_vertically, &job);
    for (int64_t y = 0; resample->horizontal.taps == 0 && y < resample->vertical.in; y++)
        memcpy((char *)to + (size_t)(y * job.stride) * size, (const char *)from + (size_t)(y * width) * size,
               (size_t)width * size);
    return INLAY_OK;
}
