/* points.h - sampling of float images between pixels, all channels of a point at once, for GridSample and DeformConv.
 *
 * The image is transposed first, so that the channels of a pixel are contiguous. A point then reads a few rows. */
#ifndef POINTS_H
#define POINTS_H
#include "operators/instance.h"
#include "inlay/kit_call.h"

enum { POINTS_FEW = 8 /* with fewer channels, transposing takes longer than gathering */ };

/* Returns the number of floats of a transposed image, including the row of zeros after the last pixel; -1 if there are
 * too many. */
int64_t points_floats(int64_t channels, int64_t pixels);
/* Transposes input [channels, pixels] to out [pixels + 1, channels], on the thread pool. */
inlay_status points_transpose(const kit_call *call, const float *input, int64_t channels, int64_t pixels, float *out);

struct points {
    const float *input; /* transposed */
    int64_t channels, pixels;
    const int32_t *index;  /* [corners] arrays, `step` apart, one element per point; -1: a pixel with value 0 */
    const float *weight;   /* same layout */
    int64_t step, corners; /* 4 or 16 corners */
};

/* Computes output [point_count, count]: output[i][c] is the sum, over the corners of point i, of the corner's weight
 * times channel first + c of its pixel. */
void points_interpolate(const struct points *points, int64_t first, int64_t count, int64_t point_count, float *output);
#endif
