/* resample.h - resizes images with Pillow's filters, bit-exact with Pillow: each axis separately, horizontal first; the
 * filter is widened by the reduction factor, its fixed-point weights sum to 1, and bytes are rounded after each
 * axis. */
#ifndef RESAMPLE_H
#define RESAMPLE_H
#include "inlay/kit_call.h"

enum {
    RESAMPLE_NEAREST,
    RESAMPLE_BOX,
    RESAMPLE_BILINEAR,
    RESAMPLE_HAMMING,
    RESAMPLE_BICUBIC,
    RESAMPLE_LANCZOS,
    RESAMPLE_FILTERS
};
extern const char *const resample_filters[RESAMPLE_FILTERS];

/* Resampling of one axis: output i is the sum of count[i] inputs from first[i] on, with weights[i * taps + k]. */
typedef struct resample_axis {
    int64_t in, out, taps; /* taps 0: no resampling, in == out */
    int32_t *first, *count;
    double *weights;
    int32_t *fixed; /* weights * 2^22 */
} resample_axis;

/* Resamples [height, width, channels] to out_height x out_width. One block of memory, to be freed with free(). */
struct resample {
    resample_axis vertical, horizontal;
    int64_t channels;
    int filter;
};
struct resample *resample_create(int filter, int64_t in_height, int64_t in_width, int64_t out_height, int64_t out_width,
                                 int64_t channels);
/* Bytes of scratch memory for one image. */
uint64_t resample_scratch(const struct resample *resample, inlay_dtype dtype);
/* Resamples uint8 or float. stride: pixels between rows of `to`. The loops run in parallel. */
inlay_status resample_run(const struct resample *resample, const kit_call *call, inlay_dtype dtype, const void *from,
                          void *to, int64_t stride, void *scratch);
#endif
