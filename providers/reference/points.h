/* points.h - images of floats sampled between their pixels, all channels of a point at once: what GridSample and
 * DeformConv are made of.
 *
 * The image is turned first, so that the channels of a pixel lie together, and what a point needs is a few rows. */
#ifndef POINTS_H
#define POINTS_H
#include "instance.h"
#include "inlay/kit.h"

enum { POINTS_FEW = 8 /* with fewer channels turning takes longer than picking */ };

/* Floats of a turned image; the row behind the last pixel is 0. -1: too many. */
int64_t points_floats(int64_t channels, int64_t pixels);
/* input [channels, pixels] as [pixels + 1, channels], on the pool. */
inlay_status points_turn(const kit_call *call, const float *input, int64_t channels, int64_t pixels, float *out);

struct points {
    const float *input; /* turned */
    int64_t channels, pixels;
    const int32_t *index;  /* [corners] of arrays that are `step` apart, an element a point; -1: a pixel that is 0 */
    const float *weight;   /* the same */
    int64_t step, corners; /* 4 or 16 corners */
};

/* output[i][c] = the corners of point i times their weights, added, in channel first + c: [n, count]. */
void points_mix(const struct points *points, int64_t first, int64_t count, int64_t n, float *output);
#endif
