/* pool_lanes.h - pooling of images whose pixels are contiguous channels. */
#ifndef CPU_POOL_LANES_H
#define CPU_POOL_LANES_H
#include "simd/instances.h"
#include <stdbool.h>
#include <stdint.h>

/* The windows of a pool. Arrays are of slices, rows and columns; images of fewer dimensions have one slice or row. */
typedef struct pool_window {
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], begin[3];
    bool is_mean;     /* otherwise maximum */
    bool counts_pads; /* the divisor of a mean counts all taps, including those in the padding */
} pool_window;

/* Pooling of one plane of an image: `lanes` channels, contiguous in each pixel. Steps are distances in elements. */
typedef struct pool_plane {
    pool_window window;
    int64_t lanes, slice_step, row_step, pixel_step, out_slice_step, out_row_step, out_pixel_step;
} pool_plane;

typedef struct pool_lanes_set {
    /* Computes a row of the output; input and output point to the beginning of the plane. false: the maxima may be
     * wrong, because an element is NaN or infinite. */
    bool (*row)(const pool_plane *plane, const float *input, float *output, int64_t slice_out, int64_t row_out);
} pool_lanes_set;

KERNEL_INSTANCES(pool_lanes_set, pool_lanes)

/* The number of taps inside the image of a window that begins at `first`, and the first of them. */
static inline int64_t pool_taps(const pool_window *window, int axis, int64_t first, int64_t *out_low)
{
    const int64_t step = window->dilation[axis], before = first < 0 ? -first : 0,
                  after = first < window->in[axis] ? window->in[axis] - first : 0;
    const int64_t low = step == 1 ? before : (before + step - 1) / step,
                  inside = step == 1 ? after : (after + step - 1) / step;
    const int64_t high = inside < window->kernel[axis] ? inside : window->kernel[axis];

    *out_low = low;
    return high > low ? high - low : 0;
}
#endif
