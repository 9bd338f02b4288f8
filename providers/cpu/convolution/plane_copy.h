/* plane_copy.h - copies rows of a row-major image with their border, so that all receptive fields lie inside the
 * copy. For a stride s, columns are sorted by their index modulo s (phases): neighbouring outputs then read
 * neighbouring elements. */
#ifndef CPU_PLANE_COPY_H
#define CPU_PLANE_COPY_H
#include "cpu/choice/kernels.h"
#include "cpu/convolution/planes.h"

/* Columns of one phase, contiguous in the copy: every step-th column of the image from `from` on, stored at `to`. */
typedef struct plane_phase {
    int64_t from, to, count;
} plane_phase;

typedef struct plane_copy {
    const plane_set *set;
    int64_t step;                     /* stride of the convolution along the row, at most PLANES_LANES */
    int64_t part, row;                /* floats of one phase, and of a row */
    plane_phase phases[PLANES_LANES]; /* [step] */
} plane_copy;

void plane_copy_plan(plane_copy *out, const kernel_conv_shape *window);
/* Copies a row of the input; NULL: a row outside the image. The border of the copy must be zero already. */
void plane_copy_row(const plane_copy *copy, const float *input, float *to);
/* Copies what `seen` rows of the input from row `top` on have inside an image of height rows of width floats; `image`
 * is its first. Rows outside become 0. */
void plane_copy_rows(const plane_copy *copy, const float *image, int64_t height, int64_t width, int64_t top,
                     int64_t seen, float *to);

/* Offset of tap k of a kernel row from the position of the window. */
static inline int64_t plane_offset(const plane_copy *copy, const kernel_conv_shape *window, int64_t k)
{
    const int64_t column = k * window->dilation[1];

    return copy->step == 1 ? column : column % copy->step * copy->part + column / copy->step;
}
/* Input rows that `rows` output rows read. */
static inline int64_t plane_rows_seen(const kernel_conv_shape *window, int64_t rows)
{
    return (rows - 1) * window->stride[0] + (window->kernel[0] - 1) * window->dilation[0] + 1;
}
#endif
