#include "resample.h"
#include <math.h>
#include <stdlib.h>

enum { BITS = 22 }; /* 8 of the sample, 2 for sums beyond it, of 32 */

const char *const resample_filters[RESAMPLE_FILTERS] = {
    "nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"
};

/* ------------------------------------------------------------------ filters */

static double sinc(double x)
{
    x *= acos(-1.0);
    return x == 0 ? 1 : sin(x) / x;
}

static double value_of(int filter, double x)
{
    const double a = -0.5;

    if (filter == RESAMPLE_BOX)
        return x > -0.5 && x <= 0.5 ? 1 : 0;
    if (filter == RESAMPLE_LANCZOS)
        return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
    x = fabs(x);
    if (filter == RESAMPLE_BILINEAR)
        return x < 1 ? 1 - x : 0;
    if (filter == RESAMPLE_HAMMING)
        return x >= 1 ? 0 : x == 0 ? 1 : sinc(x) * (0.54 + 0.46 * cos(x * acos(-1.0)));
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double reach_of(int filter)
{
    static const double reach[RESAMPLE_FILTERS] = { 0.5, 0.5, 1, 1, 2, 3 };

    return reach[filter];
}

static int64_t taps_of(int filter, int64_t in, int64_t out)
{
    const double scale = (double)in / (double)out;

    if (in == out)
        return 0;
    return filter == RESAMPLE_NEAREST ? 1 : (int64_t)ceil(reach_of(filter) * (scale > 1 ? scale : 1)) * 2 + 1;
}

/* Nearest: the position is summed up, as Pillow does, not multiplied. */
static void fill_nearest(resample_axis *a)
{
    const double scale = (double)a->in / (double)a->out;
    double at = scale * 0.5;

    for (int64_t i = 0; i < a->out; i++, at += scale) {
        a->first[i] = at < (double)a->in ? (int32_t)at : (int32_t)a->in - 1;
        a->count[i] = 1;
        a->weights[i] = 1;
        a->fixed[i] = 1 << BITS;
    }
}

static void fill_axis(resample_axis *a, int filter)
{
    const double scale = (double)a->in / (double)a->out, wide = scale > 1 ? scale : 1;
    const double reach = reach_of(filter) * wide, narrow = 1 / wide;

    for (int64_t i = 0; i < a->out; i++) {
        const double centre = ((double)i + 0.5) * scale;
        int64_t first = (int64_t)(centre - reach + 0.5), end = (int64_t)(centre + reach + 0.5);
        double *w = a->weights + i * a->taps, sum = 0;
        int32_t *fixed = a->fixed + i * a->taps;

        first = first < 0 ? 0 : first;
        end = end > a->in ? a->in : end;
        for (int64_t k = 0; k < end - first; k++) {
            w[k] = value_of(filter, ((double)(k + first) - centre + 0.5) * narrow);
            sum += w[k];
        }
        for (int64_t k = 0; k < end - first; k++) {
            if (sum != 0)
                w[k] /= sum;
            fixed[k] = (int32_t)(w[k] * (1 << BITS) + (w[k] < 0 ? -0.5 : 0.5));
        }
        a->first[i] = (int32_t)first;
        a->count[i] = (int32_t)(end - first);
    }
}

static size_t axis_bytes(const resample_axis *a)
{
    return a->taps == 0 ? 0 : (size_t)a->out * (8 + (size_t)a->taps * 12);
}

static char *place(resample_axis *a, char *at)
{
    if (a->taps == 0)
        return at;
    a->weights = (double *)(void *)at;
    at += (size_t)(a->out * a->taps) * sizeof(double);
    a->fixed = (int32_t *)(void *)at;
    a->first = a->fixed + a->out * a->taps;
    a->count = a->first + a->out;
    at = (char *)(a->count + a->out);
    return at + (uintptr_t)at % 8;
}

struct resample *resample_create(int filter, int64_t in_height, int64_t in_width, int64_t out_height, int64_t out_width,
                                 int64_t channels)
{
    struct resample r = { .y = { .in = in_height, .out = out_height, .taps = taps_of(filter, in_height, out_height) },
                          .x = { .in = in_width, .out = out_width, .taps = taps_of(filter, in_width, out_width) },
                          .channels = channels,
                          .filter = filter };
    struct resample *made = calloc(1, sizeof r + axis_bytes(&r.y) + axis_bytes(&r.x) + 32);
    char *at;

    if (made == NULL)
        return NULL;
    *made = r;
    at = (char *)(made + 1);
    at = place(&made->y, at);
    (void)place(&made->x, at);
    for (int i = 0; i < 2; i++) {
        resample_axis *a = i == 0 ? &made->y : &made->x;

        if (a->taps == 0)
            continue;
        if (filter == RESAMPLE_NEAREST)
            fill_nearest(a);
        else
            fill_axis(a, filter);
    }
    return made;
}

uint64_t resample_scratch(const struct resample *r, inlay_dtype dtype)
{
    const bool both = r->x.taps > 0 && r->y.taps > 0;

    return both ? kit_bytes(dtype, r->y.in * r->x.out * r->channels) : 0;
}

/* ------------------------------------------------------------------ loops */

struct job {
    const struct resample *r;
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

static void row_of_bytes(const struct resample *r, const uint8_t *from, uint8_t *to)
{
    const resample_axis *a = &r->x;
    const int64_t channels = r->channels;

    for (int64_t i = 0; i < a->out; i++) {
        const int32_t *w = a->fixed + i * a->taps;
        const uint8_t *at = from + a->first[i] * channels;

        for (int64_t c = 0; c < channels; c++) {
            int32_t sum = 1 << (BITS - 1);

            for (int32_t k = 0; k < a->count[i]; k++)
                sum += at[k * channels + c] * w[k];
            *to++ = byte_of(sum);
        }
    }
}

static void row_of_floats(const struct resample *r, const float *from, float *to)
{
    const resample_axis *a = &r->x;
    const int64_t channels = r->channels;

    for (int64_t i = 0; i < a->out; i++) {
        const double *w = a->weights + i * a->taps;
        const float *at = from + a->first[i] * channels;

        for (int64_t c = 0; c < channels; c++) {
            double sum = 0;

            for (int32_t k = 0; k < a->count[i]; k++)
                sum += (double)at[k * channels + c] * w[k];
            *to++ = (float)sum;
        }
    }
}

static inlay_status across(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct job *j = user;
    const int64_t in = j->r->x.in * j->r->channels, out = j->stride;

    (void)worker;
    for (int64_t y = begin; y < end; y++) {
        if (j->floats)
            row_of_floats(j->r, (const float *)j->from + y * in, (float *)j->to + y * out);
        else
            row_of_bytes(j->r, (const uint8_t *)j->from + y * in, (uint8_t *)j->to + y * out);
    }
    return INLAY_OK;
}

/* Columns of a row together: sums of many rows, element by element. */
static void column_of_bytes(const resample_axis *a, int64_t i, const uint8_t *from, int64_t width, uint8_t *to)
{
    enum { TILE = 256 };
    const int32_t *w = a->fixed + i * a->taps;
    int32_t sums[TILE];

    for (int64_t x = 0; x < width; x += TILE) {
        const int64_t n = width - x < TILE ? width - x : TILE;

        for (int64_t k = 0; k < n; k++)
            sums[k] = 1 << (BITS - 1);
        for (int32_t t = 0; t < a->count[i]; t++) {
            const uint8_t *row = from + (a->first[i] + t) * width + x;

            for (int64_t k = 0; k < n; k++)
                sums[k] += row[k] * w[t];
        }
        for (int64_t k = 0; k < n; k++)
            to[x + k] = byte_of(sums[k]);
    }
}

static void column_of_floats(const resample_axis *a, int64_t i, const float *from, int64_t width, float *to)
{
    const double *w = a->weights + i * a->taps;

    for (int64_t x = 0; x < width; x++) {
        double sum = 0;

        for (int32_t t = 0; t < a->count[i]; t++)
            sum += (double)from[(a->first[i] + t) * width + x] * w[t];
        to[x] = (float)sum;
    }
}

static inlay_status down(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct job *j = user;
    const int64_t width = j->r->x.out * j->r->channels;

    (void)worker;
    for (int64_t y = begin; y < end; y++) {
        if (j->floats)
            column_of_floats(&j->r->y, y, j->from, width, (float *)j->to + y * j->stride);
        else
            column_of_bytes(&j->r->y, y, j->from, width, (uint8_t *)j->to + y * j->stride);
    }
    return INLAY_OK;
}

inlay_status resample_run(const struct resample *r, const kit_call *call, inlay_dtype dtype, const void *from, void *to,
                          int64_t stride, void *scratch)
{
    const size_t size = dtype == INLAY_FLOAT ? sizeof(float) : 1;
    const int64_t width = r->x.out * r->channels;
    struct job j = { .r = r, .from = from, .to = to, .stride = stride * r->channels, .floats = dtype == INLAY_FLOAT };
    inlay_status status = INLAY_OK;

    if (r->x.taps > 0) {
        if (r->y.taps > 0) {
            j.to = scratch;
            j.stride = width;
        }
        status = kit_parallel(call, r->y.in, 8, across, &j);
        j.from = scratch;
        j.to = to;
        j.stride = stride * r->channels;
    }
    if (status != INLAY_OK)
        return status;
    if (r->y.taps > 0)
        return kit_parallel(call, r->y.out, 8, down, &j);
    for (int64_t y = 0; r->x.taps == 0 && y < r->y.in; y++)
        memcpy((char *)to + (size_t)(y * j.stride) * size, (const char *)from + (size_t)(y * width) * size,
               (size_t)width * size);
    return INLAY_OK;
}
