/* plane_copy.h - rows of an image that lies row by row, copied with their border, so that all windows lie in the copy.
 * Where columns are left out, each of those between is a row of the copy for itself: neighbours in the output then read
 * neighbours in the copy. */
#ifndef CPU_PLANE_COPY_H
#define CPU_PLANE_COPY_H
#include "choice/kernels.h"
#include "convolution/planes.h"

/* Columns of the image that are side by side in a row of the copy: every so many-th from `from` on, at `to`. */
typedef struct plane_phase {
    int64_t from, to, n;
} plane_phase;

typedef struct plane_copy {
    const plane_set *set;
    int64_t step;                     /* columns of the image from one output to the next, at most PLANES_LANES */
    int64_t part, row;                /* floats for the columns that are side by side, and of all of a row */
    plane_phase phases[PLANES_LANES]; /* [step] */
} plane_copy;

void plane_copy_plan(plane_copy *out, const kernel_conv_shape *window);
/* A row of the input, NULL: outside the image. The border of the copy is zero already. */
void plane_copy_row(const plane_copy *copy, const float *input, float *to);

/* From where windows begin to their tap number k of a row. */
static inline int64_t plane_offset(const plane_copy *copy, const kernel_conv_shape *window, int64_t k)
{
    const int64_t column = k * window->dilation[1];

    return copy->step == 1 ? column : column % copy->step * copy->part + column / copy->step;
}
/* Rows of the input that some of the output see. */
static inline int64_t plane_rows_seen(const kernel_conv_shape *window, int64_t rows)
{
    return (rows - 1) * window->stride[0] + (window->kernel[0] - 1) * window->dilation[0] + 1;
}
#endif
