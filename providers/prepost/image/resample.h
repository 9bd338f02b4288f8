/* resample.h - pictures in another size, with the filters of Pillow and bit by bit as it does: each axis by itself, the
 * horizontal one first; the filter is as wide as the picture shrinks, its weights are sums of 1 in fixed point, and
 * bytes are rounded after each axis. */
#ifndef RESAMPLE_H
#define RESAMPLE_H
#include "inlay/kit.h"

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

/* What one axis needs: output i is the sum of count[i] inputs from first[i] on, with weights[i * taps + k]. */
typedef struct resample_axis {
    int64_t in, out, taps; /* taps 0: nothing to do, in == out */
    int32_t *first, *count;
    double *weights;
    int32_t *fixed; /* the same times 2^22 */
} resample_axis;

/* From [height, width, channels] to out[0] x out[1]. One block of malloc, to be freed with free(). */
struct resample {
    resample_axis axis, resample_axis;
    int64_t channels;
    int filter;
};
struct resample *resample_create(int filter, int64_t in_height, int64_t in_width, int64_t out_height, int64_t out_width,
                                 int64_t channels);
/* Bytes of scratch for a picture. */
uint64_t resample_scratch(const struct resample *resample, inlay_dtype dtype);
/* Bytes or floats; stride: pixels from one row of `to` to the next. The loops are shared among the threads. */
inlay_status resample_run(const struct resample *resample, const kit_call *call, inlay_dtype dtype, const void *from,
                          void *to, int64_t stride, void *scratch);
#endif
